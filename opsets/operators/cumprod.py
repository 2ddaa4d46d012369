"""CumProd: products of all elements up to each along an axis. Since version 26."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opshift.opsets.families.cumulative import along_known_axis, cumulative, pairs
from opshift.opsets.families.merged_axes import along_operand
from opshift.opsets.registry.facts import FLOATS
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.traits import Trait, Traits


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
    """Multiply, for each position along the axis, all elements; later ones count as one."""
    count = op.Gather(op.Shape(x), at, axis=0)
    place = op.Range(0, op.Squeeze(count, [0]), 1) * sign
    come = op.Less(op.Unsqueeze(place, [0]) + before, op.Unsqueeze(place, [1]))
    elements = op.Where(op.Unsqueeze(come, behind), op.Unsqueeze(x, at), op.Cast([1.0], to=dtype))
    return op.ReduceProd(elements, along, keepdims=0)


OPERATOR = cumulative(
    "CumProd",
    (26,),
    np.multiply,
    1,
    (of_each_place,),
    traits=Traits(merges=along_operand, floats=(Trait.SUMS, Trait.PRODUCTS), unchecked=True),
)
