"""Expand: broadcast a tensor to a shape. Since version 8."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import Stages, elementwise, in_shape, vector
from opshift.opsets.registry.facts import Dim, Facts, constant
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.traits import Trait, Traits


def _one_element(meaning: Plain, operands: Operands) -> Reason | None:
    if first(operands).size != 1:
        return Reason("the input is not known to have one element", missing=first(operands).size is None)
    if operands[1] is None or not operands[1].shape or not isinstance(operands[1].shape[0], int):
        return Reason("the length of the shape is unknown", missing=True)
    if (first(operands).rank or 0) > operands[1].shape[0]:
        return Reason("the input has more axes than the shape")
    return None


def _ones(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    shape = operands[1].shape if operands[1] is not None else None
    length = shape[0] if shape else 0
    return {"ones": (1,) * length if isinstance(length, int) else ()}


@lowering(13, applies_if=_one_element, bind=_ones)
def tiled(x, shape, ones: Sequence[int]):
    """Repeat the one element."""
    return op.Tile(op.Reshape(x, ones), shape)


def _ranks(meaning: Plain, operands: Operands) -> Reason | None:
    if operands[1] is None or not operands[1].shape or not isinstance(operands[1].shape[0], int):
        return Reason("the length of the shape is unknown", missing=True)
    return Reason("the rank is unknown", missing=True) if first(operands).rank is None else None


def _in_front(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    rank, length = first(operands).rank or 0, operands[1].dim(0) if operands[1] else 0
    missing = length - rank if isinstance(length, int) else 0
    return {"before": (1,) * max(missing, 0), "before_shape": (1,) * max(-missing, 0)}


@lowering(18, applies_if=_ranks, bind=_in_front, cost=1)
def repeated(x, shape, before: Sequence[int], before_shape: Sequence[int]):
    """Repeat along axes of length 1."""
    dims = op.Concat(before, op.Shape(x), axis=0)
    wanted = op.Concat(before_shape, shape, axis=0)
    times = 1 + (wanted - 1) * op.Cast(op.Equal(dims, 1), to=7)
    return op.Tile(op.Reshape(x, dims, allowzero=1), times)


def _broadcast(x: np.ndarray[Any, Any], shape: np.ndarray[Any, Any]) -> Any:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))


def _normal(meaning: Plain, operands: Operands) -> tuple[Plain, Operands]:
    """Write 1 for dimensions of the shape that are those of the input."""
    wanted, dims = operands[1], first(operands).shape
    if wanted is None or wanted.value is None or wanted.known is not None or dims is None:
        return meaning, operands
    shape = wanted.value.array.tolist()
    for place in range(1, len(shape) + 1):
        if isinstance(shape[-place], str) and place <= len(dims) and dims[-place] == shape[-place]:
            shape[-place] = 1
    known = all(isinstance(dim, int) for dim in shape)
    return meaning, (operands[0], constant(np.array(shape, np.int64)) if known else wanted)


def _shape(meaning: Plain, operands: Operands) -> tuple[Dim, ...] | None:
    """Of one element, the shape that is asked for, as far as it is known."""
    wanted, dims = operands[1], first(operands).shape
    if wanted is None or wanted.value is None or dims is None or any(dim != 1 for dim in dims):
        return None
    shape = tuple(wanted.value.array.tolist())
    return shape if len(dims) <= len(shape) else None


def _with_fewer_axes(what: Plain, operands: Operands, most: int) -> Stages | None:
    """Merge neighbours that are repeated, and those that are not."""
    data, wanted = first(operands), operands[1]
    if data.shape is None or wanted is None or wanted.known is None:
        return None
    found = elementwise(what, (data, Facts(shape=tuple(wanted.known.tolist()))), most)
    less, shape = found[0][1] if found else (None, None)
    if less is None or shape is None:
        return None
    numbers = [dim for dim in shape.shape or () if isinstance(dim, int)]
    return ((what, (in_shape(data, less.shape or ()), vector(numbers))),)


OPERATOR = dataclasses.replace(
    plain("Expand", (8, 13), ("input", "shape"), _broadcast, (tiled, repeated), neutral=lambda what, operands: 0),
    normal=_normal,
    shape=_shape,
    traits=Traits(
        merges=_with_fewer_axes, floats=(Trait.MOVES,), counts=(1,), moved=(0,), all_elements=True, grows=True
    ),
)
