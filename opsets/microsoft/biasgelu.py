"""com.microsoft::BiasGelu: Gelu-20 of a sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.operators import gelu
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits


def oracle(what: Plain, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """BiasGelu-1: "It's an extension of Gelu. It takes the sum of input A and bias input B as the input"."""
    return gelu.oracle(gelu.Gelu(), a + b)


@lowering(20, rounds=True)
def of_sum(a, b):
    """Add the bias, then take Gelu."""
    return op.Gelu(a + b)


OPERATOR = Operator(
    name="BiasGelu",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("A", "B"),
    oracle=oracle,
    lowerings=(of_sum,),
    traits=Traits(floats=(Trait.ADDS, Trait.COMPOSED), approximated=3.0),
)
