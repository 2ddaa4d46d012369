"""Measure a runtime that is installed: run small models in it, and write what runs right as a profile."""
