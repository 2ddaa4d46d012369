"""BitCast: the same bits, read as another element type of the same width. Since version 26."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import FLOATS, INTEGERS, Tensor, type_name
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class BitCast:
    """The element type that the bits are read as."""

    to: int = 0


_Array = np.ndarray[Any, Any]


def oracle(what: BitCast, x: _Array) -> _Array:
    """BitCast-26: "preserves the exact bit pattern without any value conversion"."""
    return np.ascontiguousarray(x).reshape(x.shape).view(onnx.helper.tensor_dtype_to_np_dtype(what.to))


def _same_type(what: BitCast, operands: Operands) -> bool:
    return first(operands).dtype == what.to


# --- how floats are made of bits ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """A float type: its bits, the bits of its fraction, and its smallest normal exponent."""

    bits: int
    fraction: int
    least: int

    @property
    def exponents(self) -> int:
        """The number of exponents, including that of infinities and NaN."""
        return 1 << (self.bits - 1 - self.fraction)

    @property
    def ups(self) -> _Array:
        """For each exponent field of numbers, the power of two that makes an integer of them."""
        fields = np.arange(self.exponents - 1)
        return self.fraction - self.least - np.maximum(fields - 1, 0)


_LAYOUTS: Mapping[int, Layout] = {
    TensorProto.FLOAT16: Layout(16, 10, -14),
    TensorProto.BFLOAT16: Layout(16, 7, -126),
    TensorProto.FLOAT: Layout(32, 23, -126),
    TensorProto.DOUBLE: Layout(64, 52, -1022),
}
_OF_BITS: Mapping[int, int] = {16: TensorProto.INT16, 32: TensorProto.INT32, 64: TensorProto.INT64}
"""The signed integers of a width."""


def _between(old: frozenset[int], new: frozenset[int]) -> Callable[[BitCast, Operands], Reason | None]:
    def applies_if(what: BitCast, operands: Operands) -> Reason | None:
        dtype = first(operands).dtype
        if dtype is None:
            return Reason("the element type is unknown", missing=True)
        if dtype in old and what.to in new:
            return None
        return Reason(f"it does not cast {type_name(dtype)} to {type_name(what.to)}")

    return applies_if


def _number(value: float | int) -> Tensor:
    """A scalar, of double or of int64."""
    return Tensor(np.array(value))


# --- to integers --------------------------------------------------------------------------------------------------


@lowering(18, applies_if=_between(INTEGERS | {TensorProto.BOOL}, INTEGERS), bind=lambda what, operands: {"to": what.to})
def recast(x, to: int):
    """Cast; Cast-13: "discard higher bits and reinterpret", and there are no higher bits."""
    return op.Cast(x, to=to)


def _measures(what: BitCast, operands: Operands) -> Mapping[str, Any]:
    layout = _LAYOUTS[first(operands).dtype or 0]
    ups = np.append(layout.ups[1:], layout.ups[-1] - 1)
    return {
        "least": _number(float(layout.least)),
        "largest": _number(math.ldexp(2 - 2.0**-layout.fraction, layout.fraction - int(ups[-2]))),
        # 2^1074, which makes an integer of the smallest double, is none itself.
        "half": Tensor(np.ldexp(1.0, ups // 2)),
        "rest": Tensor(np.ldexp(1.0, ups - ups // 2)),
        "hidden": _number(2.0**layout.fraction),
        "step": _number(2**layout.fraction),
        "quiet": _number(2 ** (layout.fraction - 1)),
        "sign": _number(-(2 ** (layout.bits - 1))),
        "to": what.to,
    }


@lowering(
    18,
    applies_if=_between(FLOATS, INTEGERS),
    bind=_measures,
    assumes=lambda what, operands: frozenset({"no-nan"}),
)
def measured(
    x,
    least: Sequence[int],
    largest: Sequence[int],
    half: Sequence[int],
    rest: Sequence[int],
    hidden: Sequence[int],
    step: Sequence[int],
    quiet: Sequence[int],
    sign: Sequence[int],
    to: int,
):
    """Find the exponent by a logarithm, then the fraction; a NaN is the plain one, whatever its bits."""
    number = op.Cast(x, to=11)
    size = op.Abs(number)
    limited = op.Where(op.Less(size, largest), size, largest)
    # A logarithm that is rounded to the nearest is the exponent, or one more: that far off it never is.
    about = op.Round(op.Div(op.Log(limited), op.Log(op.Cast(2.0, to=11))))
    place = op.Sub(op.Max(about, least), least)
    index = op.Cast(place, to=7)
    scaled = limited * op.Gather(half, index) * op.Gather(rest, index)
    lacks = op.Min(op.Sub(scaled, hidden), op.Cast(0.0, to=11)) * op.Min(place, op.Cast(1.0, to=11))
    bits = op.Mul(index, step) + op.Cast(scaled + lacks, to=7)
    beyond = op.Cast(op.Not(op.LessOrEqual(size, largest)), to=7) + op.Cast(op.IsNaN(number), to=7) * quiet
    negative = op.Or(op.Less(number, op.Cast(0.0, to=11)), op.Less(op.Reciprocal(number), op.Cast(0.0, to=11)))
    return op.Cast(bits + beyond + op.Cast(negative, to=7) * sign, to=to)


# --- to floats ----------------------------------------------------------------------------------------------------


def _scales(what: BitCast, operands: Operands) -> Mapping[str, Any]:
    layout = _LAYOUTS[what.to]
    return {
        "like": _OF_BITS[layout.bits],
        "quarter": _number(2 ** (layout.bits - 2)),
        "step": _number(2**layout.fraction),
        "scales": Tensor(np.append(np.ldexp(1.0, -layout.ups), np.inf)),
        "none": _number(math.nan),
        "last": _number((layout.exponents - 1) << layout.fraction),
        "to": what.to,
    }


@lowering(18, applies_if=_between(INTEGERS, FLOATS), bind=_scales)
def composed(
    x,
    like: int,
    quarter: Sequence[int],
    step: Sequence[int],
    scales: Sequence[int],
    none: Sequence[int],
    last: Sequence[int],
    to: int,
):
    """Multiply the fraction by the power of two of its exponent."""
    bits = op.Cast(op.Cast(x, to=like), to=7)
    negative = op.Cast(op.Less(bits, 0), to=7)
    positive = bits + negative * quarter + negative * quarter
    exponent = op.Div(positive, step)
    fraction = positive - exponent * step + op.Cast(op.Less(0, exponent), to=7) * step
    size = op.Cast(fraction, to=11) * op.Gather(scales, exponent)
    number = op.Where(op.Less(last, positive), none, size)
    return op.Cast(number * op.Cast(1 - 2 * negative, to=11), to=to)


@lowering(
    18,
    applies_if=_between(FLOATS, FLOATS),
    bind=lambda what, operands: {"bits": _OF_BITS[_LAYOUTS[what.to].bits], "to": what.to},
)
def by_integers(x, bits: int, to: int):
    """Read the bits as an integer, and that as the other type."""
    return meaning.Itself(meaning.Itself(x, to=bits), to=to)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw bits, not numbers, half of them at the ends of an exponent; floats that would be NaN stay what they were."""
    x = feeds["input"]
    width = 8 * x.dtype.itemsize
    if x.dtype == bool or width not in _OF_BITS or not x.flags.writeable:
        return feeds
    fraction = rng.choice([one.fraction for one in _LAYOUTS.values() if one.bits == width])
    bits = rng.integers(0, 2**width - 1, x.shape, np.uint64, endpoint=True)
    ends = (
        (bits >> np.uint64(fraction) << np.uint64(fraction))
        + rng.integers(0, 3, x.shape).astype(np.uint64)
        - np.uint64(1)
    )
    bits = np.where(rng.random(x.shape) < 0.5, bits, ends)
    drawn = bits.astype(f"u{x.dtype.itemsize}").view(x.dtype)
    return {**feeds, "input": np.where(drawn == drawn, drawn, x)}


OPERATOR = Operator(
    name="BitCast",
    meaning=BitCast,
    versions=(Version(26),),
    operands=("input",),
    oracle=oracle,
    lowerings=(recast, measured, composed, by_integers),
    idle=_same_type,
    adversarial=adversarial,
    traits=Traits(floats=(Trait.MOVES,), reads_bits=True),
)
