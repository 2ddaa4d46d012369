"""ReduceLogSum: the logarithm of the sum over some axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import in_float_or_double, reduction
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.traits import Integers, Trait, Traits

Array = np.ndarray[Any, Any]


def _log_sum(data: Array, **options: Any) -> Array:
    result: Array = np.log(np.sum(data, **options))
    return result


@lowering(18, applies_if=dtype_known, bind=in_float_or_double, rounds=True)
def of_sum(data, axes, keepdims: int, noop: int, within: int, to: int):
    """Take the logarithm of the sum, in float where the input is of halves, in double where it is of integers."""
    total = op.ReduceSum(op.Cast(data, to=within), axes, keepdims=keepdims, noop_with_empty_axes=noop)
    return op.Cast(op.Log(total), to=to)


OPERATOR = reduction(
    "ReduceLogSum",
    (1, 11, 13, 18, 28),
    _log_sum,
    (of_sum,),
    nests=False,
    body_unused="sums of float16 overflow, and integers have no logarithm",
    traits=Traits(merges=reduced, floats=(Trait.SUMS,), integers=Integers.SUMS),
)
