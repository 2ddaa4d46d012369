"""Greater: Less with its operands exchanged."""

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


@lowering(13)
def exchanged(a, b):
    """Check whether the second is less than the first."""
    return op.Less(b, a)


OPERATOR = with_legacy_broadcast(
    plain(
        "Greater",
        (7, 9, 13),
        ("A", "B"),
        np.greater,
        (exchanged,),
        wider_types=ORDERED,
        traits=Traits(floats=(Trait.MOVES,), compares=True, flow=Flow.BOUNDED, equal_dims=broadcast),
    ),
    1,
)
