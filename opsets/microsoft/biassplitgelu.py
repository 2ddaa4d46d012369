"""com.microsoft::BiasSplitGelu: half of a sum, multiplied by Gelu-20 of its other half."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import of_types
from opshift.opsets.operators import gelu
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import NearOne, Trait, Traits

Array = np.ndarray[Any, Any]


def oracle(what: Plain, x: Array, bias: Array) -> Array:
    """BiasSplitGelu-1: "after adding bias, hidden state is sliced into two tensors of same size".

    "then left tensor multiplies the Gelu activation result of right tensor".
    """
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    return np.asarray((left * gelu.oracle(gelu.Gelu(), right)).astype(x.dtype))


@lowering(20, applies_if=of_types(TensorProto.FLOAT), rounds=True)
def of_halves(x, bias):
    """Add the bias, split the sum, and multiply one half by Gelu of the other."""
    left, right = op.Split(x + bias, axis=-1, num_outputs=2)
    return left * op.Gelu(right)


@lowering(20, applies_if=of_types(TensorProto.FLOAT16), rounds=True)
def of_narrow_halves(x, bias):
    """Do the same, with Gelu in float: in float16, small results of Gelu lose their digits."""
    left, right = op.Split(op.Cast(x + bias, to=1), axis=-1, num_outputs=2)
    return op.CastLike(left * op.Gelu(right), x)


def _shape(what: Plain, operands: Operands) -> tuple[Dim, ...] | None:
    shape = first(operands).shape
    last = shape[-1] if shape else None
    return (*shape[:-1], last // 2 if isinstance(last, int) else None) if shape else None


OPERATOR = Operator(
    name="BiasSplitGelu",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("X", "bias"),
    oracle=oracle,
    shape=_shape,
    lowerings=(of_halves, of_narrow_halves),
    traits=Traits(
        floats=(Trait.SUMS, Trait.COMPOSED, Trait.ADDS_ONE),
        # Gelu multiplies 1 + erf by half of an x above -5.6: erf(x / sqrt(2)) is -1 in float below.
        near_one=NearOne(factor=2.8, multiplied=True),
        approximated=3.0,
        equal_dims=broadcast,
    ),
)
