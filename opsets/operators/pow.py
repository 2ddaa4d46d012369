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
from opshift.opsets.registry.facts import FLOATS, INTEGERS, Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
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
    if base == TensorProto.INT64:
        return Reason("powers of int64 do not fit in double")
    if base not in _HELD or (base == power and base != TensorProto.INT32):
        return Reason("it is for int32, and for floats to powers of another type")
    return None


def _to(exponent: float) -> Callable[[Plain, Operands], Reason | None]:
    """Return what requires floats or integers, and this constant exponent, which does not change the shape.

    onnxruntime 1.32.0 multiplies integers for the powers 2 and 3, and raises others in double.
    """

    def applies(meaning: Plain, operands: Operands) -> Reason | None:
        base, power = first(operands), operands[1] or Facts()
        if power.known is None:
            return Reason("the exponent is computed at run time", missing=not power.unread)
        if power.known.size != 1 or power.known.item() != exponent:
            return Reason(f"the exponent is not {exponent:g}")
        whole = base.dtype in (TensorProto.INT32, TensorProto.INT64) and power.dtype in INTEGERS
        if base.dtype not in FLOATS and not whole:
            return Reason("it is neither of floats nor of integers to whole powers", missing=base.dtype is None)
        if power.known.ndim > (base.rank or 0):
            return Reason("the exponent has more axes, or may have", missing=base.rank is None)
        return None

    return applies


@lowering(13, applies_if=_to(2.0))
def squared(x, y):
    """Multiply by itself."""
    return x * x


@lowering(13, applies_if=_to(3.0), rounds=True)
def cubed(x, y):
    """Multiply by itself twice."""
    return x * x * x


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
    # The reciprocal tells the sign of zero, and not that of infinity.
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
    return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Powers of integers that int32 holds: what becomes of others, nobody says."""
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
        (squared, cubed, in_double, by_logarithm, *AS_VECTOR),
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
