"""Scale, an experimental operator of ONNX 1.0 to 1.4: the product with a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import in_wide_type, known_type
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Scale:
    """The factor."""

    scale: float = 1.0


def oracle(what: Scale, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Scale-1: "the output value is obtained by multiplying the input with scale"."""
    return np.asarray((x.astype(np.float64) * what.scale).astype(x.dtype))


def _number(what: Scale, operands: Operands) -> Mapping[str, Any]:
    return in_wide_type(scale=what.scale)(what, operands)


@lowering(14, applies_if=known_type, bind=_number)
def multiplied(x, scale: Sequence[int], within: int, to: int):
    """Multiply."""
    return op.Cast(op.Cast(x, to=within) * scale, to=to)


OPERATOR = Operator(
    name="Scale",
    meaning=Scale,
    versions=(Version(1),),
    operands=("input",),
    oracle=oracle,
    lowerings=(multiplied,),
    refused="an unknown element type",
    traits=Traits(floats=(Trait.MULTIPLIES, Trait.ONCE)),
)
