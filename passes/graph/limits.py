"""Sizes beyond which protobuf, onnx and onnxruntime fail, and dims that onnx's inference does not survive."""

from __future__ import annotations

NESTING = 32
"""Graphs inside graphs: protobuf stops at 100 messages inside each other, and a graph takes three."""


MOST_AXES = 1024
"""What no shape that is computed may exceed: onnx's inference sets aside as many dimensions as a shape may have."""


SHAPED = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""Operators whose output has as many axes as an input is long, and which input that is."""


LONGEST = 2**21
"""A vector longer than this may be one of sizes: onnx's inference (1.23.2, Slice, Gather ...) makes a dim of each."""


FOLDED = 8 * 2**20
"""Bytes of the largest constant that folding makes, eight for each element."""
