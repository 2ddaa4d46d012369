"""Hardmax: one in the first maximum of each row, zero elsewhere. Versions 1, 11 and 13, and `opshift::HardmaxAxes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.axes import first
from opshift.opsets.lowering import Reason, lowering, meaning, op
from opshift.opsets.operator import Operands, Operator
from opshift.opsets.rows import LOWERINGS, VERSIONS, Rows, from_rows, in_rows, normal


def oracle(rows: Rows, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Hardmax-13: "1 if the element is the first maximum value along the specified axis, 0 otherwise"."""
    flat, order, shape = in_rows(rows, x)
    y = np.zeros_like(flat)
    if flat.size:
        # Of bfloat16 numpy takes no argmax; float holds each of its values.
        y[np.arange(len(flat)), flat.astype(np.float64).argmax(axis=1)] = 1
    return from_rows(y, order, shape)


def _half(rows: Rows, operands: Operands) -> Reason | None:
    narrow = first(operands).dtype in (TensorProto.BFLOAT16, TensorProto.FLOAT16)
    return None if narrow else Reason("the input is not float16 or bfloat16")


@lowering(18, given=_half, bind=lambda rows, operands: {"axes": rows.axes, "onward": rows.onward, "to": first(operands).dtype})
def through_float(x, axes: Sequence[int], onward: int, to: int):  # type: ignore[no-untyped-def]
    """Compare float16 and bfloat16 as float, which holds each of their values."""
    return op.Cast(meaning.Itself(op.Cast(x, to=1), axes=axes, onward=onward), to=to)


def _one_axis(rows: Rows, operands: Operands) -> Reason | None:
    facts = first(operands)
    if rows.onward or len(rows.axes) != 1:
        return Reason("a row has more than one axis")
    if rows.axes[0] >= 0 and facts.rank is None:
        return Reason("the rank is unknown", missing=True)
    return Reason("the element type is unknown", missing=True) if facts.dtype is None else None


def _iota(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    (axis,) = rows.axes
    facts = first(operands)
    behind = -axis - 1 if axis < 0 else len(facts.shape or ()) - axis - 1
    end = None if axis == -1 else axis + 1
    return {"axis": axis, "end": end, "along": (-1, *[1] * behind), "to": facts.dtype}


# A target that has Hardmax should keep it: two Transposes go before this.
@lowering(18, given=_one_axis, bind=_iota, cost=5)
def argmax_equal(x, axis: int, end: int, along: Sequence[int], to: int):  # type: ignore[no-untyped-def]
    """Compare the positions of a row with the index of its first maximum."""
    index = op.Cast(op.ArgMax(x, axis=axis, keepdims=1), to=6)
    length = op.Squeeze(op.Shape(x, start=axis, end=end))
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=6), along)
    return op.Cast(op.Equal(positions, index), to=to)


OPERATOR = Operator(
    name="Hardmax",
    meaning=Rows,
    versions=VERSIONS,
    operands=("input",),
    oracle=oracle,
    normal=normal,
    lowerings=(*LOWERINGS, through_float, argmax_equal),
    # Which element onnxruntime 1.31.1 picks in a row with a NaN depends on its place in the vector registers.
    nan_defined=False,
)
