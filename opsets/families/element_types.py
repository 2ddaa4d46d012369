"""Conditions of lowerings on the element type of the first operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands


def dtype_known(meaning: Any, operands: Operands) -> Reason | None:
    """Require the element type of the first operand."""
    return Reason("the element type is unknown", missing=True) if first(operands).dtype is None else None


def of_types(*dtypes: int) -> Callable[[Any, Operands], Reason | None]:
    """Return a condition that requires one of these element types, where other lowerings serve the others."""

    def applies_if(meaning: Any, operands: Operands) -> Reason | None:
        if reason := dtype_known(meaning, operands):
            return reason
        return None if first(operands).dtype in dtypes else Reason("")

    return applies_if
