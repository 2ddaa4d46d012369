"""GreaterOrEqual: Greater or Equal. Since version 12."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits


@lowering(13)
def either(a, b):
    """Combine Greater and Equal."""
    return op.Or(op.Greater(a, b), op.Equal(a, b))


@lowering(16)
def exchanged(a, b):
    """Check whether the second is less or equal."""
    return op.LessOrEqual(b, a)


OPERATOR = plain(
    "GreaterOrEqual",
    (12, 16),
    ("A", "B"),
    np.greater_equal,
    (either, exchanged),
    traits=Traits(
        merges=elementwise,
        floats=(Trait.MOVES,),
        compares=True,
        flow=Flow.BOUNDED,
        equal_dims=broadcast,
        exact_body=True,
    ),
)
