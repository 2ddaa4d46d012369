"""Affine, an experimental operator of ONNX 1.0 to 1.4: alpha x + beta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import in_wide_type, known_type
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Affine:
    """The factor, and what is added."""

    alpha: float = 1.0
    beta: float = 0.0


def oracle(what: Affine, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Affine-1: "the affine function, y = alpha * x + beta, is applied to the tensor elementwise"."""
    return np.asarray((what.alpha * x.astype(np.float64) + what.beta).astype(x.dtype))


def _numbers(what: Affine, operands: Operands) -> Mapping[str, Any]:
    return in_wide_type(alpha=what.alpha, beta=what.beta)(what, operands)


def _without_sum(what: Affine, operands: Operands) -> Reason | None:
    return Reason("a number is added") if what.beta else known_type(what, operands)


@lowering(14, applies_if=_without_sum, bind=_numbers, rounds=True)
def scaled(x, alpha: Sequence[int], within: int, to: int):
    """Multiply."""
    return op.Cast(op.Cast(x, to=within) * alpha, to=to)


@lowering(14, applies_if=known_type, bind=_numbers, rounds=True)
def multiplied(x, alpha: Sequence[int], beta: Sequence[int], within: int, to: int):
    """Multiply, and add."""
    return op.Cast(op.Cast(x, to=within) * alpha + beta, to=to)


OPERATOR = Operator(
    name="Affine",
    meaning=Affine,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    lowerings=(scaled, multiplied),
    refused="an unknown element type",
    traits=Traits(floats=(Trait.MULTIPLIES, Trait.ADDS)),
)
