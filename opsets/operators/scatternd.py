"""ScatterND: write slices to places. Since version 11; reductions came with 16 (add, mul) and 18 (max, min)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first, positions
from opshift.opsets.operators.scatterelements import JOIN, floats_by, from_either, integers_by, joins_by_none, sums_only
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import SMALL, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Coordinates, Trait, Traits


@dataclass(frozen=True)
class ScatterND:
    """The reduction that combines an update with the present value."""

    reduction: str = "none"


_Array = np.ndarray[Any, Any]

_OUTSIDE = Reason("an index is out of range")


def oracle(what: ScatterND, data: _Array, indices: _Array, updates: _Array) -> _Array:
    """ScatterND-18: "output[tuple(indices[idx])] = updates[idx]", or joined by the reduction."""
    if updates.shape != (*indices.shape[:-1], *data.shape[indices.shape[-1] :]):
        raise ValueError("ScatterND-18: there is not one slice of updates for each tuple of indices")
    y = data.copy()
    for place in np.ndindex(*indices.shape[:-1]):
        where = tuple(indices[place])
        y[where] = updates[place] if what.reduction == "none" else JOIN[what.reduction](y[where], updates[place])
    return y


def _split(operands: Operands) -> tuple[list[int], list[int]] | None:
    """Return the dimensions that an index names, and those of a slice, if all are known."""
    data, indices = first(operands), operands[1]
    count = None if indices is None else indices.dim(-1)
    dims = [dim for dim in data.shape or () if isinstance(dim, int)]
    if data.shape is None or len(dims) != len(data.shape) or not isinstance(count, int):
        return None
    return dims[:count], dims[count:]


def _static(what: ScatterND, operands: Operands) -> Reason | None:
    if what.reduction != "none":
        return Reason("its reduction is not none")
    split = _split(operands)
    if split is None:
        return Reason("the shape is unknown", missing=True)
    return Reason("slices are too large") if math.prod(split[1]) * 8 > SMALL else None


def _strides(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    named, inner = _split(operands) or ([], [])
    size = math.prod(inner)
    strides = [[float(math.prod(named[place + 1 :]) * size)] for place in range(len(named))]
    return {
        "dims": tuple(named),
        "count": (-1, len(named)),
        "strides": Tensor(np.array(strides).reshape(len(named), 1)),
        "offsets": Tensor(np.arange(bounded(size)).reshape(1, size)),
    }


@lowering(13, applies_if=_static, bind=_strides)
def in_a_row(
    data,
    indices,
    updates,
    dims: Sequence[int],
    count: Sequence[int],
    strides: Sequence[int],
    offsets: Sequence[int],
):
    """Write the elements of all slices to their places in a row of all elements."""
    places = op.Reshape(indices, count)
    forward = places + op.Cast(op.Less(places, 0), to=7) * dims
    starts = op.Cast(op.MatMul(op.Cast(forward, to=11), strides), to=7)
    each = op.Reshape(starts + offsets, [-1])
    row = op.Reshape(data, [-1])
    y = meaning.ScatterElements(row, each, op.Reshape(updates, [-1]), axis=0)
    return op.Reshape(y, op.Shape(data))


def _known_places(what: ScatterND, operands: Operands) -> Reason | None:
    places = (operands[1] or Facts()).known
    if places is None or places.size == 0:
        return Reason("its indices are computed at run time", missing=True)
    if reason := _static(what, operands):
        return reason
    named = np.array((_split(operands) or ([], []))[0])
    return _OUTSIDE if positions(places, named) is None else None


def _elements(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    """Bind the number of each element that is written, counted in a row of all elements."""
    named, inner = _split(operands) or ([], [])
    places = (operands[1] or Facts()).known
    assert places is not None
    size = math.prod(inner)
    bounded(size * (places.size // len(named)))
    forward = positions(places, np.array(named))
    assert forward is not None
    starts = np.asarray(np.ravel_multi_index(tuple(forward.reshape(-1, len(named)).T), tuple(named)), np.int64) * size
    return {"each": Tensor(np.add.outer(starts, np.arange(size)).reshape(-1))}


@lowering(13, applies_if=_known_places, bind=_elements)
def at_known_places(data, indices, updates, each: Sequence[int]):
    """Write the elements of all slices to their places, which are constants, in a row of all elements."""
    row = op.Reshape(data, [-1])
    y = meaning.ScatterElements(row, each, op.Reshape(updates, [-1]), axis=0)
    return op.Reshape(y, op.Shape(data))


def _rows_of_known_dims(what: ScatterND, operands: Operands) -> Reason | None:
    if _static(what, operands) is None:
        return Reason("its reduction is none, and the shapes are known")
    data, count = first(operands), (operands[1] or Facts()).dim(-1)
    if data.rank is None or not isinstance(count, int):
        return Reason("the rank, or the length of an index, is unknown", missing=True)
    named = (data.shape or ())[:count]
    if not named:
        return Reason("an index names no axis")
    known = all(isinstance(dim, int) for dim in named[1:])
    return None if known else Reason("the dimensions that an index names are unknown", missing=True)


def _rows(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    data, count = first(operands), (operands[1] or Facts()).dim(-1)
    count = count if isinstance(count, int) else 0
    named = [dim if isinstance(dim, int) else 1 for dim in (data.shape or ())[:count]]
    return {
        "count": (count,),
        "pairs": (-1, count),
        "strides": Tensor(np.array([math.prod(named[place + 1 :]) for place in range(count)], np.int64)),
        "reduction": what.reduction,
    }


@lowering(18, applies_if=_rows_of_known_dims, bind=_rows)
def in_rows(data, indices, updates, count: Sequence[int], pairs: Sequence[int], strides: Sequence[int], reduction: str):
    """Join each slice with the row that it names, or write it there, in a matrix of all rows."""
    shape = op.Shape(data)
    dims = op.Slice(shape, [0], count)
    size = op.ReduceProd(op.Slice(shape, count, [2147483647]), keepdims=1)
    places = op.Reshape(indices, pairs)
    forward = places + op.Cast(op.Less(places, 0), to=7) * dims
    starts = op.ReduceSum(forward * strides, [1], keepdims=1)
    number = op.ReduceProd(op.Slice(op.Shape(indices), [0], [-1]), keepdims=1)
    slices = op.Concat(number, size, axis=0)
    rows = op.Reshape(data, op.Concat(op.ReduceProd(dims, keepdims=1), size, axis=0), allowzero=1)
    new = op.Reshape(updates, slices, allowzero=1)
    y = meaning.ScatterElements(rows, op.Expand(starts, slices), new, axis=0, reduction=reduction)
    return op.Reshape(y, shape, allowzero=1)


def _rows_of_unknown_dims(what: ScatterND, operands: Operands) -> Reason | None:
    count = (operands[1] or Facts()).dim(-1)
    if not isinstance(count, int):
        return Reason("the length of an index is unknown", missing=True)
    if count == 0:
        return Reason("an index names no axis")
    named = (first(operands).shape or (None, None))[1:count]
    known = first(operands).rank is not None and all(isinstance(dim, int) for dim in named)
    return Reason("the dimensions that an index names are known") if known else None


def _after(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    """Bind which dimensions come after each of those that an index names."""
    count = (operands[1] or Facts()).dim(-1)
    count = count if isinstance(count, int) else 0
    after = Tensor(np.triu(np.ones((count, count), np.bool_), 1))
    return {"count": (count,), "pairs": (-1, count), "after": after, "reduction": what.reduction}


@lowering(18, applies_if=_rows_of_unknown_dims, bind=_after)
def in_counted_rows(
    data, indices, updates, count: Sequence[int], pairs: Sequence[int], after: Sequence[int], reduction: str
):
    """Do the same where the dimensions that an index names are computed at run time, and their products with them."""
    shape = op.Shape(data)
    dims = op.Slice(shape, [0], count)
    steps = op.ReduceProd(op.Where(after, dims, 1), [1], keepdims=0)
    size = op.ReduceProd(op.Slice(shape, count, [2147483647]), keepdims=1)
    places = op.Reshape(indices, pairs)
    forward = places + op.Cast(op.Less(places, 0), to=7) * dims
    starts = op.ReduceSum(forward * steps, [1], keepdims=1)
    number = op.ReduceProd(op.Slice(op.Shape(indices), [0], [-1]), keepdims=1)
    slices = op.Concat(number, size, axis=0)
    rows = op.Reshape(data, op.Concat(op.ReduceProd(dims, keepdims=1), size, axis=0), allowzero=1)
    new = op.Reshape(updates, slices, allowzero=1)
    y = meaning.ScatterElements(rows, op.Expand(starts, slices), new, axis=0, reduction=reduction)
    return op.Reshape(y, shape, allowzero=1)


def _places(operands: Operands) -> _Array:
    places = (operands[1] or Facts()).known
    assert places is not None
    return places


def _forward(operands: Operands) -> np.ndarray[Any, Any] | Reason:
    """Return constant indices, a row each, counted from the front: of numbers, where no dimension is empty."""
    places = (operands[1] or Facts()).known
    split = _split(operands)
    if places is None or split is None:
        return Reason("its indices or its shape are only known at run time", missing=True)
    named = np.array(split[0], np.int64)
    if not places.size or 0 in (*split[0], *split[1]) or first(operands).dtype == TensorProto.STRING:
        return Reason("there is nothing to write, or the elements are strings")
    forward = positions(places, named)
    return _OUTSIDE if forward is None else forward.reshape(-1, named.size)


def _product(what: ScatterND, operands: Operands) -> list[list[int]] | Reason:
    """Return which places of each axis are written, if in order all combinations of them are."""
    if what.reduction != "none":
        return Reason("its reduction is not none")
    forward = _forward(operands)
    if isinstance(forward, Reason):
        return forward
    if forward.shape[1] == 1:
        return [forward[:, 0].tolist()]
    lists = [list(dict.fromkeys(column)) for column in forward.T.tolist()]
    whole = math.prod(map(len, lists)) == len(forward) and (forward == list(itertools.product(*lists))).all()
    return lists if whole else Reason("the places are not the same along each axis")


def _partial(lists: Sequence[Sequence[int]], operands: Operands) -> list[int]:
    """Return the axes along which not all places are written, in order."""
    named = (_split(operands) or ([], []))[0]
    return [axis for axis, places in enumerate(lists) if list(places) != list(range(named[axis]))]


def _one_axis(what: ScatterND, operands: Operands) -> Reason | None:
    lists = _product(what, operands)
    if isinstance(lists, Reason):
        return lists
    return None if len(_partial(lists, operands)) < 2 else Reason("it is along several axes")


def _rows_of_axis(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    lists = _product(what, operands)
    named, inner = _split(operands) or ([], [])
    assert not isinstance(lists, Reason)
    axis = (_partial(lists, operands) or [0])[0]
    dims = (*(len(places) if place == axis else named[place] for place, places in enumerate(lists)), *inner)
    return {"axis": axis, "dims": dims, "rows": from_either(named[axis], lists[axis])}


@lowering(13, applies_if=_one_axis, bind=_rows_of_axis)
def along_one_axis(data, indices, updates, axis: int, dims: Sequence[int], rows: Sequence[int]):
    """Gather each row of one axis from the updates if a constant index writes it, and else from the data."""
    return meaning.Gather(op.Concat(data, op.Reshape(updates, dims), axis=axis), rows, axis=axis)


def _several_axes(what: ScatterND, operands: Operands) -> Reason | None:
    lists = _product(what, operands)
    if isinstance(lists, Reason):
        return lists
    return None if len(_partial(lists, operands)) > 1 else Reason("it is along one axis")


def _first_of_axes(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    lists, forward = _product(what, operands), _forward(operands)
    named, _ = _split(operands) or ([], [])
    assert not isinstance(lists, Reason)
    assert not isinstance(forward, Reason)
    axis = _partial(lists, operands)[0]
    numbers = {place: number for number, place in enumerate(lists[axis])}
    there = forward.copy()
    there[:, axis] = [numbers[place] for place in forward[:, axis].tolist()]
    return {
        "axis": axis,
        "written": tuple(lists[axis]),
        "there": Tensor(there.reshape(_places(operands).shape)),
        "rows": from_either(named[axis], lists[axis]),
    }


@lowering(13, applies_if=_several_axes, bind=_first_of_axes)
def axis_by_axis(data, indices, updates, axis: int, written: Sequence[int], there: Sequence[int], rows: Sequence[int]):
    """Gather the rows of one axis that constant indices select, write to them, and put them back in place."""
    new = meaning.ScatterND(meaning.Gather(data, written, axis=axis), there, updates)
    return meaning.Gather(op.Concat(data, new, axis=axis), rows, axis=axis)


def _uneven_places(what: ScatterND, operands: Operands) -> Reason | None:
    lists = _product(what, operands)
    if not isinstance(lists, Reason):
        return Reason("the places are the same along each axis")
    if what.reduction != "none":
        return lists
    forward = _forward(operands)
    return forward if isinstance(forward, Reason) else None


def _numbers(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    named, inner = _split(operands) or ([], [])
    forward = _forward(operands)
    assert not isinstance(forward, Reason)
    numbers = np.ravel_multi_index(tuple(forward.T), tuple(named)).astype(np.int64)
    return {
        "rows": (math.prod(named), *inner),
        "numbers": Tensor(numbers.reshape(-1, 1)),
        "new": (len(forward), *inner),
        "dims": (*named, *inner),
    }


@lowering(13, applies_if=_uneven_places, bind=_numbers)
def in_numbered_rows(
    data, indices, updates, rows: Sequence[int], numbers: Sequence[int], new: Sequence[int], dims: Sequence[int]
):
    """Flatten the data to a matrix of rows, and write to the rows that constant indices select."""
    y = meaning.ScatterND(op.Reshape(data, rows), numbers, op.Reshape(updates, new))
    return op.Reshape(y, dims)


COMPARED = 2**20
"""The most pairs of a row and a slice that are compared to find which slice goes where."""


def _count(operands: Operands) -> int | None:
    """Return how many slices there are, if known."""
    shape = (operands[1] or Facts()).shape
    dims = [dim for dim in (shape or ())[:-1] if isinstance(dim, int)]
    return math.prod(dims) if shape and len(dims) == len(shape) - 1 else None


def _computed_places(what: ScatterND, operands: Operands) -> Reason | None:
    """Require shapes that are known, with no empty dimension, and places that are computed at run time."""
    if what.reduction != "none":
        return Reason("its reduction is not none")
    split, count = _split(operands), _count(operands)
    if split is None or count is None:
        return Reason("the shapes are unknown", missing=True)
    if not math.prod([*split[0], *split[1], count]) or first(operands).dtype == TensorProto.STRING:
        return Reason("there is nothing to write, or the elements are strings")
    return None if not isinstance(_forward(operands), np.ndarray) else Reason("the places are constants")


def _of_one_axis(what: ScatterND, operands: Operands) -> Reason | None:
    if reason := _computed_places(what, operands):
        return reason
    named, _ = _split(operands) or ([], [])
    if len(named) != 1:
        return Reason("an index names several axes")
    pairs = named[0] * (_count(operands) or 0)
    return None if pairs <= COMPARED else Reason(f"it would compare {pairs} pairs of places")


def _compared(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    named, inner = _split(operands) or ([], [])
    count = _count(operands) or 0
    return {
        "line": (1, count),
        "length": named[0],
        "own": tuple(range(named[0])),
        "each": Tensor(np.arange(named[0], dtype=np.int64).reshape(-1, 1)),
        "numbers": Tensor(np.arange(1, count + 1, dtype=np.float32).reshape(1, -1)),
        "new": (count, *inner),
    }


@lowering(18, applies_if=_of_one_axis, bind=_compared)
def by_matches(
    data,
    indices,
    updates,
    line: Sequence[int],
    length: int,
    own: Sequence[int],
    each: Sequence[int],
    numbers: Sequence[int],
    new: Sequence[int],
):
    """For each row, gather the last update whose index selects it, or the row itself if there is none."""
    places = op.Reshape(indices, line)
    forward = places + op.Cast(op.Less(places, 0), to=7) * length
    last = op.ReduceMax(op.Cast(op.Equal(each, forward), to=1) * numbers, [1], keepdims=0)
    rows = op.Where(op.Greater(last, 0.0), op.Cast(last, to=7) + (length - 1), own)
    return op.Gather(op.Concat(data, op.Reshape(updates, new), axis=0), rows, axis=0)


def _of_several_axes(what: ScatterND, operands: Operands) -> Reason | None:
    if reason := _computed_places(what, operands):
        return reason
    named, _ = _split(operands) or ([], [])
    if len(named) < 2:
        return Reason("an index names one axis")
    return None if math.prod(named) < 2**24 else Reason("float does not hold the number of each row")


def _numbered(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    named, inner = _split(operands) or ([], [])
    count = _count(operands) or 0
    strides = [[float(math.prod(named[place + 1 :]))] for place in range(len(named))]
    return {
        "pairs": (count, len(named)),
        "named": tuple(named),
        "strides": Tensor(np.array(strides, np.float32)),
        "rows": (math.prod(named), *inner),
        "new": (count, *inner),
        "dims": (*named, *inner),
    }


@lowering(13, applies_if=_of_several_axes, bind=_numbered)
def in_computed_rows(
    data,
    indices,
    updates,
    pairs: Sequence[int],
    named: Sequence[int],
    strides: Sequence[int],
    rows: Sequence[int],
    new: Sequence[int],
    dims: Sequence[int],
):
    """Flatten the data to a matrix of rows, and compute from each index the row that it selects."""
    places = op.Reshape(indices, pairs)
    forward = places + op.Cast(op.Less(places, 0), to=7) * named
    numbers = op.Cast(op.MatMul(op.Cast(forward, to=1), strides), to=7)
    y = meaning.ScatterND(op.Reshape(data, rows), numbers, op.Reshape(updates, new))
    return op.Reshape(y, dims)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give each place one update at most, in range: of two, "the order of iteration ... is not specified"."""
    data, indices = feeds["data"], feeds["indices"]
    count = indices.shape[-1] if indices.ndim else 0
    number = math.prod(indices.shape[:-1])
    total = math.prod(data.shape[:count])
    if not indices.flags.writeable or number > total or not total:
        return feeds
    places = np.array(np.unravel_index(rng.permutation(total)[:number], data.shape[:count])).reshape(count, number).T
    signs = np.where(rng.random(places.shape) < 0.5, places, places - np.array(data.shape[:count]))
    return {**feeds, "indices": signs.reshape(indices.shape).astype(indices.dtype)}


@of_two
def equal_dims(node: NodeShapes, data: Shape, indices: Shape) -> Pairs:
    """Yield the dims of the indices and of the updates, and those of the slices that are written."""
    if len(node.inputs) > 2 and (updates := node.inputs[2]) is not None:
        places = indices[:-1]
        yield from zip(places, updates, strict=False)
        yield from zip(reversed(data), reversed(updates[len(places) :]), strict=False)


OPERATOR = Operator(
    name="ScatterND",
    meaning=ScatterND,
    versions=(
        *(Version(since, applies_if=joins_by_none) for since in (11, 13)),
        Version(16, applies_if=sums_only),
        Version(18),
    ),
    operands=("data", "indices", "updates"),
    oracle=oracle,
    # The order of NaN and numbers is unspecified.
    nan_defined=lambda what, operands: what.reduction not in ("max", "min"),
    lowerings=(
        along_one_axis,
        axis_by_axis,
        in_numbered_rows,
        at_known_places,
        in_a_row,
        in_rows,
        in_counted_rows,
        by_matches,
        in_computed_rows,
    ),
    adversarial=adversarial,
    traits=Traits(
        value_range=value_ranges.joined_if("reduction", 0, 2),
        floats=(Trait.MOVES,),
        floats_by=floats_by,
        integers_by=integers_by,
        moved=(0, 2),
        indices={1: Coordinates()},
        equal_dims=equal_dims,
        spreads=False,
    ),
)
