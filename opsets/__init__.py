"""What operators mean, and which of them a target has."""
