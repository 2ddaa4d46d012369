"""A table of cases for each operator that has a file, and what every table must show."""
