"""com.microsoft::QLinearSoftmax: Softmax of quantized values, quantized."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families import steps
from opshift.opsets.families.axes import first
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QLinearSoftmax:
    """The axis of a row, or, by the Softmax of an opset below 13, the first of a row that holds all axes after it."""

    axis: int = -1
    opset: int = 13


def oracle(
    what: QLinearSoftmax, x: Array, x_scale: Array, x_zero: Array | None, y_scale: Array, y_zero: Array
) -> Array:
    """The kernel of onnxruntime 1.32.0 multiplies by as many steps as a whole number of which make 1 at most.

    QLinearSoftmax-1: "computes the normalized exponential values for the given input", as an opset does. The kernel
    reads powers of float from a table, adds them up in float, one after the other, and rounds once after the division.
    """
    axes = (what.axis % x.ndim,) if what.opset >= 13 else tuple(range(what.axis % x.ndim, x.ndim))
    rows = np.moveaxis(x, axes, range(-len(axes), 0)).astype(np.int32)
    shape, length = rows.shape, math.prod(x.shape[axis] for axis in axes)
    rows = rows.reshape(*shape[: len(shape) - len(axes)], length)
    below = rows - rows.max(axis=-1, keepdims=True, initial=np.iinfo(x.dtype).min)
    powers = (np.exp(below * np.float64(x_scale)) * unit(length)).astype(np.float32)
    totals = np.add.accumulate(powers, axis=-1)[..., -1:] if length else powers
    count = np.floor(np.float32(1) / y_scale.astype(np.float32))
    ends = np.iinfo(y_zero.dtype)
    whole = np.rint(powers.astype(np.float64) * count / totals) + y_zero
    made = np.clip(whole, ends.min, ends.max).astype(y_zero.dtype)
    return np.moveaxis(made.reshape(shape), range(-len(axes), 0), axes)


def unit(length: int) -> float:
    """Return what the kernel of onnxruntime 1.32.0 has as the power of the largest of so many values, in [1, 2).

    It is exp(log(m / length) - 5), where m is the largest float, the logarithm is one of float, and the result is one
    too. A power of two less changes nothing. It decides how the sum is rounded, and with it a sixth of 255 steps.
    """
    if not length:
        return 1.0
    logarithm = np.float32(math.log(float(np.finfo(np.float32).max / np.float32(length))))
    return 2 * math.frexp(float(np.float32(math.exp(max(0.0, float(logarithm) - 5)))))[0]


def _axes(what: QLinearSoftmax, operands: Operands) -> tuple[int, ...]:
    """Return the axes of a row, none where they are unknown."""
    rank = first(operands).rank
    if what.opset >= 13:
        return (what.axis,)
    return tuple(range(what.axis % rank, rank)) if rank else ()


def _length(what: QLinearSoftmax, operands: Operands) -> int:
    """Return how many values are in a row, 0 where that is unknown."""
    dims = [first(operands).dim(axis) for axis in _axes(what, operands)]
    known = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(known) if dims and len(known) == len(dims) else 0


def _of_known_length(rows: bool) -> Callable[[QLinearSoftmax, Operands], Reason | None]:
    def applies_if(what: QLinearSoftmax, operands: Operands) -> Reason | None:
        if (what.opset < 13) != rows:
            return Reason("")
        if not _length(what, operands):
            return Reason("the length of a row is unknown", missing=True)
        return steps.whole(operands, (1, 3), (4,))

    return applies_if


def _form(rows: bool, zero: bool) -> Callable[[QLinearSoftmax, Operands], Reason | None]:
    def applies_if(what: QLinearSoftmax, operands: Operands) -> Reason | None:
        if ((what.opset < 13), operands[2] is not None) != (rows, zero) or _length(what, operands):
            return Reason("")
        if rows and what.axis < 0 and first(operands).rank is None:
            return Reason("the rank is unknown", missing=True)
        return steps.whole(operands, (1, 3), (2, 4) if zero else (4,))

    return applies_if


def _axis(what: QLinearSoftmax, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank
    return {"axis": what.axis % rank if rank and what.opset < 13 else what.axis}


def _typed(what: QLinearSoftmax, operands: Operands) -> Reason | None:
    if operands[2] is not None or _length(what, operands):
        return Reason("")
    unknown = (operands[4] or Facts()).dtype is None
    return Reason("the element type is unknown", missing=True) if unknown else None


def _row(what: QLinearSoftmax, operands: Operands) -> Mapping[str, Any]:
    length = _length(what, operands)
    axis = int(_axis(what, operands)["axis"])
    return {"axis": axis, "axes": (axis,), "last": (length - 1,), "largest": unit(length)}


def _flat(what: QLinearSoftmax, operands: Operands) -> Mapping[str, Any]:
    return {name: value for name, value in _row(what, operands).items() if name != "axes"}


@lowering(18, applies_if=_of_known_length(False), bind=_row, rounds=True, makes_floats=True)
def as_the_kernel(
    x, x_scale, x_zero, y_scale, y_zero, axis: int, axes: Sequence[int], last: Sequence[int], largest: float
):
    """Divide the power of each value by their sum in the kernel's order, and round once."""
    values = op.Cast(x, to=TensorProto.FLOAT)
    below = values - op.ReduceMax(values, axes, keepdims=1)
    powers = op.Exp(below * op.Squeeze(x_scale)) * largest
    total = op.Gather(op.CumSum(powers, axis), last, axis=axis)
    count = op.Floor(op.Reciprocal(op.Squeeze(y_scale)))
    wide = op.Cast(powers, to=TensorProto.DOUBLE) * op.Cast(count, to=TensorProto.DOUBLE)
    whole = op.Cast(op.Round(wide / op.Cast(total, to=TensorProto.DOUBLE)), to=TensorProto.FLOAT)
    return op.QuantizeLinear(whole, 1.0, op.Squeeze(y_zero))


@lowering(18, applies_if=_of_known_length(True), bind=_flat, rounds=True, makes_floats=True)
def rows_as_the_kernel(x, x_scale, x_zero, y_scale, y_zero, axis: int, last: Sequence[int], largest: float):
    """Do the same with rows that hold all axes from one on."""
    values = op.Flatten(op.Cast(x, to=TensorProto.FLOAT), axis=axis)
    below = values - op.ReduceMax(values, [1], keepdims=1)
    powers = op.Exp(below * op.Squeeze(x_scale)) * largest
    total = op.Gather(op.CumSum(powers, 1), last, axis=1)
    count = op.Floor(op.Reciprocal(op.Squeeze(y_scale)))
    wide = op.Cast(powers, to=TensorProto.DOUBLE) * op.Cast(count, to=TensorProto.DOUBLE)
    whole = op.Cast(op.Round(wide / op.Cast(total, to=TensorProto.DOUBLE)), to=TensorProto.FLOAT)
    made = op.QuantizeLinear(whole, 1.0, op.Squeeze(y_zero))
    return op.Reshape(made, op.Shape(x))


@lowering(18, applies_if=_typed)
def from_zero(x, x_scale, x_zero, y_scale, y_zero):
    """Add the zero point that is left out."""
    return meaning.Same(x, x_scale, op.CastLike(0, x), y_scale, y_zero)


@lowering(13, applies_if=_form(False, True), bind=_axis, rounds=True, makes_floats=True)
def along_an_axis(x, x_scale, x_zero, y_scale, y_zero, axis: int):
    """Dequantize, take Softmax, and quantize the result."""
    values = op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero))
    step = op.Reciprocal(op.Floor(op.Reciprocal(op.Squeeze(y_scale))))
    return op.QuantizeLinear(op.Softmax(values, axis=axis), step, op.Squeeze(y_zero))


@lowering(11, applies_if=_form(True, True), bind=_axis, rounds=True, makes_floats=True)
def in_rows(x, x_scale, x_zero, y_scale, y_zero, axis: int):
    """Dequantize, take Softmax-11, whose rows hold all axes from one on, and quantize the result."""
    values = op.DequantizeLinear(x, op.Squeeze(x_scale), op.Squeeze(x_zero))
    step = op.Reciprocal(op.Floor(op.Reciprocal(op.Squeeze(y_scale))))
    return op.QuantizeLinear(op.Softmax(values, axis=axis), step, op.Squeeze(y_zero))


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw scales above zero, and steps of which a whole number makes 1, or none."""
    made = dict(steps.steady(rng, feeds))
    if "y_scale" in made:
        made["y_scale"] = np.full_like(made["y_scale"], rng.choice([1 / 256, 0.0039, 1 / 255, 0.01, 0.125]))
    return made


OPERATOR = Operator(
    name="QLinearSoftmax",
    domain=MICROSOFT,
    meaning=QLinearSoftmax,
    versions=(Version(1),),
    operands=("X", "X_scale", "x_zero_point", "y_scale", "y_zero_point"),
    oracle=oracle,
    lowerings=(as_the_kernel, rows_as_the_kernel, from_zero, along_an_axis, in_rows),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    refused="more than one scale",
    traits=Traits(floats=(Trait.QUANTIZES,), scales=(1, 3), meaningless=steps.far_apart(1, 3)),
)
