"""ReduceMax: the maximum over some axes."""

import numpy as np

from opshift.opsets.families.reduction import reduction
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = reduction(
    "ReduceMax",
    (1, 11, 12, 13, 18, 20),
    np.max,
    in_any_order=True,
    traits=Traits(floats=(Trait.SELECTS,), flow=Flow.POINTWISE, rivals=True),
)
