"""Walks over the graphs of a model."""
