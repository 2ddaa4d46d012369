"""Inputs for verification: shapes and values."""
