"""com.microsoft::QLinearLeakyRelu: LeakyRelu of quantized values, quantized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QLinearLeakyRelu:
    """Alpha, the factor of negative values."""

    alpha: float = 0.01


def oracle(what: QLinearLeakyRelu, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Array:
    """QLinearLeakyRelu-1: "f(x) = quantize(alpha * dequantize(x)) for dequantize(x) < 0", else as it is."""
    y = steps.floats(x, x_scale, x_zero)
    return steps.quantized(np.where(y < 0, np.float32(what.alpha) * y, y), y_scale, y_zero)


def _alpha(what: QLinearLeakyRelu, operands: Operands) -> Mapping[str, Any]:
    return {"alpha": what.alpha}


@lowering(
    13,
    applies_if=steps.one_each,
    bind=_alpha,
    rounds=True,
    makes_floats=True,
)
def by_floats(x, x_scale, x_zero, y_scale, y_zero, alpha: float):
    """Dequantize, apply LeakyRelu, and quantize the result."""
    values = op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero))
    return op.QuantizeLinear(op.LeakyRelu(values, alpha=alpha), op.Squeeze(y_scale), op.Squeeze(y_zero))


OPERATOR = steps.function_of_one("QLinearLeakyRelu", QLinearLeakyRelu, oracle, by_floats)
