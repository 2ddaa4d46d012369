"""com.microsoft::QLinearSigmoid: Sigmoid of quantized values, quantized."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Traits

Array = np.ndarray[Any, Any]


def oracle(what: Plain, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Array:
    """QLinearSigmoid-1: "f(x) = quantize(Sigmoid(dequantize(x)))"."""
    y = 1 / (1 + np.exp(-steps.floats(x, x_scale, x_zero)))
    return steps.quantized(y, y_scale, y_zero)


@lowering(13, applies_if=lambda what, operands: steps.whole(operands, (1, 3), (2, 4)), rounds=True, makes_floats=True)
def by_floats(x, x_scale, x_zero, y_scale, y_zero):
    """Take Sigmoid of what the values stand for, and quantize it."""
    y = op.Sigmoid(op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero)))
    return op.QuantizeLinear(y, op.Squeeze(y_scale), op.Squeeze(y_zero))


OPERATOR = Operator(
    name="QLinearSigmoid",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("X", "X_scale", "X_zero_point", "Y_scale", "Y_zero_point"),
    oracle=oracle,
    lowerings=(by_floats,),
    adversarial=steps.steady,
    nan_defined=lambda what, operands: False,
    refused="a zero point that is left out, for which the kernel ends the process; more than one scale",
    traits=Traits(scales=(1, 3)),
)
