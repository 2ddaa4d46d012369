"""QLinearConv: the convolution of a quantized image, quantized. Since version 10."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.convolutions import Convolution, by_channel, conv_attributes, sums
from opshift.opsets.operators import matmulinteger
from opshift.opsets.operators.matmulinteger import Array
from opshift.opsets.operators.qlinearmatmul import ends, one_each, one_or_each, quantized, requantized
from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.quantized_form import (
    Quantized,
    QuantizedForm,
    Read,
    bias,
    of_bytes,
    rounds_little,
    sums_fit,
)
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class QLinearConv(Convolution):
    """The position of the kernel, and the groups of channels."""


def oracle(
    what: QLinearConv,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    w: Array,
    w_scale: Array,
    w_zero: Array,
    y_scale: Array,
    y_zero: Array,
    b: Array | None = None,
) -> Array:
    """QLinearConv-10: "The bias must be quantized using scale = x_scale * w_scale and zero_point = 0"."""
    left = x.astype(np.int64) - x_zero.reshape(())
    right = w.astype(np.int64) - by_channel(w_zero, w.ndim)
    total = sums(what, left, right)
    behind = (-1, *(1,) * (x.ndim - 2))
    total = total if b is None else total + b.astype(np.int64).reshape(behind)
    scale = w_scale.reshape(behind) if w_scale.size > 1 else w_scale.reshape(())
    factor = x_scale.reshape(()) * scale / y_scale.reshape(())
    return requantized(total, np.asarray(factor), y_zero.reshape(()))


def _of(operands: Operands, index: int) -> Facts:
    return operands[index] or Facts()


def _computed(what: QLinearConv, operands: Operands) -> Reason | None:
    if reason := quantized(operands, (0, 3, 7), (1, 4, 6)):
        return reason
    if not _rank(operands):
        return Reason("the rank of the image is unknown", missing=True)
    points = _of(operands, 5)
    # As in onnxruntime 1.32.0, whose ConvInteger and QLinearConv take one for all kernels, or equal ones.
    return None if points.rank == 0 or points.shape == (1,) else Reason("kernels may have other zero points", True)


def normal(what: QLinearConv, operands: Operands) -> tuple[QLinearConv, Operands]:
    """Have one zero point where those of all kernels are known to be equal."""
    known = _of(operands, 5).known
    if known is None or known.size < 2 or (known != known.flat[0]).any():
        return what, operands
    return what, (*operands[:5], constant(known.reshape(-1)[:1].reshape(())), *operands[6:])


def _rank(operands: Operands) -> int:
    return max((_of(operands, 0).rank or _of(operands, 3).rank or 0) - 2, 0)


def _biased(what: QLinearConv, operands: Operands) -> Reason | None:
    return Reason("it has no bias") if operands[8] is None else _computed(what, operands)


def _unbiased(what: QLinearConv, operands: Operands) -> Reason | None:
    return Reason("it has a bias") if operands[8] is not None else _computed(what, operands)


def _bind(what: QLinearConv, operands: Operands) -> Mapping[str, Any]:
    return {**conv_attributes(what), **ends(_of(operands, 7).dtype), "kernels": (-1, *(1,) * _rank(operands))}


# As onnxruntime 1.32.0 computes it: the sums in int32, the three scales as one.
@lowering(18, applies_if=_unbiased, bind=_bind)
def by_sums(
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b,
    auto_pad: str, dilations: Sequence[int], group: int, kernel_shape: Sequence[int], pads: Sequence[int],
    strides: Sequence[int], kernels: Sequence[int], low: Sequence[int], high: Sequence[int], to: int,
):  # fmt: skip
    """Convolve as integers, then scale, round, add the zero point, and keep within the type."""
    total = op.ConvInteger(
        x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip
    factor = op.Div(op.Mul(x_scale, op.Reshape(w_scale, kernels)), y_scale)
    moved = op.Add(op.Round(op.Mul(op.Cast(total, to=1), factor)), op.Cast(y_zero, to=1))
    return op.Cast(op.Clip(moved, low, high), to=to)


@lowering(18, applies_if=_biased, bind=_bind)
def by_sums_and_bias(
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b,
    auto_pad: str, dilations: Sequence[int], group: int, kernel_shape: Sequence[int], pads: Sequence[int],
    strides: Sequence[int], kernels: Sequence[int], low: Sequence[int], high: Sequence[int], to: int,
):  # fmt: skip
    """Convolve as integers and add the bias, then scale, round, add the zero point, and keep within the type."""
    total = op.ConvInteger(
        x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip
    whole = op.Cast(op.Add(total, op.Reshape(b, kernels)), to=1)
    factor = op.Div(op.Mul(x_scale, op.Reshape(w_scale, kernels)), y_scale)
    moved = op.Add(op.Round(op.Mul(whole, factor)), op.Cast(y_zero, to=1))
    return op.Cast(op.Clip(moved, low, high), to=to)


def _of_floats(what: QLinearConv, operands: Operands) -> Reason | None:
    if reason := quantized(operands, (0, 3, 7), (1, 4, 6)) or one_each(operands, (1, 2, 6, 7)):
        return reason
    if None in (_of(operands, 4).size, _of(operands, 5).size):
        return Reason("the number of the kernels' scales or zero points is unknown", missing=True)
    if not _rank(operands):
        return Reason("the rank of the image is unknown", missing=True)
    return rounds_little([_of(operands, place).known for place in (1, 4, 6)], _terms(_of(operands, 3)))


def _terms(w: Facts) -> int | None:
    """Return how many products are added up, if known."""
    sizes = [size for size in (w.shape or ())[1:] if isinstance(size, int)]
    return math.prod(sizes) if w.shape is not None and len(sizes) == len(w.shape) - 1 else None


def _kernels(what: QLinearConv, operands: Operands) -> Mapping[str, Any]:
    return {**conv_attributes(what), **one_or_each(operands)}


@lowering(18, applies_if=_of_floats, bind=_kernels, rounds=True, makes_floats=True)
def by_floats(
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b,
    auto_pad: str, dilations: Sequence[int], group: int, kernel_shape: Sequence[int], pads: Sequence[int],
    strides: Sequence[int], flat: Sequence[int], each: Sequence[int],
):  # fmt: skip
    """Dequantize, convolve floats, and quantize the result."""
    one = op.Squeeze(x_scale)
    scales = op.Expand(op.Reshape(w_scale, flat), each)
    zeros = op.Expand(op.Reshape(w_zero, flat), each)
    image = op.DequantizeLinear(x, one, op.Squeeze(x_zero))
    kernels = meaning.DequantizeLinear(w, scales, zeros, axis=0)
    bias = meaning.DequantizeLinear(b, op.Mul(scales, one), axis=0)
    y = op.Conv(
        image, kernels, bias, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides,
    )  # fmt: skip
    return op.QuantizeLinear(y, op.Squeeze(y_scale), op.Squeeze(y_zero))


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw scales above zero, as for QLinearMatMul, and a bias far from the ends of its type."""
    scales = {
        name: rng.choice([0.1, 0.5, 2, 3, 100], array.shape).astype(array.dtype)
        for name, array in feeds.items()
        if name.endswith("_scale") and array.flags.writeable
    }
    bias = {"B": feeds["B"] >> 8} if "B" in feeds and feeds["B"].flags.writeable else {}
    return {**matmulinteger.adversarial(rng, feeds), **scales, **bias}


def _why_not(what: Any, read: Sequence[Read], made: Quantized) -> Reason | None:
    x, w, *rest = read
    if reason := of_bytes((x, w), made):
        return reason
    assert isinstance(w, Quantized)
    if w.scale.size > 1 and w.axis:
        return Reason("the kernels have scales along another axis than that of the kernels")
    # As in onnxruntime 1.32.0, which takes equal ones for all kernels only.
    if (w.zero != w.zero.flat[0]).any():
        return Reason("the kernels have different zero points")
    added = bias(rest[0] if rest else None, x, w)
    if isinstance(added, Reason):
        return added
    return sums_fit((x, w), made, _terms(w.data), added)


_QUANTIZED = ("x", "x_scale", "x_zero_point", "w", "w_scale", "w_zero_point", "y_scale", "y_zero_point")

OPERATOR = Operator(
    name="QLinearConv",
    meaning=QLinearConv,
    versions=(Version(10),),
    operands=(*_QUANTIZED, "B"),
    oracle=oracle,
    normal=normal,
    lowerings=(by_sums, by_sums_and_bias, by_floats),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    traits=Traits(
        floats=(Trait.QUANTIZES,),
        unwritten=(0, 3),
        byte_factors=(0, 3),
        scales=(1, 4, 6),
        form=QuantizedForm(("x", "w", "B"), "y", _why_not),
    ),
)
