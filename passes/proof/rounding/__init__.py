"""Compute bounds for rounding from wide runs and perturbed runs."""
