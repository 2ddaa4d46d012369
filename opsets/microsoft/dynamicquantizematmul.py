"""com.microsoft::DynamicQuantizeMatMul: floats times quantized weights, the floats quantized by their range before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.opsets.microsoft import matmulintegertofloat
from opshift.opsets.operators import dynamicquantizelinear
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.shape_hints import matrices
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


def oracle(
    what: Plain,
    a: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """DynamicQuantizeMatMul-1: DynamicQuantizeLinear of A, then MatMulIntegerToFloat."""
    q, scale, zero = dynamicquantizelinear.oracle(what, a)
    return matmulintegertofloat.oracle(what, q, b, scale, b_scale, zero, b_zero, bias).astype(a.dtype)


@lowering(13, rounds=True)
def by_range(a, b, b_scale, b_zero, bias):
    """Quantize A by DynamicQuantizeLinear, then multiply integers."""
    q, scale, zero = op.DynamicQuantizeLinear(a)
    return meaning.MatMulIntegerToFloat(q, b, scale, b_scale, zero, b_zero, bias)


def adversarial(rng: np.random.Generator, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw what DynamicQuantizeLinear can quantize."""
    return {**inputs, "A": dynamicquantizelinear.adversarial(rng, {"x": inputs["A"]})["x"]}


OPERATOR = Operator(
    name="DynamicQuantizeMatMul",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("A", "B", "b_scale", "b_zero_point", "bias"),
    oracle=oracle,
    lowerings=(by_range,),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    traits=Traits(floats=(Trait.SUMS,), equal_dims=matrices, factors=2, byte_factors=(0, 1)),
)
