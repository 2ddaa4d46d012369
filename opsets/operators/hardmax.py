"""Hardmax: one in the first maximum of each row, zero elsewhere. Versions 1, 11 and 13, and `opshift::HardmaxAxes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.axes import first, rank_known
from opshift.opsets.lowering import Reason, lowering, meaning, op
from opshift.opsets.operator import Operands, Operator
from opshift.opsets.rows import LOWERINGS, VERSIONS, Rows, fault, from_rows, in_rows, normal


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


@lowering(
    18, given=_half, bind=lambda rows, operands: {"axes": rows.axes, "onward": rows.onward, "to": first(operands).dtype}
)
def through_float(x, axes: Sequence[int], onward: int, to: int):
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


def _filled(rows: Rows, operands: Operands) -> Reason | None:
    if reason := _one_axis(rows, operands):
        return reason
    dim = first(operands).dim(rows.axes[0])
    return None if isinstance(dim, int) and dim > 0 else Reason("a row may be empty, which ArgMax does not take")


# A target that has Hardmax should keep it: two Transposes go before this.
@lowering(18, given=_filled, bind=_iota, cost=5)
def argmax_equal(x, axis: int, end: int, along: Sequence[int], to: int):
    """Compare the positions of a row with the index of its first maximum."""
    index = op.Cast(op.ArgMax(x, axis=axis, keepdims=1), to=6)
    length = op.Squeeze(op.Shape(x, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=6), along)
    return op.Cast(op.Equal(positions, index), to=to)


@lowering(18, given=_one_axis, bind=_iota, cost=6)
def topk_equal(x, axis: int, end: int, along: Sequence[int], to: int):
    """Compare the positions of a row with the index of its top one; of none, where the row is empty."""
    length = op.Shape(x, start=axis, end=end)
    # As a boolean a length is zero or one.
    _, top = op.TopK(x, op.Cast(op.Cast(length, to=9), to=7), axis=axis)
    positions = op.Reshape(op.Cast(op.Range(0, op.Squeeze(length, [0]), 1), to=6), along)
    return op.Cast(op.Equal(positions, op.Cast(top, to=6)), to=to)


def _known_rank(rows: Rows, operands: Operands) -> Reason | None:
    return _one_axis(rows, operands) or rank_known(rows, operands)


def _one_more(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    pads = [0] * (2 * rank)
    pads[rank + rows.axes[0]] = 1
    return {**_iota(rows, operands), "pads": tuple(pads)}


@lowering(18, given=_known_rank, bind=_one_more, cost=6)
def padded_argmax_equal(x, axis: int, end: int, along: Sequence[int], to: int, pads: Sequence[int]):
    """Put -inf behind each row, so that none is empty, before searching its first maximum."""
    index = op.Cast(op.ArgMax(op.Pad(x, pads, op.CastLike(-1e999, x)), axis=axis, keepdims=1), to=6)
    length = op.Squeeze(op.Shape(x, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=6), along)
    return op.Cast(op.Equal(positions, index), to=to)


OPERATOR = Operator(
    name="Hardmax",
    meaning=Rows,
    versions=VERSIONS,
    operands=("input",),
    oracle=oracle,
    normal=normal,
    fault=fault,
    lowerings=(*LOWERINGS, through_float, argmax_equal, topk_equal, padded_argmax_equal),
    # Which element onnxruntime 1.31.1 picks in a row with a NaN depends on its place in the vector registers.
    nan_defined=lambda rows, operands: False,
)
