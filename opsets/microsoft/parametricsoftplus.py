"""ParametricSoftplus, an experimental operator of ONNX 1.0 to 1.4: alpha log(exp(beta x) + 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.microsoft.scaledtanh import fault
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import in_wide_type, known_type
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class ParametricSoftplus:
    """The factors of the result and of its argument; None is one that onnxruntime refuses to be without."""

    alpha: float | None = None
    beta: float | None = None


def oracle(what: ParametricSoftplus, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ParametricSoftplus-1: "the softplus function, y = alpha * ln(exp(beta * x) + 1)"."""
    inner = (what.beta or 0.0) * x.astype(np.float64)
    return np.asarray(((what.alpha or 0.0) * np.logaddexp(inner, 0)).astype(x.dtype))


def _numbers(what: ParametricSoftplus, operands: Operands) -> Mapping[str, Any]:
    return in_wide_type(alpha=what.alpha or 0.0, beta=what.beta or 0.0)(what, operands)


@lowering(14, applies_if=known_type, bind=_numbers, rounds=True)
def multiplied(x, alpha: Sequence[int], beta: Sequence[int], within: int, to: int):
    """Multiply the argument and the result of Softplus."""
    return op.Cast(op.Softplus(op.Cast(x, to=within) * beta) * alpha, to=to)


OPERATOR = Operator(
    name="ParametricSoftplus",
    meaning=ParametricSoftplus,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(multiplied,),
    refused="an unknown element type",
    traits=Traits(floats=(Trait.MULTIPLIES, Trait.COMPOSED, Trait.ADDS_ONE)),
)
