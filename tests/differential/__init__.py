"""A differential fuzzer: convert random one-operator models, and compare them without opshift's verification.

`python tests/differential --seconds 600 --seed 1` runs it; see CONTRIBUTING.md.
"""
