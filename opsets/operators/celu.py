"""Celu: a negative element becomes alpha * (exp(x / alpha) - 1). Since version 12; of other floats since 28."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class Celu:
    """Alpha: large negative elements approach -alpha."""

    alpha: float = 1.0


def oracle(what: Celu, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Celu-12: "max(0,x) + min(0,alpha*(exp(x/alpha)-1))"."""
    wide = x.astype(np.float64)
    return np.asarray((np.maximum(wide, 0) + what.alpha * np.expm1(np.minimum(wide, 0) / what.alpha)).astype(x.dtype))


def _types(what: Celu, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype
    within = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    return {"alpha": what.alpha, "within": within, "to": dtype}


@lowering(13, applies_if=dtype_known, bind=_types, rounds=True)
def by_exp(x, alpha: float, within: int, to: int):
    """Compute the exponential only of negative elements: x / alpha of others may overflow.

    Halves are computed in float, since they do not hold every alpha.
    """
    wide = op.Cast(x, to=within)
    limit = op.Cast(alpha, to=within)
    # Relu, since Max and Min do not broadcast below opset 8.
    below = op.Neg(op.Relu(op.Neg(wide)))
    return op.Cast(op.Relu(wide) + limit * (op.Exp(below / limit) - op.Cast(1.0, to=within)), to=to)


OPERATOR = Operator(
    name="Celu",
    meaning=Celu,
    versions=(Version(12), Version(28)),
    operands=("X",),
    oracle=oracle,
    lowerings=(by_exp,),
    wider_types=COMPUTED,
    body_unused="x / alpha overflows, and for a negative alpha it computes something else than the text",
    traits=Traits(merges=elementwise, floats=(Trait.COMPOSED, Trait.ADDS_ONE)),
)
