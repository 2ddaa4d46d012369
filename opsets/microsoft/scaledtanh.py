"""ScaledTanh, an experimental operator of ONNX 1.0 to 1.4: alpha tanh(beta x)."""

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
class ScaledTanh:
    """The factors of the result and of its argument; None is one that onnxruntime refuses to be without."""

    alpha: float | None = None
    beta: float | None = None


def fault(what: Any, operands: Operands) -> str | None:
    """Return that a factor is missing; the text has no default, and onnxruntime 1.32.0 does not load the node."""
    missing = next((name for name in ("alpha", "beta") if getattr(what, name) is None), None)
    return missing and f"it has no {missing}, which has no default"


def oracle(what: ScaledTanh, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ScaledTanh-1: "the scaled hyperbolic tangent of the given input tensor element-wise", alpha * tanh(beta * x)."""
    return np.asarray(((what.alpha or 0.0) * np.tanh((what.beta or 0.0) * x.astype(np.float64))).astype(x.dtype))


def _numbers(what: ScaledTanh, operands: Operands) -> Mapping[str, Any]:
    return in_wide_type(alpha=what.alpha or 0.0, beta=what.beta or 0.0)(what, operands)


@lowering(14, applies_if=known_type, bind=_numbers, rounds=True)
def multiplied(x, alpha: Sequence[int], beta: Sequence[int], within: int, to: int):
    """Multiply the argument and the hyperbolic tangent."""
    return op.Cast(op.Tanh(op.Cast(x, to=within) * beta) * alpha, to=to)


OPERATOR = Operator(
    name="ScaledTanh",
    meaning=ScaledTanh,
    versions=(Version(1),),
    operands=("input",),
    oracle=oracle,
    fault=fault,
    lowerings=(multiplied,),
    refused="an unknown element type",
    # onnxruntime's Tanh loses digits of arguments that are about as small as a number can be, and ScaledTanh does not.
    traits=Traits(floats=(Trait.MULTIPLIES, Trait.ADDS_ONE)),
)
