"""ReduceProd: the product over some axes."""

import numpy as np

from opshift.opsets.families.reduction import reduction
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = reduction(
    "ReduceProd",
    (1, 11, 13, 18),
    np.prod,
    traits=Traits(floats=(Trait.SUMS, Trait.PRODUCTS), flow=Flow.POINTWISE),
)
