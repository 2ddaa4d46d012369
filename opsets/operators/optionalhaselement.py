"""OptionalHasElement: whether an optional value is there. Since 15; tensors, which always are, since 18."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits


def oracle(what: Plain, value: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """OptionalHasElement-18: true if "the input is a tensor", and "if the input is not provided ... returns false"."""
    return np.array(value is not None)


def a_tensor(what: Plain, operands: Operands) -> Reason | None:
    """Require a value that is known to be a tensor: optionals and sequences have no facts."""
    return None if first(operands).dtype is not None else Reason("it is not known to be a tensor", missing=True)


def _or_optional(what: Plain, operands: Operands) -> Reason | None:
    if operands[0] is None:
        return Reason("it needs an input")
    return Reason("it takes no tensor") if first(operands).dtype is not None else None


def _absent(what: Plain, operands: Operands) -> Reason | None:
    return Reason("there is an input") if operands[0] is not None else None


@lowering(18, applies_if=a_tensor)
def there(value):
    """Return true: the input is a tensor."""
    return op.Cast(1, to=9)


@lowering(18, applies_if=_absent)
def nothing(value):
    """Return false: the input is omitted."""
    return op.Cast(0, to=9)


OPERATOR = Operator(
    name="OptionalHasElement",
    meaning=Plain,
    versions=(Version(15, applies_if=_or_optional), Version(18), Version(28)),
    operands=("input",),
    oracle=oracle,
    lowerings=(there, nothing),
    traits=Traits(floats=(Trait.MOVES,)),
)
