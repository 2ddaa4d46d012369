"""Round: the nearest integer, of two that are as near the even one. Since version 11."""

import numpy as np

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
    # The reciprocal tells the sign of zero, and not that of infinity.
    negative = op.Or(op.Less(x, 0.0), op.Less(op.Reciprocal(x), 0.0))
    sign = op.Sub(1.0, op.Mul(op.CastLike(negative, x), 2.0))
    return op.Mul(op.Add(low, op.CastLike(up, x)), sign)


OPERATOR = plain(
    "Round",
    (11, 22),
    ("X",),
    np.rint,
    (by_floor,),
    wider_types=ORDERED,
    traits=Traits(floats=(Trait.STEPS,), flow=Flow.POINTWISE),
)
