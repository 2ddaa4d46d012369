"""OptionalGetElement: the value of an optional one. Since 15; tensors, which are returned as they are, since 18."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators.optionalhaselement import a_tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits


def oracle(what: Plain, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """OptionalGetElement-18: "If the input is a tensor or sequence type, it returns the input"."""
    return value


def _optional(what: Plain, operands: Operands) -> Reason | None:
    return Reason("it takes no tensor") if first(operands).dtype is not None else None


@lowering(18, applies_if=a_tensor)
def itself(value):
    """Return the tensor."""
    return op.Identity(value)


OPERATOR = Operator(
    name="OptionalGetElement",
    meaning=Plain,
    versions=(Version(15, applies_if=_optional), Version(18), Version(28)),
    operands=("input",),
    oracle=oracle,
    lowerings=(itself,),
    traits=Traits(floats=(Trait.MOVES,), moved=(0,)),
)
