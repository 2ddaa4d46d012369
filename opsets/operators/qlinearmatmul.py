"""QLinearMatMul: the product of two quantized matrices, quantized. Versions 10 and 21, which adds types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.granularity import RANGES
from opshift.opsets.operators import matmulinteger
from opshift.opsets.operators.gemm import Gemm
from opshift.opsets.operators.matmulinteger import Array, by_row
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.quantized_form import Quantized, QuantizedForm, Read, of_bytes, rounds_little, sums_fit
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED


def requantized(total: Array, factor: Array, zero: Array) -> Array:
    """QLinearMatMul-10: "y = saturate((x / y_scale) + y_zero_point)", "rounding to nearest ties to even"."""
    ends = np.iinfo(zero.dtype)
    whole = np.rint(total.astype(np.float32) * factor.astype(np.float32)).astype(np.float64)
    return np.asarray(np.clip(whole + zero.astype(np.float64), ends.min, ends.max)).astype(zero.dtype)


def _column(one: Array, a: Array) -> Array:
    return one[:, None] if one.ndim == 1 and a.ndim > 1 and len(one) > 1 else one


def oracle(
    what: Plain,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array,
) -> Array:
    """QLinearMatMul-10: "consumes two quantized input tensors, their scales and zero points"."""
    total = matmulinteger.oracle(what, a, b, a_zero, b_zero)
    return requantized(total, _column(a_scale, a) * b_scale / y_scale, y_zero)


def _of(operands: Operands, index: int) -> Facts:
    return operands[index] or Facts()


def quantized(operands: Operands, data: tuple[int, ...], scales: tuple[int, ...]) -> Reason | None:
    """Hold for operands of 8 bits whose scales are float."""
    dtypes = [_of(operands, index).dtype for index in data]
    if None in dtypes or None in [_of(operands, index).dtype for index in scales]:
        return Reason("the types of the inputs or scales are unknown", missing=True)
    if any(dtype not in (TensorProto.UINT8, TensorProto.INT8) for dtype in dtypes):
        return Reason("only integers of 8 bits can be computed with")
    floats = all(_of(operands, index).dtype == TensorProto.FLOAT for index in scales)
    return None if floats else Reason("it multiplies in float only")


def one_each(operands: Operands, places: tuple[int, ...]) -> Reason | None:
    """Require one scale, or one zero point, for all elements."""
    sizes = [_of(operands, place).size for place in places]
    if None in sizes:
        return Reason("it is unknown whether there is one scale and zero point for all elements", missing=True)
    return None if {*sizes} == {1} else Reason("there is more than one scale or zero point")


def _integers(what: Plain, operands: Operands) -> Reason | None:
    if reason := quantized(operands, (0, 3, 7), (1, 4, 6)):
        return reason
    axes = by_row(what, operands, 0, 1)
    return axes if isinstance(axes, Reason) else None


def ends(dtype: int | None) -> Mapping[str, Any]:
    """Return what a lowering needs to keep within a type: its ends as floats, and its number."""
    low, high = (Tensor(np.array(end, np.float32)) for end in RANGES[dtype or 0])
    return {"low": low, "high": high, "to": dtype}


def _bind(what: Plain, operands: Operands) -> Mapping[str, Any]:
    axes = (1,) if by_row(what, operands, 0, 1) else ()
    return {**ends(_of(operands, 7).dtype), "axes": axes}


# As onnxruntime 1.32.0 computes it: the sums in int32, the three scales as one.
@lowering(18, applies_if=_integers, bind=_bind)
def by_sums(
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero,
    axes: Sequence[int], low: Sequence[int], high: Sequence[int], to: int,
):  # fmt: skip
    """Multiply as integers, then scale, round, add the zero point, and keep within the type."""
    total = op.Cast(op.MatMulInteger(a, b, a_zero, b_zero), to=1)
    factor = op.Div(op.Mul(op.Unsqueeze(a_scale, axes), b_scale), y_scale)
    moved = op.Add(op.Round(op.Mul(total, factor)), op.Cast(y_zero, to=1))
    return op.Cast(op.Clip(moved, low, high), to=to)


def _of_floats(what: Plain, operands: Operands) -> Reason | None:
    if reason := quantized(operands, (0, 3, 7), (1, 4, 6)) or one_each(operands, (1, 2, 6, 7)):
        return reason
    terms = matmulinteger.length((operands[0], operands[3]))
    if reason := rounds_little([_of(operands, place).known for place in (1, 4, 6)], terms):
        return reason
    sizes = [_of(operands, place).size for place in (4, 5)]
    if None in sizes:
        return Reason("the number of the scales or zero points of the second matrix is unknown", missing=True)
    if max(size or 0 for size in sizes) == 1:
        return None
    rank = _of(operands, 3).rank
    if rank is None:
        return Reason("the rank of the second factor is unknown", missing=True)
    along = all(_of(operands, place).rank == 1 for place in (4, 5) if _of(operands, place).size != 1)
    return None if rank == 2 and along else Reason("scales are not for columns of one matrix")


def one_or_each(operands: Operands) -> Mapping[str, Tensor]:
    """Bind shapes of the scales and zero points of operands 4 and 5: numbers, or lists of the same length.

    A list is reshaped to `flat`, and a single element of the other is expanded to `each`.
    """
    count = max(_of(operands, 4).size or 1, _of(operands, 5).size or 1)
    flat, each = ((), ()) if count == 1 else ((-1,), (count,))
    return {name: Tensor(np.array(to, np.int64)) for name, to in (("flat", flat), ("each", each))}


@lowering(18, applies_if=_of_floats, bind=lambda what, operands: one_or_each(operands), rounds=True, makes_floats=True)
def by_floats(
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, flat: Sequence[int], each: Sequence[int],
):  # fmt: skip
    """Dequantize, multiply floats, and quantize the product."""
    scales = op.Expand(op.Reshape(b_scale, flat), each)
    zeros = op.Expand(op.Reshape(b_zero, flat), each)
    one = op.DequantizeLinear(a, op.Squeeze(a_scale), op.Squeeze(a_zero))
    other = meaning.DequantizeLinear(b, scales, zeros, axis=1)
    return op.QuantizeLinear(op.MatMul(one, other), op.Squeeze(y_scale), op.Squeeze(y_zero))


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw scales above zero: divisors that are zero or overflow have no meaning."""
    scales = {
        name: rng.choice([0.1, 0.5, 2, 3, 100], array.shape).astype(array.dtype)
        for name, array in feeds.items()
        if name.endswith("_scale") and array.flags.writeable
    }
    return {**matmulinteger.adversarial(rng, feeds), **scales}


def _why_not(what: Plain | Gemm, read: Sequence[Read], made: Quantized) -> Reason | None:
    a, b, *rest = read
    if reason := of_bytes((a, b), made):
        return reason
    if isinstance(what, Gemm):
        if what.transA or what.transB or what.alpha != 1:
            return Reason("its matrices are transposed or scaled, which no operator of ai.onnx does to quantized ones")
        if what.beta and any(one is not None for one in rest):
            return Reason("it adds a third matrix, which no operator of ai.onnx does to a product of quantized ones")
    assert isinstance(a, Quantized)
    assert isinstance(b, Quantized)
    if b.scale.size > 1 and (b.data.rank != 2 or b.axis != 1):
        return Reason("there are scales that are not for columns of one matrix")
    return sums_fit((a, b), made, matmulinteger.length((a.data, b.data)))


OPERATOR = Operator(
    name="QLinearMatMul",
    meaning=Plain,
    versions=(Version(10), Version(21)),
    operands=("a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point"),
    oracle=oracle,
    lowerings=(by_sums, by_floats),
    wider_types=MOVED,
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    traits=Traits(
        floats=(Trait.QUANTIZES,),
        unwritten=(0, 3),
        byte_factors=(0, 3),
        scales=(1, 4, 6),
        form=QuantizedForm(("a", "b"), "y", _why_not),
    ),
)
