"""IsNaN: which elements are not a number; below 9 by comparisons, all of which NaN fails."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


@lowering(13)
def by_comparison(x):
    """Check whether the element is neither below 1 nor above -1."""
    return op.Not(op.Or(op.Less(x, 1.0), op.Greater(x, -1.0)))


@lowering(13)
def unequal(x):
    """Check whether the element is not equal to itself."""
    return op.Not(op.Equal(x, x))


OPERATOR = plain(
    "IsNaN",
    (9, 13, 20),
    ("X",),
    np.isnan,
    (by_comparison, unequal),
    wider_types=ORDERED,
    traits=Traits(merges=elementwise, floats=(Trait.MOVES,), flow=Flow.BOUNDED),
)
