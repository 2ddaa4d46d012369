"""com.microsoft::MatMulIntegerToFloat: MatMulInteger-10 in the units of both scales, plus a bias."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opshift.opsets.operators import matmulinteger
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.shape_hints import matrices
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


def oracle(
    what: Plain,
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    a_zero: Array | None = None,
    b_zero: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """MatMulIntegerToFloat-1: the product of both matrices less their zero points, times both scales."""
    total = matmulinteger.oracle(what, a, b, a_zero, b_zero).astype(np.float64)
    y = total * (a_scale.astype(np.float64) * b_scale)
    return np.asarray(y if bias is None else y + bias).astype(a_scale.dtype)


def form(biased: bool, scale: int, bias: int) -> Callable[[Plain, Operands], Reason | None]:
    """Return what holds with, or without, the bias at a place, where the scale at another is one number."""

    def applies_if(what: Plain, operands: Operands) -> Reason | None:
        if (operands[bias] is not None) != biased:
            return Reason("")
        one = operands[scale] or Facts()
        if one.size is None:
            return Reason("the shape of the scale of A is unknown", missing=True)
        if one.dtype is None:
            return Reason("the element type of the scale of A is unknown", missing=True)
        return None if one.size == 1 else Reason("A has more than one scale, of which onnxruntime takes one")

    return applies_if


def _to(what: Plain, operands: Operands) -> Mapping[str, Any]:
    return {"to": operands[2].dtype if operands[2] else None}


@lowering(13, applies_if=form(False, 2, 6), bind=_to, rounds=True)
def scaled(a, b, a_scale, b_scale, a_zero, b_zero, bias, to: int):
    """Multiply integers, then scale the sums."""
    total = op.MatMulInteger(a, b, a_zero, b_zero)
    return op.Cast(total, to=to) * (a_scale * b_scale)


@lowering(13, applies_if=form(True, 2, 6), bind=_to, rounds=True)
def scaled_and_shifted(a, b, a_scale, b_scale, a_zero, b_zero, bias, to: int):
    """Multiply integers, scale the sums, and add the bias."""
    total = op.MatMulInteger(a, b, a_zero, b_zero)
    return op.Cast(total, to=to) * (a_scale * b_scale) + bias


OPERATOR = Operator(
    name="MatMulIntegerToFloat",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("A", "B", "a_scale", "b_scale", "a_zero_point", "b_zero_point", "bias"),
    oracle=oracle,
    lowerings=(scaled, scaled_and_shifted),
    refused="more than one scale of A, as in the kernel",
    traits=Traits(floats=(Trait.MULTIPLIES, Trait.ADDS), equal_dims=matrices, byte_factors=(0, 1)),
)
