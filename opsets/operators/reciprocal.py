"""Reciprocal: one over each element."""

import numpy as np

from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Trait, Traits
from opshift.opsets.registry.wider_types import QUOTIENT

OPERATOR = plain(
    "Reciprocal",
    (6, 13),
    ("X",),
    lambda x: np.reciprocal(x).astype(x.dtype),
    carriers=QUOTIENT,
    traits=Traits(floats=(Trait.DIVIDES,), domains={0: Interval(zero=False)}, inverse=lambda value: (1 / value,)),
)
