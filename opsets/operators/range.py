"""Range: numbers from a start to a limit by a step. Since version 11."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Dim, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits


@dataclass(frozen=True)
class Range:
    """The type in which float16 and bfloat16 are computed, a TensorProto.DataType."""

    stash_type: int = 1


BLOCK = 4096
"""The length of the block of `folded`, which reaches the square of it."""


HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def oracle(
    what: Range, start: np.ndarray[Any, Any], limit: np.ndarray[Any, Any], delta: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Range-11: "number_of_elements = max( ceil( (limit - start) / delta ) , 0 )", each "start + (i * delta)"."""
    half = start.dtype.name in ("float16", "bfloat16") and what.stash_type == TensorProto.FLOAT
    wide = np.dtype(np.float32) if half else start.dtype
    origin, end, step = (array.astype(wide) for array in (start, limit, delta))
    if wide.kind in "iu":
        count = -((end.item() - origin.item()) // -step.item())
    else:
        count = math.ceil(float(end - origin) / float(step))
    # Scalars that are arrays would make numpy add in a wider type.
    numbers = np.arange(max(count, 0)).astype(wide) * step.reshape(1) + origin.reshape(1)
    return np.asarray(numbers.astype(start.dtype))


def normal(what: Range, operands: Operands) -> tuple[Range, Operands]:
    """Drop stash_type where it "has no effect" (Range-27)."""
    dtype = (operands[0] or Facts()).dtype
    return (what if dtype in (None, *HALVES) else Range()), operands


def shape(what: Range, operands: Operands) -> tuple[Dim, ...]:
    """One dimension; that of a count from 0 by 1 is the limit."""
    start, limit, delta = (facts or Facts() for facts in operands)
    counting = _is(start, 0) and _is(delta, 1)
    if counting and limit.value is not None:
        element = limit.value.array.item()
        return (max(int(element), 0) if isinstance(element, int | float) else element,)
    return (None,)


def _is(facts: Facts | None, number: int) -> bool:
    return facts is not None and facts.known is not None and facts.known.item() == number


def _count(what: Range, operands: Operands) -> Reason | None:
    if not (_is(operands[0], 0) and _is(operands[2], 1)):
        return Reason("it does not count from 0 by 1")
    dtype = (operands[1] or Facts()).dtype
    return None if dtype == TensorProto.INT64 else Reason("the numbers are not int64")


def _halves(what: Range, operands: Operands) -> Reason | None:
    if (operands[0] or Facts()).dtype not in HALVES:
        return Reason("the numbers are not float16 or bfloat16")
    return None if what.stash_type == TensorProto.FLOAT else Reason("they are not counted in float")


@lowering(13, applies_if=_halves, bind=lambda what, operands: {"like": (operands[0] or Facts()).dtype})
def in_float(start, limit, delta, like: int):
    """Count in float, "with the output cast back to the original type" (Range-27)."""
    numbers = meaning.Itself(op.Cast(start, to=1), op.Cast(limit, to=1), op.Cast(delta, to=1))
    return op.Cast(numbers, to=like)


WIDE: Mapping[int, int] = {
    **dict.fromkeys((TensorProto.INT16, TensorProto.INT32, TensorProto.INT64), TensorProto.INT64),
    **{dtype: dtype for dtype in (TensorProto.FLOAT, TensorProto.DOUBLE)},
}
"""The type in which numbers are computed, by their own."""


def _steps(what: Range, operands: Operands) -> Reason | None:
    dtype = (operands[1] or Facts()).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    if _is(operands[0], 0) and _is(operands[2], 1) and dtype == TensorProto.INT64:
        return Reason("it counts from 0 by 1 already")
    return None if dtype in WIDE else Reason("the numbers are counted in float")


def _types(what: Range, operands: Operands) -> Mapping[str, Any]:
    dtype = (operands[1] or Facts()).dtype or 0
    return {"like": dtype, "wide": WIDE[dtype]}


# onnxruntime 1.31.1 adds the step again and again, and so rounds more often than the text does. How many numbers there
# are it finds by a division of doubles, of integers too.
@lowering(13, applies_if=_steps, bind=_types, rounds=True)
def counted(start, limit, delta, wide: int, like: int):
    """Count from 0 by 1, then scale and shift."""
    step = op.Cast(delta, to=wide)
    origin = op.Cast(start, to=wide)
    length = op.Cast(op.Cast(limit, to=wide) - origin, to=11)
    count = op.Cast(op.Ceil(length / op.Cast(delta, to=11)), to=7)
    return op.Cast(op.Cast(op.Range(0, count, 1), to=wide) * step + origin, to=like)


@lowering(13, applies_if=_count)
def nonzero(start, limit, delta):
    """Return the positions from NonZero of that many ones."""
    count = op.ReduceMax(op.Concat([0], op.Reshape(limit, [1]), axis=0), keepdims=1)
    return op.Reshape(op.NonZero(op.Expand([1], count)), [-1])


def _short(what: Range, operands: Operands) -> Reason | None:
    limit = operands[1].known if operands[1] else None
    if limit is not None and limit.item() > BLOCK**2:
        return Reason(f"it counts beyond {BLOCK**2}")
    return _count(what, operands)


@lowering(13, applies_if=_short, bind=lambda what, operands: {"row": Tensor(np.arange(BLOCK, dtype=np.int64))})
def folded(start, limit, delta, row: Sequence[int]):
    """Sum a column of multiples of 4096 and a row of 0 to 4095; both, and the sum, are cut to length by Reshape.

    To cut a vector to n, fill it up to a multiple of n, reshape to rows of n and take the first. Good to 2^24 numbers:
    beyond, Tile is asked for a negative number of repeats, and fails.
    """
    wanted = op.ReduceMax(op.Concat([0], op.Reshape(limit, [1]), axis=0), keepdims=1)
    none = op.Cast(op.Equal(wanted, 0), to=7)
    count = wanted + none
    blocks = (count + 4095) / 4096
    fill = op.Tile([0], (4095 + blocks) / blocks * blocks - 4096 - blocks / 4097 * 1099511627776)
    column = op.Gather(op.Reshape(op.Concat(row, fill, axis=0), op.Concat([-1], blocks, axis=0)), 0, axis=0)
    table = op.Reshape(op.Reshape(column, [-1, 1]) * 4096 + op.Reshape(row, [1, 4096]), [-1])
    length = blocks * 4096
    rest = op.Tile([0], (length + count - 1) / count * count - length)
    numbers = op.Gather(op.Reshape(op.Concat(table, rest, axis=0), op.Concat([-1], count, axis=0)), 0, axis=0)
    return op.Tile(numbers, 1 - none)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Few numbers up or down, none, or about as many as a block of `folded` holds."""
    changed = dict(feeds)
    free = {name for name, array in feeds.items() if array.flags.writeable}
    start = int(rng.integers(-5, 6)) if "start" in free else int(feeds["start"].item())
    delta = int(rng.choice([-3, -2, -1, 1, 2, 3])) if "delta" in free else int(feeds["delta"].item())
    count = int(rng.choice([-3, 0, 1, 2, 5, 7, BLOCK - 1, BLOCK, BLOCK + 1, 10000]))
    wanted = {"start": start, "limit": start + count * delta + int(rng.integers(0, 2)), "delta": delta}
    changed.update({name: np.full_like(feeds[name], wanted[name]) for name in free & set(wanted)})
    return changed


OPERATOR = Operator(
    name="Range",
    meaning=Range,
    normal=normal,
    adversarial=adversarial,
    versions=(Version(11), Version(27)),
    operands=("start", "limit", "delta"),
    oracle=oracle,
    shape=shape,
    lowerings=(in_float, counted, nonzero, folded),
    traits=Traits(value_range=value_ranges.stepped, counts=(0, 1, 2), grows=True),
)
