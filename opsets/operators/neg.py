"""Neg: the negative value."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Arithmetic, Flow, Trait, Traits
from opshift.opsets.registry.wider_types import WRAPPED


@lowering(13)
def by_product(x):
    """Multiply by -1."""
    return op.Mul(x, op.CastLike(-1, x))


# From 0.0, the difference of 0.0 would be 0.0.
@lowering(13)
def by_difference(x):
    """Subtract from -0.0."""
    return op.Sub(op.CastLike(-0.0, x), x)


OPERATOR = plain(
    "Neg",
    (1, 6, 13),
    ("X",),
    np.negative,
    (by_product, by_difference),
    wider_types=WRAPPED,
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.negated,
        floats=(Trait.MOVES,),
        flow=Flow.POINTWISE,
        arithmetic=Arithmetic.NEGATE,
    ),
)
