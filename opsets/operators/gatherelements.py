"""GatherElements: an element for each index, from the same place but along one axis. Since version 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import END, first, one_axis, rank_known
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits


@dataclass(frozen=True)
class GatherElements:
    """The axis along which indices count."""

    axis: int = 0


def oracle(what: GatherElements, data: np.ndarray[Any, Any], indices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """GatherElements-11: "out[i][j][k] = input[i][index[i][j][k]][k] if axis = 1", and so on."""
    if any(size > data.shape[axis] for axis, size in enumerate(indices.shape) if axis != what.axis % data.ndim):
        raise ValueError("GatherElements-13: the indices are longer than the data along another axis")
    places = list(np.indices(indices.shape))
    places[what.axis] = indices
    taken: np.ndarray[Any, Any] = data[tuple(places)]
    return taken


def _bound(what: GatherElements, operands: Operands) -> Mapping[str, Any]:
    axis = what.axis
    rank = first(operands).rank or 0
    along = tuple(int(place == axis % rank) for place in range(rank)) if rank else ()
    return {"at": (axis,), "after": (axis + 1 or END,), "starts": (0,) * rank, "along": along}


@lowering(18, applies_if=rank_known, bind=_bound)
def numbered(data, indices, at: Sequence[int], after: Sequence[int], starts: Sequence[int], along: Sequence[int]):
    """Number all elements, and count from those at the start of the axis."""
    lengths = op.Shape(data)
    # An axis without elements has a start all the same: indices without elements may be longer there.
    shape = lengths + op.Cast(op.Equal(lengths, 0), to=7) * along
    wanted = op.Shape(indices)
    numbers = op.Reshape(op.Range(0, op.ReduceProd(shape, keepdims=0), 1), shape, allowzero=1)
    ends = op.Concat(op.Slice(wanted, [0], at), [1], op.Slice(wanted, after, [2147483647]), axis=0)
    stride = op.ReduceProd(op.Slice(shape, after, [2147483647]), keepdims=1)
    index = op.Cast(indices, to=7)
    index = index + op.Slice(lengths, at, after) * op.Cast(op.Less(index, 0), to=7)
    return op.Gather(op.Reshape(data, [-1]), op.Slice(numbers, starts, ends) + index * stride, axis=0)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Indices "within bounds [-s, s-1]", whichever the axis is."""
    if not feeds["indices"].flags.writeable or not min(feeds["data"].shape, default=1):
        return feeds
    least = min(feeds["data"].shape, default=1)
    indices = rng.integers(-least, least, feeds["indices"].shape).astype(feeds["indices"].dtype)
    return {**feeds, "indices": indices}


OPERATOR = Operator(
    name="GatherElements",
    meaning=GatherElements,
    versions=(Version(11), Version(13)),
    operands=("data", "indices"),
    oracle=oracle,
    normal=one_axis,
    adversarial=adversarial,
    lowerings=(numbered,),
    traits=Traits(floats=(Trait.MOVES,), moved=(0,), indices={1: AlongAxis()}),
)
