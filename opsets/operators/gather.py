"""Gather: entries of a tensor along one axis by their indices; negative indices are defined since 11."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import END, axis_not_negative, from_front, one_axis, product, resolve
from opshift.opsets.families.merged_axes import Stages, apart, in_shape, place_of, shape_of
from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits


@dataclass(frozen=True)
class Gather:
    """The axis of the gathered entries."""

    axis: int = 0


def oracle(meaning: Gather, data: np.ndarray[Any, Any], indices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Gather-11: "index values are expected to be within bounds [-s, s-1] along axis of size s"."""
    return np.take(data, indices.astype(np.int64), axis=meaning.axis)


def normal(meaning: Gather, operands: Operands) -> tuple[Gather, Operands]:
    """Count the axis, and constant indices, from the front where rank and dimension are known."""
    meaning, _ = one_axis(meaning, operands)
    data, indices = operands
    dim = data.dim(meaning.axis) if data is not None and data.rank else None
    known = indices.known if indices else None
    if known is None or not isinstance(dim, int) or known.min(initial=0) >= 0:
        return meaning, operands
    return meaning, (data, constant(from_front(known, dim)))


def _indices_from_front(meaning: Gather, operands: Operands) -> Reason | None:
    if reason := axis_not_negative(meaning, operands):
        return reason
    known = (operands[1] or Facts()).known
    if known is None or known.min(initial=0) < 0:
        return Reason("no negative index is defined, and there may be one", missing=True)
    return None


def _bound(meaning: Gather, operands: Operands) -> Mapping[str, Any]:
    return {
        "axis": meaning.axis,
        "start": (meaning.axis,),
        "end": (meaning.axis + 1 or END,),
        "like": (operands[1] or Facts()).dtype,
    }


def _guardable(meaning: Gather, operands: Operands) -> Reason | None:
    typed = operands[1] is not None and operands[1].dtype is not None
    return axis_not_negative(meaning, operands) if typed else Reason("the type of the indices is unknown", missing=True)


@lowering(10, applies_if=_guardable, bind=_bound)
def guarded(data, indices, axis: int, start: Sequence[int], end: Sequence[int], like: int):
    """Add the length of the axis to negative indices."""
    length = op.Cast(op.Squeeze(op.Slice(op.Shape(data), start, end), axes=[0]), to=like)
    below = op.Cast(op.Less(op.Cast(indices, to=11), 0.0), to=like)
    return op.Gather(data, indices + length * below, axis=axis)


def _places(operands: Operands) -> list[int] | Reason:
    """Return constant indices that are a number, or evenly spaced numbers that increase, all from the same end."""
    indices = operands[1] or Facts()
    if indices.known is None:
        return Reason("the indices are computed at run time", missing=not indices.unread)
    places = indices.known.reshape(-1).tolist()
    if indices.known.ndim > 1 or not places or (min(places) < 0 <= max(places)):
        return Reason("the indices are not evenly spaced")
    steps = {after - before for before, after in itertools.pairwise(places)} or {1}
    return places if len(steps) == 1 and min(steps) > 0 else Reason("the indices are not evenly spaced")


def _one_place(meaning: Gather, operands: Operands) -> Reason | None:
    places = _places(operands)
    if isinstance(places, Reason):
        return places
    return None if (operands[1] or Facts()).rank == 0 else Reason("the index is no scalar")


def _row(meaning: Gather, operands: Operands) -> Reason | None:
    places = _places(operands)
    if isinstance(places, Reason):
        return places
    return None if (operands[1] or Facts()).rank == 1 else Reason("the indices are no vector")


def _span(meaning: Gather, operands: Operands) -> Mapping[str, Any]:
    places = _places(operands)
    assert not isinstance(places, Reason)
    step = places[1] - places[0] if len(places) > 1 else 1
    return {"starts": (places[0],), "ends": (places[-1] + 1 or END,), "axes": (meaning.axis,), "steps": (step,)}


def _only(meaning: Gather, operands: Operands) -> Mapping[str, Any]:
    span = _span(meaning, operands)
    return {name: span[name] for name in ("starts", "ends", "axes")}


@lowering(13, applies_if=_one_place, bind=_only)
def taken(data, indices, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int]):
    """Slice the one position, and drop the axis."""
    return op.Squeeze(op.Slice(data, starts, ends, axes), axes)


@lowering(13, applies_if=_row, bind=_span)
def evenly(data, indices, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]):
    """Slice evenly spaced positions."""
    return op.Slice(data, starts, ends, axes, steps)


RUNS = 64
"""The most slices that stand for the rows of one Gather."""


def _constant_vector(operands: Operands) -> np.ndarray[Any, Any] | Reason:
    """Return constant indices that are a vector of several, of data that are no strings."""
    indices = operands[1] or Facts()
    if indices.known is None:
        return Reason("the indices are computed at run time", missing=not indices.unread)
    if operands[0] is not None and operands[0].dtype == TensorProto.STRING:
        return Reason("onnxruntime 1.32.0 concatenates strings wrongly where there are none")
    if indices.known.ndim != 1 or indices.known.size < 2:
        return Reason("the indices are no vector of several")
    return indices.known


def _uneven(meaning: Gather, operands: Operands) -> Reason | None:
    """Require a vector of constant indices, several of which are not evenly spaced."""
    places = _constant_vector(operands)
    if isinstance(places, Reason):
        return places
    if not isinstance(_places(operands), Reason):
        return Reason("the indices are evenly spaced")
    runs = _counted(places.tolist())
    return Reason(f"it takes more than {RUNS} slices") if runs > RUNS else None


def _apart(meaning: Gather, operands: Operands) -> Reason | None:
    """Require a vector of constant indices, not all of which follow each other."""
    places = _constant_vector(operands)
    if isinstance(places, Reason):
        return places
    runs = _counted(places.tolist(), widest=1)
    if runs == 1:
        return Reason("the indices follow each other")
    return Reason(f"it takes more than {RUNS} slices without steps") if runs > RUNS else None


def _counted(places: Sequence[int], widest: int | None = None) -> int:
    """Count the runs, up to one more than may be taken."""
    return sum(1 for _ in itertools.islice(_runs(places, widest), RUNS + 1))


def _runs(places: Sequence[int], widest: int | None = None) -> Iterator[list[int]]:
    """Yield numbers in order, as many at a time as are evenly spaced, increase and are counted from one end.

    No step is greater than `widest`.
    """
    run: list[int] = []
    for place in places:
        step = place - run[-1] if run else 1
        uneven = step < 1 or (widest is not None and step > widest) or (len(run) > 1 and step != run[1] - run[0])
        if run and (uneven or (place < 0) != (run[-1] < 0)):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _halves(runs: Sequence[list[int]]) -> Mapping[str, Any]:
    """Bind the runs of the first half and those of the second: taking one at a time would nest as deep as there are."""
    half = len(runs) // 2
    return {"first": tuple(itertools.chain(*runs[:half])), "rest": tuple(itertools.chain(*runs[half:]))}


def _even_halves(meaning: Gather, operands: Operands) -> Mapping[str, Any]:
    places = _constant_vector(operands)
    return {"axis": meaning.axis, **_halves(list(_runs(places.tolist())))}  # type: ignore[union-attr]


def _plain_halves(meaning: Gather, operands: Operands) -> Mapping[str, Any]:
    places = _constant_vector(operands)
    return {"axis": meaning.axis, **_halves(list(_runs(places.tolist(), widest=1)))}  # type: ignore[union-attr]


@lowering(13, applies_if=_uneven, bind=_even_halves)
def in_runs(data, indices, axis: int, first: Sequence[int], rest: Sequence[int]):
    """Take evenly spaced positions, the first of them and the others, and concatenate them."""
    return op.Concat(meaning.Gather(data, first, axis=axis), meaning.Gather(data, rest, axis=axis), axis=axis)


@lowering(13, applies_if=_apart, bind=_plain_halves)
def in_plain_runs(data, indices, axis: int, first: Sequence[int], rest: Sequence[int]):
    """Take positions that follow each other, the first of them and the others, where no slice has steps."""
    return op.Concat(meaning.Gather(data, first, axis=axis), meaning.Gather(data, rest, axis=axis), axis=axis)


def _strings(meaning: Gather, operands: Operands) -> Reason | None:
    dtype = (operands[0] or Facts()).dtype
    return None if dtype == TensorProto.STRING else Reason("the elements are not strings", missing=dtype is None)


@lowering(18, applies_if=_strings, bind=lambda what, operands: {"axis": what.axis})
def by_number(data, indices, axis: int):
    """Number all elements, gather the numbers, and look the elements up one by one."""
    numbers = meaning.Reshape(op.Range(0, op.Size(data), 1), op.Shape(data), allowzero=1)
    return op.Gather(op.Reshape(data, [-1]), op.Gather(numbers, indices, axis=axis), axis=0)


def _first_axis(meaning: Gather, operands: Operands) -> Reason | None:
    return Reason("it is not along the first axis") if meaning.axis else _are_numbers(operands)


def _are_numbers(operands: Operands) -> Reason | None:
    """Leave bools to a Gather of numbers, which one that takes no bools does."""
    return (
        Reason("truth values are gathered as numbers") if (operands[0] or Facts()).dtype == TensorProto.BOOL else None
    )


@lowering(13, applies_if=_first_axis)
def of_rows(data, indices):
    """Gather rows of the first axis, each of which one index names."""
    return op.GatherND(data, op.Unsqueeze(op.Cast(indices, to=7), [-1]))


def _other_axis(meaning: Gather, operands: Operands) -> Reason | None:
    if meaning.axis == 0:
        return Reason("it is along the first axis")
    ranks = [(facts or Facts()).rank for facts in operands]
    if None in ranks:
        return Reason("the rank of the data or of the indices is unknown", missing=True)
    return _are_numbers(operands)


def _turned(meaning: Gather, operands: Operands) -> Mapping[str, Any]:
    rank, places = ((facts or Facts()).rank or 0 for facts in operands)
    axis = meaning.axis % rank
    before = range(places, places + axis)
    forth = (axis, *(other for other in range(rank) if other != axis))
    return {"forth": forth, "back": (*before, *range(places), *range(places + axis, places + rank - 1))}


@lowering(13, applies_if=_other_axis, bind=_turned)
def of_turned_rows(data, indices, forth: Sequence[int], back: Sequence[int]):
    """Turn the axis to the front, gather rows, and turn the axes of the indices to where it was."""
    rows = op.GatherND(op.Transpose(data, perm=forth), op.Unsqueeze(op.Cast(indices, to=7), [-1]))
    return op.Transpose(rows, perm=back)


def _few_axes(meaning: Gather, operands: Operands) -> Reason | None:
    """Require indices of at most one axis, computed at run time: Slice serves constant ones."""
    indices = operands[1] or Facts()
    if indices.known is not None:
        return Reason("the indices are constant")
    if indices.rank is None or (operands[0] or Facts()).rank is None:
        return Reason("the rank of the data or of the indices is unknown", missing=True)
    return None if indices.rank < 2 else Reason("the indices have several axes")


def _more_axes(meaning: Gather, operands: Operands) -> Mapping[str, Any]:
    data, indices = (facts or Facts() for facts in operands)
    more = tuple(range(2 - (indices.rank or 0)))
    axis = meaning.axis % (data.rank or 1)
    return {"axis": axis, "more": more, "gone": tuple(axis + place for place in more)}


@lowering(13, applies_if=_few_axes, bind=_more_axes)
def by_matrix(data, indices, axis: int, more: Sequence[int], gone: Sequence[int]):
    """Gather by a matrix of indices, for a target whose Gather takes no vector, and drop its axes of one."""
    return op.Squeeze(op.Gather(data, op.Unsqueeze(indices, more), axis=axis), gone)


def _with_fewer_axes(what: Gather, operands: Operands, most: int) -> Stages | None:
    """Merge the axes before and behind the one that is gathered along, and those of the indices."""
    data, indices = operands
    if data is None or indices is None or data.shape is None or indices.shape is None:
        return None
    axis = resolve(what.axis, data.rank)
    vectors = in_shape(indices, (product(indices.shape),)) if len(indices.shape) > 1 else indices
    groups = apart(data.shape, (axis,), most)
    if groups is None:
        return None
    return ((Gather(place_of(axis, groups)), (in_shape(data, shape_of(data.shape, groups)), vectors)),)


def _in_order(what: Gather, operands: Operands) -> int | None:
    """Return the data if the indices count up from 0: a result of its shape is all of it."""
    known = operands[1].known if operands[1] else None
    return 0 if known is not None and known.ndim == 1 and np.array_equal(known, np.arange(known.size)) else None


OPERATOR = Operator(
    name="Gather",
    meaning=Gather,
    versions=(Version(1, applies_if=_indices_from_front), Version(11), Version(13)),
    operands=("data", "indices"),
    oracle=oracle,
    normal=normal,
    moves_data=True,
    lowerings=(taken, evenly, in_runs, in_plain_runs, guarded, by_number, by_matrix, of_rows, of_turned_rows),
    neutral=_in_order,
    traits=Traits(
        merges=_with_fewer_axes, floats=(Trait.MOVES,), moved=(0,), indices={1: AlongAxis()}, drops_strings=True
    ),
)
