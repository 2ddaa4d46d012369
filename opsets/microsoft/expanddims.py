"""com.microsoft::ExpandDims: Unsqueeze of one axis, which is an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits


def oracle(what: Plain, x: np.ndarray[Any, Any], axis: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ExpandDims-1: "Specified axis to insert a dimension", which may count from the back."""
    return np.expand_dims(x, int(axis.reshape(())))


def _constant(what: Plain, operands: Operands) -> Reason | None:
    known = (operands[1] or Facts()).known
    return Reason("the axis is computed at run time", missing=True) if known is None or known.size != 1 else None


def _axis(what: Plain, operands: Operands) -> Mapping[str, Any]:
    known = (operands[1] or Facts()).known
    return {"axes": () if known is None else (int(known.reshape(())),)}


@lowering(13, applies_if=_constant, bind=_axis)
def by_unsqueeze(x, axis, axes: Sequence[int]):
    """Write it as Unsqueeze."""
    return op.Unsqueeze(x, axes)


OPERATOR = Operator(
    name="ExpandDims",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("X", "axis"),
    oracle=oracle,
    lowerings=(by_unsqueeze,),
    moves_data=True,
    refused="an axis that is computed",
    traits=Traits(floats=(Trait.MOVES,), counts=(1,), all_elements=True),
)
