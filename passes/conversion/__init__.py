"""The steps of a conversion: read the request, plan, rewrite, verify."""
