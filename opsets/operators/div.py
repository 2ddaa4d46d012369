"""Div: the quotient of two tensors, broadcast; of integers, rounded towards zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.plain import beside, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Arithmetic, Flow, Interval, Trait, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


def _quotient(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    if not np.issubdtype(a.dtype, np.integer):
        return np.divide(a, b)
    # Div-14: "For integer inputs, the result is computed using truncating division (rounding toward zero)".
    floor = np.floor_divide(a, b)
    return floor + ((floor < 0) & (floor * b != a))


def _of_dims(a: Dim, b: Dim) -> Dim:
    return a if b == 1 else None


OPERATOR = plain(
    "Div",
    (7, 13, 14),
    ("A", "B"),
    _quotient,
    wider_types=QUOTIENT,
    neutral=beside(1, right_only=True),
    traits=Traits(
        floats=(Trait.MULTIPLIES, Trait.DIVIDES, Trait.ONCE),
        domains={1: Interval(zero=False)},
        flow=Flow.POINTWISE,
        arithmetic=Arithmetic.DIVIDE,
        equal_dims=broadcast,
    ),
    of_dims=_of_dims,
)
