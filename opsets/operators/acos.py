"""Acos: the arccosine of each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Acos-22: "Calculates the arccosine (inverse of cosine) of the given input tensor, element-wise"."""
    return np.asarray(np.arccos(x.astype(np.float64))).astype(x.dtype)


@lowering(13, rounds=True)
def by_atan(x):
    """Double the angle whose tangent is the root of (1 - x) / (1 + x)."""
    return op.Atan(op.Sqrt((1.0 - x) / (x + 1.0))) * 2.0


OPERATOR = plain(
    "Acos",
    (7, 22),
    ("input",),
    _oracle,
    (by_atan,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, domains={0: Interval(-1, 1)}),
)
