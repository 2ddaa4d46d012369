"""ScatterElements: write elements to places along an axis. Reductions came with 16 (add, mul) and 18 (max, min)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import axis_not_negative, first, one_axis, positions, rank_known
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import AlongAxis, Integers, Trait, Traits


@dataclass(frozen=True)
class ScatterElements:
    """The axis, and the reduction that combines an update with the present value."""

    axis: int = 0
    reduction: str = "none"


JOIN: Mapping[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
"""What the reductions do."""


def oracle(
    what: ScatterElements, data: np.ndarray[Any, Any], indices: np.ndarray[Any, Any], updates: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """ScatterElements-18: "output[indices[i][j]][j] = updates[i][j] if axis = 0", or joined by the reduction."""
    if updates.shape != indices.shape:
        raise ValueError("ScatterElements-18: there is not one update for each index")
    y = data.copy()
    for place in np.ndindex(*indices.shape):
        at = list(place)
        at[what.axis] = int(indices[place])
        where = tuple(at)
        y[where] = updates[place] if what.reduction == "none" else JOIN[what.reduction](y[where], updates[place])
    return y


def from_either(length: int, places: Sequence[int]) -> tuple[int, ...]:
    """Return which rows to take of as many as `length`, followed by new ones that were written to some places."""
    rows = list(range(length))
    for number, place in enumerate(places):
        rows[place] = length + number
    return tuple(rows)


def sums_only(what: Any, operands: Operands) -> Reason | None:
    """Refuse the reductions that version 16 of ScatterElements and ScatterND lack."""
    return Reason(f"it has no reduction={what.reduction}") if what.reduction in ("max", "min") else None


def joins_by_none(what: Any, operands: Operands) -> Reason | None:
    """Refuse all reductions, which came with version 16."""
    return None if what.reduction == "none" else Reason(f"it has no reduction={what.reduction}")


def _along(what: ScatterElements, operands: Operands) -> Reason | None:
    return joins_by_none(what, operands) or axis_not_negative(what, operands)


@lowering(9, applies_if=_along, bind=lambda what, operands: {"axis": what.axis, "along": (what.axis,)})
def as_scatter(data, indices, updates, axis: int, along: Sequence[int]):
    """Emit Scatter-9, which does not define negative indices."""
    places = op.Cast(indices, to=7)
    length = op.Gather(op.Shape(data), along, axis=0)
    return op.Scatter(data, places + op.Cast(op.Less(places, 0), to=7) * length, updates, axis=axis)


def _joins(reduction: str, *, exact: bool = True) -> Callable[[ScatterElements, Operands], Reason | None]:
    def applies_if(what: ScatterElements, operands: Operands) -> Reason | None:
        if what.reduction != reduction:
            return Reason(f"reduction is {what.reduction}")
        if not exact and (reason := _rounded_by_reductions(operands)):
            return reason
        return axis_not_negative(what, operands)

    return applies_if


def _rounded_by_reductions(operands: Operands) -> Reason | None:
    """Refuse integers of 64 bits: ReduceSum and ReduceProd of onnxruntime 1.32.0 take them as doubles."""
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    wide = dtype in (TensorProto.INT64, TensorProto.UINT64)
    return (
        Reason("onnxruntime adds up and multiplies integers of 64 bits as doubles, and loses digits") if wide else None
    )


def _adds_int64(what: ScatterElements, operands: Operands) -> Reason | None:
    return _joins("add")(what, operands) or (
        None if first(operands).dtype == TensorProto.INT64 else Reason("it is not of int64")
    )


def _along_axis(what: ScatterElements, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.axis, "along": (what.axis,)}


@lowering(18, applies_if=_joins("add", exact=False), bind=_along_axis, rounds=True)
def by_sums(data, indices, updates, axis: int, along: Sequence[int]):
    """Add the updates at each position."""
    return data + op.ReduceSum(meaning.Scattered(data, indices, updates, axis=axis), along, keepdims=0)


@lowering(18, applies_if=_adds_int64, bind=_along_axis)
def by_sums_of_halves(data, indices, updates, axis: int, along: Sequence[int]):
    """Add the upper and the lower 32 bits of the updates apart, which a double holds: of up to 2^21 updates."""
    upper = updates / 4294967296
    lower = updates - upper * 4294967296
    uppers = op.ReduceSum(meaning.Scattered(data, indices, upper, axis=axis), along, keepdims=0)
    lowers = op.ReduceSum(meaning.Scattered(data, indices, lower, axis=axis), along, keepdims=0)
    return data + uppers * 4294967296 + lowers


@lowering(18, applies_if=_joins("mul", exact=False), bind=_along_axis, rounds=True)
def by_products(data, indices, updates, axis: int, along: Sequence[int]):
    """Multiply the updates at each position."""
    spread = meaning.Scattered(data, indices, updates, axis=axis, reduction="mul")
    return data * op.ReduceProd(spread, along, keepdims=0)


@lowering(18, applies_if=_joins("max"), bind=_along_axis)
def by_maxima(data, indices, updates, axis: int, along: Sequence[int]):
    """Compute the largest of the updates at each position."""
    spread = meaning.Scattered(data, indices, updates, axis=axis, reduction="max")
    return op.Max(data, op.ReduceMax(spread, along, keepdims=0))


@lowering(18, applies_if=_joins("min"), bind=_along_axis)
def by_minima(data, indices, updates, axis: int, along: Sequence[int]):
    """Compute the smallest of the updates at each position."""
    spread = meaning.Scattered(data, indices, updates, axis=axis, reduction="min")
    return op.Min(data, op.ReduceMin(spread, along, keepdims=0))


def _known_rows(what: ScatterElements, operands: Operands) -> np.ndarray[Any, Any] | Reason:
    """Return constant indices from the front: of numbers, in a tensor of known shape without empty dimensions."""
    if reason := joins_by_none(what, operands):
        return reason
    data, places = first(operands), (operands[1] or Facts()).known
    if places is None or data.size is None:
        return Reason("its indices or its shape are only known at run time", missing=True)
    if not places.size or not data.size or data.dtype == TensorProto.STRING:
        return Reason("there is nothing to write, or the elements are strings")
    length = data.dim(what.axis)
    assert isinstance(length, int)
    forward = positions(places, length)
    return Reason("an index is out of range") if forward is None else forward


def _whole_rows(what: ScatterElements, operands: Operands) -> Reason | None:
    places = _known_rows(what, operands)
    if isinstance(places, Reason):
        return places
    dims = list(first(operands).shape or ())
    dims[what.axis] = places.shape[what.axis]
    alike = tuple(dims) == places.shape and (places == places[_first_line(what, places)]).all()
    return None if alike else Reason("the places are not the same in each row")


def _first_line(what: ScatterElements, places: np.ndarray[Any, Any]) -> tuple[slice, ...]:
    axis = what.axis % places.ndim
    return tuple(slice(None) if place == axis else slice(1) for place in range(places.ndim))


def _from_either(what: ScatterElements, operands: Operands) -> Mapping[str, Any]:
    places = _known_rows(what, operands)
    length = first(operands).dim(what.axis)
    assert not isinstance(places, Reason)
    assert isinstance(length, int)
    line = places[_first_line(what, places)].reshape(-1).tolist()
    return {"axis": what.axis, "rows": from_either(length, line)}


@lowering(13, applies_if=_whole_rows, bind=_from_either)
def along_one_axis(data, indices, updates, axis: int, rows: Sequence[int]):
    """Take the rows that are written, which are constants, from the updates, and the others from the data."""
    return meaning.Gather(op.Concat(data, updates, axis=axis), rows, axis=axis)


def _scattered_places(what: ScatterElements, operands: Operands) -> Reason | None:
    places = _known_rows(what, operands)
    if isinstance(places, Reason):
        return places
    return None if _whole_rows(what, operands) else Reason("the places are the same in each row")


def _numbers(what: ScatterElements, operands: Operands) -> Mapping[str, Any]:
    places, dims = _known_rows(what, operands), first(operands).shape
    assert not isinstance(places, Reason)
    assert dims is not None
    where = list(np.indices(places.shape))
    where[what.axis] = places
    numbers = np.ravel_multi_index(tuple(where), tuple(map(int, dims)))  # type: ignore[arg-type]
    return {"numbers": Tensor(numbers.astype(np.int64).reshape(-1, 1)), "dims": dims}


@lowering(13, applies_if=_scattered_places, bind=_numbers)
def at_known_places(data, indices, updates, numbers: Sequence[int], dims: Sequence[int]):
    """Write the elements to their places, which are constants, in a row of all elements."""
    y = meaning.ScatterND(op.Reshape(data, [-1]), numbers, op.Reshape(updates, [-1]))
    return op.Reshape(y, dims)


def _static_indices(what: ScatterElements, operands: Operands) -> Reason | None:
    if reason := joins_by_none(what, operands):
        return reason
    indices = operands[1] or Facts()
    if indices.size is None:
        return Reason("the shape of the indices is unknown", missing=True)
    return None if indices.rank and indices.size else Reason("there is nothing to write")


def _coordinates(what: ScatterElements, operands: Operands) -> Mapping[str, Any]:
    dims = tuple(dim for dim in (operands[1] or Facts()).shape or () if isinstance(dim, int))
    bounded(math.prod(dims) * len(dims))
    others = np.moveaxis(np.indices(dims), 0, -1).astype(np.int64)
    others[..., what.axis] = 0
    unit = np.zeros(len(dims), np.int64)
    unit[what.axis] = 1
    return {"others": Tensor(others), "unit": Tensor(unit)}


@lowering(13, applies_if=_static_indices, bind=_coordinates)
def by_coordinates(data, indices, updates, others: Sequence[int], unit: Sequence[int]):
    """Complete each index by those of the other axes, which are its own place."""
    return meaning.ScatterND(data, others + op.Unsqueeze(op.Cast(indices, to=7), [-1]) * unit, updates)


def _writes(what: ScatterElements, operands: Operands) -> Reason | None:
    if reason := joins_by_none(what, operands) or rank_known(what, operands) or axis_not_negative(what, operands):
        return reason
    count = (operands[1] or Facts()).dim(what.axis)
    # Of no updates there is no last one.
    if isinstance(count, int):
        return None if count else Reason("there are no updates")
    return Reason("the number of updates is unknown", missing=True)


def _one_by_one(what: ScatterElements, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    return {
        **_along_axis(what, operands),
        "column": (-1, *[1] * (rank - what.axis - 1)),
        "others": tuple(int(axis != what.axis) for axis in range(rank)),
    }


@lowering(18, applies_if=_writes, bind=_one_by_one, cost=10)
def by_last(
    data,
    indices,
    updates,
    axis: int,
    along: Sequence[int],
    column: Sequence[int],
    others: Sequence[int],
):
    """Find the last update that goes to each position, and gather from data and updates together."""
    shape = op.Shape(data)
    length = op.Gather(shape, along, axis=0)
    count = op.Gather(op.Shape(indices), along, axis=0)
    numbers = op.Expand(op.Reshape(op.Range(0, op.Squeeze(count, [0]), 1), column), op.Shape(indices))
    spread = meaning.Scattered(op.Expand(0, shape), indices, numbers, axis=axis, reduction="max")
    last = op.ReduceMax(spread, along, keepdims=0)
    place = op.Reshape(op.Range(0, op.Squeeze(length, [0]), 1), column)
    room = (shape - op.Shape(indices)) * others
    both = op.Concat(data, op.Pad(updates, op.Concat(room * 0, room, axis=0)), axis=axis)
    # Not Where of the elements: onnxruntime's drops the sign of a zero.
    return op.GatherElements(both, op.Where(op.Less(last, 0), place, last + length), axis=axis)


def floats_by(attributes: Mapping[str, Any]) -> tuple[Trait, ...]:
    """Return what scattering does with floats: without a reduction it moves them."""
    match attributes.get("reduction", "none"):
        case "none":
            return (Trait.MOVES,)
        case "max" | "min":
            return (Trait.SELECTS,)
        case _:
            return (Trait.SUMS,)


def integers_by(attributes: Mapping[str, Any]) -> Integers | None:
    """Return what scattering does with integers: beyond their type no text says what a sum or a product is."""
    joined = {"add": Integers.JOINED_SUMS, "mul": Integers.JOINED_PRODUCTS}
    return joined.get(attributes.get("reduction") or "none")


@of_two
def equal_dims(node: NodeShapes, data: Shape, indices: Shape) -> Pairs:
    """Yield the dims of the indices and of the updates."""
    if len(node.inputs) > 2 and (updates := node.inputs[2]):
        yield from zip(indices, updates, strict=False)


OPERATOR = Operator(
    name="ScatterElements",
    meaning=ScatterElements,
    versions=(Version(11), Version(13), Version(16, applies_if=sums_only), Version(18)),
    operands=("data", "indices", "updates"),
    oracle=oracle,
    # No text says what NaN is beside a number.
    nan_defined=lambda what, operands: what.reduction not in ("max", "min"),
    lowerings=(
        along_one_axis,
        at_known_places,
        as_scatter,
        by_coordinates,
        by_sums,
        by_sums_of_halves,
        by_products,
        by_maxima,
        by_minima,
        by_last,
    ),
    normal=one_axis,
    traits=Traits(
        value_range=value_ranges.joined_if("reduction", 0, 2),
        floats=(Trait.MOVES,),
        floats_by=floats_by,
        integers_by=integers_by,
        moved=(0, 2),
        indices={1: AlongAxis()},
        equal_dims=equal_dims,
        spreads=False,
    ),
)
