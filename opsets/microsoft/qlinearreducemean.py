"""com.microsoft::QLinearReduceMean: means of quantized values along axes, quantized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Trait

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QLinearReduceMean:
    """The axes, and whether they stay with length 1."""

    axes: tuple[int, ...] = ()
    keepdims: int = 1


def oracle(what: QLinearReduceMean, x: Array, x_scale: Array, x_zero: Array, y_scale: Array, y_zero: Array) -> Array:
    """QLinearReduceMean-1: "Computes the mean of the low-precision input tensor's element along the provided axes"."""
    axes = tuple(axis % x.ndim for axis in what.axes)
    if 0 in (x.shape[axis] for axis in axes):
        raise ValueError("there are no elements to be averaged")
    means = steps.floats(x, x_scale, x_zero).mean(axis=axes, keepdims=bool(what.keepdims), dtype=np.float64)
    return steps.quantized(means, y_scale, y_zero)


def _axes(what: QLinearReduceMean, operands: Operands) -> Mapping[str, Any]:
    return {"axes": what.axes, "keepdims": what.keepdims}


@lowering(18, applies_if=steps.one_each, bind=_axes, rounds=True, makes_floats=True)
def by_floats(x, x_scale, x_zero, y_scale, y_zero, axes: Sequence[int], keepdims: int):
    """Dequantize, take the means, and quantize them."""
    values = op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero))
    return op.QuantizeLinear(op.ReduceMean(values, axes, keepdims=keepdims), op.Squeeze(y_scale), op.Squeeze(y_zero))


OPERATOR = steps.function_of_one(
    "QLinearReduceMean",
    QLinearReduceMean,
    oracle,
    by_floats,
    floats=(Trait.QUANTIZES,),
    operands=("data", "data_scale", "data_zero_point", "reduced_scale", "reduced_zero_point"),
    refused="a zero point that is left out; more than one scale",
)
