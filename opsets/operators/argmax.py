"""ArgMax: the index of the maximum along one axis, the first or the last of equals. Versions 1, 11, 12 and 13."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opshift.opsets.axes import END, axis_not_negative, first, one_axis, rank_known, rank_unknown
from opshift.opsets.facts import FLOATS, INTEGERS, Tensor
from opshift.opsets.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.operator import Operands, Operator, Version
from opshift.opsets.rows import ranked_axes


@dataclass(frozen=True)
class ArgMax:
    """Which axis, whether it stays with length 1, and which of equal maxima counts.

    With `nan` `any`, any index that there is will do where a NaN is among the elements. `dtype` is the element type of
    the index; who asks for another than int64 knows that it holds the index.
    """

    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0
    nan: str = "kept"
    dtype: int = TensorProto.INT64


def normal(meaning: ArgMax, operands: Operands) -> tuple[ArgMax, Operands]:
    """Count the axis from the front where the rank is known; say of NaN what the input rules out.

    Integers are no NaN. What the first maximum of a vector with a NaN is differs: in onnxruntime 1.31.1 the first NaN,
    in 1.32.0 the places in the vector registers decide.
    """
    meaning, operands = one_axis(meaning, operands)
    data = first(operands)
    if data.dtype in INTEGERS:
        return replace(meaning, nan="kept"), operands
    undecided = data.rank == 1 and not meaning.select_last_index
    return (replace(meaning, nan="any") if undecided else meaning), operands


def _write(since: int) -> Callable[[ArgMax, Operands], Mapping[str, Any] | Reason]:
    def write(meaning: ArgMax, operands: Operands) -> Mapping[str, Any] | Reason:
        if meaning.dtype != TensorProto.INT64:
            return Reason("its index is int64")
        if meaning.select_last_index and since < 12:
            return Reason("it has no select_last_index=1")
        said = {"axis": meaning.axis, "keepdims": meaning.keepdims, "select_last_index": meaning.select_last_index}
        return {name: value for name, value in said.items() if value != getattr(ArgMax, name)}

    return write


def oracle(meaning: ArgMax, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ArgMax-12: "If select_last_index is True, the index of the last occurrence of the max is selected".

    NaN, of which the text is silent, as onnxruntime has it (1.31.1, 1.32.0): it is no maximum, but in front of all it
    is. Of the first maximum of a vector see `normal`.
    """
    x = np.moveaxis(data, meaning.axis, -1)
    if 0 in x.shape[:-1]:
        x = np.zeros((*x.shape[:-1], 1), x.dtype)  # there is no row, of whatever length
    if not np.issubdtype(x.dtype, np.integer):
        x = x.astype(np.float64)
        leading = np.isnan(x[..., :1])
        x = np.where(leading, -np.inf, x)
        x = np.where(np.isnan(x), -np.inf, x) if not meaning.select_last_index else x
        last = np.where(x == np.fmax.reduce(x, axis=-1, keepdims=True), np.arange(x.shape[-1]), 0).max(axis=-1)
        last = np.where(leading[..., 0], 0, last)
    else:
        last = x.shape[-1] - 1 - x[..., ::-1].argmax(axis=-1)
    index = last if meaning.select_last_index else x.argmax(axis=-1)
    index = np.expand_dims(index, meaning.axis) if meaning.keepdims else index
    return index.astype(helper.tensor_dtype_to_np_dtype(meaning.dtype))


_HALVES = (0, 2**31 - 1, 2**31, 2**32 - 1, 2**32)


def hostile(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give 64-bit integers whose upper halves are equal: onnxruntime's Max mistakes their order (seen in 1.31.1)."""
    data = feeds["data"]
    if data.dtype not in (np.int64, np.uint64) or not data.flags.writeable or rng.integers(2):
        return feeds
    return {**feeds, "data": rng.choice(np.array(_HALVES, data.dtype), data.shape)}


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


def _wider(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype or 0
    return {"to": _WIDER[dtype], "nan": "any" if dtype in INTEGERS else meaning.nan}


@lowering(18, given=_narrow, bind=_wider)
def widened(data, to: int, nan: str):
    """Cast to a wider type, which keeps the order."""
    return meaning.Same(op.Cast(data, to=to), nan=nan)


def _wide_integer(meaning: ArgMax, operands: Operands) -> Reason | None:
    wide = first(operands).dtype in (TensorProto.INT64, TensorProto.UINT64)
    return None if wide else Reason("the input is not of 64-bit integers")


def _halves(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    # A negative int64 that stands for a uint64 is above all that are not negative.
    lift = 2.0**32 if first(operands).dtype == TensorProto.UINT64 else 0.0
    return {"lift": lift, "axes": (meaning.axis,)}


@lowering(18, given=_wide_integer, bind=_halves)
def by_halves(data, lift: float, axes: Sequence[int]):
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
    return meaning.Same(leads * (lower + 8589934592.0), nan="any")


# --- the shape, and the type of the index -------------------------------------------------------------------------


def _not_int64(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the index is int64") if meaning.dtype == TensorProto.INT64 else None


@lowering(18, given=_not_int64, bind=lambda meaning, operands: {"to": meaning.dtype})
def index_cast(data, to: int):
    """Find the index as int64, and cast it."""
    return op.Cast(meaning.Same(data, dtype=7), to=to)


def _dropped(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the axis is kept") if meaning.keepdims else None


# onnxruntime 1.31.1 copies an output that is squeezed last.
@lowering(18, given=_dropped, bind=lambda meaning, operands: {"axes": (meaning.axis,)}, cost=0.5)
def squeezed(data, axes: Sequence[int]):
    """Keep the axis, then drop it."""
    return op.Squeeze(meaning.Same(data, keepdims=1), axes)


def _short(meaning: ArgMax, operands: Operands) -> Reason | None:
    length = first(operands).dim(meaning.axis)
    if meaning.dtype == TensorProto.UINT8 or not isinstance(length, int) or length > 256:
        return Reason("the index is a byte, or is not known to be one")
    return _dropped(meaning, operands)


@lowering(18, given=_short, bind=lambda meaning, operands: {"axes": (meaning.axis,), "to": meaning.dtype})
def squeezed_byte(data, axes: Sequence[int], to: int):
    """Find the index as a byte, drop the axis, and cast it."""
    return op.Cast(op.Squeeze(meaning.Same(data, keepdims=1, dtype=2), axes), to=to)


def _around(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    bound = ranked_axes([meaning.axis])
    after = meaning.axis + 1 or END
    return {
        **bound,
        "axis": bound["axes"][0],
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
    index = meaning.Same(x, axis=axis, keepdims=1)
    reduced = op.Concat(op.Slice(shape, [0], before), kept, op.Slice(shape, after, [2147483647]), axis=0)
    return op.Reshape(index, reduced, allowzero=1)


def _of_nothing(meaning: ArgMax, operands: Operands) -> Reason | None:
    shape = first(operands).shape or ()
    empty = first(operands).dim(meaning.axis) == 0 and shape.count(0) > 1
    return None if empty else Reason("the axis is not known to be empty, and the result with it")


def _around_nothing(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    shape = list(first(operands).shape or ())
    shape[meaning.axis : (meaning.axis + 1) or None] = [1] * meaning.keepdims
    return {"to": meaning.dtype, "shape": tuple(dim if isinstance(dim, int) else 0 for dim in shape)}


@lowering(18, given=_of_nothing, bind=_around_nothing)
def of_nothing(data, shape: Sequence[int], to: int):
    """Return no indices."""
    return op.Cast(op.ConstantOfShape(shape), to=to)


# --- the search ---------------------------------------------------------------------------------------------------


def _kept(meaning: ArgMax, operands: Operands) -> Reason | None:
    return None if meaning.keepdims else Reason("the axis is dropped")


def _first_kept(meaning: ArgMax, operands: Operands) -> Reason | None:
    if meaning.select_last_index:
        return Reason("TopK gives the first of equal elements")
    if meaning.dtype != TensorProto.INT64:
        return Reason("TopK gives the index as int64")
    return _kept(meaning, operands)


def may_be_nan(meaning: Any, operands: Operands) -> bool:
    """Whether a NaN may be among the elements, and which index it gives is kept."""
    return meaning.nan == "kept" and first(operands).dtype in FLOATS


def _nan(meaning: ArgMax, operands: Operands) -> frozenset[str]:
    # onnxruntime's ReduceMax may or may not skip a NaN, depending on where it stands (seen in 1.31.1 and 1.32.0). TopK
    # passes over it in 1.31.1, and takes it for the largest in 1.32.0.
    return frozenset({"nan"}) if may_be_nan(meaning, operands) else frozenset()


def _may_be_no_rows(meaning: ArgMax, operands: Operands) -> bool:
    """Whether the axis and another one may both be empty: there is no maximum then, and none is needed."""
    shape = first(operands).shape
    if shape is None:
        return True
    empty = {axis for axis, dim in enumerate(shape) if not isinstance(dim, int) or dim < 1}
    return meaning.axis in empty and len(empty) > 1


def _first_of_rows(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _first_kept(meaning, operands):
        return reason
    return Reason("the axis may be empty, and another one too") if _may_be_no_rows(meaning, operands) else None


@lowering(18, given=_first_of_rows, bind=lambda meaning, operands: {"axis": meaning.axis}, narrows=_nan)
def topk(data, axis: int):
    """Take the first of the top one; TopK-11: "the element with the lower index will appear first"."""
    _, index = op.TopK(data, [1], axis=axis)
    return index


def _first_of_none(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _first_kept(meaning, operands):
        return reason
    return None if _may_be_no_rows(meaning, operands) else Reason("where there are rows, they have elements")


def _first_if_any(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _first_of_none(meaning, operands) or rank_known(meaning, operands)


def _first_if_any_unranked(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _first_of_none(meaning, operands) or rank_unknown(meaning, operands)


def _if_any(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    same = (0,) * (first(operands).rank or 0)
    axis = meaning.axis
    return {"axis": axis, "end": axis + 1, "same": same, "one": (*same[:axis], 1, *same[axis + 1 :])}


@lowering(18, given=_first_if_any, bind=_if_any, narrows=_nan)
def topk_if_any(data, axis: int, end: int, same: Sequence[int], one: Sequence[int]):
    """Reshape no rows of no elements to no rows of one, of which TopK takes the top one."""
    filled = op.Cast(op.Shape(data, start=axis, end=end), to=9)
    # Without allowzero a 0 keeps a length. Rows of no elements have no such shape, and ArgMax does not run on them.
    # A length that Concat puts into a shape is -1 after onnxruntime 1.32.0 has fused them, and no 0 can be that.
    _, index = op.TopK(op.Reshape(data, op.Where(filled, same, one)), [1], axis=axis)
    return index


def _if_any_unranked(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    axis = meaning.axis
    return {"axis": axis, "end": None if axis == -1 else axis + 1, "place": (axis,)}


@lowering(18, given=_first_if_any_unranked, bind=_if_any_unranked, narrows=_nan)
def topk_if_any_unranked(data, axis: int, end: int, place: Sequence[int]):
    """Do the same where the rank is unknown."""
    length = op.Shape(data, start=axis, end=end)
    one = op.Where(op.Cast(length, to=9), length, 1)
    _, index = op.TopK(op.Reshape(data, op.ScatterElements(op.Shape(data), place, one, axis=0)), [1], axis=axis)
    return index


def _scored(meaning: ArgMax, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32):
        return Reason("the input is neither float nor double nor int32")
    return rank_known(meaning, operands) if meaning.axis >= 0 else None


def _first_scored(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the last maximum is wanted") if meaning.select_last_index else _scored(meaning, operands)


def _last_scored(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _scored(meaning, operands) if meaning.select_last_index else Reason("the first maximum is wanted")


def _along(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    axis, rank = meaning.axis, first(operands).rank
    behind = -axis - 1 if axis < 0 or rank is None else rank - axis - 1
    return {
        "axis": axis,
        "end": None if axis == -1 else axis + 1,
        "along": (-1, *[1] * behind),
        "axes": (axis,),
        "keep": meaning.keepdims,
        "like": counter(meaning, operands),
        "to": meaning.dtype,
    }


def counter(meaning: ArgMax, operands: Operands) -> int:
    """Return the element type to count positions in: what is asked for, else float where it holds them all."""
    if meaning.dtype in (TensorProto.FLOAT, TensorProto.INT32):
        return meaning.dtype
    length = first(operands).dim(meaning.axis)
    return TensorProto.FLOAT if isinstance(length, int) and length <= 2**24 else TensorProto.INT32


@lowering(18, given=_first_scored, bind=_along, narrows=_nan)
def first_place(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Put the last position where no maximum is, and take the smallest of the positions."""
    hit = op.Equal(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    last = op.Cast(op.Sub(length, 1), to=like)
    return op.Cast(op.ReduceMin(op.Where(hit, positions, last), axes, keepdims=keep), to=to)


@lowering(18, given=_last_scored, bind=_along, narrows=_nan)
def last_place(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Put 0 where no maximum is, and take the largest of the positions."""
    hit = op.Equal(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.ReduceMax(op.Where(hit, positions, op.Cast(0, to=like)), axes, keepdims=keep), to=to)


@lowering(18, given=_first_scored, bind=_along, narrows=_nan)
def first_score(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Count the positions from the end, keep the counts of the maxima, take the largest."""
    hit = op.Cast(op.Equal(data, op.ReduceMax(data, axes, keepdims=1)), to=like)
    last = op.Sub(op.Squeeze(op.Shape(data, start=axis, end=end), [0]), 1)
    countdown = op.Reshape(op.Cast(op.Sub(last, op.Range(0, op.Add(last, 1), 1)), to=like), along)
    score = op.ReduceMax(op.Mul(hit, countdown), axes, keepdims=keep)
    return op.Cast(op.Sub(op.Cast(last, to=like), score), to=to)


@lowering(18, given=_last_scored, bind=_along, narrows=_nan)
def last_score(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Keep the positions of the maxima, and take the largest."""
    hit = op.Cast(op.Equal(data, op.ReduceMax(data, axes, keepdims=1)), to=like)
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.ReduceMax(op.Mul(hit, positions), axes, keepdims=keep), to=to)


# Equal-7 takes no floats.
@lowering(18, given=_first_scored, bind=_along, narrows=_nan)
def first_place_below(
    data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int
):
    """Put the last position where something is below the maximum, and take the smallest of the positions."""
    below = op.Less(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    last = op.Cast(op.Sub(length, 1), to=like)
    return op.Cast(op.ReduceMin(op.Where(below, last, positions), axes, keepdims=keep), to=to)


@lowering(18, given=_last_scored, bind=_along, narrows=_nan)
def last_place_below(
    data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int
):
    """Put 0 where something is below the maximum, and take the largest of the positions."""
    below = op.Less(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.ReduceMax(op.Where(below, op.Cast(0, to=like), positions), axes, keepdims=keep), to=to)


@lowering(18, given=_first_scored, bind=_along, narrows=_nan)
def first_score_below(
    data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int
):
    """Add the length of the axis to the positions of what is below the maximum, and take the smallest."""
    below = op.Cast(op.Less(data, op.ReduceMax(data, axes, keepdims=1)), to=like)
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    countdown = op.Reshape(op.Cast(op.Sub(length, op.Range(0, length, 1)), to=like), along)
    score = op.ReduceMax(op.Sub(countdown, op.Mul(below, op.Cast(length, to=like))), axes, keepdims=keep)
    return op.Cast(op.Sub(op.Cast(length, to=like), score), to=to)


@lowering(18, given=_last_scored, bind=_along, narrows=_nan)
def last_score_below(
    data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int
):
    """Take the length of the axis off the positions of what is below the maximum, and take the largest."""
    below = op.Cast(op.Less(data, op.ReduceMax(data, axes, keepdims=1)), to=like)
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    score = op.Sub(positions, op.Mul(below, op.Cast(length, to=like)))
    return op.Cast(op.ReduceMax(score, axes, keepdims=keep), to=to)


# --- the search in blocks -----------------------------------------------------------------------------------------


def extents(meaning: Any, operands: Operands) -> tuple[int, int, int] | None:
    """Return how many elements are before the axis, along it and behind it, where all dimensions are known, none 0."""
    shape = first(operands).shape
    dims = [dim for dim in shape or () if isinstance(dim, int)]
    if shape is None or len(dims) < len(shape) or 0 in dims:
        return None
    before, along, behind = dims[: meaning.axis], dims[meaning.axis], dims[meaning.axis + 1 :]
    return math.prod(before), along, math.prod(behind)


_LONGEST = 2**24
"""Longer axes have no blocks: finding one takes as many steps as the root of the length."""


@functools.cache
def _block(along: int, behind: int) -> int:
    """How many elements a block has: what is searched is the maxima of the blocks, then the block that has it.

    A maximum costs about half as much again as an element of the last search; in front of other axes a block is
    brought together element by element, which costs about as much as two searches.
    """
    if along > _LONGEST:
        return 0
    small = [size for size in range(1, math.isqrt(along) + 1) if along % size == 0]
    blocks = sorted({*small, *(along // size for size in small)} - {1, along})
    weights = (1.5, 1.0) if behind == 1 else (1.0, 3.0)
    return min(blocks, key=lambda size: weights[0] * along / size + weights[1] * size, default=0)


def _blocked(meaning: ArgMax, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32):
        return Reason("the input is neither float nor double nor int32", missing=dtype is None)
    if meaning.dtype != TensorProto.INT64:
        return Reason("the index is to be cast")
    parts = extents(meaning, operands)
    if parts is None:
        return Reason("not all dimensions are known", missing=True)
    if math.prod(parts) < 2**13:
        return Reason("there are too few elements")
    return None if _block(parts[1], parts[2]) else Reason("the length of the axis has no divisor")


def _last_blocked(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _blocked(meaning, operands):
        return reason
    return None if (extents(meaning, operands) or (0, 0, 0))[2] == 1 else Reason("the axis is not the last")


def _inner_blocked(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _blocked(meaning, operands):
        return reason
    return Reason("the axis is the last") if (extents(meaning, operands) or (0, 0, 0))[2] == 1 else None


def _in_blocks(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    before, along, behind = extents(meaning, operands) or (1, 1, 1)
    size = _block(along, behind)
    count = along // size
    shape: list[Any] = list(first(operands).shape or ())
    shape[meaning.axis : meaning.axis + 1] = [1] * meaning.keepdims
    return {
        "blocks": (before * count, size),
        "most": (before, count),
        "starts": Tensor(np.arange(bounded(before), dtype=np.int64) * count),
        "four": (before, count, size, behind),
        "three": (before, along, behind),
        "places": Tensor(np.arange(bounded(size), dtype=np.int32).reshape(1, size, 1)),
        "size": size,
        "shape": tuple(shape),
    }


@lowering(18, given=_last_blocked, bind=_in_blocks, narrows=_nan)
def blocked(data, blocks: Sequence[int], most: Sequence[int], starts: Sequence[int], size: int, shape: Sequence[int]):
    """Find the block that has the maximum of a row, then the maximum in that block."""
    rows = op.Reshape(data, blocks)
    # Maxima and blocks are small: they stay in the cache.
    maxima = op.Reshape(op.ReduceMax(rows, [1], keepdims=0), most)
    block = meaning.Same(maxima, axis=1, keepdims=0, nan="any")
    place = meaning.Same(op.Gather(rows, block + starts, axis=0), axis=1, keepdims=0, nan="any")
    return op.Reshape(op.Mul(block, size) + place, shape)


@lowering(18, given=_inner_blocked, bind=_in_blocks, narrows=_nan)
def blocked_before_others(
    data, four: Sequence[int], three: Sequence[int], places: Sequence[int], size: int, shape: Sequence[int]
):
    """Find the block that has the maximum along an axis with others behind it, then the maximum in that block."""
    maxima = op.ReduceMax(op.Reshape(data, four), [2], keepdims=0)
    # Counted in floats, which hold every index: what finds a maximum by its score is twice as fast in them.
    start = op.Mul(meaning.Same(maxima, axis=1, keepdims=1, nan="any", dtype=1), op.Cast(size, to=1))
    won = op.GatherElements(op.Reshape(data, three), op.Cast(start, to=6) + places, axis=1)
    index = start + meaning.Same(won, axis=1, keepdims=1, nan="any", dtype=1)
    return op.Cast(op.Reshape(index, shape), to=7)


def _few_blocks(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _inner_blocked(meaning, operands):
        return reason
    if meaning.select_last_index:
        return Reason("the last maximum is wanted")
    _, along, behind = extents(meaning, operands) or (1, 1, 1)
    size = _block(along, behind)
    return Reason("a byte does not count the blocks, or within one") if max(size, along // size) > 255 else None


def _in_blocks_of_bytes(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    bound = dict(_in_blocks(meaning, operands))
    _, count, size, _ = bound["four"]
    # Where no other place of a block has the maximum, the last one has it.
    places = np.arange(size - 1).reshape(1, size - 1, 1)
    return {
        **{name: bound[name] for name in ("four", "three", "size", "shape")},
        "numbers": Tensor(np.arange(count, dtype=np.uint8)[::-1].reshape(1, count, 1)),
        "places": Tensor(places.astype(np.int32)),
        "within": Tensor((size - 1 - places).astype(np.uint8)),
        "front": (count - 1) * size,
        "last": size - 1,
    }


@lowering(18, given=_few_blocks, bind=_in_blocks_of_bytes, narrows=_nan)
def blocked_in_bytes(
    data,
    four: Sequence[int],
    three: Sequence[int],
    places: Sequence[int],
    numbers: Sequence[int],
    within: Sequence[int],
    size: int,
    front: int,
    last: int,
    shape: Sequence[int],
):
    """Find the first block that has the maximum, then the maximum in it, both counted from the end in bytes."""
    maxima = op.ReduceMax(op.Reshape(data, four), [2], keepdims=0)
    most = op.ReduceMax(maxima, [1], keepdims=1)
    after = meaning.ReduceMax(op.Cast(op.Equal(maxima, most), to=2) * numbers, [1], keepdims=1)
    start = op.Sub(op.Cast(front, to=6), op.Cast(after, to=6) * op.Cast(size, to=6))
    won = op.GatherElements(op.Reshape(data, three), start + places, axis=1)
    behind = meaning.ReduceMax(op.Cast(op.Equal(won, most), to=2) * within, [1], keepdims=1)
    return op.Cast(op.Reshape(start + op.Cast(op.Cast(last, to=2) - behind, to=6), shape), to=7)


# --- the search in turn -----------------------------------------------------------------------------------------------

_TURNS = 32
"""Blocks that are looked at in turn, with six or seven nodes each."""

_MANY = 2**18
"""Elements from which on turns pay: each node takes longer than its kernel alone does."""

_CACHED = 2**19
"""Elements of a block that stay in the cache until its maximum is found."""


def _in_front(meaning: ArgMax, operands: Operands) -> Reason | None:
    facts = first(operands)
    if reason := rank_known(meaning, operands):
        return reason
    if meaning.axis + 1 == facts.rank:
        return Reason("the axis is the last")
    if facts.dtype is None:
        return Reason("the element type is unknown", missing=True)
    return _kept(meaning, operands)


def _few_rows(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _in_front(meaning, operands):
        return reason
    length = first(operands).dim(meaning.axis)
    if not isinstance(length, int):
        return Reason("the length of the axis is unknown", missing=True)
    if length not in range(2, _TURNS + 1):
        return Reason(f"there are not 2 to {_TURNS} rows")
    shape = first(operands).shape or ()
    known = [dim for dim in shape if isinstance(dim, int)]
    if math.prod(known) >= _MANY:
        return None
    return Reason("there are too few elements, as far as is known", missing=len(known) < len(shape) and 0 not in known)


def _in_turn(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    return {"axis": meaning.axis, "last": meaning.select_last_index, "nan": meaning.nan, "to": meaning.dtype}


@lowering(18, given=_few_rows, bind=_in_turn)
def in_turn(data, axis: int, last: int, nan: str, to: int):
    """Look at one row after another, and keep in bytes where the largest so far has been."""
    found, _ = meaning.ArgMaxOnward(data, axis=axis, select_last_index=last, nan=nan)
    return op.Cast(found, to=to)


def _cached_blocks(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _in_front(meaning, operands) or _blocked(replace(meaning, dtype=TensorProto.INT64), operands):
        return reason
    before, along, behind = extents(meaning, operands) or (1, 1, 1)
    size = _block(along, behind)
    if along // size > _TURNS or size > 256:
        return Reason("there are too many blocks, or they are too long")
    if before * along * behind < _MANY:
        return Reason("there are too few elements")
    return Reason("a block does not fit the cache") if before * size * behind > _CACHED else None


def _first_cached(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the last maximum is wanted") if meaning.select_last_index else _cached_blocks(meaning, operands)


def _last_cached(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _cached_blocks(meaning, operands) if meaning.select_last_index else Reason("the first maximum is wanted")


def _within(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    _, along, behind = extents(meaning, operands) or (1, 1, 1)
    size = _block(along, behind)
    # Where no other place of a block has the maximum, the one that is not looked at has it.
    looked_at = np.arange(size)[1:] if meaning.select_last_index else np.arange(size)[:-1]
    places = looked_at.reshape(_along(meaning, operands)["along"])
    return {
        "axis": meaning.axis,
        "axes": (meaning.axis,),
        "size": size,
        "places": Tensor(places.astype(np.int32)),
        "within": Tensor((places if meaning.select_last_index else size - 1 - places).astype(np.uint8)),
        "last": size - 1,
        "to": meaning.dtype,
    }


@lowering(18, given=_first_cached, bind=_within, narrows=_nan)
def first_block_in_turn(
    data,
    axis: int,
    axes: Sequence[int],
    size: int,
    places: Sequence[int],
    within: Sequence[int],
    last: int,
    to: int,
):
    """Look at one block after another, then for the maximum in the one that has it, counted from the end."""
    block, most = meaning.ArgMaxOnward(data, axis=axis, size=size, nan="any")
    start = op.Mul(op.Cast(block, to=6), op.Cast(size, to=6))
    won = op.GatherElements(data, start + places, axis=axis)
    behind = meaning.ReduceMax(op.Cast(op.Equal(won, most), to=2) * within, axes, keepdims=1)
    return op.Cast(start + op.Cast(op.Cast(last, to=2) - behind, to=6), to=to)


@lowering(18, given=_last_cached, bind=_within, narrows=_nan)
def last_block_in_turn(
    data, axis: int, axes: Sequence[int], size: int, places: Sequence[int], within: Sequence[int], to: int
):
    """Look at one block after another, then for the last maximum in the one that has it."""
    block, most = meaning.ArgMaxOnward(data, axis=axis, size=size, select_last_index=1, nan="any")
    start = op.Mul(op.Cast(block, to=6), op.Cast(size, to=6))
    won = op.GatherElements(data, start + places, axis=axis)
    place = meaning.ReduceMax(op.Cast(op.Equal(won, most), to=2) * within, axes, keepdims=1)
    return op.Cast(start + op.Cast(place, to=6), to=to)


# --- the search without comparisons -------------------------------------------------------------------------------


def _signed(meaning: ArgMax, operands: Operands) -> Reason | None:
    facts = first(operands)
    if facts.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return Reason("the input is neither float nor double")
    length = facts.dim(meaning.axis)
    if not isinstance(length, int):
        return Reason("the length of the axis is unknown", missing=True)
    return Reason("the axis is longer than float counts") if length > 2**24 else None


def _first_signed(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the last maximum is wanted") if meaning.select_last_index else _signed(meaning, operands)


def _last_signed(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _signed(meaning, operands) if meaning.select_last_index else Reason("the first maximum is wanted")


def _finite(meaning: ArgMax, operands: Operands) -> frozenset[str]:
    # The difference of two equal infinities is NaN.
    return frozenset({"finite-inputs"})


def _numbered(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    dim = first(operands).dim(meaning.axis)
    length = bounded(dim if isinstance(dim, int) else 0)
    wide = first(operands).dtype == TensorProto.DOUBLE
    bound = _along(meaning, operands)
    numbers = np.arange(1, length + 1).astype(np.float64 if wide else np.float32)
    count = numbers.reshape(bound["along"])
    return {
        **bound,
        "like": first(operands).dtype,
        "count": Tensor(count),
        "countdown": Tensor(np.flip(count).copy()),
        "length": float(len(numbers)),
    }


@lowering(18, given=_first_signed, bind=_numbered, narrows=_finite)
def first_sign(data, axes: Sequence[int], keep: int, like: int, to: int, countdown: Sequence[int], length: float):
    """Make of the sign of what is missing to the maximum a number that is 1 or 0, and score the positions by it."""
    hit = op.Sign(op.Sub(data, op.ReduceMax(data, axes, keepdims=1))) + op.Cast(1.0, to=like)
    score = op.ReduceMax(hit * countdown, axes, keepdims=keep)
    return op.Cast(op.Sub(op.Cast(length, to=like), score), to=to)


@lowering(18, given=_last_signed, bind=_numbered, narrows=_finite)
def last_sign(data, axes: Sequence[int], keep: int, like: int, to: int, count: Sequence[int]):
    """Do the same with the positions numbered from one."""
    hit = op.Sign(op.Sub(data, op.ReduceMax(data, axes, keepdims=1))) + op.Cast(1.0, to=like)
    score = op.ReduceMax(hit * count, axes, keepdims=keep)
    return op.Cast(op.Sub(score, op.Cast(1.0, to=like)), to=to)


# --- NaN ----------------------------------------------------------------------------------------------------------


def _may_hold_nan(meaning: ArgMax, operands: Operands) -> Reason | None:
    if meaning.nan == "any":
        return Reason("what is NaN does not matter")
    if first(operands).dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return Reason("the input is neither float nor double")
    return None


def _may_skip_nan(meaning: ArgMax, operands: Operands) -> Reason | None:
    if _may_be_no_rows(meaning, operands):
        return Reason("the axis may be empty, and another one too")
    return _kept(meaning, operands) or _may_hold_nan(meaning, operands)


def _may_skip_nan_if_any(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _kept(meaning, operands) or _may_hold_nan(meaning, operands):
        return reason
    return None if _may_be_no_rows(meaning, operands) else Reason("where there are rows, they have elements")


def _may_lower_nan(meaning: ArgMax, operands: Operands) -> Reason | None:
    if meaning.select_last_index:
        return Reason("the last of -inf is not the last of NaN and -inf")
    return _may_hold_nan(meaning, operands) or rank_known(meaning, operands)


def _places(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    return {"axis": meaning.axis, "axes": (meaning.axis,), "to": meaning.dtype}


@lowering(18, given=_may_skip_nan, bind=_places)
def nan_skipped(data, axis: int, axes: Sequence[int], to: int):
    """Mark the maxima among what is not NaN, search the marks, and let a NaN in front win, as onnxruntime does."""
    nan = op.IsNaN(data)
    hit = op.Equal(data, op.ReduceMax(op.Where(nan, op.CastLike(-1e999, data), data), axes, keepdims=1))
    index = meaning.Same(op.Cast(hit, to=6))
    # Gather and not Slice, whose inference at 10 keeps the name of a symbolic dimension: onnxruntime believes it.
    leading = op.Gather(op.Cast(nan, to=to), [0], axis=axis)
    return op.Mul(index, op.Sub(op.Cast(1, to=to), leading))


def _places_if_any(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    return {**_places(meaning, operands), "end": None if meaning.axis == -1 else meaning.axis + 1}


@lowering(18, given=_may_skip_nan_if_any, bind=_places_if_any)
def nan_skipped_if_any(data, axis: int, end: int, axes: Sequence[int], to: int):
    """Do the same where no element may be in front."""
    nan = op.IsNaN(data)
    hit = op.Equal(data, op.ReduceMax(op.Where(nan, op.CastLike(-1e999, data), data), axes, keepdims=1))
    index = meaning.Same(op.Cast(hit, to=6))
    # As a boolean a length is zero or one: the front is looked up once, or not at all.
    front = op.Expand([0], op.Cast(op.Cast(op.Shape(data, start=axis, end=end), to=9), to=7))
    leading = op.ReduceMax(op.Gather(op.Cast(nan, to=6), front, axis=axis), axes, keepdims=1)
    return op.Mul(index, op.Sub(op.Cast(1, to=to), op.Cast(leading, to=to)))


@lowering(18, given=_may_lower_nan, bind=_along)
def nan_lowered(data, axis: int, end: int, along: Sequence[int]):
    """Take a NaN for -inf, and for inf where it is in front, where it wins in onnxruntime."""
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    front = op.Equal(op.Reshape(op.Cast(op.Range(0, length, 1), to=6), along), op.Cast(0, to=6))
    stands = op.Where(front, op.CastLike(1e999, data), op.CastLike(-1e999, data))
    return meaning.Same(op.Where(op.IsNaN(data), stands, data), nan="any")


@lowering(18, given=_may_lower_nan, bind=_along)
def unequal_lowered(data, axis: int, end: int, along: Sequence[int]):
    """Do the same with what is not equal to itself."""
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    front = op.Equal(op.Reshape(op.Cast(op.Range(0, length, 1), to=6), along), op.Cast(0, to=6))
    stands = op.Where(front, op.CastLike(1e999, data), op.CastLike(-1e999, data))
    return meaning.Same(op.Where(op.Equal(data, data), data, stands), nan="any")


def _may_part_nan(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _last_scored(meaning, operands) or _may_hold_nan(meaning, operands)


@lowering(18, given=_may_part_nan, bind=_along)
def last_number(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Put a position at the last maximum of what is equal to itself, and where a NaN is in front, one behind all."""
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    beyond, nowhere, front = op.Cast(length, to=like), op.Cast(-1, to=like), op.Cast(0, to=like)
    number = op.Equal(data, data)
    most = op.ReduceMax(op.Where(number, data, op.CastLike(-1e999, data)), axes, keepdims=1)
    found = op.Where(op.Equal(data, most), positions, nowhere)
    leads = op.Where(op.Equal(positions, front), beyond, nowhere)
    place = op.ReduceMax(op.Where(number, found, leads), axes, keepdims=keep)
    return op.Cast(op.Where(op.Equal(place, beyond), front, place), to=to)


def _mirrored(meaning: ArgMax, operands: Operands) -> Reason | None:
    if not meaning.select_last_index:
        return Reason("the first maximum is wanted")
    return rank_known(meaning, operands) if meaning.axis >= 0 else None


@lowering(18, given=_mirrored, bind=_along, narrows=_nan)
def mirrored(data, axis: int, end: int, keep: int, to: int):
    """Turn the axis around, and count the first maximum from the end."""
    last = op.Sub(op.Squeeze(op.Shape(data, start=axis, end=end), [0]), 1)
    back = op.Gather(data, op.Sub(last, op.Range(0, op.Add(last, 1), 1)), axis=axis)
    return op.Sub(op.Cast(last, to=to), meaning.Same(back, select_last_index=0, nan="any"))


def nan_defined(meaning: ArgMax, operands: Operands) -> bool:
    """Whether a NaN has a result that can be kept: what may be a vector has none."""
    return meaning.nan == "kept" and (first(operands).rank is not None or meaning.select_last_index == 1)


OPERATOR = Operator(
    name="ArgMax",
    meaning=ArgMax,
    versions=(
        Version(1, write=_write(1), given=axis_not_negative),
        Version(11, write=_write(11)),
        Version(12, write=_write(12)),
        Version(13, write=_write(13)),
    ),
    operands=("data",),
    oracle=oracle,
    normal=normal,
    lowerings=(
        widened,
        by_halves,
        squeezed,
        squeezed_byte,
        ranked,
        index_cast,
        of_nothing,
        topk,
        topk_if_any,
        topk_if_any_unranked,
        first_place,
        last_place,
        first_score,
        last_score,
        first_place_below,
        last_place_below,
        first_score_below,
        last_score_below,
        blocked,
        blocked_before_others,
        blocked_in_bytes,
        in_turn,
        first_block_in_turn,
        last_block_in_turn,
        first_sign,
        last_sign,
        nan_skipped,
        nan_skipped_if_any,
        nan_lowered,
        unequal_lowered,
        last_number,
        mirrored,
    ),
    dtype=lambda meaning: meaning.dtype,
    hostile=hostile,
    nan_defined=nan_defined,
)
