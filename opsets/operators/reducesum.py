"""ReduceSum: the sum over some axes."""

import numpy as np

from opshift.opsets.families.reduction import reduction
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits

OPERATOR = reduction(
    "ReduceSum", (1, 11, 13), np.sum, traits=Traits(floats=(Trait.SUMS,), flow=Flow.SUMMED, integers=Integers.WRAPPED)
)
