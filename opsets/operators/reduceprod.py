"""ReduceProd: the product over some axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import reduction
from opshift.opsets.families.reduction_steps import product_in_double, product_of_halves, product_with_last
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits

Array = np.ndarray[Any, Any]

_EXACT = 2.0**53
"""Up to here every integer is a number of double."""


def _product(data: Array, **options: Any) -> Array:
    """ReduceProd-18: "Computes the product", and no text says what a product beyond the integers of the type is.

    onnxruntime 1.32.0 multiplies integers in double, and takes the largest or least integer for what is beyond.
    """
    exact = np.asarray(np.prod(data, dtype=data.dtype, **options))
    if data.dtype.kind not in "iu":
        return exact
    wide, ends = np.asarray(np.prod(data.astype(np.float64), **options)), np.iinfo(data.dtype)
    inside = (wide > ends.min) & (wide < float(ends.max))
    rounded = np.where(inside, wide, 0).astype(data.dtype)
    beyond = np.where(wide > 0, data.dtype.type(ends.max), data.dtype.type(ends.min))
    return np.where(np.abs(wide) <= min(_EXACT, float(ends.max)), exact, np.where(inside, rounded, beyond))


OPERATOR = reduction(
    "ReduceProd",
    (1, 11, 13, 18),
    _product,
    (product_of_halves, product_with_last, product_in_double),
    traits=Traits(
        merges=reduced,
        value_range=value_ranges.multiplied_up,
        floats=(Trait.SUMS, Trait.PRODUCTS),
        flow=Flow.POINTWISE,
        integers=Integers.PRODUCTS,
    ),
)
