"""BitShift: bits moved left or right. Unsigned since 11; signed, and by more than there are bits, since 28."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

BITS: Mapping[int, int] = {
    TensorProto.UINT8: 8,
    TensorProto.INT8: 8,
    TensorProto.UINT16: 16,
    TensorProto.INT16: 16,
    TensorProto.UINT32: 32,
    TensorProto.INT32: 32,
    TensorProto.UINT64: 64,
    TensorProto.INT64: 64,
}


@dataclass(frozen=True)
class BitShift:
    """LEFT or RIGHT."""

    direction: str = "LEFT"


def oracle(meaning: BitShift, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
    """BitShift-28: beyond the bits "the result is whatever the sign bit extension alone produces"."""
    bits = x.dtype.itemsize * 8
    inside = (y >= 0) & (y < bits)
    amount = np.where(inside, y, 0).astype(x.dtype)
    if meaning.direction == "LEFT":
        return np.where(inside, np.left_shift(x, amount), x.dtype.type(0))
    return np.where(inside, np.right_shift(x, amount), -(x < 0).astype(x.dtype))


def _inside(meaning: BitShift, operands: Operands) -> Reason | None:
    """BitShift-11 does not define shifts by all bits of the type; only constants are known to be smaller."""
    x, y = operands
    if y is None or x is None or x.dtype is None:
        return None
    bits = BITS.get(x.dtype, 0)
    if y.known is None:
        return None
    return None if (y.known < bits).all() else Reason("no shift by as many bits as there are is defined")


def _going(direction: str, *, wide: bool) -> Callable[[BitShift, Operands], Reason | None]:
    def applies_if(meaning: BitShift, operands: Operands) -> Reason | None:
        dtype = first(operands).dtype
        if meaning.direction != direction:
            return Reason(f"it shifts {direction.lower()}")
        if dtype is None:
            return Reason("the element type is unknown", missing=True)
        if dtype not in BITS:
            return Reason("it is for integers")
        return None if wide or dtype != TensorProto.UINT64 else Reason("int64 does not hold uint64")

    return applies_if


def _only_uint64(meaning: BitShift, operands: Operands) -> Reason | None:
    fits = meaning.direction == "RIGHT" and first(operands).dtype == TensorProto.UINT64
    return None if fits else Reason("it shifts uint64 right")


def _powers(meaning: BitShift, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype or 0
    bits = BITS[dtype]
    powers = np.left_shift(np.ones(bits, np.int64), np.arange(bits))
    return {"bits": bits, "powers": tuple(powers.tolist()), "to": dtype}


@lowering(14, applies_if=_going("LEFT", wide=True), bind=_powers)
def multiplied(x, y, bits: int, powers: Sequence[int], to: int):
    """Multiply by a power of two; the bits that leave are those that Cast drops."""
    amount = op.Cast(y, to=7)
    inside = op.Cast(op.And(op.Less(-1, amount), op.Less(amount, bits)), to=7)
    return op.Cast(op.Cast(x, to=7) * op.Gather(powers, amount * inside) * inside, to=to)


@lowering(14, applies_if=_going("RIGHT", wide=False), bind=_powers)
def divided(x, y, bits: int, powers: Sequence[int], to: int):
    """Divide by a power of two; of negative numbers the ones' complement, as which their bits look like others'."""
    amount = op.Cast(y, to=7)
    number = op.Cast(x, to=7)
    inside = op.Cast(op.And(op.Less(-1, amount), op.Less(amount, bits)), to=7)
    negative = op.Cast(op.Less(number, 0), to=7)
    turn = 1 - 2 * negative
    moved = (number * turn - negative) / op.Gather(powers, amount * inside) * inside
    return op.Cast(moved * turn - negative, to=to)


@lowering(14, applies_if=_only_uint64, bind=_powers)
def divided_uint64(x, y, bits: int, powers: Sequence[int], to: int):
    """Divide by a power of two, as uint64."""
    amount = op.Cast(y, to=7)
    inside = op.Cast(op.And(op.Less(-1, amount), op.Less(amount, bits)), to=7)
    return op.Div(x, op.Cast(op.Gather(powers, amount * inside), to=13)) * op.Cast(inside, to=13)


def _topped(rng: np.random.Generator, feeds: Mapping[str, Any], bits: int) -> Mapping[str, Any]:
    """Return inputs of which some of the numbers to shift are the highest bit."""
    x = feeds["X"]
    if not x.flags.writeable:
        return feeds
    return {**feeds, "X": np.where(rng.integers(4, size=x.shape) == 0, x.dtype.type(1 << (bits - 1)), x)}


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Shift by about as many bits as there are; unsigned numbers by less, since below 28 no more is defined.

    The highest bit alone, shifted to the lowest, tells the power of two that it is divided by from its neighbours.
    """
    y = feeds["Y"]
    bits = y.dtype.itemsize * 8
    if not y.flags.writeable:
        return feeds
    if y.dtype.kind == "u":
        amount = np.where(rng.integers(4, size=y.shape) == 0, bits - 1, np.mod(y, y.dtype.type(bits)))
        return {**_topped(rng, feeds, bits), "Y": amount.astype(y.dtype)}
    return {**feeds, "Y": rng.choice([-1, 0, 1, bits - 2, bits - 1, bits, bits + 1], y.shape).astype(y.dtype)}


OPERATOR = Operator(
    name="BitShift",
    meaning=BitShift,
    versions=(Version(11, applies_if=_inside), Version(28)),
    operands=("X", "Y"),
    oracle=oracle,
    lowerings=(multiplied, divided, divided_uint64),
    adversarial=adversarial,
    traits=Traits(merges=elementwise, floats=(Trait.MOVES,)),
)
