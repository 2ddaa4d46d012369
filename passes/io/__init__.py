"""Read, check and write models and their external data."""
