"""Floor: the largest integer that is not above each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floor-13: "If x is integral, +0, -0, NaN, or infinite, x itself is returned"."""
    return np.asarray(np.floor(x)).astype(x.dtype)


@lowering(13)
def by_ceil(x):
    """Round the negative up."""
    return op.Neg(op.Ceil(op.Neg(x)))


@lowering(13)
def by_round(x):
    """Round to the nearest integer, and take one off where that is above."""
    near = meaning.Round(x)
    return op.Sub(near, op.CastLike(op.Greater(near, x), x))


OPERATOR = plain(
    "Floor",
    (1, 6, 13),
    ("X",),
    _oracle,
    (
        by_ceil,
        by_round,
    ),
    wider_types=ORDERED,
    traits=Traits(merges=elementwise, value_range=value_ranges.whole, floats=(Trait.STEPS,), flow=Flow.POINTWISE),
)
