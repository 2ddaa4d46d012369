"""Mod: the remainder of a division that rounds down (fmod 0) or towards zero (fmod 1). Since version 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.operators.div import check_divisor
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, SIGNED, UNSIGNED, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Interval, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


@dataclass(frozen=True)
class Mod:
    """0: the remainder has the sign of the divisor; 1: that of the dividend.

    With `digits`, both are finite doubles above zero of so many binary digits, and the quotient has up to `bits` before
    the point.
    """

    fmod: int = 0
    digits: int = 0
    bits: int = 0


def oracle(what: Mod, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    """Mod-28: fmod 0 is "A - floor(A / B) * B", fmod 1 "A - trunc(A / B) * B"."""
    check_divisor(b)
    return np.fmod(a, b) if what.fmod else np.mod(a, b)


def _floats_truncate(what: Mod, operands: Operands) -> Reason | None:
    """Mod-10: "If the input type is floating point, then `fmod` attribute must be set to 1".

    Mod-13 says too that fmod 1 is for floats, but ONNX ships a case of integers with it, and onnxruntime runs that.
    """
    if what.fmod:
        return None
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown, and fmod 0 is for integers only", missing=True)
    return Reason("fmod 0 is for integers only") if dtype in FLOATS else None


def _of(*dtypes: frozenset[int], fmod: int | None = None) -> Any:
    def applies_if(what: Mod, operands: Operands) -> Reason | None:
        dtype = first(operands).dtype
        if dtype is None:
            return Reason("the element type is unknown", missing=True)
        if not any(dtype in some for some in dtypes):
            return Reason("it is for other element types")
        return None if fmod in (None, what.fmod) else Reason(f"it is for fmod {fmod}")

    return applies_if


@lowering(14, applies_if=_of(UNSIGNED))
def of_quotient(a, b):
    """Subtract the product of divisor and quotient."""
    return op.Sub(a, op.Mul(op.Div(a, b), b))


@lowering(14, applies_if=_of(SIGNED, fmod=1))
def truncated(a, b):
    """Subtract the product of divisor and quotient; divide by 1 instead of -1, which could overflow."""
    unit = op.CastLike(op.Equal(b, -1), b)
    divisor = op.Add(b, op.Add(unit, unit))
    return op.Sub(a, op.Mul(op.Div(a, divisor), divisor))


@lowering(14, applies_if=_of(SIGNED, fmod=0))
def floored(a, b):
    """Add the divisor to remainders of the other sign."""
    # Written out: for fmod 1 the Mod of onnxruntime takes int64 for double (seen in 1.31.1).
    unit = op.CastLike(op.Equal(b, -1), b)
    divisor = op.Add(b, op.Add(unit, unit))
    rest = op.Sub(a, op.Mul(op.Div(a, divisor), divisor))
    apart = op.And(op.Not(op.Equal(rest, 0)), op.Xor(op.Less(rest, 0), op.Less(b, 0)))
    return op.Add(rest, op.Mul(b, op.CastLike(apart, b)))


@lowering(18, applies_if=_of(FLOATS, fmod=0))
def floored_floats(a, b):
    """Add the divisor to remainders of the other sign; a zero gets the sign of the divisor."""
    rest = meaning.Mod(a, b, fmod=1)
    apart = op.And(op.Not(op.Equal(rest, 0.0)), op.Xor(op.Less(rest, 0.0), op.Less(b, 0.0)))
    sign = op.CastLike(op.Where(op.Less(b, 0.0), -1.0, 1.0), b)
    return op.Mul(op.Abs(op.Where(apart, op.Add(rest, b), rest)), sign)


_RANGE: Mapping[int, tuple[int, int]] = {
    TensorProto.FLOAT: (-149, 128),
    TensorProto.FLOAT16: (-24, 16),
    TensorProto.BFLOAT16: (-133, 128),
}
"""The exponents between which the numbers of a type are."""

_DIGITS: Mapping[int, int] = {TensorProto.FLOAT: 24, TensorProto.FLOAT16: 11, TensorProto.BFLOAT16: 8}


def _powers_of_two(operands: Operands) -> bool:
    """Return whether the divisors are powers of two from 1 on, by which any float is divided exactly."""
    known = None if operands[1] is None else operands[1].known
    if known is None:
        return False
    parts, sizes = np.frexp(np.abs(known.astype(np.float64)))
    return bool(((parts == 0.5) & (sizes > 0)).all())


def _truncated(what: Mod, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if what.digits or not what.fmod:
        return Reason("")
    if dtype == TensorProto.DOUBLE:
        return Reason("no wider type than double has room for a quotient of doubles")
    if dtype not in _DIGITS:
        return Reason("it is not of floats", missing=dtype is None)
    return Reason("the divisors are powers of two") if _powers_of_two(operands) else None


def _truncated_by_powers(what: Mod, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if what.digits or not what.fmod:
        return Reason("")
    if dtype not in FLOATS:
        return Reason("it is not of floats", missing=dtype is None)
    return None if _powers_of_two(operands) else Reason("the divisors are not known to be powers of two from 1 on")


def _division(what: Mod, operands: Operands) -> Mapping[str, Any]:
    """Bind how many digits the divisors and quotients of a type may have."""
    dtype = first(operands).dtype or TensorProto.FLOAT
    least, most = _RANGE.get(dtype, (0, 0))
    known = None if operands[1] is None else operands[1].known
    if known is not None:
        sizes = np.abs(known.astype(np.float64))
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        least = int(np.frexp(sizes.min(initial=1.0))[1]) - 1
    return {"to": dtype, "digits": _DIGITS.get(dtype, 0), "bits": most - least, "endless": Tensor(np.array(2.0**200))}


# The sign comes last: Where of onnxruntime makes 0.0 of -0.0.
@lowering(13, applies_if=_truncated, bind=_division, cost=10)
def by_long_division(a, b, to: int, digits: int, bits: int, endless: Sequence[int]):
    """Divide in double, which holds products of divisor and a few digits of the quotient; -0.0 has a sign, too."""
    dividend = op.Cast(a, to=11)
    divisor = op.Min(op.Abs(op.Cast(b, to=11)), endless)
    rest = meaning.Itself(op.Abs(dividend), divisor, fmod=1, digits=digits, bits=bits)
    below = op.CastLike(op.Less(op.Reciprocal(dividend), op.CastLike(0.0, dividend)), dividend)
    return op.Cast(rest * (1.0 - below * 2.0), to=to)


@lowering(13, applies_if=_truncated_by_powers)
def by_power_of_two(a, b):
    """Subtract the product with the whole quotient; of floats without a fraction, nothing is left."""
    dividend, divisor = op.Abs(a), op.Abs(b)
    rest = dividend - op.Floor(dividend / divisor) * divisor
    return rest * (1.0 - op.CastLike(op.Less(op.Reciprocal(a), op.CastLike(0.0, a)), a) * 2.0)


def _digits_at_once(what: Mod) -> int:
    return 51 - what.digits


def _long(what: Mod, operands: Operands) -> Reason | None:
    return None if what.digits and what.bits > _digits_at_once(what) else Reason("")


def _short(what: Mod, operands: Operands) -> Reason | None:
    return None if what.digits and what.bits <= _digits_at_once(what) else Reason("")


def _first_digits(what: Mod, operands: Operands) -> Mapping[str, Any]:
    left = what.bits - _digits_at_once(what)
    return {"power": Tensor(np.array(2.0**left)), "digits": what.digits, "bits": left}


# Double holds the product of the divisor and the digits of one step: the rest is exact. Where Div is a product with the
# reciprocal, the quotient may be one off, and the rest below zero, or as large as the divisor.
@lowering(13, applies_if=_long, bind=_first_digits)
def of_first_digits(a, b, power: Sequence[int], digits: int, bits: int):
    """Subtract the product with the first digits of the quotient, and divide the rest."""
    divisor = b * power
    rest = a - op.Floor(a / divisor) * divisor
    return meaning.Itself(rest, b, fmod=1, digits=digits, bits=bits)


@lowering(13, applies_if=_short)
def of_last_digits(a, b):
    """Subtract the product with the whole quotient, which may be one off."""
    rest = a - op.Floor(a / b) * b
    filled = op.Where(op.Less(rest, op.CastLike(0.0, rest)), rest + b, rest)
    return op.Where(op.Less(filled, b), filled, filled - b)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """No zero among integer divisors, where "the results will be platform dependent", and not -1 to overflow."""
    changed = dict(feeds)
    b = feeds["B"]
    if b.dtype.kind in "iu" and b.flags.writeable:
        changed["B"] = np.where((b == 0) | (b == b.dtype.type(-1 if b.dtype.kind == "i" else 0)), b.dtype.type(3), b)
    return changed


OPERATOR = Operator(
    name="Mod",
    meaning=Mod,
    versions=(Version(10, applies_if=_floats_truncate), Version(13, applies_if=_floats_truncate), Version(28)),
    operands=("A", "B"),
    oracle=oracle,
    lowerings=(
        of_quotient,
        truncated,
        floored,
        floored_floats,
        by_power_of_two,
        by_long_division,
        of_first_digits,
        of_last_digits,
    ),
    wider_types={dtype: wide for dtype, wide in QUOTIENT.items() if dtype != TensorProto.FLOAT},
    adversarial=adversarial,
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.remainder,
        domains={1: Interval(zero=False)},
        compares=True,
        flow=Flow.POINTWISE,
        equal_dims=broadcast,
    ),
)
