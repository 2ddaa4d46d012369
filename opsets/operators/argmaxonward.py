"""ArgMaxOnward: an ArgMax block by block, some of which have been looked at. Lowerings say it; no model has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opshift.opsets.axes import END, first
from opshift.opsets.facts import Dim, Facts
from opshift.opsets.lowering import Reason, lowering, meaning, op
from opshift.opsets.operator import Operands, Operator
from opshift.opsets.operators.argmax import may_be_nan


@dataclass(frozen=True)
class ArgMaxOnward:
    """The axis, with others behind it; how many elements a block has; which of equal maxima counts.

    The outputs are the number of the block that has the maximum, as uint8, and the maximum; the axis is kept. Of the
    axis that `divided` names they have what is between `start` and `stop`. `block` is the number of the block looked
    at last.
    Where blocks have been looked at, `most` is the maximum of those before the last, `row` that of the last, `place`
    the number of the block that has `most`, and `won` that of the last where it takes over from it, else 0.
    With `nan` `any`, any block will do where a NaN is among the elements; it is kept only in blocks of one.
    """

    axis: int = 0
    size: int = 1
    select_last_index: int = 0
    nan: str = "kept"
    start: int = 0
    stop: int = END
    block: int = 0


Array = np.ndarray[Any, Any]


def oracle(
    meaning: ArgMaxOnward,
    data: Array,
    most: Array | None = None,
    row: Array | None = None,
    won: Array | None = None,
    place: Array | None = None,
) -> tuple[Array, Array]:
    """Go on from the maximum before the block that `row` is the maximum of; `won` is its number where it takes over."""
    beats = np.less_equal if meaning.select_last_index else np.less
    behind = divided(meaning.axis, data.shape)
    within = np.take(data, np.arange(data.shape[behind])[meaning.start : meaning.stop], behind)
    blocks = np.split(within, data.shape[meaning.axis] // meaning.size, meaning.axis)
    rows = [block.max(axis=meaning.axis, keepdims=True) for block in blocks]
    best, number = rows[0], np.zeros(rows[0].shape, np.uint8)
    if most is not None and row is not None and won is not None and place is not None:
        best, number = np.where(won > 0, row, most), np.maximum(won, place)
    for index in range(meaning.block + 1, len(rows)):
        better = beats(best, rows[index])
        best, number = np.where(better, rows[index], best), np.where(better, index, number)
    return number.astype(np.uint8), best


def divided(axis: int, shape: Sequence[Dim]) -> int:
    """Return the axis behind that parts are taken of: the first that has three, or the next one where none has."""
    behind = range(axis + 1, len(shape))
    return next((one for one in behind if isinstance(dim := shape[one], int) and dim >= 3), axis + 1)


# --- part by part -----------------------------------------------------------------------------------------------------

_ROW = 2**16
"""Elements of a row, as far as is known, from which on it is looked at in parts."""


def _part(meaning: ArgMaxOnward, operands: Operands) -> int:
    """How much of the divided axis is looked at before the rest; END where all of it is.

    Three rows of a part are held, and five of bytes, besides the result in bytes that is put together of parts: there
    are so many parts that all this is hardly more than the eight bytes of an index.
    """
    data = first(operands)
    shape = data.shape or ()
    length = data.dim(divided(meaning.axis, shape))
    row = math.prod(dim for axis, dim in enumerate(shape) if axis != meaning.axis and isinstance(dim, int))
    if row < _ROW or not isinstance(length, int) or data.dtype is None:
        return END
    parts = helper.tensor_dtype_to_np_dtype(data.dtype).itemsize // 2 + 1
    return -(-length // parts)


def _begun(operands: Operands) -> Reason | None:
    return Reason("blocks have been looked at") if operands[1] is not None else None


def _whole(meaning: ArgMaxOnward, operands: Operands) -> Reason | None:
    shape = first(operands).shape or ()
    length = shape[divided(meaning.axis, shape)] if shape else None
    end = min(meaning.stop, length) if isinstance(length, int) else meaning.stop
    few = end - meaning.start <= _part(meaning, operands)
    return None if few else Reason("in parts it takes less memory")


def _large(meaning: ArgMaxOnward, operands: Operands) -> Reason | None:
    return _begun(operands) or (None if _whole(meaning, operands) else Reason("rows are small"))


def _parts(meaning: ArgMaxOnward, operands: Operands) -> Mapping[str, Any]:
    return {
        "begin": meaning.start,
        "middle": meaning.start + _part(meaning, operands),
        "end": meaning.stop,
        "behind": divided(meaning.axis, first(operands).shape or ()),
    }


@lowering(18, given=_large, bind=_parts)
def by_parts(data, most, row, won, place, begin: int, middle: int, end: int, behind: int):
    """Look at all blocks of a part of what is behind the axis, then at those of the rest."""
    one, larger = meaning.Same(data, start=begin, stop=middle)
    two, largest = meaning.Same(data, start=middle, stop=end)
    return op.Concat(one, two, axis=behind), op.Concat(larger, largest, axis=behind)


# --- block by block ---------------------------------------------------------------------------------------------------


def _left(meaning: ArgMaxOnward, operands: Operands) -> int | None:
    """How many elements of the axis have not been looked at."""
    length = first(operands).dim(meaning.axis)
    return length - (meaning.block + 1) * meaning.size if isinstance(length, int) else None


def _other(meaning: ArgMaxOnward, last: int) -> Reason | None:
    return None if meaning.select_last_index == last else Reason("the other of equal maxima is wanted")


def _begins(last: int) -> Callable[[ArgMaxOnward, Operands], Reason | None]:
    def given(meaning: ArgMaxOnward, operands: Operands) -> Reason | None:
        left = _left(meaning, operands)
        if not left:
            return Reason("the length of the axis is not known, or one block is all of it", missing=left is None)
        if meaning.block:
            return Reason("the first two blocks are said to have been looked at")
        return _begun(operands) or _whole(meaning, operands) or _other(meaning, last)

    return given


def _wide(operands: Operands) -> bool:
    # Of int64 onnxruntime 1.31.1 mistakes the order in Max where upper halves are equal; in Less it does not.
    return first(operands).dtype == TensorProto.INT64


def _by_max(operands: Operands) -> Reason | None:
    return Reason("Max of int64 is not relied on") if _wide(operands) else None


def _by_choice(meaning: ArgMaxOnward, operands: Operands) -> Reason | None:
    chosen = _wide(operands) or may_be_nan(meaning, operands)
    return None if chosen else Reason("Max tells the larger")


def _goes_on(meaning: ArgMaxOnward, operands: Operands, last: int) -> Reason | None:
    if operands[1] is None or not _left(meaning, operands):
        return Reason("none, or all, have been looked at")
    return _other(meaning, last)


def _larger(last: int) -> Callable[[ArgMaxOnward, Operands], Reason | None]:
    return lambda meaning, operands: _goes_on(meaning, operands, last) or _by_max(operands)


def _winner(last: int) -> Callable[[ArgMaxOnward, Operands], Reason | None]:
    return lambda meaning, operands: _goes_on(meaning, operands, last) or _by_choice(meaning, operands)


def _ends(meaning: ArgMaxOnward, operands: Operands) -> Reason | None:
    return None if operands[1] is not None and _left(meaning, operands) == 0 else Reason("there are more blocks")


def _nan(meaning: ArgMaxOnward, operands: Operands) -> frozenset[str]:
    # Neither Max-13 nor ReduceMax-18 says what it makes of a NaN; here one in front wins, and others never do.
    return frozenset({"nan"}) if may_be_nan(meaning, operands) else frozenset()


def _next(meaning: ArgMaxOnward, operands: Operands) -> Mapping[str, Any]:
    axis, size, block = meaning.axis, meaning.size, meaning.block
    return {
        "axis": (axis,),
        # The divided axis is said also where all of it is meant: of slices along one axis that together are the whole
        # of it onnxruntime 1.31.1 makes a Split, which holds all rows; they leave the cache before they are read.
        "axes": (axis, divided(axis, first(operands).shape or ())),
        "front": (0, meaning.start),
        "behind": (size, meaning.stop),
        "starts": ((block + 1) * size, meaning.start),
        "ends": ((block + 2) * size, meaning.stop),
        "then": block + 1,
    }


@lowering(18, given=_begins(0), bind=_next)
def first_begun(
    data,
    most,
    row,
    won,
    place,
    axis: Sequence[int],
    axes: Sequence[int],
    front: Sequence[int],
    behind: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    then: int,
):
    """Look at two blocks."""
    one = op.ReduceMax(op.Slice(data, front, behind, axes), axis, keepdims=1)
    two = op.ReduceMax(op.Slice(data, starts, ends, axes), axis, keepdims=1)
    found, largest = meaning.Same(data, one, two, op.Cast(op.Less(one, two), to=2), op.Cast(0, to=2), block=then)
    return found, largest


@lowering(18, given=_begins(1), bind=_next)
def last_begun(
    data,
    most,
    row,
    won,
    place,
    axis: Sequence[int],
    axes: Sequence[int],
    front: Sequence[int],
    behind: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    then: int,
):
    """Look at two blocks, the second of which wins where they are equal."""
    one = op.ReduceMax(op.Slice(data, front, behind, axes), axis, keepdims=1)
    two = op.ReduceMax(op.Slice(data, starts, ends, axes), axis, keepdims=1)
    found, largest = meaning.Same(data, one, two, op.Cast(op.LessOrEqual(one, two), to=2), op.Cast(0, to=2), block=then)
    return found, largest


# onnxruntime 1.31.1 orders nodes from the output back, and of a node's inputs follows first the one that stands last in
# the model. What the blocks so far have come to stands last here, so that they are done with before another is read: a
# state of the maximum and its place alone would be shorter, and hold all rows at once.


@lowering(18, given=_larger(0), bind=_next, narrows=_nan)
def first_larger(
    data,
    most,
    row,
    won,
    place,
    axis: Sequence[int],
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    then: int,
):
    """Keep the larger, and look whether the next block has a larger one still."""
    more = op.ReduceMax(op.Slice(data, starts, ends, axes), axis, keepdims=1)
    so_far = op.Max(most, row)
    wins = op.Cast(op.Less(so_far, more), to=2) * op.Cast(then, to=2)
    leads = op.Max(place, won)
    found, largest = meaning.Same(data, so_far, more, wins, leads, block=then)
    return found, largest


@lowering(18, given=_larger(1), bind=_next, narrows=_nan)
def last_larger(
    data,
    most,
    row,
    won,
    place,
    axis: Sequence[int],
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    then: int,
):
    """Keep the larger, and look whether the next block has one that is as large."""
    more = op.ReduceMax(op.Slice(data, starts, ends, axes), axis, keepdims=1)
    so_far = op.Max(most, row)
    wins = op.Cast(op.LessOrEqual(so_far, more), to=2) * op.Cast(then, to=2)
    leads = op.Max(place, won)
    found, largest = meaning.Same(data, so_far, more, wins, leads, block=then)
    return found, largest


@lowering(18, given=_winner(0), bind=_next)
def first_winner(
    data,
    most,
    row,
    won,
    place,
    axis: Sequence[int],
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    then: int,
):
    """Keep what has won, which no NaN does, and look whether the next block has a larger one still."""
    more = op.ReduceMax(op.Slice(data, starts, ends, axes), axis, keepdims=1)
    so_far = op.Where(op.Cast(won, to=9), row, most)
    wins = op.Cast(op.Less(so_far, more), to=2) * op.Cast(then, to=2)
    leads = op.Max(place, won)
    found, largest = meaning.Same(data, so_far, more, wins, leads, block=then)
    return found, largest


@lowering(18, given=_winner(1), bind=_next)
def last_winner(
    data,
    most,
    row,
    won,
    place,
    axis: Sequence[int],
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    then: int,
):
    """Keep what has won, which no NaN does, and look whether the next block has one that is as large."""
    more = op.ReduceMax(op.Slice(data, starts, ends, axes), axis, keepdims=1)
    so_far = op.Where(op.Cast(won, to=9), row, most)
    wins = op.Cast(op.LessOrEqual(so_far, more), to=2) * op.Cast(then, to=2)
    leads = op.Max(place, won)
    found, largest = meaning.Same(data, so_far, more, wins, leads, block=then)
    return found, largest


@lowering(18, given=lambda meaning, operands: _ends(meaning, operands) or _by_max(operands), narrows=_nan)
def ends_with_larger(data, most, row, won, place):
    """Say where the last block has won, and the larger."""
    return op.Max(place, won), op.Max(most, row)


@lowering(18, given=lambda meaning, operands: _ends(meaning, operands) or _by_choice(meaning, operands))
def ends_with_winner(data, most, row, won, place):
    """Say where the last block has won, and what has."""
    return op.Max(place, won), op.Where(op.Cast(won, to=9), row, most)


def _facts(meaning: ArgMaxOnward, operands: Operands) -> tuple[Facts, ...]:
    data = first(operands)
    shape = data.shape
    if shape is not None:
        behind = divided(meaning.axis, shape)
        length = shape[behind]
        if (meaning.start, meaning.stop) != (0, END):
            length = min(meaning.stop, length) - meaning.start if isinstance(length, int) else None
        kept = {meaning.axis: 1, behind: length}
        shape = tuple(kept.get(axis, dim) for axis, dim in enumerate(shape))
    return Facts(TensorProto.UINT8, shape), Facts(data.dtype, shape)


OPERATOR = Operator(
    name="ArgMaxOnward",
    domain="opshift.step",
    meaning=ArgMaxOnward,
    versions=(),
    operands=("data", "most", "row", "won", "place"),
    oracle=oracle,
    lowerings=(
        by_parts,
        first_begun,
        last_begun,
        first_larger,
        last_larger,
        first_winner,
        last_winner,
        ends_with_winner,
        ends_with_larger,
    ),
    facts=_facts,
)
