"""Bounds for rounding: wide runs, perturbed runs, and what follows from them."""
