"""ArgMax: the index of the maximum along one axis, the first or the last of equals. Versions 1, 11, 12 and 13."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opshift.opsets.families.axes import END, axis_fault, axis_not_negative, first, one_axis, rank_known, rank_unknown
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import along_axis
from opshift.opsets.families.rows import ranked_axes
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import INTEGERS, Tensor
from opshift.opsets.registry.lowering import Lowering, Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Flow, Trait, Traits


@dataclass(frozen=True)
class ArgMax:
    """The axis, whether it is kept with length 1, and whether the first or the last of equal maxima is selected.

    `dtype` is the element type of the index; a lowering that asks for another than int64 knows that it holds the index.
    """

    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0
    dtype: int = TensorProto.INT64


def _write(since: int) -> Callable[[ArgMax, Operands], Mapping[str, Any] | Reason]:
    def write(meaning: ArgMax, operands: Operands) -> Mapping[str, Any] | Reason:
        if meaning.dtype != TensorProto.INT64:
            return Reason("its index is int64")
        if meaning.select_last_index and since < 12:
            return Reason("it has no select_last_index=1")
        fields = {"axis": meaning.axis, "keepdims": meaning.keepdims, "select_last_index": meaning.select_last_index}
        return {name: value for name, value in fields.items() if value != getattr(ArgMax, name)}

    return write


def oracle(meaning: ArgMax, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ArgMax-12: "If select_last_index is True, the index of the last occurrence of the max is selected"."""
    x = np.moveaxis(data, meaning.axis, -1)
    if 0 in x.shape[:-1]:
        x = np.zeros((*x.shape[:-1], 1), x.dtype)  # there is no row, of whatever length
    if not np.issubdtype(x.dtype, np.integer):
        x = x.astype(np.float64)
    index = x.shape[-1] - 1 - x[..., ::-1].argmax(axis=-1) if meaning.select_last_index else x.argmax(axis=-1)
    index = np.expand_dims(index, meaning.axis) if meaning.keepdims else index
    return index.astype(helper.tensor_dtype_to_np_dtype(meaning.dtype))


_HALVES = (0, 2**31 - 1, 2**31, 2**32 - 1, 2**32)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give 64-bit integers whose upper halves are equal: onnxruntime's Max mistakes their order (seen in 1.31.1)."""
    data = feeds["data"]
    if data.dtype not in (np.int64, np.uint64) or not data.flags.writeable or rng.integers(2):
        return feeds
    return {**feeds, "data": rng.choice(np.array(_HALVES, data.dtype), data.shape)}


def nan_defined(meaning: Any, operands: Operands) -> bool:
    """Return whether no NaN can be among the elements: a row with NaN has any index in range.

    The text does not mention NaN, runtimes differ, and onnxruntime 1.31 and 1.32 differ.
    """
    return first(operands).dtype in INTEGERS


# --- element types ------------------------------------------------------------------------------------------------

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


@lowering(18, applies_if=_narrow, bind=lambda meaning, operands: {"to": _WIDER[first(operands).dtype or 0]})
def widened(data, to: int):
    """Cast to a wider type, which keeps the order."""
    return meaning.Same(op.Cast(data, to=to))


def _unsigned(meaning: ArgMax, operands: Operands) -> Reason | None:
    return None if first(operands).dtype == TensorProto.UINT64 else Reason("the input is not uint64")


@lowering(18, applies_if=_unsigned)
def signed(data):
    """Reinterpret uint64 as int64, and flip the highest bit, which keeps the order."""
    # Cast-13: "when OOR, discard higher-order bits and reinterpret (with respect to two's complement representation)".
    return meaning.Same(op.BitwiseXor(op.Cast(data, to=7), -9223372036854775808))


@lowering(18, applies_if=_unsigned)
def shifted(data):
    """Reinterpret uint64 as int64, and shift negative values above the others, in two steps that do not overflow."""
    x = op.Cast(data, to=7)
    step = op.Where(op.Less(x, 0), 4611686018427387904, -4611686018427387904)
    return meaning.Same(op.Add(op.Add(x, step), step))


# --- the shape, and the type of the index -------------------------------------------------------------------------


def _not_int64(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the index is int64") if meaning.dtype == TensorProto.INT64 else None


@lowering(18, applies_if=_not_int64, bind=lambda meaning, operands: {"to": meaning.dtype})
def index_cast(data, to: int):
    """Find the index as int64, and cast it."""
    return op.Cast(meaning.Same(data, dtype=7), to=to)


def _dropped(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the axis is kept") if meaning.keepdims else None


# onnxruntime 1.31.1 copies an output that is squeezed last.
@lowering(18, applies_if=_dropped, bind=lambda meaning, operands: {"axes": (meaning.axis,)}, cost=0.5)
def squeezed(data, axes: Sequence[int]):
    """Keep the axis, then drop it."""
    return op.Squeeze(meaning.Same(data, keepdims=1), axes)


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


@lowering(18, applies_if=rank_unknown, bind=_around)
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


# --- the search by TopK -------------------------------------------------------------------------------------------


def _first_wanted(meaning: ArgMax, operands: Operands) -> Reason | None:
    if meaning.select_last_index:
        return Reason("TopK gives the first of equal elements")
    return None if meaning.dtype == TensorProto.INT64 else Reason("TopK gives the index as int64")


def _may_be_no_rows(meaning: ArgMax, operands: Operands) -> bool:
    """Return whether the axis and another one may both be empty: there is no maximum then, and none is needed."""
    shape = first(operands).shape
    if shape is None:
        return True
    empty = {axis for axis, dim in enumerate(shape) if not isinstance(dim, int) or dim < 1}
    return meaning.axis in empty and len(empty) > 1


def _top(meaning: ArgMax, operands: Operands) -> Reason | None:
    if not meaning.keepdims:
        return Reason("the axis is dropped")
    if reason := _first_wanted(meaning, operands):
        return reason
    return Reason("the axis may be empty, and another one too") if _may_be_no_rows(meaning, operands) else None


@lowering(18, applies_if=_top, bind=lambda meaning, operands: {"axis": meaning.axis})
def topk(data, axis: int):
    """Use the index of TopK with k = 1; TopK-11: "the element with the lower index will appear first"."""
    _, index = op.TopK(data, [1], axis=axis)
    return index


def _top_if_any(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := _first_wanted(meaning, operands):
        return reason
    return None if _may_be_no_rows(meaning, operands) else Reason("where there are rows, they have elements")


def _ends(axis: int) -> Mapping[str, Any]:
    return {"axis": axis, "end": None if axis == -1 else axis + 1, "axes": (axis,)}


@lowering(18, applies_if=_top_if_any, bind=lambda meaning, operands: {**_ends(meaning.axis), "keep": meaning.keepdims})
def topk_if_any(data, axis: int, end: int, axes: Sequence[int], keep: int):
    """Use TopK with k = 1, or 0 for an empty axis, and sum up the one index or none."""
    _, index = op.TopK(data, op.Min(op.Shape(data, start=axis, end=end), 1), axis=axis)
    return op.ReduceSum(index, axes, keepdims=keep)


def _last_wanted(meaning: ArgMax, operands: Operands) -> Reason | None:
    return None if meaning.select_last_index else Reason("the first maximum is wanted")


@lowering(18, applies_if=_last_wanted, bind=lambda meaning, operands: {**_ends(meaning.axis), "to": meaning.dtype})
def mirrored(data, axis: int, end: int, axes: Sequence[int], to: int):
    """Reverse the axis, and convert the index of its first maximum."""
    last = op.Sub(op.Squeeze(op.Shape(data, start=axis, end=end), [0]), 1)
    back = op.Slice(data, [-1], [-9223372036854775807], axes, [-1])
    return op.Sub(op.Cast(last, to=to), meaning.Same(back, select_last_index=0))


# --- the search by the maximum ------------------------------------------------------------------------------------


def _counted(meaning: ArgMax, operands: Operands) -> Reason | None:
    if reason := dtype_known(meaning, operands):
        return reason
    return rank_known(meaning, operands) if meaning.axis >= 0 else None


def _first_counted(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the last maximum is wanted") if meaning.select_last_index else _counted(meaning, operands)


def _last_counted(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _last_wanted(meaning, operands) or _counted(meaning, operands)


def _along(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    axis, rank = meaning.axis, first(operands).rank
    behind = -axis - 1 if axis < 0 or rank is None else rank - axis - 1
    counts = meaning.dtype in (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64)
    return {
        **_ends(axis),
        "along": (-1, *[1] * behind),
        "keep": meaning.keepdims,
        "like": meaning.dtype if counts else TensorProto.INT64,
        "to": meaning.dtype,
    }


# Not a row needs a maximum that is equal to an element, or an element that is not below it: of a row with NaN, all of
# these lowerings return an index in range.


@lowering(18, applies_if=_first_counted, bind=_along)
def first_place(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Replace the positions of other elements by the last position, and return the smallest."""
    hit = op.Equal(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    last = op.Cast(op.Sub(length, 1), to=like)
    return op.Cast(op.ReduceMin(op.Where(hit, positions, last), axes, keepdims=keep), to=to)


@lowering(18, applies_if=_last_counted, bind=_along)
def last_place(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Replace the positions of other elements by 0, and return the largest."""
    hit = op.Equal(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.ReduceMax(op.Where(hit, positions, op.Cast(0, to=like)), axes, keepdims=keep), to=to)


@lowering(18, applies_if=_first_counted, bind=_along)
def first_score(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Count the positions from the end, and find the largest count of a maximum."""
    hit = op.Cast(op.Equal(data, op.ReduceMax(data, axes, keepdims=1)), to=like)
    last = op.Sub(op.Squeeze(op.Shape(data, start=axis, end=end), [0]), 1)
    countdown = op.Reshape(op.Cast(op.Sub(last, op.Range(0, op.Add(last, 1), 1)), to=like), along)
    score = op.ReduceMax(op.Mul(hit, countdown), axes, keepdims=keep)
    return op.Cast(op.Sub(op.Cast(last, to=like), score), to=to)


@lowering(18, applies_if=_last_counted, bind=_along)
def last_score(data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int):
    """Find the largest position of a maximum."""
    hit = op.Cast(op.Equal(data, op.ReduceMax(data, axes, keepdims=1)), to=like)
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.ReduceMax(op.Mul(hit, positions), axes, keepdims=keep), to=to)


# Equal-7 takes no floats.
@lowering(18, applies_if=_first_counted, bind=_along)
def first_place_below(
    data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int
):
    """Replace the positions of elements below the maximum by the last position, and return the smallest."""
    below = op.Less(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    last = op.Cast(op.Sub(length, 1), to=like)
    return op.Cast(op.ReduceMin(op.Where(below, last, positions), axes, keepdims=keep), to=to)


@lowering(18, applies_if=_last_counted, bind=_along)
def last_place_below(
    data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int
):
    """Replace the positions of elements below the maximum by 0, and return the largest."""
    below = op.Less(data, op.ReduceMax(data, axes, keepdims=1))
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.ReduceMax(op.Where(below, op.Cast(0, to=like), positions), axes, keepdims=keep), to=to)


@lowering(18, applies_if=_first_counted, bind=_along)
def first_score_below(
    data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int
):
    """Add the axis length to the positions of elements below the maximum, and return the smallest."""
    below = op.Cast(op.Less(data, op.ReduceMax(data, axes, keepdims=1)), to=like)
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    countdown = op.Reshape(op.Cast(op.Sub(length, op.Range(0, length, 1)), to=like), along)
    score = op.ReduceMax(op.Sub(countdown, op.Mul(below, op.Cast(length, to=like))), axes, keepdims=keep)
    return op.Cast(op.Sub(op.Cast(length, to=like), score), to=to)


@lowering(18, applies_if=_last_counted, bind=_along)
def last_score_below(
    data, axis: int, end: int, along: Sequence[int], axes: Sequence[int], keep: int, like: int, to: int
):
    """Subtract the axis length from the positions of elements below the maximum, and return the largest."""
    below = op.Cast(op.Less(data, op.ReduceMax(data, axes, keepdims=1)), to=like)
    length = op.Squeeze(op.Shape(data, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    score = op.Sub(positions, op.Mul(below, op.Cast(length, to=like)))
    return op.Cast(op.ReduceMax(score, axes, keepdims=keep), to=to)


_COUNTED = (
    first_place,
    last_place,
    first_score,
    last_score,
    first_place_below,
    last_place_below,
    first_score_below,
    last_score_below,
)


def _along_in_32(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    length = first(operands).dim(meaning.axis)
    exact = isinstance(length, int) and length <= 2**24
    return {**_along(meaning, operands), "like": TensorProto.FLOAT if exact else TensorProto.INT32}


def _in_32(way: Lowering) -> Lowering:
    """Return a way with positions in float where it counts them all, else in int32: not every runtime has int64."""

    def applies_if(meaning: ArgMax, operands: Operands) -> Reason | None:
        if meaning.dtype in (TensorProto.FLOAT, TensorProto.INT32):
            return Reason("the index is of 32 bits already")
        return None if way.applies_if is None else way.applies_if(meaning, operands)

    return replace(way, name=f"{way.name}_32", applies_if=applies_if, bind=_along_in_32)


def _typed(meaning: ArgMax, operands: Operands) -> Reason | None:
    known = first(operands).dtype is not None
    return None if known else Reason("the element type is unknown", missing=True)


def _sums(meaning: ArgMax, operands: Operands) -> Mapping[str, Any]:
    return {"axis": meaning.axis, "axes": (meaning.axis,), "keep": meaning.keepdims, "to": meaning.dtype}


def _first_of_known_type(meaning: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the last maximum is wanted") if meaning.select_last_index else _typed(meaning, operands)


@lowering(18, applies_if=_first_of_known_type, bind=_sums)
def first_sum(data, axis: int, axes: Sequence[int], keep: int, to: int):
    """Count the positions without a maximum up to them, for any rank and length."""
    below = op.Less(data, op.ReduceMax(data, axes, keepdims=1))
    hit = op.Where(below, op.Cast(0.0, to=11), op.Cast(1.0, to=11))
    before = op.Equal(op.CumSum(hit, axis), op.Cast(0.0, to=11))
    return op.Cast(op.ReduceSum(op.Cast(before, to=7), axes, keepdims=keep), to=to)


def _last_of_known_type(meaning: ArgMax, operands: Operands) -> Reason | None:
    return _last_wanted(meaning, operands) or _typed(meaning, operands)


@lowering(18, applies_if=_last_of_known_type, bind=_sums)
def last_sum(data, axis: int, axes: Sequence[int], keep: int, to: int):
    """Count the positions with a maximum from there on, for any rank and length."""
    below = op.Less(data, op.ReduceMax(data, axes, keepdims=1))
    hit = op.Where(below, op.Cast(0.0, to=11), op.Cast(1.0, to=11))
    before = op.Sign(op.CumSum(hit, axis, reverse=1))
    return op.Cast(op.Sub(op.ReduceSum(before, axes, keepdims=keep), op.Cast(1.0, to=11)), to=to)


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
    return _last_wanted(meaning, operands) or _signed(meaning, operands)


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


@lowering(18, applies_if=_first_signed, bind=_numbered, assumes=_finite)
def first_sign(data, axes: Sequence[int], keep: int, like: int, to: int, countdown: Sequence[int], length: float):
    """Map the sign of the distance to the maximum to 1 or 0, and weight the positions by it."""
    hit = op.Sign(op.Sub(data, op.ReduceMax(data, axes, keepdims=1))) + op.Cast(1.0, to=like)
    score = op.ReduceMax(hit * countdown, axes, keepdims=keep)
    return op.Cast(op.Sub(op.Cast(length, to=like), score), to=to)


@lowering(18, applies_if=_last_signed, bind=_numbered, assumes=_finite)
def last_sign(data, axes: Sequence[int], keep: int, like: int, to: int, count: Sequence[int]):
    """Do the same with the positions numbered from one."""
    hit = op.Sign(op.Sub(data, op.ReduceMax(data, axes, keepdims=1))) + op.Cast(1.0, to=like)
    score = op.ReduceMax(hit * count, axes, keepdims=keep)
    return op.Cast(op.Sub(score, op.Cast(1.0, to=like)), to=to)


def fault(meaning: ArgMax, operands: Operands) -> str | None:
    """Return what is wrong with the axis."""
    return axis_fault(meaning.axis, first(operands).rank)


OPERATOR = Operator(
    name="ArgMax",
    meaning=ArgMax,
    versions=(
        Version(1, write=_write(1), applies_if=axis_not_negative),
        Version(11, write=_write(11)),
        Version(12, write=_write(12)),
        Version(13, write=_write(13)),
    ),
    operands=("data",),
    oracle=oracle,
    normal=one_axis,
    fault=fault,
    lowerings=(
        topk,
        squeezed,
        topk_if_any,
        mirrored,
        widened,
        *_COUNTED,
        *map(_in_32, _COUNTED),
        first_sum,
        last_sum,
        signed,
        shifted,
        ranked,
        index_cast,
        first_sign,
        last_sign,
    ),
    dtype=lambda meaning: meaning.dtype,
    adversarial=adversarial,
    nan_defined=nan_defined,
    traits=Traits(
        merges=along_axis,
        value_range=value_ranges.positions,
        floats=(Trait.MOVES,),
        flow=Flow.BOUNDED,
        decides=True,
        nan_undefined=True,
        rivals=True,
        checked=True,
    ),
)
