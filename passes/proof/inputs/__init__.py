"""Generate inputs for verification: shapes and values."""
