"""Traverse the graphs of a model."""
