"""Atan: the arctangent of each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Atan-22: "Calculates the arctangent (inverse of tangent) of the given input tensor, element-wise"."""
    return np.asarray(np.arctan(x.astype(np.float64))).astype(x.dtype)


# The sine of half the angle is no more than the root of a half, where the arcsine changes as little as its argument.
@lowering(13, rounds=True)
def by_asin(x):
    """Double the arcsine of the sine of half the angle, whose tangent t is x / (1 + sqrt(1 + x^2))."""
    size = op.Abs(x)
    part = op.Reciprocal(op.Max(size, 1.0))
    short = op.Min(size, part)
    tangent = op.Clip(x, -1.0, 1.0) / (part + op.Sqrt(short * short + 1.0))
    return op.Asin(tangent / op.Sqrt(tangent * tangent + 1.0)) * 2.0


OPERATOR = plain(
    "Atan",
    (7, 22),
    ("input",),
    _oracle,
    (by_asin,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, inverse=lambda value: (math.tan(value),)),
)
