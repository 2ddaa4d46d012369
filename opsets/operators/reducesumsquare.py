"""ReduceSumSquare: the sum of squares over some axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import in_float, reduction
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits, roots

Array = np.ndarray[Any, Any]


def _sum_square(data: Array, **options: Any) -> Array:
    result: Array = np.sum(np.square(data), **options)
    return result


@lowering(18, applies_if=dtype_known, bind=in_float, rounds=True)
def of_squares(data, axes, keepdims: int, noop: int, within: int, to: int):
    """Sum the squares, in float where the input is of halves."""
    wide = op.Cast(data, to=within)
    return op.Cast(op.ReduceSum(wide * wide, axes, keepdims=keepdims, noop_with_empty_axes=noop), to=to)


OPERATOR = reduction(
    "ReduceSumSquare",
    (1, 11, 13, 18),
    _sum_square,
    (of_squares,),
    nests=False,
    body_unused="squares of float16 overflow from 256 on, and vanish below 2e-4",
    traits=Traits(
        merges=reduced,
        value_range=value_ranges.squares_summed,
        floats=(Trait.SUMS,),
        flow=Flow.SUMMED,
        inverse=roots,
        integers=Integers.SQUARES,
    ),
)
