"""Verify that two models compute the same."""
