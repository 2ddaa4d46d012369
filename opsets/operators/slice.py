"""Slice: a part of a tensor. Starts, ends, axes are attributes below 10; steps came with 10, negative axes with 11."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.axes import axes_operand, operand_not_negative
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version
from opshift.opsets.plain import Plain

_resolve = axes_operand(3)


def oracle(
    meaning: Plain,
    data: np.ndarray[Any, Any],
    starts: np.ndarray[Any, Any],
    ends: np.ndarray[Any, Any],
    axes: np.ndarray[Any, Any] | None = None,
    steps: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Slice-13: "This behavior is the same as Python and numpy", with ends far out of range for the end."""
    index = [slice(None)] * data.ndim
    for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        axis = place if axes is None else int(axes[place])
        step = 1 if steps is None else int(steps[place])
        index[axis] = slice(start, None if step < 0 and end < -data.shape[axis] else end, step)
    return data[tuple(index)]


def normal(meaning: Plain, operands: Operands) -> tuple[Plain, Operands]:
    """Leave out steps that are all 1; count axes from the front where the rank is known."""
    steps = operands[4]
    if steps is not None and steps.known is not None and (steps.known == 1).all():
        operands = (*operands[:4], None)
    return _resolve(meaning, operands)


def _axes_from_front(meaning: Plain, operands: Operands) -> Reason | None:
    return operand_not_negative(3)(meaning, operands)


OPERATOR = Operator(
    name="Slice",
    meaning=Plain,
    versions=(Version(1, given=_axes_from_front), Version(10, given=_axes_from_front), Version(11), Version(13)),
    operands=("data", "starts", "ends", "axes", "steps"),
    oracle=oracle,
    normal=normal,
    moves_data=True,
)
