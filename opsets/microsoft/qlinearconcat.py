"""com.microsoft::QLinearConcat: Concat of quantized tensors, each with a scale of its own, quantized."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QLinearConcat:
    """The axis along which tensors are joined."""

    axis: int = 0


def oracle(what: QLinearConcat, y_scale: Array, y_zero: Array, *inputs: Array) -> Array:
    """QLinearConcat-1: "Concatenate a list of tensors into a single tensor", each followed by its scale and zero."""
    parts = [steps.floats(*inputs[place : place + 3]) for place in range(0, len(inputs), 3)]
    return steps.quantized(np.concatenate(parts, axis=what.axis), y_scale, y_zero)


def fault(what: QLinearConcat, operands: Operands) -> str | None:
    """Return what is wrong with the number of inputs."""
    return None if len(operands) > 2 and len(operands) % 3 == 2 else f"it has {len(operands)} inputs"


def _of(count: int) -> Callable[[QLinearConcat, Operands], Reason | None]:
    def applies_if(what: QLinearConcat, operands: Operands) -> Reason | None:
        if len(operands) != 2 + 3 * count:
            return Reason("")
        each = range(2, len(operands), 3)
        return steps.whole(operands, (0, *(place + 1 for place in each)), (*(place + 2 for place in each), 1))

    return applies_if


def _axis(what: QLinearConcat, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.axis}


@lowering(13, applies_if=_of(1))
def of_one(y_scale, y_zero, a, a_scale, a_zero):
    """Dequantize the values, and quantize them with the other scale."""
    values = op.DequantizeLinear(a, op.Squeeze(a_scale), op.Squeeze(a_zero))
    return op.QuantizeLinear(values, op.Squeeze(y_scale), op.Squeeze(y_zero))


@lowering(13, applies_if=_of(2), bind=_axis)
def of_two(y_scale, y_zero, a, a_scale, a_zero, b, b_scale, b_zero, axis: int):
    """Dequantize and concatenate two tensors, and quantize the result."""
    joined = op.Concat(
        op.DequantizeLinear(a, op.Squeeze(a_scale), op.Squeeze(a_zero)),
        op.DequantizeLinear(b, op.Squeeze(b_scale), op.Squeeze(b_zero)),
        axis=axis,
    )
    return op.QuantizeLinear(joined, op.Squeeze(y_scale), op.Squeeze(y_zero))


@lowering(13, applies_if=_of(3), bind=_axis)
def of_three(y_scale, y_zero, a, a_scale, a_zero, b, b_scale, b_zero, c, c_scale, c_zero, axis: int):
    """Dequantize and concatenate three tensors, and quantize the result."""
    joined = op.Concat(
        op.DequantizeLinear(a, op.Squeeze(a_scale), op.Squeeze(a_zero)),
        op.DequantizeLinear(b, op.Squeeze(b_scale), op.Squeeze(b_zero)),
        op.DequantizeLinear(c, op.Squeeze(c_scale), op.Squeeze(c_zero)),
        axis=axis,
    )
    return op.QuantizeLinear(joined, op.Squeeze(y_scale), op.Squeeze(y_zero))


@lowering(13, applies_if=_of(4), bind=_axis)
def of_four(
    y_scale, y_zero, a, a_scale, a_zero, b, b_scale, b_zero, c, c_scale, c_zero, d, d_scale, d_zero, axis: int
):  # fmt: skip
    """Dequantize and concatenate four tensors, and quantize the result."""
    joined = op.Concat(
        op.DequantizeLinear(a, op.Squeeze(a_scale), op.Squeeze(a_zero)),
        op.DequantizeLinear(b, op.Squeeze(b_scale), op.Squeeze(b_zero)),
        op.DequantizeLinear(c, op.Squeeze(c_scale), op.Squeeze(c_zero)),
        op.DequantizeLinear(d, op.Squeeze(d_scale), op.Squeeze(d_zero)),
        axis=axis,
    )
    return op.QuantizeLinear(joined, op.Squeeze(y_scale), op.Squeeze(y_zero))


@lowering(
    13,
    applies_if=lambda what, operands: None if len(operands) > 2 + 3 * 4 else Reason(""),
    bind=_axis,
    variadic=True,
)
def of_more(
    y_scale, y_zero, a, a_scale, a_zero, b, b_scale, b_zero, c, c_scale, c_zero, d, d_scale, d_zero, between, axis: int
):  # fmt: skip
    """Join four tensors, join the others, and concatenate both, which have one scale then."""
    joined = meaning.Same(
        y_scale, y_zero, a, a_scale, a_zero, b, b_scale, b_zero, c, c_scale, c_zero, d, d_scale, d_zero
    )
    return op.Concat(joined, meaning.Same(y_scale, y_zero, between), axis=axis)


def no_scales(inputs: Sequence[Any]) -> bool:
    """Return whether a scale is no number above zero, or so far from the other that quotients overflow."""
    scales = [inputs[0], *inputs[3::3]]
    known = [one.astype(np.float64) for one in scales if isinstance(one, np.ndarray) and one.size]
    if not known:
        return False
    least, most = min(one.min() for one in known), max(one.max() for one in known)
    return not (np.isfinite(most) and least > 0 and most / least < 2.0**20)


OPERATOR = Operator(
    name="QLinearConcat",
    domain=MICROSOFT,
    meaning=QLinearConcat,
    versions=(Version(1),),
    operands=(),
    variadic=True,
    oracle=oracle,
    fault=fault,
    lowerings=(of_one, of_two, of_three, of_four, of_more),
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    refused="more than one scale for one of the tensors",
    traits=Traits(meaningless=no_scales),
)
