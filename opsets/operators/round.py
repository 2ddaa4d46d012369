"""Round: the nearest integer, of two that are as near the even one. Since version 11."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


@lowering(13)
def by_floor(x):
    """Round down, and up again where the rest is more than a half, or a half and the integer odd; the sign apart."""
    size = op.Abs(x)
    low = op.Floor(size)
    rest = op.Sub(size, low)
    half = op.Mul(low, 0.5)
    odd = op.Less(op.Floor(half), half)
    up = op.Or(op.Greater(rest, 0.5), op.And(odd, op.Not(op.Less(rest, 0.5))))
    # The reciprocal distinguishes the signs of zero, but not those of infinity.
    negative = op.Or(op.Less(x, 0.0), op.Less(op.Reciprocal(x), 0.0))
    sign = op.Sub(1.0, op.Mul(op.CastLike(negative, x), 2.0))
    return op.Mul(op.Add(low, op.CastLike(up, x)), sign)


HALVES = tuple(sign * (size + 0.5) for size in (0, 1, 2, 4, 7, 12, 20, 33, 54, 88, 120) for sign in (1, -1))
"""Numbers where a rounded quotient or product decides between two integers, whatever the factor of those."""


OPERATOR = plain(
    "Round",
    (11, 22),
    ("X",),
    np.rint,
    (by_floor,),
    wider_types=ORDERED,
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.whole,
        floats=(Trait.STEPS,),
        flow=Flow.POINTWISE,
        landmarks=lambda attributes, constants: HALVES,
    ),
)
