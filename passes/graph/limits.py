"""Define sizes at which protobuf, onnx and onnxruntime fail, and dims that crash onnx's inference."""

from __future__ import annotations

NESTING = 32
"""The maximum depth of subgraphs: protobuf stops at 100 nested messages, and a graph takes three."""


MOST_AXES = 1024
"""The maximum value in a computed shape: onnx's inference allocates as many dimensions as a shape may have."""


SHAPED = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""Operators whose output's rank is the length of an input, and the index of that input."""


LONGEST = 2**21
"""A longer vector may contain sizes: onnx's inference (1.23.2, Slice, Gather ...) makes a dim of each element."""


FOLDED = 8 * 2**20
"""The maximum size of a folded constant, counted as eight bytes for each element."""
