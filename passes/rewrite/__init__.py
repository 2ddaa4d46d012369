"""Decide what each node becomes, and apply it to a copy of the model."""
