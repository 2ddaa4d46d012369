"""com.microsoft::QLinearGlobalAveragePool: the average of each channel of quantized values, quantized."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Trait

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QLinearGlobalAveragePool:
    """Whether channels are the last axis, or the second."""

    channels_last: int = 0


def oracle(
    what: QLinearGlobalAveragePool, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array
) -> Array:
    """QLinearGlobalAveragePool-1: "applies Average pooling across the values in the same channel"."""
    axes = tuple(range(1, x.ndim - 1) if what.channels_last else range(2, x.ndim))
    if x.ndim < 3 or 0 in (x.shape[axis] for axis in axes):
        raise ValueError("there are no elements to be averaged")
    return steps.quantized(
        steps.floats(x, x_scale, x_zero).mean(axis=axes, keepdims=True, dtype=np.float64), y_scale, y_zero
    )


def _of(last: bool) -> Callable[[QLinearGlobalAveragePool, Operands], Reason | None]:
    def applies_if(what: QLinearGlobalAveragePool, operands: Operands) -> Reason | None:
        if bool(what.channels_last) != last:
            return Reason("")
        if last and first(operands).rank is None:
            return Reason("the rank is unknown", missing=True)
        return steps.one_each(what, operands)

    return applies_if


@lowering(13, applies_if=_of(False), rounds=True, makes_floats=True)
def of_channels(x, x_scale, x_zero, y_scale, y_zero):
    """Dequantize, take GlobalAveragePool, and quantize the result."""
    values = op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero))
    return op.QuantizeLinear(op.GlobalAveragePool(values), op.Squeeze(y_scale), op.Squeeze(y_zero))


def _axes(what: QLinearGlobalAveragePool, operands: Operands) -> Mapping[str, Any]:
    return {"axes": tuple(range(1, (first(operands).rank or 0) - 1))}


@lowering(18, applies_if=_of(True), bind=_axes, rounds=True, makes_floats=True)
def of_last_channels(x, x_scale, x_zero, y_scale, y_zero, axes: Sequence[int]):
    """Dequantize, take the means of the axes between, and quantize them."""
    values = op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero))
    return op.QuantizeLinear(op.ReduceMean(values, axes, keepdims=1), op.Squeeze(y_scale), op.Squeeze(y_zero))


OPERATOR = steps.function_of_one(
    "QLinearGlobalAveragePool",
    QLinearGlobalAveragePool,
    oracle,
    of_channels,
    of_last_channels,
    floats=(Trait.QUANTIZES,),
    operands=("X", "x_scale", "x_zero_point", "y_scale", "y_zero_point"),
)
