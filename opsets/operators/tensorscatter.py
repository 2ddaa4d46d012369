"""TensorScatter: write an update into a cache, for each sample from a place of its own on. Since version 24."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first, one_axis, rank_known
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, all_but, of_two
from opshift.opsets.registry.traits import Traits


@dataclass(frozen=True)
class TensorScatter:
    """The axis of the sequence, and whether writes beyond the end wrap to the front (`circular`)."""

    axis: int = -2
    mode: str = "linear"


_Array = np.ndarray[Any, Any]


def oracle(what: TensorScatter, past: _Array, update: _Array, write_indices: _Array | None = None) -> _Array:
    """TensorScatter-24: "cache_sequence_idx = write_indices[batch_idx] + sequence_idx", modulo the length if circular.

    Raises `ValueError` for an update that does not fit.
    """
    axis = what.axis % past.ndim
    length, count = past.shape[axis], update.shape[axis]
    present = past.copy()
    if (*past.shape[:axis], *past.shape[axis + 1 :]) != (*update.shape[:axis], *update.shape[axis + 1 :]):
        raise ValueError("TensorScatter-24: cache and update differ along another axis than that of the sequence")
    if write_indices is not None and write_indices.shape != past.shape[:1]:
        raise ValueError("TensorScatter-24: there is not one place for each of the batch")
    if not axis or count > length:
        raise ValueError("the axis is not that of the batch, and the update is no longer than the cache")
    for prefix in np.ndindex(*past.shape[:axis]):
        start = 0 if write_indices is None else int(write_indices[prefix[0]])
        if what.mode == "linear" and not 0 <= start <= length - count:
            raise ValueError("mode linear requires write_indices + sequence_length <= max_sequence_length")
        for place in range(count):
            present[(*prefix, (start + place) % length)] = update[(*prefix, place)]
    return present


def _from_start(what: TensorScatter, operands: Operands) -> Reason | None:
    return None if operands[2] is None else Reason("the places to write to are given")


@lowering(18, applies_if=_from_start)
def from_start(past, update, write_indices):
    """Add the indices: "assumed to be all zeros if not provided"."""
    return meaning.Same(past, update, op.Expand([0], op.Shape(past, start=0, end=1)))


def _given(what: TensorScatter, operands: Operands) -> Reason | None:
    return Reason("the places to write to are left out") if operands[2] is None else rank_known(what, operands)


def _around(what: TensorScatter, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    return {
        "axis": what.axis,
        "at": (what.axis,),
        "behind": tuple(range(1, rank)),
        "along": tuple(axis for axis in range(rank) if axis != what.axis),
    }


# A linear write ends within the cache, so that it is a circular one too.
@lowering(18, applies_if=_given, bind=_around)
def looked_up(past, update, write_indices, axis: int, at: Sequence[int], behind: Sequence[int], along: Sequence[int]):
    """Concatenate cache and update, and gather each element from one of the two."""
    length = op.Gather(op.Shape(past), at, axis=0)
    count = op.Gather(op.Shape(update), at, axis=0)
    place = op.Unsqueeze(op.Range(0, op.Squeeze(length, [0]), 1), along)
    since = meaning.Mod(place - op.Unsqueeze(write_indices, behind), op.Max(length, 1))
    index = meaning.Where(op.Less(since, count), since + length, place)
    both = op.Concat(past, update, axis=axis)
    return meaning.GatherElements(both, op.Expand(index, op.Shape(past)), axis=axis)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Places that the shorter of cache and update leaves room for, whichever the axis is."""
    if "write_indices" not in feeds or not feeds["write_indices"].flags.writeable:
        return feeds
    past, update = feeds["past_cache"].shape, feeds["update"].shape
    room = max((one - other for one, other in zip(past, update, strict=False)), default=0)
    places = rng.integers(0, max(room, 0) + 1, feeds["write_indices"].shape)
    return {**feeds, "write_indices": places.astype(np.int64)}


@of_two
def equal_dims(node: NodeShapes, cache: Shape, update: Shape) -> Pairs:
    """Yield the dims of the cache and of the update but for those of the sequence, and the batch of the places."""
    if len(cache) == len(update):
        yield from all_but(node.attributes.get("axis", -2) % len(cache), cache, update)
        if len(node.inputs) > 2 and (places := node.inputs[2]):
            yield cache[0], places[0]


OPERATOR = Operator(
    name="TensorScatter",
    meaning=TensorScatter,
    versions=(Version(24),),
    operands=("past_cache", "update", "write_indices"),
    oracle=oracle,
    normal=one_axis,
    adversarial=adversarial,
    lowerings=(from_start, looked_up),
    traits=Traits(equal_dims=equal_dims, spreads=False),
)
