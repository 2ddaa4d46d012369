"""LessOrEqual: Less or Equal. Since version 12."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits


@lowering(13)
def either(a, b):
    """Combine Less and Equal."""
    return op.Or(op.Less(a, b), op.Equal(a, b))


@lowering(16)
def exchanged(a, b):
    """Check whether the second is greater or equal."""
    return op.GreaterOrEqual(b, a)


OPERATOR = plain(
    "LessOrEqual",
    (12, 16),
    ("A", "B"),
    np.less_equal,
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
