"""What happens to a model: load, describe, plan, lower, restamp, verify, save."""
