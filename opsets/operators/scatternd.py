"""ScatterND: write slices to places. Since version 11; reductions came with 16 (add, mul) and 18 (max, min)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators.scatterelements import JOIN, floats_by, integers_by, joins_by_none, sums_only
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
        return Reason("updates join what is there")
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
    inside = bool(((places >= -named) & (places < named)).all())
    return None if inside else Reason("an index is out of range")


def _elements(what: ScatterND, operands: Operands) -> Mapping[str, Any]:
    """Bind the number of each element that is written, counted in a row of all elements."""
    named, inner = _split(operands) or ([], [])
    places = (operands[1] or Facts()).known
    assert places is not None
    size = math.prod(inner)
    bounded(size * (places.size // len(named)))
    forward = np.where(places < 0, places + np.array(named), places).reshape(-1, len(named))
    starts = np.asarray(np.ravel_multi_index(tuple(forward.T), tuple(named)), np.int64) * size
    return {"each": Tensor(np.add.outer(starts, np.arange(size)).reshape(-1))}


@lowering(13, applies_if=_known_places, bind=_elements)
def at_known_places(data, indices, updates, each: Sequence[int]):
    """Write the elements of all slices to their places, which are constants, in a row of all elements."""
    row = op.Reshape(data, [-1])
    y = meaning.ScatterElements(row, each, op.Reshape(updates, [-1]), axis=0)
    return op.Reshape(y, op.Shape(data))


def _rows_of_known_dims(what: ScatterND, operands: Operands) -> Reason | None:
    if _static(what, operands) is None:
        return Reason("updates join nothing, and shapes are known")
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
    # No text says what NaN is beside a number.
    nan_defined=lambda what, operands: what.reduction not in ("max", "min"),
    lowerings=(at_known_places, in_a_row, in_rows, in_counted_rows),
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
