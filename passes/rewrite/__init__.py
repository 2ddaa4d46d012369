"""Plan each rewrite, and apply them to a copy."""
