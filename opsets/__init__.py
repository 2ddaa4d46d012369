"""The meanings of operators, and the operators that targets support."""
