"""Ceil: the smallest integer that is not below each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Ceil-13: "If x is integral, +0, -0, NaN, or infinite, x itself is returned"."""
    return np.asarray(np.ceil(x)).astype(x.dtype)


@lowering(13)
def by_floor(x):
    """Round the negative down."""
    return op.Neg(op.Floor(op.Neg(x)))


OPERATOR = plain(
    "Ceil",
    (1, 6, 13),
    ("X",),
    _oracle,
    (by_floor,),
    wider_types=ORDERED,
    traits=Traits(merges=elementwise, value_range=value_ranges.whole, floats=(Trait.STEPS,), flow=Flow.POINTWISE),
)
