"""Div: the quotient of two tensors, broadcast; of integers, rounded towards zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.scalars import AS_VECTOR
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.plain import neutral_operand, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Arithmetic, Flow, Interval, Trait, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


def check_divisor(b: np.ndarray[Any, Any]) -> None:
    """Raise `ValueError` where integers are divided by zero: onnxruntime 1.32.0 runs no such node."""
    if np.issubdtype(b.dtype, np.integer) and not b.all():
        raise ValueError("an integer is divided by zero")


def _quotient(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    check_divisor(b)
    if not np.issubdtype(a.dtype, np.integer):
        return np.divide(a, b)
    # Div-14: "For integer inputs, the result is computed using truncating division (rounding toward zero)".
    floor = np.floor_divide(a, b)
    return floor + ((floor < 0) & (floor * b != a))


def _of_dims(a: Dim, b: Dim) -> Dim:
    return a if b == 1 else None


OPERATOR = with_legacy_broadcast(
    plain(
        "Div",
        (7, 13, 14),
        ("A", "B"),
        _quotient,
        AS_VECTOR,
        wider_types=QUOTIENT,
        neutral=neutral_operand(1, right_only=True),
        traits=Traits(
            value_range=value_ranges.divided,
            floats=(Trait.MULTIPLIES, Trait.DIVIDES, Trait.ONCE),
            domains={1: Interval(zero=False)},
            flow=Flow.POINTWISE,
            arithmetic=Arithmetic.DIVIDE,
            equal_dims=broadcast,
        ),
        of_dims=_of_dims,
    ),
    1,
    6,
)
