"""Mod: the remainder of a division that rounds down (fmod 0) or towards zero (fmod 1). Since version 10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.operators.div import check_divisor
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, SIGNED, UNSIGNED
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Interval, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


@dataclass(frozen=True)
class Mod:
    """0: the remainder has the sign of the divisor; 1: that of the dividend."""

    fmod: int = 0


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
    lowerings=(of_quotient, truncated, floored, floored_floats),
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
