"""MatMulInteger: the matrix product of 8-bit integers less their zero points, in int32. Since version 10."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Traits

Array = np.ndarray[Any, Any]

FARTHEST: Mapping[int, int] = {TensorProto.UINT8: 255, TensorProto.INT8: 128}
"""The largest distance of an element from zero; from a zero point of the same type, 255."""

WHOLE = 2**24
"""Up to this number a float holds every integer."""

_HALF, _WHOLE = Tensor(np.array(2.0**31)), Tensor(np.array(2.0**32))


def by_row(what: Any, operands: Operands, matrix: int, vector: int) -> Reason | int:
    """Return how many axes a zero point or scale of A lacks, so that it broadcasts: 1 if it has one number a row.

    MatMulInteger-10: "If the input is 2D of shape [M, K] then zero point tensor may be an M element vector".
    """
    one = operands[vector]
    if one is None or one.rank == 0 or one.shape == (1,):
        return 0
    if one.rank is None:
        return Reason("the rank of a zero point or scale is unknown", missing=True)
    if one.rank > 1:
        return 0
    data = operands[matrix]
    if data is None or data.rank is None:
        return Reason("the rank of A is unknown, and a zero point or scale may have one number for each row", True)
    return int(data.rank > 1)


def oracle(what: Plain, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> Array:
    """MatMulInteger-10: "behaves like numpy.matmul"; "The accumulation may overflow if and only if in 32 bits"."""
    left, right = a.astype(np.int64), b.astype(np.int64)
    if a_zero is not None:
        left = left - (a_zero[:, None] if a_zero.ndim == 1 and a.ndim > 1 and len(a_zero) > 1 else a_zero)
    if b_zero is not None:
        right = right - b_zero
    return np.asarray(np.matmul(left, right)).astype(np.int32)


def length(operands: Operands) -> int | None:
    """Return how many products are added up for each element of the result, if known."""
    a, b = (facts or Facts() for facts in operands[:2])
    found = a.dim(-1) if a.rank else None
    found = b.dim(-2 if (b.rank or 0) > 1 else -1) if not isinstance(found, int) and b.rank else found
    return found if isinstance(found, int) else None


def largest(operands: Operands, data: int, zero: int) -> int:
    """Return how large an element can be once its zero point is taken away."""
    facts, start = operands[data] or Facts(), operands[zero]
    if facts.known is not None and start is None:
        return int(np.abs(facts.known.astype(np.int64)).max(initial=0))
    if start is None:
        return FARTHEST.get(facts.dtype or 0, 255)
    if start.known is not None and facts.dtype in FARTHEST:
        low, high = (0, 255) if facts.dtype == TensorProto.UINT8 else (-128, 127)
        points = start.known.astype(np.int64)
        return int(max(np.abs(low - points).max(initial=0), np.abs(high - points).max(initial=0)))
    return 255


def fits_float(operands: Operands, count: int | None, zeros: tuple[int, int]) -> Reason | None:
    """Hold where every sum of `count` products is a whole number that a float holds, in whatever order it is added."""
    found = most(operands, count, zeros)
    if found is None:
        return Reason("the number of products in a sum is unknown, and a float holds 24 bits", missing=True)
    return None if found <= WHOLE else Reason("a float holds 24 bits, and the sums may need more")


def _rows(what: Plain, operands: Operands) -> Reason | None:
    axes = by_row(what, operands, 0, 2)
    return axes if isinstance(axes, Reason) else None if axes else Reason("one zero point is for all rows")


@lowering(18, applies_if=_rows)
def with_column(a, b, a_zero, b_zero):
    """Reshape the zero points of the rows to a column, which broadcasts."""
    return op.MatMulInteger(a, b, op.Unsqueeze(a_zero, [1]), b_zero)


def lacks(index: int) -> Callable[[Any, Operands], Reason | None]:
    """Return what holds where a zero point is left out, and the element type is known that it must have."""

    def applies_if(what: Any, operands: Operands) -> Reason | None:
        if operands[index] is not None:
            return Reason("the zero point is given")
        data = operands[index - 2]
        known = data is not None and data.dtype is not None
        return None if known else Reason("the element type is unknown, which the zero point must have", missing=True)

    return applies_if


def zero_like(index: int) -> Callable[[Any, Operands], Mapping[str, Any]]:
    """Return what binds `zero` to the zero point zero, in the element type of an operand."""

    def bind(what: Any, operands: Operands) -> Mapping[str, Any]:
        facts = operands[index]
        return {"zero": Tensor(np.zeros((), np.int8 if facts and facts.dtype == TensorProto.INT8 else np.uint8))}

    return bind


@lowering(18, applies_if=lacks(2), bind=zero_like(0))
def with_zero_of_a(a, b, a_zero, b_zero, zero: Sequence[int]):
    """Add a zero point of zero for A."""
    return op.MatMulInteger(a, b, zero, b_zero)


@lowering(18, applies_if=lacks(3), bind=zero_like(1))
def with_zero_of_b(a, b, a_zero, b_zero, zero: Sequence[int]):
    """Add a zero point of zero for B."""
    return op.MatMulInteger(a, b, a_zero, zero)


def _broadcasts(what: Plain, operands: Operands) -> Reason | None:
    if operands[2] is None or operands[3] is None:
        return Reason("a zero point is left out")
    axes = by_row(what, operands, 0, 2)
    return axes if isinstance(axes, Reason) else Reason("each row has a zero point") if axes else None


@lowering(18, applies_if=_broadcasts)
def in_int32(a, b, a_zero, b_zero):
    """Multiply in int32, whose sums overflow as MatMulInteger's do."""
    left = op.Sub(op.Cast(a, to=6), op.Cast(a_zero, to=6))
    right = op.Sub(op.Cast(b, to=6), op.Cast(b_zero, to=6))
    return op.MatMul(left, right)


def most(operands: Operands, count: int | None, zeros: tuple[int, int]) -> int | None:
    """Return how large a sum of `count` products can be, if that is known."""
    if count is None:
        return None
    return count * largest(operands, 0, zeros[0]) * largest(operands, 1, zeros[1])


def _never_overflows(what: Plain, operands: Operands) -> Reason | None:
    if reason := _broadcasts(what, operands):
        return reason
    found = most(operands, length(operands), (2, 3))
    if found is None:
        return Reason("the number of products in a sum is unknown, and int32 may overflow", missing=True)
    return None if found < 2**31 else Reason("the sums may overflow int32")


@lowering(18, applies_if=_never_overflows)
def in_double(a, b, a_zero, b_zero):
    """Multiply in double, where no sum overflows int32."""
    left = op.Sub(op.Cast(a, to=11), op.Cast(a_zero, to=11))
    right = op.Sub(op.Cast(b, to=11), op.Cast(b_zero, to=11))
    return op.Cast(op.MatMul(left, right), to=6)


# By arithmetic, since onnxruntime 1.32.0 makes one Cast of a Cast to int64 and a Cast to int32, which saturates.
@lowering(18, applies_if=_broadcasts, bind=lambda what, operands: {"half": _HALF, "whole": _WHOLE})
def in_double_with_overflow(a, b, a_zero, b_zero, half: Sequence[int], whole: Sequence[int]):
    """Multiply in double, which holds every sum of fewer than 2^37 products, and drop the bits above the lowest 32."""
    left = op.Sub(op.Cast(a, to=11), op.Cast(a_zero, to=11))
    right = op.Sub(op.Cast(b, to=11), op.Cast(b_zero, to=11))
    total = op.MatMul(left, right)
    above = op.Floor(op.Div(op.Add(total, half), whole))
    return op.Cast(op.Sub(total, op.Mul(above, whole)), to=6)


def _short(what: Plain, operands: Operands) -> Reason | None:
    return _broadcasts(what, operands) or fits_float(operands, length(operands), (2, 3))


@lowering(18, applies_if=_short)
def in_float(a, b, a_zero, b_zero):
    """Multiply in float where the sums are short enough to be whole numbers of 24 bits."""
    left = op.Sub(op.Cast(a, to=1), op.Cast(a_zero, to=1))
    right = op.Sub(op.Cast(b, to=1), op.Cast(b_zero, to=1))
    return op.Cast(op.MatMul(left, right), to=6)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw the ends of the types, of which sums are largest."""
    ends = {
        name: rng.choice([np.iinfo(array.dtype).min, np.iinfo(array.dtype).max], array.shape).astype(array.dtype)
        for name, array in feeds.items()
        if array.dtype in (np.int8, np.uint8) and array.flags.writeable
    }
    return {**feeds, **ends} if rng.integers(2) else feeds


OPERATOR = Operator(
    name="MatMulInteger",
    meaning=Plain,
    versions=(Version(10),),
    operands=("A", "B", "a_zero_point", "b_zero_point"),
    oracle=oracle,
    lowerings=(in_int32, in_float, in_double, in_double_with_overflow, with_column, with_zero_of_a, with_zero_of_b),
    adversarial=adversarial,
    traits=Traits(unwritten=(0, 1), byte_factors=(0, 1)),
)
