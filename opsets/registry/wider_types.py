"""List wider element types for operators whose older versions do not have the narrow ones.

A Cast converts the inputs to the wider type, and another Cast converts the result back, if that is exact. This depends
on the operator's effect on its elements; each kind has a table, in order of preference.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import TensorProto

Wider = Mapping[int, tuple[int, ...]]
"""The wider types by element type."""

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
    # onnxruntime 1.32.0 fuses the Casts from double to uint32 and on to a narrower integer, and loses bits.
    TensorProto.UINT32: (TensorProto.INT64, TensorProto.DOUBLE),
}
"""For operators that compare elements and return some of them: the wider type keeps the order."""

MOVED: Wider = {
    **ORDERED,
    TensorProto.BOOL: (TensorProto.INT32, TensorProto.UINT8, TensorProto.FLOAT),
    # Cast-13: "discard higher bits and reinterpret", so that wrapped integers are restored.
    TensorProto.UINT64: (TensorProto.INT64,),
}
"""For operators that only move elements, or test equality: the wider type keeps elements distinct."""

QUOTIENT: Wider = {
    **_FLOATS,
    **dict.fromkeys(_SMALL, (TensorProto.INT32, TensorProto.INT64)),
    TensorProto.INT32: (TensorProto.INT64,),
    TensorProto.UINT32: (TensorProto.INT64,),
}
"""For one rounded operation on floats: a sum, a product, a quotient, a square root.

With p bits, 2p + 2 in the wider type suffice for the second rounding to change nothing: 24 for float16's 11, 18 for
bfloat16's 8, 50 for float's 24 (Figueroa, "When is double rounding innocuous?", 1995). For integers, the operation must
be exact in the wider type except for the bits that Cast drops.
"""

WRAPPED: Wider = {**QUOTIENT, TensorProto.UINT64: (TensorProto.INT64,)}
"""The same for sums and products, whose lower bits do not depend on the interpretation of the highest."""

COMPUTED: Wider = {TensorProto.BFLOAT16: (TensorProto.FLOAT,)}
"""For functions and sums of floats: rounded once at the end, although a kernel may round differently.

No specification defines how a kernel of bfloat16 rounds, so the result is equal only up to rounding, as with ONNX's
function bodies.
"""

SUMMED: Wider = {**COMPUTED, TensorProto.FLOAT16: (TensorProto.FLOAT,)}
"""The same for sums that exceed the range of float16. onnxruntime 1.32.0 computes recurrent operators in float."""

ROUNDED = (COMPUTED, SUMMED)
"""The tables of types whose results are equal only up to rounding."""

SELECTED: Wider = {TensorProto.BFLOAT16: (TensorProto.FLOAT,)}
"""For operators that return one of their elements; lowerings handle other types."""

KINDS: Mapping[str, Wider] = {"moved": MOVED, "ordered": ORDERED, "rounded": QUOTIENT, "computed": COMPUTED}
"""The tables by their names in rows of equivalences.toml."""
