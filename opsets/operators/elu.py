"""Elu: a negative element becomes alpha * (exp(x) - 1). bfloat16 since version 22."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class Elu:
    """Alpha: large negative elements approach -alpha."""

    alpha: float = 1.0


def oracle(what: Elu, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Elu-6: "f(x) = alpha * (exp(x) - 1.) for x < 0", "f(x) = x for x >= 0"."""
    wide = x.astype(np.float64)
    return np.asarray(np.where(wide < 0, what.alpha * np.expm1(np.minimum(wide, 0)), wide).astype(x.dtype))


@lowering(13, bind=lambda what, operands: {"twice": 2 * what.alpha}, rounds=True)
def by_tanh(x, twice: float):
    """Compute exp(x) - 1 as 2 t / (1 - t) with t = tanh(x / 2), which loses no digits near zero."""
    half = op.Tanh(op.Neg(op.Relu(op.Neg(x))) * op.CastLike(0.5, x))
    return op.Relu(x) + op.CastLike(twice, x) * (half / (op.CastLike(1.0, x) - half))


OPERATOR = Operator(
    name="Elu",
    meaning=Elu,
    versions=(Version(1), Version(6), Version(22)),
    operands=("X",),
    oracle=oracle,
    lowerings=(by_tanh,),
    wider_types=COMPUTED,
    body_unused="exp(x) - 1 loses digits near zero, which onnxruntime's kernel keeps",
    traits=Traits(merges=elementwise, floats=(Trait.COMPOSED, Trait.ADDS_ONE)),
)
