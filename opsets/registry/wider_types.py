"""Wider: wider element types, for operators whose older versions lack the narrow ones.

A Cast converts the inputs to the wider type, and another one converts the result back, wherever that is exact. What is
exact depends on what the operator does with its elements; each kind has a table, in order of preference.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import TensorProto

Wider = Mapping[int, tuple[int, ...]]
"""By element type, the types to go through."""

_SMALL = (TensorProto.INT8, TensorProto.INT16, TensorProto.UINT8, TensorProto.UINT16)
_FLOATS: Wider = {
    TensorProto.BFLOAT16: (TensorProto.FLOAT,),
    TensorProto.FLOAT16: (TensorProto.FLOAT, TensorProto.DOUBLE),
    TensorProto.FLOAT: (TensorProto.DOUBLE,),
}

ORDERED: Wider = {
    **_FLOATS,
    **dict.fromkeys(_SMALL, (TensorProto.INT32, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64)),
    TensorProto.INT32: (TensorProto.DOUBLE, TensorProto.INT64),
    # onnxruntime 1.32.0 makes one Cast of those from double to uint32 and on to a narrower integer, and loses bits.
    TensorProto.UINT32: (TensorProto.INT64, TensorProto.DOUBLE),
}
"""For operators that compare elements and give some of them out: each keeps its place in the order."""

MOVED: Wider = {
    **ORDERED,
    TensorProto.BOOL: (TensorProto.INT32, TensorProto.UINT8, TensorProto.FLOAT),
    # Cast-13: "discard higher bits and reinterpret", so that what does not fit comes back all the same.
    TensorProto.UINT64: (TensorProto.INT64,),
}
"""For operators that only move elements about, or ask whether they are equal: each has a place of its own."""

QUOTIENT: Wider = {
    **_FLOATS,
    **dict.fromkeys(_SMALL, (TensorProto.INT32, TensorProto.INT64)),
    TensorProto.INT32: (TensorProto.INT64,),
    TensorProto.UINT32: (TensorProto.INT64,),
}
"""For one rounded operation on floats: a sum, a product, a quotient, a square root.

With p bits, 2p + 2 in the wider type are enough for the second rounding to change nothing: 24 for float16's 11, 18 for
bfloat16's 8, 50 for float's 24 (Figueroa, "When is double rounding innocuous?", 1995). Of integers, the operation must
be exact in the wider type but for the bits that Cast drops.
"""

WRAPPED: Wider = {**QUOTIENT, TensorProto.UINT64: (TensorProto.INT64,)}
"""The same for sums and products, whose lower bits do not depend on how the highest is read."""

COMPUTED: Wider = {TensorProto.BFLOAT16: (TensorProto.FLOAT,)}
"""For functions and sums of floats: rounded once behind all of it, where a kernel may round in between, or otherwise.

No text says how a kernel of bfloat16 rounds, so this is the same but for rounding, as ONNX's function bodies are.
"""

SUMMED: Wider = {**COMPUTED, TensorProto.FLOAT16: (TensorProto.FLOAT,)}
"""The same for operators whose sums leave the range of float16: onnxruntime 1.32.0 computes recurrent ones in float."""

ROUNDED = (COMPUTED, SUMMED)
"""The tables of types in which the result is the same but for rounding."""

SELECTED: Wider = {TensorProto.BFLOAT16: (TensorProto.FLOAT,)}
"""For operators that give out one of their elements, of whose other types lowerings take care."""

KINDS: Mapping[str, Wider] = {"moved": MOVED, "ordered": ORDERED, "rounded": QUOTIENT, "computed": COMPUTED}
"""The tables, as rows of same_meaning.toml name them."""
