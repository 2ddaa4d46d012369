"""One module for each operator, named after it in lower case; each has an `OPERATOR`."""
