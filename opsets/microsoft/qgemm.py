"""com.microsoft::QGemm: the product of quantized matrices, and quantized sums to add, quantized or in float."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.operators import matmulinteger
from opshift.opsets.operators.qlinearmatmul import one_or_each
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.quantized_form import rounds_little
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QGemm:
    """A factor of the product and of what is added, and whether matrices are transposed."""

    alpha: float = 1.0
    transA: int = 0  # noqa: N815
    transB: int = 0  # noqa: N815


def oracle(
    what: QGemm,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    c: Array | None = None,
    y_scale: Array | None = None,
    y_zero: Array | None = None,
) -> Array:
    """QGemm-1: "Quantized Gemm"; C "is an int32, quantized with the scale alpha * a_scale * b_scale".

    The result is in float without a scale of its own.
    """
    one, other = a.T if what.transA else a, b.T if what.transB else b
    total = matmulinteger.oracle(Plain(), one, other, a_zero, b_zero).astype(np.int64)
    total = total if c is None else total + c
    y = np.asarray(total * (np.float64(what.alpha) * a_scale.astype(np.float64) * b_scale), np.float32)
    return y if y_scale is None or y_zero is None else steps.quantized(y, y_scale, y_zero)


def _known(what: QGemm, operands: Operands) -> Reason | None:
    one = operands[1] or Facts()
    if one.size is None:
        return Reason("the shape of the scale of A is unknown", missing=True)
    if one.size != 1:
        return Reason("A has more than one scale, of which onnxruntime takes one")
    if (operands[7] is None) != (operands[8] is None):
        return Reason("y_scale and y_zero_point must both be present, or both absent")
    if operands[7] is not None:
        return steps.whole(operands, (7,), (8,))
    return None


def _form(turned: str, added: bool, quantized: bool) -> Callable[[QGemm, Operands], Reason | None]:
    def applies_if(what: QGemm, operands: Operands) -> Reason | None:
        if reason := _known(what, operands):
            return reason
        found = "a" if what.transA else "b" if what.transB else ""
        if turned:
            return None if found == turned else Reason("")
        same = (found, operands[6] is not None, operands[7] is not None) == ("", added, quantized)
        return None if same else Reason("")

    return applies_if


@lowering(18, applies_if=_form("a", False, False))
def transposed_a(a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero):
    """Transpose the first matrix."""
    return meaning.Same(op.Transpose(a, perm=[1, 0]), a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero, transA=0)


@lowering(18, applies_if=_form("b", False, False))
def transposed_b(a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero):
    """Transpose the second matrix."""
    return meaning.Same(a, a_scale, a_zero, op.Transpose(b, perm=[1, 0]), b_scale, b_zero, c, y_scale, y_zero, transB=0)


def _quantized(what: QGemm, operands: Operands) -> Reason | None:
    if operands[7] is None or what.transA or what.transB:
        return Reason("")
    return _known(what, operands)


@lowering(18, applies_if=_quantized, rounds=True, makes_floats=True)
def in_steps(a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero):
    """Quantize the result in float."""
    y = meaning.Same(a, a_scale, a_zero, b, b_scale, b_zero, c)
    return op.QuantizeLinear(y, op.Squeeze(y_scale), op.Squeeze(y_zero))


def _alpha(what: QGemm, operands: Operands) -> Mapping[str, Any]:
    return {"alpha": what.alpha}


@lowering(18, applies_if=_form("", False, False), bind=_alpha, rounds=True)
def multiplied(a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero, alpha: float):
    """Multiply integers, then scale the sums."""
    total = op.MatMulInteger(a, b, op.Squeeze(a_zero), b_zero)
    return op.Cast(total, to=1) * (a_scale * b_scale * alpha)


@lowering(18, applies_if=_form("", True, False), bind=_alpha, rounds=True)
def multiplied_and_added(a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero, alpha: float):
    """Multiply integers, add those given, then scale the sums."""
    total = op.MatMulInteger(a, b, op.Squeeze(a_zero), b_zero) + c
    return op.Cast(total, to=1) * (a_scale * b_scale * alpha)


def _of_floats(what: QGemm, operands: Operands) -> Reason | None:
    if operands[7] is None:
        return Reason("")
    known = [None if one is None else one.known for one in (operands[1], operands[4], operands[7])]
    length = (operands[0] or Facts()).dim(0 if what.transA else 1)
    factor = np.asarray(what.alpha)
    if reason := rounds_little([factor, *known], length if isinstance(length, int) else None):
        return reason
    sizes = [(operands[place] or Facts()).size for place in (4, 5)]
    if None in sizes:
        return Reason("the number of the scales of B is unknown", missing=True)
    shape = () if operands[6] is None else operands[6].shape
    if shape is None:
        return Reason("the rank of C is unknown", missing=True)
    if operands[6] is not None and sizes[0] != 1 and shape[-1:] != (sizes[0],):
        return Reason("C is not known to have a column for each scale of B")
    return _known(what, operands)


def _columns(what: QGemm, operands: Operands) -> Mapping[str, Any]:
    own = () if ((operands[4] or Facts()).size or 1) == 1 else (-1,)
    last = max(((operands[6] or Facts()).rank or 0) - 1, 0)
    return {
        **vars(what),
        **one_or_each(operands),
        "own": Tensor(np.array(own, np.int64)),
        "columns": 0 if what.transB else 1,
        "last": last,
    }


@lowering(18, applies_if=_of_floats, bind=_columns, rounds=True, makes_floats=True)
def by_floats(
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero, alpha: float, transA: int, transB: int,  # noqa: N803
    columns: int, last: int, flat: Sequence[int], each: Sequence[int], own: Sequence[int],
):  # fmt: skip
    """Dequantize, multiply and add floats, and quantize the result."""
    one = op.Squeeze(a_scale)
    scales = op.Expand(op.Reshape(b_scale, flat), each)
    zeros = op.Expand(op.Reshape(b_zero, flat), each)
    left = op.DequantizeLinear(a, one, op.Squeeze(a_zero))
    right = meaning.DequantizeLinear(b, scales, zeros, axis=columns)
    added = meaning.DequantizeLinear(c, op.Mul(op.Reshape(b_scale, own), one), axis=last)
    y = op.Gemm(left, right, added, alpha=alpha, beta=alpha, transA=transA, transB=transB)
    return op.QuantizeLinear(y, op.Squeeze(y_scale), op.Squeeze(y_zero))


OPERATOR = Operator(
    name="QGemm",
    domain=MICROSOFT,
    meaning=QGemm,
    versions=(Version(1),),
    operands=("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C", "y_scale", "y_zero_point"),
    oracle=oracle,
    lowerings=(transposed_a, transposed_b, in_steps, multiplied, multiplied_and_added, by_floats),
    adversarial=steps.steady,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    refused="more than one scale of A, as in the kernel",
    traits=Traits(
        floats=(Trait.SUMS, Trait.QUANTIZES),
        factors=2,
        byte_factors=(0, 3),
        scales=(1, 4, 7),
        meaningless=steps.far_apart(1, 4, 7),
    ),
)
