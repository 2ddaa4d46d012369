"""Selu: Elu times a number. bfloat16 since version 22."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.operators import elu
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class Selu:
    """Alpha and gamma: large negative elements approach -alpha, and all results are multiplied by `gamma`."""

    alpha: float = float(np.float32(1.67326319217681884765625))
    gamma: float = float(np.float32(1.05070102214813232421875))


def oracle(what: Selu, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Selu-6: "y = gamma * (alpha * e^x - alpha) for x <= 0", "y = gamma * x for x > 0"."""
    wide = elu.oracle(elu.Elu(what.alpha), x.astype(np.float64))
    return np.asarray((what.gamma * wide).astype(x.dtype))


def _numbers(what: Selu, operands: Operands) -> Mapping[str, Any]:
    return {"alpha": what.alpha, "gamma": what.gamma}


@lowering(13, bind=_numbers, rounds=True)
def by_elu(x, alpha: float, gamma: float):
    """Multiply Elu."""
    return op.CastLike(gamma, x) * op.Elu(x, alpha=alpha)


OPERATOR = Operator(
    name="Selu",
    meaning=Selu,
    versions=(Version(1), Version(6), Version(22)),
    operands=("X",),
    oracle=oracle,
    lowerings=(by_elu,),
    wider_types=COMPUTED,
    body_unused="alpha * exp(x) - alpha loses digits near zero, which onnxruntime's kernel keeps",
    traits=Traits(merges=elementwise, floats=(Trait.COMPOSED, Trait.ADDS_ONE)),
)
