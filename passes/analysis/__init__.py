"""Types, shapes and constants of a model's values."""
