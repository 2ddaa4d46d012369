"""Operators, their versions and lowerings, and the facts known of a node's operands."""
