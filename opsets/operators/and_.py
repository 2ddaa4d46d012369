"""And: the conjunction of two boolean tensors, broadcast."""

import numpy as np

from opshift.opsets.registry.plain import decided, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = plain(
    "And",
    (7,),
    ("A", "B"),
    np.logical_and,
    neutral=decided(0, 1),
    traits=Traits(floats=(Trait.MOVES,), flow=Flow.BOUNDED, equal_dims=broadcast),
)
