"""ReduceMax: the maximum over some axes."""

import numpy as np

from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import reduction
from opshift.opsets.families.reduction_steps import (
    larger_half,
    largest,
    largest_beside_lowest,
    least_complement,
    least_negative,
)
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.traits import Flow, Trait, Traits

OPERATOR = reduction(
    "ReduceMax",
    (1, 11, 12, 13, 18, 20),
    np.max,
    (largest, largest_beside_lowest, least_negative, least_complement, larger_half),
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
