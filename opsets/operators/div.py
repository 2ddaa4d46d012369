"""Div: the quotient of two tensors, broadcast; of integers, rounded towards zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.families.scalars import AS_VECTOR
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import INTEGERS, Dim, Tensor, type_name
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, neutral_operand, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Arithmetic, Flow, Interval, Trait, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


def check_divisor(b: np.ndarray[Any, Any]) -> None:
    """Raise `ValueError` where integers are divided by zero: onnxruntime 1.32.0 runs no such node."""
    if np.issubdtype(b.dtype, np.integer) and not b.all():
        raise ValueError("an integer is divided by zero")


def _quotient(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    check_divisor(b)
    if not np.issubdtype(a.dtype, np.integer):
        return np.divide(a, b)
    # Div-14: "For integer inputs, the result is computed using truncating division (rounding toward zero)".
    floor = np.floor_divide(a, b)
    return floor + ((floor < 0) & (floor * b != a))


_HELD = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def _narrower_than_double(meaning: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return None if dtype in _HELD else Reason("double has digits left for float and narrower floats only")


@lowering(
    13, applies_if=_narrower_than_double, bind=lambda meaning, operands: {"to": first(operands).dtype}, rounds=True
)
def by_reciprocal(a, b, to: int):
    """Multiply by the reciprocal in double, which has digits left, and no float whose reciprocal overflows."""
    return op.Cast(op.Cast(a, to=11) * op.Reciprocal(op.Cast(b, to=11)), to=to)


def _only_for(dtype: int) -> Callable[[Plain, Operands], Reason | None]:
    def applies(meaning: Plain, operands: Operands) -> Reason | None:
        found = first(operands).dtype
        if found is None:
            return Reason("the element type is unknown", missing=True)
        return None if found == dtype else Reason(f"it is for {type_name(dtype)}")

    return applies


_SCALES = {name: Tensor(np.array(2.0**power)) for name, power in {"one": 0, "large": 500, "small": -500}.items()}


# The reciprocal of a number below 2^-1024 is infinite; that of the largest one has 51 digits.
@lowering(13, applies_if=_only_for(TensorProto.DOUBLE), bind=lambda meaning, operands: _SCALES, rounds=True)
def by_scaled_reciprocal(a, b, one: Sequence[int], large: Sequence[int], small: Sequence[int]):
    """Multiply by the reciprocal; a very small divisor is scaled first, since its reciprocal overflows."""
    scale = op.Where(op.Less(op.Abs(b), small), large, one)
    return a * scale * op.Reciprocal(b * scale)


_IN_DOUBLE = INTEGERS - {TensorProto.INT64, TensorProto.UINT64}


def _held_by_double(meaning: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return None if dtype in _IN_DOUBLE else Reason("it is for integers that double holds")


# A quotient q of integers below 2^32 is half of 1 / b or more away from where its integer part changes, once half of
# one is added to the dividend; the product is 2^-51 of q off, which is less.
@lowering(14, applies_if=_held_by_double, bind=lambda meaning, operands: {"to": first(operands).dtype})
def by_reciprocal_of_integers(a, b, to: int):
    """Add half to the size of the dividend, multiply by the reciprocal in double, and round down."""
    dividend = op.Cast(a, to=11)
    divisor = op.Cast(b, to=11)
    whole = op.Floor((op.Abs(dividend) + 0.5) * op.Reciprocal(op.Abs(divisor)))
    return op.Cast(whole * (op.Sign(dividend) * op.Sign(divisor)), to=to)


_PART = Tensor(np.array(2.0**-40))


# A product with a reciprocal is 2^-51 of itself off, so the first two quotients are too small, and never too large.
# The first one leaves a rest of less than 2^24 divisors, and the second one a rest of less than two. The size of the
# lowest integer does not fit, its negative does.
@lowering(14, applies_if=_only_for(TensorProto.INT64), bind=lambda meaning, operands: {"part": _PART}, cost=20)
def in_three_parts(a, b, part: Sequence[int]):
    """Divide in double, rounding towards zero, divide the rest likewise, and count whether the last rest holds one."""
    inverse = op.Reciprocal(op.Cast(b, to=11))
    less = inverse - inverse * part
    most = op.Cast(op.Cast(a, to=11) * less, to=7)
    rest = a - most * b
    more = op.Cast(op.Cast(rest, to=11) * less, to=7)
    left = rest - more * b
    whole = op.LessOrEqual(op.Min(left, op.Neg(left)), op.Min(b, op.Neg(b)))
    return most + more + op.Cast(whole, to=7) * (op.Sign(a) * op.Sign(b))


# As above, without signs; what is left is below two divisors.
@lowering(14, applies_if=_only_for(TensorProto.UINT64), bind=lambda meaning, operands: {"part": _PART}, cost=20)
def in_unsigned_parts(a, b, part: Sequence[int]):
    """Divide in double, rounding down, divide the rest likewise, and count whether the last rest holds one."""
    inverse = op.Reciprocal(op.Cast(b, to=11))
    less = inverse - inverse * part
    most = op.Cast(op.Cast(a, to=11) * less, to=13)
    rest = a - most * b
    more = op.Cast(op.Cast(rest, to=11) * less, to=13)
    left = rest - more * b
    return most + more + op.Cast(op.LessOrEqual(b, left), to=13)


def _of_dims(a: Dim, b: Dim) -> Dim:
    return a if b == 1 else None


OPERATOR = with_legacy_broadcast(
    plain(
        "Div",
        (7, 13, 14),
        ("A", "B"),
        _quotient,
        (by_reciprocal, by_scaled_reciprocal, by_reciprocal_of_integers, in_three_parts, in_unsigned_parts, *AS_VECTOR),
        wider_types=QUOTIENT,
        neutral=neutral_operand(1, right_only=True),
        traits=Traits(
            merges=elementwise,
            value_range=value_ranges.divided,
            floats=(Trait.MULTIPLIES, Trait.DIVIDES, Trait.ONCE),
            domains={1: Interval(zero=False)},
            flow=Flow.POINTWISE,
            arithmetic=Arithmetic.DIVIDE,
            equal_dims=broadcast,
        ),
        of_dims=_of_dims,
    ),
    1,
    6,
)
