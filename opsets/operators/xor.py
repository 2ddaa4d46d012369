"""Xor: whether one of two booleans holds, and not the other, broadcast."""

import numpy as np

from opshift.opsets.registry.plain import beside, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = plain(
    "Xor",
    (7,),
    ("A", "B"),
    np.logical_xor,
    neutral=beside(0),
    traits=Traits(floats=(Trait.MOVES,), flow=Flow.BOUNDED, equal_dims=broadcast),
)
