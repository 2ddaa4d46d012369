"""Mul: the product of two tensors, broadcast."""

import numpy as np

from opshift.opsets.registry.plain import beside, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Arithmetic, Flow, Trait, Traits
from opshift.opsets.registry.wider_types import WRAPPED

OPERATOR = plain(
    "Mul",
    (7, 13, 14),
    ("A", "B"),
    np.multiply,
    carriers=WRAPPED,
    neutral=beside(1),
    traits=Traits(
        floats=(Trait.MULTIPLIES, Trait.ONCE), flow=Flow.POINTWISE, arithmetic=Arithmetic.MULTIPLY, equal_dims=broadcast
    ),
)
