"""com.microsoft::GemmFastGelu: a product of matrices, and FastGelu of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.operators import gelu
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


def oracle(what: Plain, x: Array, w: Array, bias: Array | None = None) -> Array:
    """GemmFastGelu-1: "It's a fusion of MatMul and FastGelu"."""
    product = np.matmul(x, w)
    return np.asarray(gelu.oracle(gelu.Gelu("tanh"), product if bias is None else product + bias))


def _biased(what: Plain, operands: Operands) -> Reason | None:
    return Reason("there is no bias") if operands[2] is None else None


def _unbiased(what: Plain, operands: Operands) -> Reason | None:
    return None if operands[2] is None else Reason("there is a bias")


@lowering(20, applies_if=_unbiased, rounds=True)
def of_product(x, w, bias):
    """Multiply, then take Gelu by the hyperbolic tangent."""
    return op.Gelu(op.MatMul(x, w), approximate="tanh")


@lowering(20, applies_if=_biased, rounds=True)
def of_biased_product(x, w, bias):
    """Multiply, add the bias, then take Gelu by the hyperbolic tangent."""
    return op.Gelu(op.MatMul(x, w) + bias, approximate="tanh")


OPERATOR = Operator(
    name="GemmFastGelu",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("X", "W", "bias"),
    oracle=oracle,
    lowerings=(of_product, of_biased_product),
    traits=Traits(floats=(Trait.SUMS, Trait.COMPOSED, Trait.ADDS_ONE), factors=2, approximated=3.0),
)
