"""Greater: Less with its operands exchanged."""

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain, two_integers
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


@lowering(13)
def exchanged(a, b):
    """Check whether the second is less than the first."""
    return op.Less(b, a)


@lowering(16)
def one_way(a, b):
    """Check that the first is greater than the second or equal to it, and not the other way round."""
    return op.And(op.GreaterOrEqual(a, b), op.Not(op.GreaterOrEqual(b, a)))


@lowering(13, applies_if=two_integers)
def by_rest(a, b):
    """Check whether the larger of two integers without the second is not zero."""
    return op.Cast(op.Sub(op.Max(a, b), b), to=9)


OPERATOR = with_legacy_broadcast(
    plain(
        "Greater",
        (7, 9, 13),
        ("A", "B"),
        np.greater,
        (exchanged, one_way, by_rest),
        wider_types=ORDERED,
        traits=Traits(
            merges=elementwise, floats=(Trait.MOVES,), compares=True, flow=Flow.BOUNDED, equal_dims=broadcast
        ),
    ),
    1,
)
