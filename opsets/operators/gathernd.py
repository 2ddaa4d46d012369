"""GatherND: elements or slices of a tensor by index tuples. Since version 11; batch_dims came with 12."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Coordinates, Trait, Traits
from opshift.opsets.registry.wider_types import MOVED


@dataclass(frozen=True)
class GatherND:
    """The number of leading axes that data and indices share."""

    batch_dims: int = 0


_Array = np.ndarray[Any, Any]


def oracle(what: GatherND, data: _Array, indices: _Array) -> _Array:
    """GatherND-13: "each tensor slice corresponding to data[0:b-1, indices_slice, :] is filled into" its place."""
    batch = what.batch_dims
    places = indices.shape[:-1]
    if places[:batch] != data.shape[:batch]:
        raise ValueError("GatherND-13: the first dimensions of data and indices are not the same")
    result = np.empty((*places, *data.shape[batch + indices.shape[-1] :]), data.dtype)
    for place in np.ndindex(*places):
        result[place] = data[(*place[:batch], *(int(index) for index in indices[place]))]
    return result


def _indices(operands: Operands) -> Facts:
    return operands[1] or Facts()


def _not_batched(what: GatherND, operands: Operands) -> Reason | None:
    return Reason("data and indices share axes") if what.batch_dims else None


def _single(what: GatherND, operands: Operands) -> Reason | None:
    if what.batch_dims:
        return _not_batched(what, operands)
    if _indices(operands).rank is None:
        return Reason("the rank of the indices is unknown", missing=True)
    return None if _indices(operands).dim(-1) == 1 else Reason("an index tuple is not known to have one element")


@lowering(18, applies_if=_single, bind=lambda what, operands: {"last": ((_indices(operands).rank or 1) - 1,)})
def along_first(data, indices, last: Sequence[int]):
    """Gather along the first axis."""
    return op.Gather(data, op.Squeeze(indices, last), axis=0)


@lowering(18, applies_if=_not_batched)
def numbered(data, indices):
    """Number the slices, and gather by number: each index counts as many slices as the axes behind it have."""
    shape = op.Shape(data)
    places = op.Shape(indices)
    count = op.Slice(places, [-1], [2147483647])
    dims = op.Slice(shape, [0], count)
    place = op.Range(0, op.Squeeze(count, [0]), 1)
    after = op.Cast(op.Less(op.Unsqueeze(place, [1]), op.Unsqueeze(place, [0])), to=7)
    strides = op.ReduceProd(op.Add(op.Mul(after, op.Sub(dims, 1)), 1), [1], keepdims=0)
    below = op.Cast(op.Less(op.Cast(indices, to=1), 0.0), to=7)
    forward = op.Add(indices, op.Mul(below, dims))
    # MatMul takes int64 since 9 only; doubles are exact up to 2^53, and no tensor has as many elements.
    number = op.MatMul(op.Cast(forward, to=11), op.Unsqueeze(op.Cast(strides, to=11), [1]))
    rest = op.Slice(shape, count, [2147483647])
    slices = meaning.Reshape(data, op.Concat(op.ReduceProd(dims, keepdims=1), rest, axis=0), allowzero=1)
    at = meaning.Reshape(op.Cast(number, to=7), op.Slice(places, [0], [-1]), allowzero=1)
    return op.Gather(slices, at, axis=0)


def _strings(what: GatherND, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype == TensorProto.STRING else Reason("the elements are not strings", missing=dtype is None)


@lowering(18, applies_if=_strings)
def by_number(data, indices):
    """Number all elements, gather the numbers, and look the elements up one by one."""
    numbers = meaning.Reshape(op.Range(0, op.Size(data), 1), op.Shape(data), allowzero=1)
    return op.Gather(op.Reshape(data, [-1]), meaning.Same(numbers, indices), axis=0)


def _batched(what: GatherND, operands: Operands) -> Reason | None:
    if not what.batch_dims:
        return Reason("data and indices share no axes")
    return Reason("the rank of the indices is unknown", missing=True) if _indices(operands).rank is None else None


def _batch(what: GatherND, operands: Operands) -> Mapping[str, Any]:
    rank = _indices(operands).rank or 1
    return {
        "at": (what.batch_dims - 1,),
        "behind": tuple(axis for axis in range(rank) if axis != what.batch_dims - 1),
        "last": rank - 1,
        "ends": (rank - 1,),
        "batch_dims": what.batch_dims - 1,
    }


@lowering(18, applies_if=_batched, bind=_batch)
def batch_as_index(
    data, indices, at: Sequence[int], behind: Sequence[int], last: int, ends: Sequence[int], batch_dims: int
):
    """Put the place along the last shared axis in front of each index tuple."""
    shape = op.Shape(indices)
    place = op.Range(0, op.Squeeze(op.Gather(shape, at, axis=0), [0]), 1)
    column = op.Expand(op.Unsqueeze(place, behind), op.Concat(op.Slice(shape, [0], ends), [1], axis=0))
    return meaning.GatherND(data, op.Concat(column, indices, axis=last), batch_dims=batch_dims)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Indices "within bounds [-s, s-1]" of the shortest axis, whichever axis each is for."""
    least = min(feeds["data"].shape, default=1)
    if not feeds["indices"].flags.writeable or not least:
        return feeds
    return {**feeds, "indices": rng.integers(-least, least, feeds["indices"].shape).astype(feeds["indices"].dtype)}


@of_two
def equal_dims(node: NodeShapes, data: Shape, indices: Shape) -> Pairs:
    """Yield the batch dims."""
    return itertools.islice(zip(data, indices, strict=False), node.attributes.get("batch_dims", 0))


OPERATOR = Operator(
    name="GatherND",
    meaning=GatherND,
    versions=(Version(11), Version(12), Version(13)),
    operands=("data", "indices"),
    oracle=oracle,
    lowerings=(along_first, numbered, by_number, batch_as_index),
    moves_data=True,
    adversarial=adversarial,
    wider_types=MOVED,
    traits=Traits(
        floats=(Trait.MOVES,),
        moved=(0,),
        indices={1: Coordinates()},
        equal_dims=equal_dims,
        spreads=False,
        unchecked=True,
    ),
)
