"""Sqrt: square roots of elements."""

import numpy as np

from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import QUOTIENT

OPERATOR = plain(
    "Sqrt",
    (6, 13),
    ("X",),
    lambda x: np.sqrt(x).astype(x.dtype),
    wider_types=QUOTIENT,
    traits=Traits(domains={0: Interval(0)}, inverse=lambda value: (value * value,)),
)
