"""Unsqueeze: insert axes of length 1; their list is an attribute below 13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.axes import END, axes_operand, first, fixed, one_from_back, operand_not_negative
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.quantized_form import moved
from opshift.opsets.registry.traits import Trait, Traits


def oracle(meaning: Plain, data: np.ndarray[Any, Any], axes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Unsqueeze-13: "Each value in axes should be within the (inclusive) range [-output_rank , output_rank - 1]"."""
    return np.expand_dims(data, tuple(int(axis) for axis in axes))


def _at(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    axis = int(operands[1].known.item()) if operands[1] is not None and operands[1].known is not None else 0
    return {"at": (axis + 1 or END,)}


@lowering(18, applies_if=one_from_back, bind=_at)
def reshaped(data, axes, at: Sequence[int]):
    """Reshape to the dimensions before the axis, 1, and those after it."""
    shape = op.Shape(data)
    grown = op.Concat(op.Slice(shape, [0], at), [1], op.Slice(shape, at, [2147483647]), axis=0)
    return op.Reshape(data, grown, allowzero=1)


def _left(meaning: Plain, operands: Operands) -> tuple[int, ...] | None:
    dims, axes = first(operands).shape, None if operands[1] is None else operands[1].known
    if dims is None or axes is None:
        return None
    new = {int(axis) % (len(dims) + axes.size) for axis in axes.flat}
    if len(new) < axes.size:
        return None
    old = iter(dims)
    return fixed(tuple(1 if place in new else next(old) for place in range(len(dims) + axes.size)))


def _known(meaning: Plain, operands: Operands) -> Reason | None:
    known = _left(meaning, operands) is not None
    return None if known else Reason("more than one dimension is unknown, or the axes are", missing=True)


@lowering(18, applies_if=_known, bind=lambda meaning, operands: {"shape": _left(meaning, operands)})
def reshaped_to_known(data, axes, shape: Sequence[int]):
    """Reshape to a shape with all but one dimension known."""
    return op.Reshape(data, shape)


def _of_known_rank(meaning: Plain, operands: Operands) -> Reason | None:
    if _left(meaning, operands) is not None:
        return Reason("the shape is known")
    known = first(operands).rank is not None and operands[1] is not None and operands[1].known is not None
    return None if known else Reason("the rank or the axes are unknown", missing=True)


def _places(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    rank, axes = first(operands).rank or 0, operands[1]
    places = list(range(rank))
    grown = 0 if axes is None or axes.size is None else rank + axes.size
    for axis in sorted(int(axis) % grown for axis in axes.known.flat) if axes and axes.known is not None else ():
        places.insert(axis, rank)
    return {"places": tuple(places)}


@lowering(18, applies_if=_of_known_rank, bind=_places)
def reshaped_to_grown(data, axes, places: Sequence[int]):
    """Reshape to the dimensions of the shape, with one behind it taken where an axis is new."""
    return op.Reshape(data, op.Gather(op.Concat(op.Shape(data), [1], axis=0), places), allowzero=1)


def _computed(meaning: Plain, operands: Operands) -> Reason | None:
    axes = operands[1]
    return Reason("the axes are known") if axes is None or axes.known is not None else None


@lowering(18, applies_if=_computed)
def reshaped_at_run_time(data, axes):
    """Reshape to the dimensions in their order, but 1 at the axes that are computed."""
    shape = op.Shape(data)
    grown = op.Size(shape) + op.Size(axes)
    new = op.Unsqueeze(op.Where(op.Less(axes, 0), axes + grown, axes), [1])
    # Beside -1, which is no axis, there is an axis to compare with where there are none.
    there = op.Concat(new, [[-1]], axis=0)
    ones = op.ReduceMax(op.Cast(op.Equal(there, op.Range(0, grown, 1)), to=7), [0], keepdims=0)
    old = op.CumSum(1 - ones, 0, exclusive=1)
    dims = op.Gather(op.Concat(shape, [1], axis=0), old)
    return op.Reshape(data, op.Where(op.Equal(ones, 1), 1, dims), allowzero=1)


OPERATOR = Operator(
    name="Unsqueeze",
    meaning=Plain,
    versions=tuple(
        Version(since, applies_if=operand_not_negative(1) if since < 11 else None)
        for since in (1, 11, 13, 21, 23, 24, 25)
    ),
    operands=("data", "axes"),
    oracle=oracle,
    normal=axes_operand(1, growth=lambda count: count),
    moves_data=True,
    idle=lambda meaning, operands: operands[1] is not None and operands[1].size == 0,
    lowerings=(reshaped, reshaped_to_known, reshaped_to_grown, reshaped_at_run_time),
    traits=Traits(
        floats=(Trait.MOVES,),
        moved=(0,),
        all_elements=True,
        keeps_order=True,
        quantized="Unsqueeze",
        form=moved("data"),
    ),
)
