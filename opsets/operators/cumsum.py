"""CumSum: sums of all elements up to each along an axis. Since version 11."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.cumulative import along_known_axis, cumulative, pairs
from opshift.opsets.families.merged_axes import along_operand
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.traits import Flow, Trait, Traits


@lowering(18, applies_if=along_known_axis(*FLOATS), bind=pairs, cost=10, rounds=True)
def of_each_place(
    x,
    axis,
    at: Sequence[int],
    behind: Sequence[int],
    along: Sequence[int],
    sign: Sequence[int],
    before: Sequence[int],
    dtype: int,
):
    """Sum, for each position along the axis, all elements; later ones count as zero."""
    count = op.Gather(op.Shape(x), at, axis=0)
    place = op.Range(0, op.Squeeze(count, [0]), 1) * sign
    come = op.Less(op.Unsqueeze(place, [0]) + before, op.Unsqueeze(place, [1]))
    elements = op.Where(op.Unsqueeze(come, behind), op.Unsqueeze(x, at), op.Cast([0.0], to=dtype))
    return op.ReduceSum(elements, along, keepdims=0)


@lowering(18, applies_if=along_known_axis(TensorProto.INT32, TensorProto.UINT32), bind=pairs, cost=10)
def of_each_integer(
    x,
    axis,
    at: Sequence[int],
    behind: Sequence[int],
    along: Sequence[int],
    sign: Sequence[int],
    before: Sequence[int],
    dtype: int,
):
    """Sum, for each position along the axis, all elements, as int64, which onnxruntime adds up in double."""
    count = op.Gather(op.Shape(x), at, axis=0)
    place = op.Range(0, op.Squeeze(count, [0]), 1) * sign
    come = op.Less(op.Unsqueeze(place, [0]) + before, op.Unsqueeze(place, [1]))
    elements = op.Where(op.Unsqueeze(come, behind), op.Unsqueeze(op.Cast(x, to=7), at), [0])
    return op.Cast(op.ReduceSum(elements, along, keepdims=0), to=dtype)


@lowering(18, applies_if=along_known_axis(TensorProto.INT64), bind=pairs, cost=20)
def of_halves_of_each_integer(
    x,
    axis,
    at: Sequence[int],
    behind: Sequence[int],
    along: Sequence[int],
    sign: Sequence[int],
    before: Sequence[int],
    dtype: int,
):
    """Sum the upper and the lower 32 bits apart: onnxruntime adds up int64 in double, which holds those."""
    upper = x / 4294967296
    lower = x - upper * 4294967296
    count = op.Gather(op.Shape(x), at, axis=0)
    place = op.Range(0, op.Squeeze(count, [0]), 1) * sign
    come = op.Less(op.Unsqueeze(place, [0]) + before, op.Unsqueeze(place, [1]))
    counted = op.Unsqueeze(come, behind)
    uppers = op.ReduceSum(op.Where(counted, op.Unsqueeze(upper, at), [0]), along, keepdims=0)
    lowers = op.ReduceSum(op.Where(counted, op.Unsqueeze(lower, at), [0]), along, keepdims=0)
    return uppers * 4294967296 + lowers


OPERATOR = cumulative(
    "CumSum",
    (11, 14),
    np.add,
    0,
    (of_each_place, of_each_integer, of_halves_of_each_integer),
    traits=Traits(
        merges=along_operand,
        value_range=value_ranges.accumulated,
        floats=(Trait.SUMS,),
        flow=Flow.SUMMED,
        unchecked=True,
    ),
)
