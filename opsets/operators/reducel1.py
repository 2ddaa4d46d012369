"""ReduceL1: the sum of absolute values over some axes."""

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import reduction
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits

Array = np.ndarray[Any, Any]


def _l1(data: Array, **options: Any) -> Array:
    result: Array = np.sum(np.abs(data), **options)
    return result


OPERATOR = reduction(
    "ReduceL1",
    (1, 11, 13, 18),
    _l1,
    traits=Traits(
        merges=reduced,
        value_range=value_ranges.absolutes_summed,
        floats=(Trait.SUMS,),
        flow=Flow.SUMMED,
        integers=Integers.SUMS,
    ),
)
