"""Hardmax: one in the first maximum of each row, zero elsewhere. Versions 1, 11 and 13, and `opshift::HardmaxAxes`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opshift.opsets.axes import first, rank_known
from opshift.opsets.facts import Tensor
from opshift.opsets.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.operator import Operands, Operator
from opshift.opsets.rows import LOWERINGS, VERSIONS, Rows, fault, from_rows, in_rows, normal, trailing


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


def _filled(rows: Rows, operands: Operands) -> Reason | None:
    if reason := _one_axis(rows, operands):
        return reason
    dim = first(operands).dim(rows.axes[0])
    return None if isinstance(dim, int) and dim > 0 else Reason("a row may be empty, which ArgMax does not take")


def _at_most(longest: int) -> Callable[[Rows, Operands], Reason | None]:
    def given(rows: Rows, operands: Operands) -> Reason | None:
        if reason := _filled(rows, operands):
            return reason
        dim = first(operands).dim(rows.axes[0])
        return Reason(f"a row has more than {longest} elements") if isinstance(dim, int) and dim > longest else None

    return given


def _positions(like: int) -> Callable[[Rows, Operands], Mapping[str, Any]]:
    def bind(rows: Rows, operands: Operands) -> Mapping[str, Any]:
        (axis,) = rows.axes
        facts = first(operands)
        behind = -axis - 1 if axis < 0 else len(facts.shape or ()) - axis - 1
        end = None if axis == -1 else axis + 1
        return {"axis": axis, "end": end, "along": (-1, *[1] * behind), "like": like, "to": facts.dtype}

    return bind


# NaN in a Hardmax has no result that could be kept, so that any index will do where one is.
@lowering(18, given=_filled, bind=_positions(TensorProto.INT32))
def index_equal(x, axis: int, end: int, along: Sequence[int], like: int, to: int):
    """Compare the positions of a row with the index of its first maximum."""
    index = meaning.ArgMax(x, axis=axis, nan="any", dtype=like)
    length = op.Squeeze(op.Shape(x, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.Equal(positions, index), to=to)


index_equal_float = replace(
    index_equal, name="index_equal_float", given=_at_most(2**24), bind=_positions(TensorProto.FLOAT)
)
index_equal_int16 = replace(
    index_equal, name="index_equal_int16", given=_at_most(2**15), bind=_positions(TensorProto.INT16)
)
index_equal_uint8 = replace(
    index_equal, name="index_equal_uint8", given=_at_most(2**8), bind=_positions(TensorProto.UINT8)
)


@lowering(18, given=_at_most(2**24), bind=_positions(TensorProto.FLOAT))
def index_relu(x, axis: int, end: int, along: Sequence[int], like: int, to: int):
    """Take the distance of each position from the index of the first maximum away from one, and what is below zero."""
    index = meaning.ArgMax(x, axis=axis, nan="any", dtype=like)
    length = op.Squeeze(op.Shape(x, start=axis, end=end), [0])
    away = op.Sub(op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along), index)
    return op.Cast(op.Relu(op.Sub(op.Sub(1.0, op.Relu(away)), op.Relu(op.Sub(0.0, away)))), to=to)


def _signed(rows: Rows, operands: Operands) -> Reason | None:
    if first(operands).dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return _one_axis(rows, operands) or Reason("the input is neither float nor double")
    return _at_most(2**24)(rows, operands)


def _countdown(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    bound = _positions(0)(rows, operands)
    dim = first(operands).dim(rows.axes[0])
    length = bounded(dim if isinstance(dim, int) else 0)
    numbers = np.arange(length, 0, -1, dtype=np.float64).reshape(bound["along"])
    wide = bound["to"] == TensorProto.DOUBLE
    return {
        "axes": rows.axes,
        "like": bound["to"],
        "countdown": Tensor(numbers if wide else numbers.astype(np.float32)),
    }


@lowering(18, given=_signed, bind=_countdown, narrows=lambda rows, operands: frozenset({"finite-inputs"}))
def sign_relu(x, axes: Sequence[int], like: int, countdown: Sequence[int]):
    """Score the positions by the sign of what is missing to the maximum: one is what reaches the best score."""
    one = op.Cast(1.0, to=like)
    # The difference of two infinities is NaN.
    score = (op.Sign(op.Sub(x, op.ReduceMax(x, axes, keepdims=1))) + one) * countdown
    return op.Relu(op.Sub(score, op.ReduceMax(score, axes, keepdims=1)) + one)


@lowering(18, given=_one_axis, bind=_positions(TensorProto.INT32))
def topk_equal(x, axis: int, end: int, along: Sequence[int], like: int, to: int):
    """Compare the positions of a row with the index of its top one; of none, where the row is empty."""
    length = op.Shape(x, start=axis, end=end)
    # As a boolean a length is zero or one.
    _, top = op.TopK(x, op.Cast(op.Cast(length, to=9), to=7), axis=axis)
    positions = op.Reshape(op.Cast(op.Range(0, op.Squeeze(length, [0]), 1), to=like), along)
    return op.Cast(op.Equal(positions, op.Cast(top, to=like)), to=to)


def _known_rank(rows: Rows, operands: Operands) -> Reason | None:
    return _one_axis(rows, operands) or rank_known(rows, operands)


def _one_more(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    pads = [0] * (2 * rank)
    pads[rank + rows.axes[0]] = 1
    return {**_positions(TensorProto.INT32)(rows, operands), "pads": tuple(pads)}


@lowering(18, given=_known_rank, bind=_one_more)
def padded_index_equal(x, axis: int, end: int, along: Sequence[int], like: int, to: int, pads: Sequence[int]):
    """Put -inf behind each row, so that none is empty, before searching its first maximum."""
    index = meaning.ArgMax(op.Pad(x, pads, op.CastLike(-1e999, x)), axis=axis, nan="any", dtype=like)
    length = op.Squeeze(op.Shape(x, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.Equal(positions, index), to=to)


def _several_axes(rows: Rows, operands: Operands) -> Reason | None:
    if reason := _known_rank(rows, operands):
        return reason
    return Reason("there is no other axis") if first(operands).rank == 1 else None


def _of_one_row(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    none = np.zeros(first(operands).rank or 1, np.int64)
    none[rows.axes[0]] = 1
    # Min of int64 is wrong in onnxruntime 1.31.1 where numbers differ beyond 32 bits.
    most = np.where(none == 1, 1, np.iinfo(np.int32).max)
    return {**_positions(TensorProto.INT32)(rows, operands), "none": Tensor(none), "most": Tensor(most)}


@lowering(18, given=_several_axes, bind=_of_one_row)
def reshaped_index_equal(
    x, axis: int, end: int, along: Sequence[int], like: int, to: int, none: Sequence[int], most: Sequence[int]
):
    """Reshape empty rows to no rows of length 1, which ArgMax takes, before comparing positions with its index."""
    dims = op.Shape(x)
    length = op.Shape(x, start=axis, end=end)
    rows = op.Reshape(x, op.Where(op.Cast(length, to=9), dims, none), allowzero=1)
    index = meaning.ArgMax(rows, axis=axis, nan="any", dtype=like)
    # One where there is an index in each row, and none where there is not.
    index = op.Reshape(index, op.Min(dims, most), allowzero=1)
    positions = op.Reshape(op.Cast(op.Range(0, op.Squeeze(length, [0]), 1), to=like), along)
    return op.Cast(op.Equal(positions, index), to=to)


def _zeros(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    facts = first(operands)
    zero = np.zeros(1, helper.tensor_dtype_to_np_dtype(facts.dtype or TensorProto.FLOAT))
    return {"axis": rows.axes[0], "zero": Tensor(zero), "one": Tensor(zero + 1)}


# Where a row may be empty, there is nowhere to put a one.
@lowering(18, given=_filled, bind=_zeros)
def index_scatter(x, axis: int, zero: Sequence[int], one: Sequence[int]):
    """Put a one where the first maximum is, into zeros."""
    index = meaning.ArgMax(x, axis=axis, nan="any")
    ones = op.Expand(one, op.Shape(index))
    return op.ScatterElements(op.Expand(zero, op.Shape(x)), index, ones, axis=axis)


def _static(rows: Rows, operands: Operands) -> tuple[int, ...] | None:
    shape = first(operands).shape
    dims = tuple(dim for dim in shape or () if isinstance(dim, int))
    return dims if shape is not None and len(dims) == len(shape) and 0 not in dims else None


def _single(rows: Rows, operands: Operands) -> Reason | None:
    if reason := _filled(rows, operands):
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


@lowering(18, given=_single, bind=_around)
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
    index = op.Reshape(meaning.ArgMax(x, axis=axis, nan="any"), [1])
    return op.Pad(one, op.Concat(before, index, between, op.Sub(last, index), behind, axis=0))


def _several(rows: Rows, operands: Operands) -> Reason | None:
    if trailing(rows, operands) is None or len(rows.axes) == 1:
        return Reason("a row is not made of the last axes, or of one only")
    if first(operands).dtype is None:
        return Reason("the element type is unknown", missing=True)
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
@lowering(18, given=_several, bind=_two_factors)
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
    index = op.Cast(meaning.ArgMax(op.Reshape(x, matrix), axis=1, nan="any"), to=6)
    row = op.Div(index, last)
    column = op.Sub(index, op.Mul(row, last))
    rows = op.Reshape(op.Cast(op.Equal(high, row), to=to), outer)
    return op.Mul(rows, op.Reshape(op.Cast(op.Equal(low, column), to=to), inner))


OPERATOR = Operator(
    name="Hardmax",
    meaning=Rows,
    versions=VERSIONS,
    operands=("input",),
    oracle=oracle,
    normal=normal,
    fault=fault,
    lowerings=(
        *LOWERINGS,
        through_float,
        index_equal,
        index_equal_float,
        index_equal_int16,
        index_equal_uint8,
        index_relu,
        index_scatter,
        index_padded,
        product,
        sign_relu,
        topk_equal,
        padded_index_equal,
        reshaped_index_equal,
    ),
    # Which element onnxruntime 1.31.1 picks in a row with a NaN depends on its place in the vector registers.
    nan_defined=lambda rows, operands: False,
)
