"""ReduceMin: the minimum over some axes."""

import numpy as np

from opshift.opsets.families.reduction import reduction
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = reduction(
    "ReduceMin",
    (1, 11, 12, 13, 18, 20),
    np.min,
    in_any_order=True,
    traits=Traits(floats=(Trait.SELECTS,), flow=Flow.POINTWISE, rivals=True),
)
