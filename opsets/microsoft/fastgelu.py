"""com.microsoft::FastGelu: Gelu-20 by the hyperbolic tangent, of the input plus a bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.operators import gelu
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits


def oracle(what: Plain, x: np.ndarray[Any, Any], bias: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """FastGelu-1: "GELU (Gaussian Error Linear Unit) approximation", "The bias is optional"."""
    return gelu.oracle(gelu.Gelu("tanh"), x if bias is None else x + bias)


def _unbiased(what: Plain, operands: Operands) -> Reason | None:
    return None if operands[1] is None else Reason("there is a bias")


def _biased(what: Plain, operands: Operands) -> Reason | None:
    return Reason("there is no bias") if operands[1] is None else None


@lowering(20, applies_if=_unbiased, rounds=True)
def by_gelu(x, bias):
    """Write it as Gelu by the hyperbolic tangent."""
    return op.Gelu(x, approximate="tanh")


@lowering(20, applies_if=_biased, rounds=True)
def of_sum(x, bias):
    """Add the bias, then take Gelu by the hyperbolic tangent."""
    return op.Gelu(x + bias, approximate="tanh")


OPERATOR = Operator(
    name="FastGelu",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("X", "bias"),
    oracle=oracle,
    lowerings=(by_gelu, of_sum),
    traits=Traits(floats=(Trait.ADDS, Trait.COMPOSED)),
)
