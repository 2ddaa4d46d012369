"""Sign: -1, 0 or 1 for each element. Since version 9."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import INTEGERS, SIGNED, UNSIGNED
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED

_WIDE = (TensorProto.FLOAT, TensorProto.DOUBLE)


def _sign(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sign-13: "if input > 0, output 1. if input < 0, output -1. if input == 0, output 0."

    The text is silent on NaN: onnxruntime 1.32.0 returns NaN for float and double, and 0 for float16 and bfloat16.
    """
    wide = x.astype(np.float64) if x.dtype.kind in "fV" else x
    sign = (wide > 0).astype(np.int8) - (wide < 0).astype(np.int8)
    kept = np.isnan(wide) if x.dtype in (np.float32, np.float64) else np.zeros(x.shape, bool)
    return np.where(kept, x, sign.astype(x.dtype)).astype(x.dtype)


def _type(what: Plain, operands: Operands) -> Mapping[str, Any]:
    return {"to": first(operands).dtype}


def _of_wide(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in _WIDE else Reason("the input is not float or double", missing=dtype is None)


def _of_others(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return Reason("NaN has to remain NaN") if dtype in _WIDE else None


def _of_unsigned(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in UNSIGNED else Reason("the input is not unsigned", missing=dtype is None)


@lowering(18, applies_if=_of_unsigned, bind=_type)
def of_unsigned(x, to: int):
    """Cast to bool and back."""
    return op.Cast(op.Cast(x, to=9), to=to)


@lowering(18, applies_if=_of_others, bind=_type)
def by_comparison(x, to: int):
    """Subtract whether the element is below zero from whether it is above."""
    zero = op.CastLike(0, x)
    return op.Sub(op.Cast(op.Greater(x, zero), to=to), op.Cast(op.Less(x, zero), to=to))


@lowering(18, applies_if=_of_wide, bind=_type)
def keeping_nan(x, to: int):
    """Divide the sign by whether the element is a number: 0 / 0 is NaN."""
    zero = op.CastLike(0, x)
    above, below = op.Cast(op.Greater(x, zero), to=to), op.Cast(op.Less(x, zero), to=to)
    number = op.Or(op.Less(x, op.CastLike(1, x)), op.Greater(x, op.CastLike(-1, x)))
    return op.Div(op.Sub(above, below), op.Cast(number, to=to))


def _of_signed(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in SIGNED else Reason("the input is not of signed integers", missing=dtype is None)


@lowering(13, applies_if=_of_signed)
def clipped(x):
    """Keep integers between -1 and 1."""
    return op.Clip(x, op.CastLike(-1, x), op.CastLike(1, x))


@lowering(13, applies_if=_of_wide)
def rounded_away(x):
    """Round what is above zero up to 1, and what is below down to -1; NaN stays, and the sum of 0.0 and -0.0 is 0.0."""
    zero = op.CastLike(0, x)
    above = op.Abs(op.Ceil(op.Clip(x, zero, op.CastLike(1, x))))
    return op.Add(above, op.Floor(op.Clip(x, op.CastLike(-1, x), zero)))


OPERATOR = plain(
    "Sign",
    (9, 13),
    ("input",),
    _sign,
    (of_unsigned, clipped, by_comparison, keeping_nan, rounded_away),
    # Not of float16 and bfloat16: their kernels return 0 for NaN, that of float NaN.
    wider_types={dtype: wide for dtype, wide in ORDERED.items() if dtype in {*_WIDE, *INTEGERS}},
    traits=Traits(merges=elementwise, value_range=value_ranges.signs, floats=(Trait.SELECTS,), flow=Flow.BOUNDED),
)
