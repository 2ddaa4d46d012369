"""Measure an installed runtime: run small models in it, and write the supported operators as a profile."""
