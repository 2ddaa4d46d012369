"""com.microsoft::QLinearAveragePool: averages of windows of quantized values, quantized."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.families.axes import first
from opshift.opsets.operators import averagepool
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Trait

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QLinearAveragePool:
    """The attributes of AveragePool, and whether channels are the last axis."""

    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    channels_last: int = 0
    count_include_pad: int = 0
    kernel_shape: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


_FIELDS = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def _fields(what: QLinearAveragePool) -> dict[str, Any]:
    return {name: getattr(what, name) for name in _FIELDS}


def _lift(attributes: Mapping[str, Any]) -> QLinearAveragePool:
    return QLinearAveragePool(**{name: value for name, value in attributes.items() if value is not None})


def oracle(
    what: QLinearAveragePool, x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array | None
) -> Array:
    """QLinearAveragePool-1: "consumes an input tensor X and applies average pooling"."""
    none = np.zeros((), x.dtype)
    values = steps.floats(x, x_scale, none if x_zero is None else x_zero).astype(np.float64)
    moved = np.moveaxis(values, -1, 1) if what.channels_last else values
    y = averagepool.oracle(averagepool.AveragePool(**_fields(what)), moved)
    made = np.moveaxis(y, 1, -1) if what.channels_last else y
    return steps.quantized(made, y_scale, none if y_zero is None else y_zero)


def _of(last: bool) -> Callable[[QLinearAveragePool, Operands], Reason | None]:
    def applies_if(what: QLinearAveragePool, operands: Operands) -> Reason | None:
        if bool(what.channels_last) != last:
            return Reason("")
        if last and first(operands).rank is None:
            return Reason("the rank is unknown", missing=True)
        return steps.one_each(what, operands)

    return applies_if


def _bind(what: QLinearAveragePool, operands: Operands) -> Mapping[str, Any]:
    fields = {name: None if value == () else value for name, value in _fields(what).items()}
    return {**fields, "pads": None if what.auto_pad != "NOTSET" else fields["pads"]}


def _orders(what: QLinearAveragePool, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    return {"into": (0, rank - 1, *range(1, rank - 1)), "back": (0, *range(2, rank), 1)}


@lowering(13, applies_if=_of(True), bind=_orders)
def transposed(x, x_scale, x_zero, y_scale, y_zero, into: Sequence[int], back: Sequence[int]):
    """Move the channels in front of the windows' axes, and back."""
    y = meaning.Same(op.Transpose(x, perm=into), x_scale, x_zero, y_scale, y_zero, channels_last=0)
    return op.Transpose(y, perm=back)


@lowering(13, applies_if=_of(False), bind=_bind, rounds=True, makes_floats=True)
def by_floats(
    x, x_scale, x_zero, y_scale, y_zero, auto_pad: str, ceil_mode: int, count_include_pad: int,
    kernel_shape: Sequence[int], pads: Sequence[int], strides: Sequence[int],
):  # fmt: skip
    """Dequantize, take AveragePool, and quantize the result."""
    values = op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero))
    y = op.AveragePool(
        values, auto_pad=auto_pad, ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return op.QuantizeLinear(y, op.Squeeze(y_scale), op.Squeeze(y_zero))


OPERATOR = steps.function_of_one(
    "QLinearAveragePool",
    QLinearAveragePool,
    oracle,
    by_floats,
    transposed,
    floats=(Trait.QUANTIZES,),
    operands=("X", "x_scale", "x_zero_point", "y_scale", "y_zero_point"),
    lift=_lift,
    refused="a zero point that is left out; more than one scale",
)
