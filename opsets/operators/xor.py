"""Xor: whether one of two booleans holds, and not the other, broadcast."""

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import neutral_operand, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits


@lowering(13)
def unequal(a, b):
    """Ask whether the two are not equal."""
    return op.Not(op.Equal(a, b))


@lowering(13)
def either_alone(a, b):
    """Ask whether one holds, and not both do."""
    return op.And(op.Or(a, b), op.Not(op.And(a, b)))


@lowering(13, cost=2)
def by_difference(a, b):
    """Subtract ones and zeros."""
    return op.Cast(op.Sub(op.Cast(a, to=1), op.Cast(b, to=1)), to=9)


OPERATOR = with_legacy_broadcast(
    plain(
        "Xor",
        (7,),
        ("A", "B"),
        np.logical_xor,
        (unequal, either_alone, by_difference),
        neutral=neutral_operand(0),
        traits=Traits(merges=elementwise, floats=(Trait.MOVES,), flow=Flow.BOUNDED, equal_dims=broadcast),
    ),
    1,
)
