"""Lowerings faster than onnxruntime's own kernels, for --optimize alone.

They search in blocks and compare short integers.

They have more nodes than people would write. `--optimize` alone looks at them; nothing else imports this module.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opshift.opsets.families.axes import first, rank_known
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.rows import Rows, trailing
from opshift.opsets.operators import hardmax, onehot
from opshift.opsets.operators.argmax import ArgMax
from opshift.opsets.operators.onehot import OneHot
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Lowering, Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

# --- ArgMax in blocks ---------------------------------------------------------------------------------------------

LONGEST = 2**24
"""Longer axes have no blocks: finding one takes as many steps as the root of the length."""

LARGEST = 64
"""The most elements of a block whose length is found at run time: the largest divisor up to this one is taken."""


@functools.cache
def block(along: int, last: bool) -> int:
    """Return how many elements a block has, 0 if the axis has none: the maxima of blocks are searched, then a block.

    A maximum costs about half as much again as an element of the last search; in front of other axes a block is
    gathered element by element, which costs about as much as two searches.
    """
    if not 1 < along <= LONGEST:
        return 0
    small = [size for size in range(1, math.isqrt(along) + 1) if along % size == 0]
    blocks = sorted({*small, *(along // size for size in small)} - {1, along})
    weights = (1.5, 1.0) if last else (1.0, 3.0)
    return min(blocks, key=lambda size: weights[0] * along / size + weights[1] * size, default=0)


def _ordered(what: ArgMax, operands: Operands) -> Reason | None:
    """Hold for elements of which onnxruntime takes a maximum many at once, along an axis that is kept."""
    dtype = first(operands).dtype
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32):
        return Reason("the input is neither float nor double nor int32", missing=dtype is None)
    return rank_known(what, operands) or (None if what.keepdims else Reason("the axis is dropped"))


def _is_last(what: ArgMax, operands: Operands) -> bool:
    shape = first(operands).shape or ()
    return all(dim == 1 for dim in shape[what.axis + 1 :])


def _last(what: ArgMax, operands: Operands) -> Reason | None:
    if reason := _ordered(what, operands):
        return reason
    if what.axis + 1 != first(operands).rank:
        return Reason("the axis is not the last")
    return None if what.dtype == TensorProto.INT64 else Reason("the index is to be cast")


def _blocked(what: ArgMax, operands: Operands) -> Reason | None:
    if reason := _last(what, operands):
        return reason
    length = first(operands).dim(what.axis)
    if not isinstance(length, int):
        return Reason("the length of the axis is unknown", missing=True)
    return None if block(length, True) else Reason("the length of the axis has no divisor")


def _in_blocks(what: ArgMax, operands: Operands) -> Mapping[str, Any]:
    shape = first(operands).shape or ()
    length = int(shape[-1] or 0)
    size = block(length, True)
    # A 0 copies a dimension.
    kept = tuple(dim if isinstance(dim, int) else 0 for dim in shape[:-1])
    return {"blocks": (*kept, length // size, size), "size": size, "batch": len(kept)}


@lowering(18, applies_if=_blocked, bind=_in_blocks)
def blocked(data, blocks: Sequence[int], size: int, batch: int):
    """Find the block that has the maximum of a row, then the maximum in that block."""
    rows = op.Reshape(data, blocks)
    number = meaning.Same(op.ReduceMax(rows, [-1], keepdims=0))
    place = meaning.Same(op.GatherND(rows, number, batch_dims=batch))
    return op.Mul(number, size) + place


def _divided(what: ArgMax, operands: Operands) -> Reason | None:
    if reason := _last(what, operands):
        return reason
    known = isinstance(first(operands).dim(what.axis), int)
    return Reason("the length of the axis is known") if known else None


def _sizes() -> Tensor:
    """Return what a length is divided by; each divisor is its own position, so that ArgMin returns the last one.

    At position 0 is a number that divides no length but 0.
    """
    return Tensor(np.array([2**62, *range(1, LARGEST + 1)]))


@lowering(
    18,
    applies_if=_divided,
    bind=lambda what, operands: {
        "batch": what.axis,
        "last": what.select_last_index,
        "copied": Tensor(np.zeros(what.axis, np.int64)),
        "sizes": _sizes(),
    },
)
def blocked_at_run_time(data, batch: int, last: int, copied: Sequence[int], sizes: Sequence[int]):
    """Do the same with blocks whose length is the largest divisor up to 64, found at run time."""
    length = op.Shape(data, start=batch)
    size = op.ArgMin(op.Mod(length, sizes), axis=0, select_last_index=1)
    # A 0 copies a dimension; an axis without elements has no blocks.
    rows = op.Reshape(data, op.Concat(copied, op.Div(length, size), size, axis=0))
    number = op.ArgMax(op.ReduceMax(rows, [-1], keepdims=0), axis=batch, select_last_index=last)
    place = op.ArgMax(op.GatherND(rows, number, batch_dims=batch), axis=batch, select_last_index=last)
    return op.Mul(number, size) + place


def _inner(what: ArgMax, operands: Operands) -> Reason | None:
    if reason := _ordered(what, operands):
        return reason
    shape = first(operands).shape or ()
    length, behind = shape[what.axis], shape[what.axis + 1 :]
    if _is_last(what, operands):
        return Reason("the axis is the last")
    if not isinstance(length, int) or sum(not isinstance(dim, int) for dim in behind) > 1 or 0 in behind:
        return Reason("the axis or more than one dimension behind it is unknown", missing=True)
    size = block(length, False)
    if not size:
        return Reason("the length of the axis has no divisor")
    return Reason("a byte does not count the blocks, or within one") if max(size, length // size) > 255 else None


def _first_inner(what: ArgMax, operands: Operands) -> Reason | None:
    return Reason("the last maximum is wanted") if what.select_last_index else _inner(what, operands)


def _last_inner(what: ArgMax, operands: Operands) -> Reason | None:
    return _inner(what, operands) if what.select_last_index else Reason("the first maximum is wanted")


def _in_blocks_of_bytes(what: ArgMax, operands: Operands) -> Mapping[str, Any]:
    shape: tuple[Dim, ...] = first(operands).shape or ()
    axis, length = what.axis, int(shape[what.axis] or 0)
    size = block(length, False)
    count = length // size
    along = (-1, *[1] * (len(shape) - axis - 1))
    numbers, places = np.arange(count, dtype=np.uint8), np.arange(size, dtype=np.int32)
    # Where no other place of a block has the maximum, the one that is not looked at has it.
    places = places[1:] if what.select_last_index else places[:-1]
    within = places if what.select_last_index else size - 1 - places
    return {
        "blocks": (
            *(dim if isinstance(dim, int) else 0 for dim in shape[:axis]),
            count,
            size,
            *(dim if isinstance(dim, int) else -1 for dim in shape[axis + 1 :]),
        ),
        "axis": axis,
        "axes": (axis,),
        "inner": (axis + 1,),
        "numbers": Tensor((numbers if what.select_last_index else numbers[::-1].copy()).reshape(along)),
        "places": Tensor(places.reshape(along)),
        "within": Tensor(within.astype(np.uint8).reshape(along)),
        "size": size,
        "front": length - size,
        "last": size - 1,
        "to": what.dtype,
    }


@lowering(18, applies_if=_first_inner, bind=_in_blocks_of_bytes)
def first_blocked_in_bytes(
    data,
    blocks: Sequence[int],
    axis: int,
    axes: Sequence[int],
    inner: Sequence[int],
    numbers: Sequence[int],
    places: Sequence[int],
    within: Sequence[int],
    size: int,
    front: int,
    last: int,
    to: int,
):
    """Find the first block that has the maximum, then the maximum in it, both counted from the end in bytes."""
    maxima = op.ReduceMax(op.Reshape(data, blocks), inner, keepdims=0)
    most = op.ReduceMax(maxima, axes, keepdims=1)
    after = op.ReduceMax(op.Cast(op.Equal(maxima, most), to=2) * numbers, axes, keepdims=1)
    start = op.Sub(op.Cast(front, to=6), op.Cast(after, to=6) * op.Cast(size, to=6))
    won = op.GatherElements(data, start + places, axis=axis)
    behind = op.ReduceMax(op.Cast(op.Equal(won, most), to=2) * within, axes, keepdims=1)
    return op.Cast(start + op.Cast(op.Cast(last, to=2) - behind, to=6), to=to)


@lowering(18, applies_if=_last_inner, bind=_in_blocks_of_bytes)
def last_blocked_in_bytes(
    data,
    blocks: Sequence[int],
    axis: int,
    axes: Sequence[int],
    inner: Sequence[int],
    numbers: Sequence[int],
    places: Sequence[int],
    within: Sequence[int],
    size: int,
    to: int,
):
    """Find the last block that has the maximum, then the last maximum in it, both counted in bytes."""
    maxima = op.ReduceMax(op.Reshape(data, blocks), inner, keepdims=0)
    most = op.ReduceMax(maxima, axes, keepdims=1)
    number = op.ReduceMax(op.Cast(op.Equal(maxima, most), to=2) * numbers, axes, keepdims=1)
    start = op.Cast(number, to=6) * op.Cast(size, to=6)
    won = op.GatherElements(data, start + places, axis=axis)
    place = op.ReduceMax(op.Cast(op.Equal(won, most), to=2) * within, axes, keepdims=1)
    return op.Cast(start + op.Cast(place, to=6), to=to)


# --- Hardmax --------------------------------------------------------------------------------------------------------

index_equal_int16 = replace(
    hardmax.index_equal,
    name="index_equal_int16",
    applies_if=hardmax.at_most(2**15),
    bind=hardmax.positions(TensorProto.INT16),
)
index_equal_uint8 = replace(
    hardmax.index_equal,
    name="index_equal_uint8",
    applies_if=hardmax.at_most(2**8),
    bind=hardmax.positions(TensorProto.UINT8),
)


def _may_be_empty(rows: Rows, operands: Operands) -> Reason | None:
    if reason := hardmax.one_axis(rows, operands) or rank_known(rows, operands):
        return reason
    if isinstance(first(operands).dim(rows.axes[0]), int):
        return Reason("the length of a row is known")
    return Reason("there is no other axis") if first(operands).rank == 1 else None


def _of_one_row(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    none = np.zeros(first(operands).rank or 1, np.int64)
    none[rows.axes[0]] = 1
    # Min of int64 is wrong in onnxruntime 1.31.1 where numbers differ beyond 32 bits.
    most = np.where(none == 1, 1, np.iinfo(np.int32).max)
    return {**hardmax.positions(TensorProto.INT32)(rows, operands), "none": Tensor(none), "most": Tensor(most)}


def _inner_of_unknown_length(rows: Rows, operands: Operands) -> Reason | None:
    if reason := _may_be_empty(rows, operands):
        return reason
    return None if _last_of_unknown_length(rows, operands) else Reason("the axis is the last")


@lowering(18, applies_if=_inner_of_unknown_length, bind=_of_one_row)
def reshaped_index_equal(
    x, axis: int, end: int, along: Sequence[int], like: int, to: int, none: Sequence[int], most: Sequence[int]
):
    """Reshape empty rows to no rows of length 1, which ArgMax takes, before comparing positions with its index."""
    dims = op.Shape(x)
    length = op.Shape(x, start=axis, end=end)
    rows = op.Reshape(x, op.Where(op.Cast(length, to=9), dims, none), allowzero=1)
    # One where there is an index in each row, and none where there is not.
    index = op.Reshape(meaning.ArgMax(rows, axis=axis, dtype=like), op.Min(dims, most), allowzero=1)
    positions = op.Reshape(op.Cast(op.Range(0, op.Squeeze(length, [0]), 1), to=like), along)
    return op.Cast(op.Equal(positions, index), to=to)


def _last_of_unknown_length(rows: Rows, operands: Operands) -> Reason | None:
    if reason := _may_be_empty(rows, operands):
        return reason
    last = rows.axes[0] + 1 == first(operands).rank
    return None if last else Reason("the axis is not the last")


def _zeros(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype or TensorProto.FLOAT
    one = np.ones(1, helper.tensor_dtype_to_np_dtype(dtype))
    return {"batch": rows.axes[0], "sizes": _sizes(), "one": Tensor(one), "to": dtype}


@lowering(18, applies_if=_last_of_unknown_length, bind=_zeros)
def scattered_at_run_time(x, batch: int, sizes: Sequence[int], one: Sequence[int], to: int):
    """Find the maximum in blocks, whose length is found at run time, and put a one there, into zeros."""
    length, outer = op.Shape(x, start=batch), op.Shape(x, end=batch)
    size = op.ArgMin(op.Mod(length, sizes), axis=0, select_last_index=1)
    # Empty rows are no rows.
    some = op.Min(length, 1)
    rows = op.Reshape(x, op.Concat(outer * some, op.Div(length, size), size, axis=0), allowzero=1)
    number = op.ArgMax(op.ReduceMax(rows, [-1], keepdims=0), axis=batch)
    place = op.ArgMax(op.GatherND(rows, number, batch_dims=batch), axis=batch)
    kept = op.Concat(outer, some, axis=0)
    index = op.Reshape(op.Mul(number, size) + place, kept, allowzero=1)
    return op.ScatterElements(op.Cast(op.ConstantOfShape(op.Shape(x)), to=to), index, op.Expand(one, kept), axis=batch)


def _static(rows: Rows, operands: Operands) -> tuple[int, ...] | None:
    shape = first(operands).shape
    dims = tuple(dim for dim in shape or () if isinstance(dim, int))
    return dims if shape is not None and len(dims) == len(shape) and 0 not in dims else None


def _single(rows: Rows, operands: Operands) -> Reason | None:
    if reason := hardmax.filled(rows, operands):
        return reason
    dims = _static(rows, operands)
    if dims is None:
        return Reason("not all dimensions are known", missing=True)
    return None if math.prod(dims) == dims[rows.axes[0]] else Reason("there is more than one row")


def _around(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    dims = _static(rows, operands) or (1,)
    axis = rows.axes[0] % len(dims)
    one = np.ones([1] * len(dims), helper.tensor_dtype_to_np_dtype(first(operands).dtype or TensorProto.FLOAT))
    return {
        "axis": axis,
        "one": Tensor(one),
        "last": (dims[axis] - 1,),
        "before": Tensor(np.zeros(axis, np.int64)),
        "between": Tensor(np.zeros(len(dims) - 1, np.int64)),
        "behind": Tensor(np.zeros(len(dims) - 1 - axis, np.int64)),
    }


@lowering(18, applies_if=_single, bind=_around)
def index_padded(
    x,
    axis: int,
    one: Sequence[int],
    last: Sequence[int],
    before: Sequence[int],
    between: Sequence[int],
    behind: Sequence[int],
):
    """Pad a one with zeros on both sides, where there is one row."""
    index = op.Reshape(meaning.ArgMax(x, axis=axis), [1])
    return op.Pad(one, op.Concat(before, index, between, op.Sub(last, index), behind, axis=0))


def _several(rows: Rows, operands: Operands) -> Reason | None:
    if trailing(rows, operands) is None or len(rows.axes) == 1:
        return Reason("a row is not made of the last axes, or of one only")
    if reason := dtype_known(rows, operands):
        return reason
    return None if _static(rows, operands) else Reason("not all dimensions are known", missing=True)


def _two_factors(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    dims = _static(rows, operands) or (1,)
    start = rows.axes[0]
    length = math.prod(dims[start:])
    return {
        "matrix": (math.prod(dims[:start]), length),
        "high": Tensor(np.arange(bounded(length // dims[-1]), dtype=np.int32)),
        "low": Tensor(np.arange(bounded(dims[-1]), dtype=np.int32)),
        "last": dims[-1],
        "outer": (*dims[:-1], 1),
        "inner": (*dims[:start], *[1] * (len(dims) - 1 - start), dims[-1]),
        "to": first(operands).dtype,
    }


# The shape is restored before the result is as large as the input: a Reshape at the end of a model copies.
@lowering(18, applies_if=_several, bind=_two_factors)
def product(
    x,
    matrix: Sequence[int],
    high: Sequence[int],
    low: Sequence[int],
    last: int,
    outer: Sequence[int],
    inner: Sequence[int],
    to: int,
):
    """Multiply the ones where the maximum is along the last axis with those where it is along the others."""
    index = op.Cast(meaning.ArgMax(op.Reshape(x, matrix), axis=1), to=6)
    row = op.Div(index, last)
    column = op.Sub(index, op.Mul(row, last))
    rows = op.Reshape(op.Cast(op.Equal(high, row), to=to), outer)
    return op.Mul(rows, op.Reshape(op.Cast(op.Equal(low, column), to=to), inner))


# --- OneHot ---------------------------------------------------------------------------------------------------------


def _countable_in(dtype: int) -> Callable[[OneHot, Operands], Reason | None]:
    def applies_if(what: OneHot, operands: Operands) -> Reason | None:
        if not onehot.is_mask(operands):
            return Reason("off and on are not false and true")
        if first(operands).dtype != TensorProto.FLOAT or what.fraction != "absent":
            return Reason("the indices are not floats without a fraction")
        if what.negative not in ("absent", "off"):
            return Reason("negative indices point")
        # Depth itself, which points nowhere, is to be held too.
        fits = 0 < (onehot.depth_of(operands) or 0) < onehot.SHORT[dtype]
        return None if fits else Reason(f"depth is not known, or not below {onehot.SHORT[dtype]}")

    return applies_if


def _clipped(dtype: int) -> Callable[[OneHot, Operands], Mapping[str, Any]]:
    return lambda what, operands: {"most": float(onehot.depth_of(operands) or 0), "to": dtype}


@lowering(18, applies_if=_countable_in(TensorProto.INT16), bind=_clipped(TensorProto.INT16))
def counted_in_int16(indices, depth, values, most: float, to: int):
    """Clip to -1 and depth, which point nowhere, and cast to a type of which more are compared at once."""
    return meaning.Same(op.Cast(op.Clip(indices, -1.0, most), to=to), depth, values, negative="off")


counted_in_int8 = replace(
    counted_in_int16,
    name="counted_in_int8",
    applies_if=_countable_in(TensorProto.INT8),
    bind=_clipped(TensorProto.INT8),
)


LOWERINGS: Mapping[str, tuple[Lowering, ...]] = {
    "ArgMax": (blocked_at_run_time, blocked, first_blocked_in_bytes, last_blocked_in_bytes),
    "Hardmax": (
        scattered_at_run_time,
        index_equal_int16,
        index_equal_uint8,
        reshaped_index_equal,
        index_padded,
        product,
    ),
    "OneHot": (counted_in_int16, counted_in_int8),
}
"""By operator."""

AT_RUN_TIME = (blocked_at_run_time, scattered_at_run_time)
"""What finds lengths at run time: where nothing is known of the length of rows, the costs of others tell nothing."""


def every(operator: Operator) -> tuple[Lowering, ...]:
    """Return all lowerings of an operator, those that `--optimize` alone looks at behind the others."""
    return operator.lowerings if operator.domain else (*operator.lowerings, *LOWERINGS.get(operator.name, ()))
