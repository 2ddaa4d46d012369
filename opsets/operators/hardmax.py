"""Hardmax: one in the first maximum of each row, zero elsewhere. Versions 1, 11 and 13, and `opshift::HardmaxAxes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opshift.opsets.families.axes import first, rank_known
from opshift.opsets.families.merged_axes import rows
from opshift.opsets.families.rows import LOWERINGS, VERSIONS, Rows, fault, from_rows, in_rows, normal
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator
from opshift.opsets.registry.traits import Flow, Trait, Traits


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
    18,
    applies_if=_half,
    bind=lambda rows, operands: {"axes": rows.axes, "to_end": rows.to_end, "to": first(operands).dtype},
)
def through_float(x, axes: Sequence[int], to_end: int, to: int):
    """Compare float16 and bfloat16 as float, which represents all of their values."""
    return op.Cast(meaning.Itself(op.Cast(x, to=1), axes=axes, to_end=to_end), to=to)


def one_axis(rows: Rows, operands: Operands) -> Reason | None:
    """Hold for rows along one axis."""
    facts = first(operands)
    if rows.to_end or len(rows.axes) != 1:
        return Reason("a row has more than one axis")
    if rows.axes[0] >= 0 and facts.rank is None:
        return Reason("the rank is unknown", missing=True)
    return Reason("the element type is unknown", missing=True) if facts.dtype is None else None


def filled(rows: Rows, operands: Operands) -> Reason | None:
    """Hold for rows along one axis that are not empty."""
    if reason := one_axis(rows, operands):
        return reason
    dim = first(operands).dim(rows.axes[0])
    return None if isinstance(dim, int) and dim > 0 else Reason("a row may be empty, which ArgMax does not take")


def at_most(longest: int) -> Callable[[Rows, Operands], Reason | None]:
    """Hold for rows of so many elements at most."""

    def applies_if(rows: Rows, operands: Operands) -> Reason | None:
        if reason := filled(rows, operands):
            return reason
        dim = first(operands).dim(rows.axes[0])
        return Reason(f"a row has more than {longest} elements") if isinstance(dim, int) and dim > longest else None

    return applies_if


def positions(like: int) -> Callable[[Rows, Operands], Mapping[str, Any]]:
    """Bind what positions in a row are made of, in this element type."""

    def bind(rows: Rows, operands: Operands) -> Mapping[str, Any]:
        (axis,) = rows.axes
        facts = first(operands)
        behind = -axis - 1 if axis < 0 else len(facts.shape or ()) - axis - 1
        end = None if axis == -1 else axis + 1
        return {"axis": axis, "end": end, "along": (-1, *[1] * behind), "like": like, "to": facts.dtype}

    return bind


@lowering(18, applies_if=filled, bind=positions(TensorProto.INT64))
def index_equal(x, axis: int, end: int, along: Sequence[int], like: int, to: int):
    """Compare the positions of a row with the index of its first maximum."""
    index = meaning.ArgMax(x, axis=axis, dtype=like)
    length = op.Squeeze(op.Shape(x, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.Equal(positions, index), to=to)


index_equal_float = replace(
    index_equal, name="index_equal_float", applies_if=at_most(2**24), bind=positions(TensorProto.FLOAT)
)


@lowering(18, applies_if=at_most(2**24), bind=positions(TensorProto.FLOAT))
def index_relu(x, axis: int, end: int, along: Sequence[int], like: int, to: int):
    """Compute 1 minus the distance of each position from the index of the first maximum, clipped at zero."""
    index = meaning.ArgMax(x, axis=axis, dtype=like)
    length = op.Squeeze(op.Shape(x, start=axis, end=end), [0])
    away = op.Sub(op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along), index)
    return op.Cast(op.Relu(op.Sub(op.Sub(1.0, op.Relu(away)), op.Relu(op.Sub(0.0, away)))), to=to)


def _signed(rows: Rows, operands: Operands) -> Reason | None:
    if first(operands).dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return one_axis(rows, operands) or Reason("the input is neither float nor double")
    return at_most(2**24)(rows, operands)


def _countdown(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    bound = positions(0)(rows, operands)
    dim = first(operands).dim(rows.axes[0])
    length = bounded(dim if isinstance(dim, int) else 0)
    numbers = np.arange(length, 0, -1, dtype=np.float64).reshape(bound["along"])
    wide = bound["to"] == TensorProto.DOUBLE
    return {
        "axes": rows.axes,
        "like": bound["to"],
        "countdown": Tensor(numbers if wide else numbers.astype(np.float32)),
    }


@lowering(18, applies_if=_signed, bind=_countdown, assumes=lambda rows, operands: frozenset({"finite-inputs"}))
def sign_relu(x, axes: Sequence[int], like: int, countdown: Sequence[int]):
    """Score the positions by the sign of the distance to the maximum; the best score becomes 1."""
    one = op.Cast(1.0, to=like)
    # The difference of two infinities is NaN.
    score = (op.Sign(op.Sub(x, op.ReduceMax(x, axes, keepdims=1))) + one) * countdown
    return op.Relu(op.Sub(score, op.ReduceMax(score, axes, keepdims=1)) + one)


@lowering(18, applies_if=one_axis, bind=positions(TensorProto.INT32))
def topk_equal(x, axis: int, end: int, along: Sequence[int], like: int, to: int):
    """Compare the positions of a row with the index from TopK, with k = 1, or 0 for an empty row."""
    length = op.Shape(x, start=axis, end=end)
    # As a boolean a length is zero or one.
    _, top = op.TopK(x, op.Cast(op.Cast(length, to=9), to=7), axis=axis)
    positions = op.Reshape(op.Cast(op.Range(0, op.Squeeze(length, [0]), 1), to=like), along)
    return op.Cast(op.Equal(positions, op.Cast(top, to=like)), to=to)


def _known_rank(rows: Rows, operands: Operands) -> Reason | None:
    return one_axis(rows, operands) or rank_known(rows, operands)


def _one_more(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    pads = [0] * (2 * rank)
    pads[rank + rows.axes[0]] = 1
    return {**positions(TensorProto.INT32)(rows, operands), "pads": tuple(pads)}


@lowering(18, applies_if=_known_rank, bind=_one_more)
def padded_index_equal(x, axis: int, end: int, along: Sequence[int], like: int, to: int, pads: Sequence[int]):
    """Append -inf to each row, so that no row is empty, and find its first maximum."""
    index = meaning.ArgMax(op.Pad(x, pads, op.CastLike(-1e999, x)), axis=axis, dtype=like)
    length = op.Squeeze(op.Shape(x, start=axis, end=end), [0])
    positions = op.Reshape(op.Cast(op.Range(0, length, 1), to=like), along)
    return op.Cast(op.Equal(positions, index), to=to)


def _zeros(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    facts = first(operands)
    zero = np.zeros(1, helper.tensor_dtype_to_np_dtype(facts.dtype or TensorProto.FLOAT))
    return {"axis": rows.axes[0], "zero": Tensor(zero), "one": Tensor(zero + 1)}


# Where a row may be empty, there is nowhere to put a one. The zeros may be a constant as large as the result.
@lowering(18, applies_if=filled, bind=_zeros, cost=2)
def index_scatter(x, axis: int, zero: Sequence[int], one: Sequence[int]):
    """Scatter a one into zeros at the first maximum."""
    index = meaning.ArgMax(x, axis=axis)
    ones = op.Expand(one, op.Shape(index))
    return op.ScatterElements(op.Expand(zero, op.Shape(x)), index, ones, axis=axis)


def _typed_axis(rows: Rows, operands: Operands) -> Reason | None:
    if rows.to_end or len(rows.axes) != 1:
        return Reason("a row has more than one axis")
    known = first(operands).dtype is not None
    return None if known else Reason("the element type is unknown", missing=True)


def _hits(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    return {"axis": rows.axes[0], "axes": rows.axes, "to": first(operands).dtype}


@lowering(18, applies_if=_typed_axis, bind=_hits)
def first_hit(x, axis: int, axes: Sequence[int], to: int):
    """Set a one at each maximum without an earlier maximum, for any rank and length."""
    # Of a row with NaN, some element is not below the maximum: it has a one too.
    below = op.Less(x, op.ReduceMax(x, axes, keepdims=1))
    hit = op.Where(below, op.Cast(0.0, to=11), op.Cast(1.0, to=11))
    return op.Cast(op.Less(op.CumSum(hit, axis, exclusive=1), hit), to=to)


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
        index_relu,
        index_scatter,
        sign_relu,
        first_hit,
        topk_equal,
        padded_index_equal,
    ),
    # As of ArgMax: a row with NaN has its one anywhere.
    nan_defined=lambda rows, operands: False,
    traits=Traits(
        merges=rows,
        floats=(Trait.MOVES,),
        flow=Flow.BOUNDED,
        decides=True,
        nan_undefined=True,
        rivals=True,
        checked=True,
    ),
)
