"""Tan: the tangent of each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Tan-22: "Calculates the tangent of the given input tensor, element-wise"."""
    return np.asarray(np.tan(x.astype(np.float64))).astype(x.dtype)


@lowering(13, rounds=True)
def by_quotient(x):
    """Divide the sine by the cosine."""
    return op.Sin(x) / op.Cos(x)


OPERATOR = plain(
    "Tan",
    (7, 22),
    ("input",),
    _oracle,
    (by_quotient,),
    wider_types=COMPUTED,
    traits=Traits(
        merges=elementwise,
    ),
)
