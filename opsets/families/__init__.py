"""Code that several operators of one family share."""
