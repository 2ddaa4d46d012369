"""Unique: the different elements, or slices along an axis, and where they are. Since version 11; 28 adds bfloat16."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import axis_fault, first, resolve
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import HELD, Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Unique:
    """The axis of the slices, None for elements, and whether they are sorted, or in the order in which they occur."""

    axis: int | None = None
    sorted: int = 1


def oracle(what: Unique, x: Array) -> tuple[Array, Array, Array, Array]:
    """Unique-11: "sorted in ascending order or optionally in the order of the first occurrence of the values"."""
    if what.axis is None:
        slices = x.reshape(-1, 1)
    else:
        moved = np.moveaxis(x, what.axis, 0)
        slices = moved.reshape(len(moved), -1)
    keys = [tuple(one) for one in slices.tolist()]
    places: dict[Any, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, place)
    order = sorted(places) if what.sorted else list(places)
    ranks = {key: rank for rank, key in enumerate(order)}
    indices = np.array([places[key] for key in order], np.int64)
    inverse = np.array([ranks[key] for key in keys], np.int64)
    counts = np.bincount(inverse, minlength=len(order)).astype(np.int64)
    y = x.reshape(-1)[indices] if what.axis is None else np.take(x, indices, what.axis)
    return y, indices, inverse, counts


def _normal(what: Unique, operands: Operands) -> tuple[Unique, Operands]:
    """Count the axis from the front where the rank is known."""
    axis = None if what.axis is None else resolve(what.axis, first(operands).rank)
    return dataclasses.replace(what, axis=axis), operands


def _fault(what: Unique, operands: Operands) -> str | None:
    return None if what.axis is None else axis_fault(what.axis, first(operands).rank)


# --- by comparing all with all ------------------------------------------------------------------------------------

MOST = 4096
"""The most elements that are all compared with each other, where their number is known."""


def _elements(what: Unique, operands: Operands) -> Reason | None:
    if what.axis is not None:
        return Reason("")
    size = first(operands).size
    return Reason(f"there are more than {MOST} elements") if size is not None and size > MOST else None


def _unordered(operands: Operands) -> Reason | None:
    return Reason("no operator compares strings") if first(operands).dtype == TensorProto.STRING else None


def _sorted_elements(what: Unique, operands: Operands) -> Reason | None:
    return _unordered(operands) or _elements(what, operands) if what.sorted else Reason("")


@lowering(18, applies_if=_sorted_elements)
def of_elements(x):
    """Keep elements that equal none before them, and count for each the kept ones that are smaller."""
    flat = op.Reshape(x, [-1])
    place = op.Cast(op.Range(0, op.Squeeze(op.Shape(flat), [0]), 1), to=1)
    one, other = op.Unsqueeze(flat, [1]), op.Unsqueeze(flat, [0])
    equal = op.Equal(one, other)
    sooner = op.Less(op.Unsqueeze(place, [0]), op.Unsqueeze(place, [1]))
    repeats = op.ReduceSum(op.Cast(op.And(equal, sooner), to=1), [1], keepdims=0)
    kept = op.Less(repeats, 0.5)
    smaller = op.And(op.Less(other, one), op.Unsqueeze(kept, [0]))
    rank = op.ReduceSum(op.Cast(smaller, to=1), [1], keepdims=0)
    ranks, places = op.Compress(rank, kept, axis=0), op.Compress(place, kept, axis=0)
    wanted = op.Cast(op.Range(0, op.Squeeze(op.Shape(ranks), [0]), 1), to=1)
    hit = op.Equal(op.Unsqueeze(ranks, [0]), op.Unsqueeze(wanted, [1]))
    indices = op.Cast(op.ReduceSum(op.Cast(hit, to=1) * op.Unsqueeze(places, [0]), [1], keepdims=0), to=7)
    counts = op.Cast(op.ReduceSum(op.Cast(equal, to=1), [1], keepdims=0), to=7)
    return op.Gather(flat, indices), indices, op.Cast(rank, to=7), op.Gather(counts, indices)


def _occurring_elements(what: Unique, operands: Operands) -> Reason | None:
    return Reason("") if what.sorted else _elements(what, operands)


@lowering(18, applies_if=_occurring_elements)
def of_elements_as_they_occur(x):
    """Keep elements that equal none before them, and count for each the kept ones before the one that it equals."""
    flat = op.Reshape(x, [-1])
    place = op.Cast(op.Range(0, op.Squeeze(op.Shape(flat), [0]), 1), to=1)
    here, there = op.Unsqueeze(place, [1]), op.Unsqueeze(place, [0])
    equal = op.Equal(op.Unsqueeze(flat, [1]), op.Unsqueeze(flat, [0]))
    repeats = op.ReduceSum(op.Cast(op.And(equal, op.Less(there, here)), to=1), [1], keepdims=0)
    kept = op.Less(repeats, 0.5)
    alike = op.Cast(op.And(equal, op.Unsqueeze(kept, [0])), to=1)
    like = op.ReduceSum(alike * there, [1], keepdims=1)
    before = op.And(op.Less(there, like), op.Unsqueeze(kept, [0]))
    rank = op.Cast(op.ReduceSum(op.Cast(before, to=1), [1], keepdims=0), to=7)
    counts = op.Cast(op.ReduceSum(op.Cast(equal, to=1), [1], keepdims=0), to=7)
    indices = op.Cast(op.Compress(place, kept, axis=0), to=7)
    return op.Gather(flat, indices), indices, rank, op.Gather(counts, indices)


def _slices(what: Unique, operands: Operands) -> Reason | None:
    if what.axis is None:
        return Reason("")
    data = first(operands)
    if data.rank is None:
        return Reason("the rank is unknown", missing=True)
    length = data.dim(what.axis)
    if isinstance(length, int) and data.size is not None and length * data.size > HELD:
        return Reason(f"more than {HELD} elements would be compared with each other")
    return Reason(f"the axis is longer than {MOST}") if isinstance(length, int) and length > MOST else None


def _sorted_slices(what: Unique, operands: Operands) -> Reason | None:
    return _unordered(operands) or _slices(what, operands) if what.sorted else Reason("")


def _occurring_slices(what: Unique, operands: Operands) -> Reason | None:
    return Reason("") if what.sorted else _slices(what, operands)


def _to_the_front(what: Unique, operands: Operands) -> Mapping[str, Any]:
    axis, rank = what.axis or 0, first(operands).rank or 1
    return {"axis": axis, "order": (axis, *(one for one in range(rank) if one != axis))}


@lowering(18, applies_if=_sorted_slices, bind=_to_the_front)
def of_slices(x, axis: int, order: Sequence[int]):
    """Do the same with slices; of two slices the one that is smaller where they differ first is smaller."""
    moved = op.Transpose(x, perm=order)
    count = op.Shape(moved, start=0, end=1)
    rest = op.ReduceProd(op.Slice(op.Shape(moved), [1], [2147483647]), keepdims=1)
    rows = op.Reshape(moved, op.Concat(count, rest, axis=0))
    one, other = op.Unsqueeze(rows, [1]), op.Unsqueeze(rows, [0])
    differ = op.Cast(op.Not(op.Equal(one, other)), to=1)
    equal = op.Less(op.ReduceSum(differ, [2], keepdims=0), 0.5)
    alike_so_far = op.Less(op.CumSum(differ, 2, exclusive=1), 0.5)
    less = op.Cast(op.And(op.Less(other, one), alike_so_far), to=1)
    place = op.Cast(op.Range(0, op.Squeeze(count, [0]), 1), to=1)
    sooner = op.Less(op.Unsqueeze(place, [0]), op.Unsqueeze(place, [1]))
    repeats = op.ReduceSum(op.Cast(op.And(equal, sooner), to=1), [1], keepdims=0)
    kept = op.Less(repeats, 0.5)
    smaller = op.ReduceSum(less, [2], keepdims=0) * op.Unsqueeze(op.Cast(kept, to=1), [0])
    rank = op.ReduceSum(smaller, [1], keepdims=0)
    ranks, places = op.Compress(rank, kept, axis=0), op.Compress(place, kept, axis=0)
    wanted = op.Cast(op.Range(0, op.Squeeze(op.Shape(ranks), [0]), 1), to=1)
    hit = op.Equal(op.Unsqueeze(ranks, [0]), op.Unsqueeze(wanted, [1]))
    indices = op.Cast(op.ReduceSum(op.Cast(hit, to=1) * op.Unsqueeze(places, [0]), [1], keepdims=0), to=7)
    counts = op.Cast(op.ReduceSum(op.Cast(equal, to=1), [1], keepdims=0), to=7)
    return op.Gather(x, indices, axis=axis), indices, op.Cast(rank, to=7), op.Gather(counts, indices)


@lowering(18, applies_if=_occurring_slices, bind=_to_the_front)
def of_slices_as_they_occur(x, axis: int, order: Sequence[int]):
    """Do with slices as with elements."""
    moved = op.Transpose(x, perm=order)
    count = op.Shape(moved, start=0, end=1)
    rest = op.ReduceProd(op.Slice(op.Shape(moved), [1], [2147483647]), keepdims=1)
    rows = op.Reshape(moved, op.Concat(count, rest, axis=0))
    differ = op.Cast(op.Not(op.Equal(op.Unsqueeze(rows, [1]), op.Unsqueeze(rows, [0]))), to=1)
    equal = op.Less(op.ReduceSum(differ, [2], keepdims=0), 0.5)
    place = op.Cast(op.Range(0, op.Squeeze(count, [0]), 1), to=1)
    here, there = op.Unsqueeze(place, [1]), op.Unsqueeze(place, [0])
    repeats = op.ReduceSum(op.Cast(op.And(equal, op.Less(there, here)), to=1), [1], keepdims=0)
    kept = op.Less(repeats, 0.5)
    alike = op.Cast(op.And(equal, op.Unsqueeze(kept, [0])), to=1)
    like = op.ReduceSum(alike * there, [1], keepdims=1)
    before = op.And(op.Less(there, like), op.Unsqueeze(kept, [0]))
    rank = op.Cast(op.ReduceSum(op.Cast(before, to=1), [1], keepdims=0), to=7)
    counts = op.Cast(op.ReduceSum(op.Cast(equal, to=1), [1], keepdims=0), to=7)
    indices = op.Cast(op.Compress(place, kept, axis=0), to=7)
    return op.Gather(x, indices, axis=axis), indices, rank, op.Gather(counts, indices)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have slices that occur again, along any axis."""
    drawn = feeds["X"]
    for axis in range(drawn.ndim):
        length = drawn.shape[axis]
        if length and rng.integers(2):
            drawn = np.take(drawn, rng.integers(0, (length + 1) // 2 + 1, length) % length, axis)
    return {**feeds, "X": drawn}


OPERATOR = Operator(
    name="Unique",
    meaning=Unique,
    versions=(Version(11), Version(28)),
    operands=("X",),
    oracle=oracle,
    normal=_normal,
    fault=_fault,
    adversarial=adversarial,
    longest=MOST,
    lowerings=(of_elements, of_elements_as_they_occur, of_slices, of_slices_as_they_occur),
    wider_types={**ORDERED, TensorProto.BOOL: (TensorProto.INT32, TensorProto.INT64)},
    weight=4.0,
    # NaN is unspecified. In onnxruntime 1.32.0 it equals nothing, and its place in the order is arbitrary.
    nan_defined=lambda what, operands: False,
    traits=Traits(
        value_range=value_ranges.moved_and_positions,
        floats=(Trait.MOVES,),
        moved=(0,),
        positions_after=True,
        decides=True,
        nan_undefined=True,
    ),
)
