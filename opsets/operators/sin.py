"""Sin: the sine of each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sin-22: "Calculates the sine of the given input tensor, element-wise"."""
    return np.asarray(np.sin(x.astype(np.float64))).astype(x.dtype)


@lowering(13, rounds=True)
def by_half_tangent(x):
    """Compute 2 / (t + 1 / t) with t = tan(x / 2)."""
    tangent = op.Tan(x * 0.5)
    return 2.0 / (tangent + op.Reciprocal(tangent))


OPERATOR = plain(
    "Sin",
    (7, 22),
    ("input",),
    _oracle,
    (by_half_tangent,),
    wider_types=COMPUTED,
    traits=Traits(inverse=lambda value: (math.asin(value),)),
)
