"""Describe the operators that a runtime supports, and their costs."""
