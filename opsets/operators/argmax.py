"""ArgMax: the index of the maximum along one axis, the first or the last of equals. Versions 1, 11, 12 and 13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.axes import END, axis_not_negative, first, one_axis, rank_known, rank_unknown
from opshift.opsets.facts import FLOATS
from opshift.opsets.lowering import Reason, lowering, op
from opshift.opsets.operator import Operands, Operator, Version
from opshift.opsets.rows import ranked_axes


@dataclass(frozen=True)
class ArgMax:
    """Which axis, whether it stays with length 1, and which of equal maxima counts."""

    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0


def oracle(meaning: ArgMax, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ArgMax-12: "If select_last_index is True, the index of the last occurrence of the max is selected".

    NaN, of which the text is silent, as onnxruntime 1.31.1 has it: it is no maximum, but in front of all it is; and for
    the first maximum of a vector, the first NaN is.
    """
    x = np.moveaxis(data, meaning.axis, -1)
    if not np.issubdtype(x.dtype, np.integer):
        x = x.astype(np.float64)
        if x.ndim == 1 and not meaning.select_last_index and np.isnan(x).any():
            x = np.isnan(x).astype(np.float64)
        leading = np.isnan(x[..., :1])
        x = np.where(leading, -np.inf, x)
        x = np.where(np.isnan(x), -np.inf, x) if not meaning.select_last_index else x
        last = np.where(x == np.fmax.reduce(x, axis=-1, keepdims=True), np.arange(x.shape[-1]), 0).max(axis=-1)
        last = np.where(leading[..., 0], 0, last)
    else:
        last = x.shape[-1] - 1 - x[..., ::-1].argmax(axis=-1)
    index = last if meaning.select_last_index else x.argmax(axis=-1)
    return (np.expand_dims(index, meaning.axis) if meaning.keepdims else index).astype(np.int64)


# --- to an element type that primitives take ----------------------------------------------------------------------

# Casts that keep the order and tell apart what was apart: each value of the type has its own in the wider one.
_WIDER: Mapping[int, int] = {
    TensorProto.FLOAT16: TensorProto.FLOAT,
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.INT8: TensorProto.INT32,
    TensorProto.INT16: TensorProto.INT32,
    TensorProto.UINT8: TensorProto.INT32,
    TensorProto.UINT16: TensorProto.INT32,
    TensorProto.UINT32: TensorProto.DOUBLE,
}


def _narrow(meaning: ArgMax, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return None if dtype in _WIDER else Reason("no wider type is needed, or none is wide enough")


def _same(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    return {"axis": meaning.axis, "keepdims": meaning.keepdims, "last": meaning.select_last_index}


@lowering(
    18,
    given=_narrow,
    bind=lambda meaning, operands: {**_same(meaning, operands), "to": _WIDER[first(operands).dtype or 0]},
)
def widened(data, axis: int, keepdims: int, last: int, to: int):
    """Cast to a wider type, which keeps the order."""
    return op.ArgMax(op.Cast(data, to=to), axis=axis, keepdims=keepdims, select_last_index=last)


def _wide_integer(meaning: ArgMax, operands: Operands) -> Reason | None:
    wide = first(operands).dtype in (TensorProto.INT64, TensorProto.UINT64)
    return None if wide else Reason("the input is not of 64-bit integers")


def _halves(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    # A negative int64 that stands for a uint64 is above all that are not negative.
    lift = 2.0**32 if first(operands).dtype == TensorProto.UINT64 else 0.0
    return {**_same(meaning, operands), "lift": lift, "axes": (meaning.axis,)}


@lowering(18, given=_wide_integer, bind=_halves)
def by_halves(data, axis: int, keepdims: int, last: int, lift: float, axes: Sequence[int]):
    """Compare 64-bit integers by their upper half, then by their lower half, each exact as a double."""
    # Cast-13: "when OOR, discard higher-order bits and reinterpret (with respect to two's complement representation)".
    x = op.Cast(data, to=7)
    upper = op.Div(x, 4294967296)
    # Whichever way Div rounds, (upper, lower) are in the order of x.
    lower = op.Cast(op.Sub(x, op.Mul(upper, 4294967296)), to=11)
    high = op.Cast(upper, to=11)
    negative = op.Cast(op.Less(op.Cast(x, to=11), 0.0), to=11)
    high = high + negative * op.Cast(lift, to=11)
    leads = op.Cast(op.Equal(high, op.ReduceMax(high, axes, keepdims=1)), to=11)
    # lower + 2^33 is positive, so that what does not lead, at zero, is below all that does.
    return op.ArgMax(leads * (lower + 8589934592.0), axis=axis, keepdims=keepdims, select_last_index=last)


# --- the shape ----------------------------------------------------------------------------------------------------


def _dropped(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the axis is kept") if meaning.keepdims else None


@lowering(18, given=_dropped, bind=lambda meaning, operands: {**_same(meaning, operands), "axes": (meaning.axis,)})
def squeezed(data, axis: int, last: int, axes: Sequence[int]):
    """Keep the axis, then drop it."""
    return op.Squeeze(op.ArgMax(data, axis=axis, keepdims=1, select_last_index=last), axes)


def _around(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    bound = ranked_axes([meaning.axis])
    after = meaning.axis + 1 or END
    return {
        **bound,
        "axis": bound["axes"][0],
        "last": meaning.select_last_index,
        "before": (meaning.axis,),
        "after": (after,),
        "kept": (1,) * meaning.keepdims,
    }


@lowering(18, given=rank_unknown, bind=_around)
def ranked(
    data,
    front: Sequence[int],
    behind: Sequence[int],
    fronts: Sequence[int],
    behinds: Sequence[int],
    axis: int,
    last: int,
    before: Sequence[int],
    after: Sequence[int],
    kept: Sequence[int],
):
    """Give an input of unknown rank a known one, by merging axes that do not matter."""
    shape = op.Shape(data)
    head = op.Reshape(op.Slice(shape, [0], front), fronts, allowzero=1)
    tail = op.Reshape(op.Slice(shape, behind, [2147483647]), behinds, allowzero=1)
    rest = op.ReduceProd(op.Slice(shape, front, behind), keepdims=1)
    x = op.Reshape(data, op.Concat(head, rest, tail, axis=0), allowzero=1)
    index = op.ArgMax(x, axis=axis, keepdims=1, select_last_index=last)
    reduced = op.Concat(op.Slice(shape, [0], before), kept, op.Slice(shape, after, [2147483647]), axis=0)
    return op.Reshape(index, reduced, allowzero=1)


# --- the search ---------------------------------------------------------------------------------------------------


def _kept(meaning: ArgMax, operands: Operands) -> Reason | None:
    return None if meaning.keepdims else Reason("the axis is dropped")


def _first_kept(meaning: ArgMax, operands: Operands) -> Reason | None:
    if meaning.select_last_index:
        return Reason("TopK gives the first of equal elements")
    if _vector(meaning, operands) and first(operands).dtype in FLOATS:
        return Reason("of a vector the first NaN is wanted, which TopK passes over")
    return _kept(meaning, operands)


def _vector(meaning: ArgMax, operands: Operands) -> bool:
    return first(operands).rank == 1 and not meaning.select_last_index


@lowering(18, given=_first_kept, bind=_same)
def topk(data, axis: int):
    """Take the first of the top one; TopK-11: "the element with the lower index will appear first"."""
    _, index = op.TopK(data, [1], axis=axis)
    return index


def _scored(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _kept(meaning, operands):
        return reason
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32):
        return Reason("the input is neither float nor double nor int32")
    return rank_known(meaning, operands) if meaning.axis >= 0 else None


def _unless_integral(meaning: ArgMax, operands: Operands) -> frozenset[str]:
    # onnxruntime's ReduceMax may or may not skip a NaN, depending on where it stands (seen in 1.31.1).
    return frozenset({"nan"}) if first(operands).dtype in FLOATS else frozenset()


def _first_scored(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the last maximum is wanted") if meaning.select_last_index else _scored(meaning, operands)


def _last_scored(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _scored(meaning, operands) if meaning.select_last_index else Reason("the first maximum is wanted")


def _along(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    axis, rank = meaning.axis, first(operands).rank
    behind = -axis - 1 if axis < 0 or rank is None else rank - axis - 1
    return {"axis": axis, "end": None if axis == -1 else axis + 1, "along": (-1, *[1] * behind), "axes": (axis,)}


@lowering(18, given=_first_scored, bind=_along, narrows=_unless_integral)
def first_score(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int]):
    """Number the positions from the end, keep the numbers of the maxima, take the largest."""
    hit = op.Equal(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Shape(data, start=axis, end=end)
    countdown = op.Reshape(op.Cast(op.Sub(length, op.Range(0, op.Squeeze(length, [0]), 1)), to=6), along)
    score = op.ReduceMax(op.Mul(op.Cast(hit, to=6), countdown), axes, keepdims=1)
    return op.Sub(length, op.Cast(score, to=7))


@lowering(18, given=_last_scored, bind=_along, narrows=_unless_integral)
def last_score(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int]):
    """Number the positions from one, keep the numbers of the maxima, take the largest."""
    hit = op.Equal(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    count = op.Reshape(op.Cast(op.Range(0, length, 1) + 1, to=6), along)
    score = op.ReduceMax(op.Mul(op.Cast(hit, to=6), count), axes, keepdims=1)
    return op.Sub(op.Cast(score, to=7), 1)


def _may_hold_nan(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _kept(meaning, operands):
        return reason
    if first(operands).dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return Reason("the input is neither float nor double")
    return None


def _may_skip_nan(meaning: ArgMax, operands: Operands) -> Reason | None:
    if _vector(meaning, operands):
        return Reason("of a vector the first NaN is wanted")
    return _may_hold_nan(meaning, operands)


def _may_seek_nan(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _may_hold_nan(meaning, operands) if _vector(meaning, operands) else Reason("the input is no vector")


def _lead(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    return {"axis": meaning.axis, "axes": (meaning.axis,), "last": meaning.select_last_index}


@lowering(18, given=_may_seek_nan, bind=_lead)
def nan_sought(data, axis: int, axes: Sequence[int]):
    """Mark what is NaN, or where nothing is, the maxima, and search the marks."""
    nan = op.Cast(op.IsNaN(data), to=6)
    none = op.Sub(op.Cast([1], to=6), op.ReduceMax(nan, axes, keepdims=1))
    hit = op.Cast(op.Equal(data, op.ReduceMax(data, axes, keepdims=1)), to=6)
    return op.ArgMax(nan + none * hit, axis=axis, keepdims=1)


@lowering(18, given=_may_skip_nan, bind=_lead)
def nan_skipped(data, axis: int, axes: Sequence[int], last: int):
    """Mark the maxima among what is not NaN, search the marks, and let a NaN in front win, as onnxruntime does."""
    nan = op.IsNaN(data)
    hit = op.Equal(data, op.ReduceMax(op.Where(nan, op.CastLike(-1e999, data), data), axes, keepdims=1))
    index = op.ArgMax(op.Cast(hit, to=6), axis=axis, keepdims=1, select_last_index=last)
    # Gather and not Slice, whose inference at 10 keeps the name of a symbolic dimension: onnxruntime believes it.
    leading = op.Gather(op.Cast(nan, to=7), [0], axis=axis)
    return op.Mul(index, op.Sub(1, leading))


OPERATOR = Operator(
    name="ArgMax",
    meaning=ArgMax,
    versions=(Version(1, given=axis_not_negative), Version(11), Version(12), Version(13)),
    operands=("data",),
    oracle=oracle,
    normal=one_axis,
    lowerings=(widened, by_halves, squeezed, ranked, topk, first_score, last_score, nan_sought, nan_skipped),
    # Whether the input is a vector decides which NaN is wanted.
    nan_defined=lambda meaning, operands: first(operands).rank is not None or meaning.select_last_index == 1,
)
