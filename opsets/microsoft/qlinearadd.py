"""com.microsoft::QLinearAdd: the sum of quantized tensors, each with a scale of its own, quantized."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait

Array = np.ndarray[Any, Any]


def oracle(
    what: Plain,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array,
) -> Array:
    """QLinearAdd-1: "C = (A_scale * (A - A_zero_point) + B_scale * (B - B_zero_point))/C_scale + C_zero_point"."""
    return steps.quantized(steps.floats(a, a_scale, a_zero) + steps.floats(b, b_scale, b_zero), y_scale, y_zero)


@lowering(13, applies_if=steps.two_each, rounds=True, makes_floats=True)
def by_floats(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    """Dequantize, add, and quantize the sum."""
    one = op.DequantizeLinear(a, op.Squeeze(a_scale), op.Squeeze(a_zero))
    other = op.DequantizeLinear(b, op.Squeeze(b_scale), op.Squeeze(b_zero))
    return op.QuantizeLinear(one + other, op.Squeeze(y_scale), op.Squeeze(y_zero))


OPERATOR = steps.function_of_two("QLinearAdd", oracle, by_floats, Trait.ADDS)
