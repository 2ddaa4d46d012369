"""ReduceMin: the minimum over some axes."""

import numpy as np

from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import reduction
from opshift.opsets.families.reduction_steps import greatest_complement, greatest_negative, smaller_half
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = reduction(
    "ReduceMin",
    (1, 11, 12, 13, 18, 20),
    np.min,
    (greatest_negative, greatest_complement, smaller_half),
    in_any_order=True,
    traits=Traits(
        merges=reduced,
        value_range=value_ranges.reduced,
        floats=(Trait.SELECTS,),
        flow=Flow.POINTWISE,
        rivals=True,
        nan_undefined=True,
    ),
)
