"""Not: the negation of a boolean tensor."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits


@lowering(13)
def equal_to_false(x):
    """Ask whether the element equals false."""
    return op.Equal(x, op.Cast(0, to=9))


@lowering(13)
def exchanged(x):
    """Ask which of the element and true holds alone."""
    return op.Xor(x, op.Cast(1, to=9))


@lowering(13, cost=2)
def by_difference(x):
    """Subtract ones and zeros from one."""
    return op.Cast(op.Sub(1.0, op.Cast(x, to=1)), to=9)


OPERATOR = plain(
    "Not",
    (1,),
    ("X",),
    np.logical_not,
    (equal_to_false, exchanged, by_difference),
    traits=Traits(merges=elementwise, floats=(Trait.MOVES,), flow=Flow.BOUNDED),
)
