"""com.microsoft::QLinearSigmoid: Sigmoid of quantized values, quantized."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import Plain

Array = np.ndarray[Any, Any]


def oracle(what: Plain, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Array:
    """QLinearSigmoid-1: "f(x) = quantize(Sigmoid(dequantize(x)))"."""
    y = 1 / (1 + np.exp(-steps.floats(x, x_scale, x_zero)))
    return steps.quantized(y, y_scale, y_zero)


@lowering(13, applies_if=steps.one_each, rounds=True, makes_floats=True)
def by_floats(x, x_scale, x_zero, y_scale, y_zero):
    """Dequantize, apply Sigmoid, and quantize the result."""
    y = op.Sigmoid(op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero)))
    return op.QuantizeLinear(y, op.Squeeze(y_scale), op.Squeeze(y_zero))


OPERATOR = steps.function_of_one("QLinearSigmoid", Plain, oracle, by_floats)
