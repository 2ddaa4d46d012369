"""CumSum: sums of all elements up to each along an axis. Since version 11."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opshift.opsets.families.cumulative import along_known_axis, cumulative, pairs
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.traits import Flow, Trait, Traits


@lowering(18, applies_if=along_known_axis, bind=pairs, cost=10, rounds=True)
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


OPERATOR = cumulative(
    "CumSum",
    (11, 14),
    np.add,
    0,
    (of_each_place,),
    traits=Traits(value_range=value_ranges.accumulated, floats=(Trait.SUMS,), flow=Flow.SUMMED),
)
