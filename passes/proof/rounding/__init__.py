"""Bounds for rounding: wide runs, disturbed runs, and what follows from them."""
