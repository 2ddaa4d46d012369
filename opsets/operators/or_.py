"""Or: the disjunction of two boolean tensors, broadcast."""

import numpy as np

from opshift.opsets.registry.plain import decided, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = plain(
    "Or",
    (7,),
    ("A", "B"),
    np.logical_or,
    neutral=decided(1, 0),
    traits=Traits(floats=(Trait.MOVES,), flow=Flow.BOUNDED, equal_dims=broadcast),
)
