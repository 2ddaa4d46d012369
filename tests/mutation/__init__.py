"""Wrong rewrites by the thousand, and whether verification finds each of them."""
