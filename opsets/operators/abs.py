"""Abs: the absolute value."""

import numpy as np

from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import QUOTIENT

OPERATOR = plain(
    "Abs",
    (6, 13),
    ("X",),
    np.abs,
    wider_types=QUOTIENT,
    traits=Traits(floats=(Trait.MOVES,), inverse=lambda value: (value, -value)),
)
