"""com.microsoft::QLinearWhere: Where of quantized values, each with a scale of its own, quantized."""

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


def oracle(
    what: Plain,
    condition: Array,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    y: Array,
    y_scale: Array,
    y_zero: Array,
    z_scale: Array,
    z_zero: Array,
) -> Array:
    """QLinearWhere-1: "Return elements, either from X or Y, depending on condition"."""
    chosen = np.where(condition, steps.floats(x, x_scale, x_zero), steps.floats(y, y_scale, y_zero))
    return steps.quantized(chosen, z_scale, z_zero)


@lowering(
    13,
    applies_if=lambda what, operands: steps.whole(operands, (2, 5, 7), (3, 6, 8)),
    rounds=True,
    makes_floats=True,
)
def by_floats(condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero):
    """Dequantize, select, and quantize the result."""
    one = op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero))
    other = op.DequantizeLinear(y, op.Squeeze(y_scale), op.Squeeze(y_zero))
    return op.QuantizeLinear(op.Where(condition, one, other), op.Squeeze(z_scale), op.Squeeze(z_zero))


OPERATOR = Operator(
    name="QLinearWhere",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("condition", "X", "x_scale", "x_zero_point", "Y", "y_scale", "y_zero_point", "z_scale", "z_zero_point"),
    oracle=oracle,
    lowerings=(by_floats,),
    adversarial=steps.steady,
    nan_defined=lambda what, operands: False,
    refused="more than one scale",
    traits=Traits(scales=(2, 5, 7)),
)
