"""Compress: the entries of a tensor along an axis, or of all its elements, where a condition holds. Since 9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import axis_not_negative, one_axis
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED


@dataclass(frozen=True)
class Compress:
    """The axis of the selected entries; None: the flattened input."""

    axis: int | None = None


def oracle(meaning: Compress, data: np.ndarray[Any, Any], condition: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Compress-9: "behaves like numpy.compress", flattened "In case axis is not provided".

    Of an empty tensor numpy selects what is not there.
    """
    if condition[data.size if meaning.axis is None else data.shape[meaning.axis] :].any():
        raise ValueError("Compress-9: the condition selects behind the end")
    return np.compress(condition, data, axis=meaning.axis)


def normal(meaning: Compress, operands: Operands) -> tuple[Compress, Operands]:
    """Count the axis from the front where the rank is known."""
    return (meaning, operands) if meaning.axis is None else one_axis(meaning, operands)


def _from_front(meaning: Compress, operands: Operands) -> Reason | None:
    return None if meaning.axis is None else axis_not_negative(meaning, operands)


def _along(meaning: Compress, operands: Operands) -> Reason | None:
    return Reason("there is no axis") if meaning.axis is None else None


def _in_a_row(meaning: Compress, operands: Operands) -> Reason | None:
    return None if meaning.axis is None else Reason("it is along an axis")


@lowering(13, applies_if=_along, bind=lambda meaning, operands: {"axis": meaning.axis})
def gathered(x, condition, axis: int):
    """Gather where the condition is not zero."""
    return op.Gather(x, op.Squeeze(op.NonZero(condition), [0]), axis=axis)


@lowering(13, applies_if=_in_a_row)
def gathered_in_a_row(x, condition):
    """Gather all elements in a row where the condition is not zero."""
    return op.Gather(op.Reshape(x, [-1]), op.Squeeze(op.NonZero(condition), [0]), axis=0)


OPERATOR = Operator(
    name="Compress",
    meaning=Compress,
    # Compress-11 was the first to say: "Negative value means counting dimensions from the back".
    versions=(Version(9, applies_if=_from_front), Version(11), Version(28)),
    operands=("input", "condition"),
    oracle=oracle,
    normal=normal,
    lowerings=(gathered, gathered_in_a_row),
    wider_types=MOVED,
    traits=Traits(floats=(Trait.MOVES,), moved=(0,)),
)
