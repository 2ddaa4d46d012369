"""Concat: tensors one after the other along an axis. Negative axes since 11."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import axis_not_negative, one_axis
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import EVERY, Trait, Traits


@dataclass(frozen=True)
class Concat:
    """The axis along which tensors are joined."""

    axis: int = 0


def oracle(meaning: Concat, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Concat-13: "same shape, except for the dimension size of the axis to concatenate on"."""
    return np.concatenate(inputs, axis=meaning.axis)


def _rest(meaning: Concat, operands: Operands) -> int | None:
    """Return the one input that may have elements, which is the result."""
    found = [place for place, facts in enumerate(operands) if facts is None or facts.size != 0]
    return found[0] if len(found) == 1 else None


OPERATOR = Operator(
    name="Concat",
    meaning=Concat,
    versions=(Version(4, given=axis_not_negative), Version(11), Version(13)),
    operands=(),
    oracle=oracle,
    normal=one_axis,
    variadic=True,
    neutral=_rest,
    moves_data=True,
    traits=Traits(floats=(Trait.MOVES,), moved=EVERY, joins=True),
)
