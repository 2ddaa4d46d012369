"""com.microsoft::BiasAdd: the sum of a tensor, a bias, and a tensor of its shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import lowering
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


def oracle(what: Plain, x: Array, bias: Array, skip: Array) -> Array:
    """BiasAdd-1: "Add input with bias, then add residual inputs"."""
    return x + bias + skip


@lowering(13)
def added(x, bias, skip):
    """Add the bias, then the other tensor."""
    return x + bias + skip


OPERATOR = Operator(
    name="BiasAdd",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("X", "bias", "skip"),
    oracle=oracle,
    lowerings=(added,),
    traits=Traits(floats=(Trait.SUMS,), equal_dims=broadcast),
)
