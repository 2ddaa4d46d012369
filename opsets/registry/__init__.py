"""Define operators, their versions and lowerings, and the facts about a node's operands."""
