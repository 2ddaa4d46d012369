"""Relu: a negative element becomes zero."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED

OPERATOR = plain(
    "Relu",
    (1, 6, 13, 14),
    ("X",),
    # Relu-14: "y = max(0, x)".
    lambda x: np.maximum(x, np.array(0, x.dtype)),
    wider_types=ORDERED,
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.rectified,
        floats=(Trait.SELECTS,),
        flow=Flow.POINTWISE,
        clamp=lambda meaning, operands: (0.0, np.inf),
    ),
)
