"""Or: the disjunction of two boolean tensors, broadcast."""

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import absorbing_operand, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits


@lowering(13)
def by_and(a, b):
    """Ask whether not both are false."""
    return op.Not(op.And(op.Not(a), op.Not(b)))


@lowering(13, cost=2)
def by_sum(a, b):
    """Add ones and zeros."""
    return op.Cast(op.Add(op.Cast(a, to=1), op.Cast(b, to=1)), to=9)


OPERATOR = with_legacy_broadcast(
    plain(
        "Or",
        (7,),
        ("A", "B"),
        np.logical_or,
        (by_and, by_sum),
        neutral=absorbing_operand(1, 0),
        traits=Traits(merges=elementwise, floats=(Trait.MOVES,), flow=Flow.BOUNDED, equal_dims=broadcast),
    ),
    1,
)
