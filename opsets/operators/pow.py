"""Pow: a number to a power. Both of one floating type in version 7; integers, and powers of another type, since 12."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.families.scalars import AS_VECTOR
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, INTEGERS, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, in_own_type, neutral_operand, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Interval, Trait, Traits

_HELD = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT32)


_EXACT = 2.0**53
"""Up to here every integer is a number of double."""


def _beyond_integers(inputs: Sequence[Any]) -> bool:
    """Whether a power of integers is no integer of their type, or one that double rounds.

    onnxruntime 1.32.0 wraps a square, and cuts a cube. It multiplies squares of int64, and raises those of a single
    element in double.
    """
    base, power = inputs[:2]
    if not all(isinstance(one, np.ndarray) for one in (base, power)) or base.dtype.kind not in "iu":
        return False
    info = np.iinfo(base.dtype)
    least, most = max(float(info.min), -_EXACT), min(float(info.max), _EXACT)
    with np.errstate(all="ignore"):
        found = np.power(base.astype(np.float64), power.astype(np.float64))
    return not bool(((found > least - 1) & (found < most + 1)).all())


def _types(operands: Operands) -> tuple[int | None, int | None]:
    return first(operands).dtype, None if operands[1] is None else operands[1].dtype


def _one_type(meaning: Plain, operands: Operands) -> Reason | None:
    """Pow-7: "Constrain input and output types to float tensors", and both are of type T."""
    base, power = _types(operands)
    if base is None or power is None:
        return Reason("the element types are unknown, and it takes one for both", missing=True)
    return None if base == power else Reason("it takes one element type for both")


def _mixed(meaning: Plain, operands: Operands) -> Reason | None:
    base, power = _types(operands)
    if base is None or power is None:
        return Reason("the element types are unknown", missing=True)
    if base == TensorProto.INT64 and not _of_two(operands):
        return Reason("powers of int64 do not fit in double")
    if base not in (*_HELD, TensorProto.INT64) or (base == power and base not in INTEGERS):
        return Reason("it is for integers, and for floats to powers of another type")
    return None


def _of_two(operands: Operands) -> bool:
    """Return whether the bases are powers of two, whose powers double holds."""
    known = first(operands).known
    return known is not None and bool((np.frexp(known.astype(np.float64))[0] == 0.5).all())


def _exponent(operands: Operands) -> float | Reason:
    """Return the constant exponent of floats or integers, which does not change the shape."""
    base, power = first(operands), operands[1] or Facts()
    if power.known is None:
        return Reason("the exponent is computed at run time", missing=not power.unread)
    if power.known.size != 1:
        return Reason("there are several exponents")
    exponent = float(power.known.item())
    whole = base.dtype in (TensorProto.INT32, TensorProto.INT64) and exponent.is_integer()
    if base.dtype not in FLOATS and not whole:
        return Reason("it is neither of floats nor of integers to whole powers", missing=base.dtype is None)
    if power.known.ndim > (base.rank or 0):
        return Reason("the exponent has more axes, or may have", missing=base.rank is None)
    return exponent


def _to(*exponents: float) -> Callable[[Plain, Operands], Reason | None]:
    """Return a condition: one of these constant exponents.

    onnxruntime 1.32.0 multiplies integers for the powers 2 and 3, and raises others in double.
    """

    def applies(meaning: Plain, operands: Operands) -> Reason | None:
        exponent = _exponent(operands)
        if isinstance(exponent, Reason):
            return exponent
        return (
            None
            if exponent in exponents
            else Reason(f"the exponent is not {' or '.join(map('{:g}'.format, exponents))}")
        )

    return applies


_MOST = 64.0
"""The largest exponent that becomes products: more would round too often, and integers have no such powers."""


def _even(meaning: Plain, operands: Operands) -> Reason | None:
    exponent = _exponent(operands)
    if isinstance(exponent, Reason):
        return exponent
    return None if 3 < exponent <= _MOST and exponent % 2 == 0 else Reason("the exponent is no even number from 4 on")


def _odd(meaning: Plain, operands: Operands) -> Reason | None:
    exponent = _exponent(operands)
    if isinstance(exponent, Reason):
        return exponent
    return None if 4 < exponent < _MOST and exponent % 2 == 1 else Reason("the exponent is no odd number from 5 on")


def _negative(meaning: Plain, operands: Operands) -> Reason | None:
    exponent = _exponent(operands)
    if isinstance(exponent, Reason):
        return exponent
    if not (-_MOST <= exponent <= -1 and exponent.is_integer()):
        return Reason("the exponent is no whole number below zero")
    return None if first(operands).dtype in FLOATS else Reason("it is not of floats")


def _left_of(change: Callable[[float], float]) -> Callable[[Plain, Operands], Mapping[str, Any]]:
    """Return what binds the exponent that is left, in its own type."""

    def bind(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
        power = operands[1] or Facts()
        assert power.known is not None
        return {"left": Tensor(np.array(change(float(power.known.item())), power.known.dtype))}

    return bind


@lowering(13, applies_if=_to(1.0))
def itself(x, y):
    """Return the number itself."""
    return op.Identity(x)


@lowering(13, applies_if=_to(2.0))
def squared(x, y):
    """Multiply by itself."""
    return x * x


@lowering(13, applies_if=_to(3.0), rounds=True)
def cubed(x, y):
    """Multiply by itself twice."""
    return x * x * x


@lowering(13, applies_if=_even, bind=_left_of(lambda exponent: exponent / 2), rounds=True)
def of_square(x, y, left: Sequence[int]):
    """Raise the square to half the power."""
    return meaning.Itself(x * x, left)


@lowering(13, applies_if=_odd, bind=_left_of(lambda exponent: exponent - 1), rounds=True)
def once_more(x, y, left: Sequence[int]):
    """Multiply the power that is one less by the number."""
    return meaning.Itself(x, left) * x


@lowering(13, applies_if=_to(-1.0))
def inverse(x, y):
    """Compute the reciprocal."""
    return op.Reciprocal(x)


@lowering(13, applies_if=_negative, bind=_left_of(lambda exponent: -exponent), rounds=True)
def of_reciprocal(x, y, left: Sequence[int]):
    """Raise the reciprocal, which is infinite or zero where the power is, to the opposite of the power."""
    return meaning.Itself(op.Reciprocal(x), left)


@lowering(13, applies_if=_to(0.5), bind=in_own_type(least=-np.inf, most=np.inf), rounds=True)
def root(x, y, least: Sequence[int], most: Sequence[int]):
    """Compute the square root, but 0.0 of -0.0, and inf of -inf."""
    return op.Where(op.Equal(x, least), most, op.Abs(op.Sqrt(x)))


@lowering(13, applies_if=_to(-0.5), bind=in_own_type(half=0.5), rounds=True)
def inverse_root(x, y, half: Sequence[int]):
    """Compute the reciprocal of the square root."""
    return op.Reciprocal(meaning.Itself(x, half))


def _wide_bases(meaning: Plain, operands: Operands) -> Reason | None:
    base, power = _types(operands)
    if base is None or power is None:
        return Reason("the element types are unknown", missing=True)
    return None if base == TensorProto.INT64 else Reason("it is for powers of int64")


# onnxruntime 1.32.0 multiplies where the exponent is a single 2 or 3, and computes all other powers in double.
@lowering(13, applies_if=_wide_bases)
def of_wide_integers(x, y):
    """Multiply for the powers 2 and 3, and compute others in double."""
    power = op.Cast(op.Pow(op.Cast(x, to=11), op.Cast(y, to=11)), to=7)
    cubed = op.Equal(y, op.CastLike(3, y))
    # tract 0.23.9 has no product of an int64 with itself, but two of different values.
    product = x * op.Where(cubed, x, 1) * x
    return op.Where(op.Or(cubed, op.Equal(y, op.CastLike(2, y))), product, power)


def _of_narrow_floats(meaning: Plain, operands: Operands) -> Reason | None:
    base, power = _types(operands)
    if base is None or power is None:
        return Reason("the element types are unknown", missing=True)
    narrow = (TensorProto.FLOAT, TensorProto.FLOAT16)
    return None if base in narrow else Reason("it is for float and float16, whose powers double holds with digits left")


# 1e30 is large enough for a power of any float but 1 to be infinite or zero, and 0 times it is no NaN.
@lowering(13, applies_if=_of_narrow_floats, bind=lambda meaning, operands: {"to": first(operands).dtype}, rounds=True)
def by_logarithm(x, y, to: int):
    """Compute exp(y log(|x|)) in double; odd powers keep the sign, and of numbers below zero others are not real."""
    base, power = op.Cast(x, to=11), op.Cast(y, to=11)
    near = op.Max(op.Min(power, op.Cast(1e30, to=11)), op.Cast(-1e30, to=11))
    size = op.Exp(near * op.Log(op.Abs(base)))
    size = op.Where(op.Or(op.Equal(power, 0.0), op.Equal(base, 1.0)), op.Cast(1, to=11), size)
    # The reciprocal distinguishes the signs of zero, but not those of infinity.
    below, under = op.Less(base, 0.0), op.Less(op.Reciprocal(base), 0.0)
    whole, half = op.Equal(op.Floor(power), power), power * 0.5
    unreal = op.And(op.And(below, under), op.Not(whole))
    odd = op.And(whole, op.Less(op.Floor(half), half))
    sign = 1.0 - op.Cast(op.And(op.Or(below, under), odd), to=11) * 2.0
    return op.Cast(op.Where(unreal, op.Log(base), size) * sign, to=to)


@lowering(13, applies_if=_mixed, bind=lambda meaning, operands: {"to": first(operands).dtype})
def in_double(x, y, to: int):
    """Compute in double, as C's pow does with numbers of two types."""
    return op.Cast(op.Pow(op.Cast(x, to=11), op.Cast(y, to=11)), to=to)


def _pow(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
    """Pow-12: "the function `f(x) = x^exponent`, is applied to the data tensor elementwise"."""
    # Of one exponent for all numbers, numpy 2.3 makes square roots: NaN of -inf, and -0.0 of -0.0.
    base, power = (np.array(one, np.float64) for one in np.broadcast_arrays(x, y))
    return np.power(base, power).astype(x.dtype)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw powers of integers that fit int32: the result of others is unspecified."""
    x, y = feeds["X"], feeds["Y"]
    changed = dict(feeds)
    if x.dtype.kind == "i":
        if x.flags.writeable:
            changed["X"] = np.clip(x, -9, 9)
        if y.flags.writeable:
            changed["Y"] = np.clip(np.nan_to_num(y), 0, 9).astype(y.dtype)
    return changed


OPERATOR = with_legacy_broadcast(
    plain(
        "Pow",
        (7, 12, 13, 15),
        ("X", "Y"),
        _pow,
        (
            itself,
            squared,
            cubed,
            of_square,
            once_more,
            inverse,
            of_reciprocal,
            root,
            inverse_root,
            in_double,
            of_wide_integers,
            by_logarithm,
            *AS_VECTOR,
        ),
        neutral=neutral_operand(1, right_only=True),
        applies_if={7: _one_type},
        adversarial=adversarial,
        traits=Traits(
            merges=elementwise,
            value_range=value_ranges.powers,
            floats=(Trait.MULTIPLIES, Trait.DIVIDES),
            domains={0: Interval(0)},
            equal_dims=broadcast,
            meaningless=_beyond_integers,
        ),
    ),
    1,
)
