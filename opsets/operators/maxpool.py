"""MaxPool: the largest of windows. Indices came with 8, ceil_mode and dilations with 10; 22 ignores late windows."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.windows import (
    ALL,
    Pool,
    as_pads,
    below_22,
    explicit,
    may_be_shorter,
    nondefault_attributes,
    of_any_size,
    overhangs,
    same_pads,
    sizes_of,
    skips,
    spatial,
    unsupported_ceil_mode,
    windows,
)
from opshift.opsets.families.windows import normal as spelled_out
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.quantized_form import moved
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MaxPool(Pool):
    """The windows along each axis behind the first two, and whether indices count along the first axis first.

    `crops`: automatic padding may be negative, and onnxruntime's kernel for the element type takes that. `indices`: the
    second output is used.
    """

    storage_order: int = 0
    crops: bool = False
    indices: bool = False


_FUSSY = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})
"""Types whose kernel in onnxruntime 1.32.0 fails with "padding values must be non-negative", whatever the version."""


def normal(what: MaxPool, operands: Operands) -> tuple[MaxPool, Operands]:
    """Spell out the windows, and note what a wider type's kernel may not run."""
    what, operands = spelled_out(what, operands)
    dtype = first(operands).dtype
    return dataclasses.replace(what, crops=skips(what) and dtype is not None and dtype not in _FUSSY), operands


def _used(what: MaxPool, used: tuple[bool, ...]) -> MaxPool:
    return dataclasses.replace(what, indices=any(used[1:]))


def oracle(what: MaxPool, x: _Array) -> _Array | tuple[_Array, _Array]:
    """MaxPool-22: "The indices are computed as flatten 1-D tensor, and the indices do not consider padding"."""
    what, _ = normal(what, (None,))
    sizes = spatial(what, x)
    if what.auto_pad != "NOTSET":
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=same_pads(what, sizes))
    size = int(np.prod(sizes))
    image = np.arange(size).reshape(sizes, order="F" if what.storage_order else "C")
    places = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * len(sizes)) * size + image
    inside = np.ones(x.shape, bool)
    values = x
    for axis, along in enumerate(windows(what, sizes)):
        at = along.places()
        index = at.clip(0, along.size - 1)
        # Windows stand where the axis was; their elements go to the end.
        values, places, inside = (
            np.moveaxis(np.take(some, index, axis=2 + axis), 3 + axis, -1) for some in (values, places, inside)
        )
        there = (at >= 0) & (at < along.size)
        inside = inside & there.reshape(len(at), *[1] * (inside.ndim - axis - 4), -1)
    flat = (*values.shape[: x.ndim], math.prod(what.kernel_shape))
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    chosen = np.where(inside, values, x.dtype.type(lowest)).reshape(flat)
    most = chosen.argmax(axis=-1)[..., None]
    y, indices = (np.take_along_axis(some.reshape(flat), most, -1)[..., 0] for some in (chosen, places))
    return (y, indices) if what.indices else y


def _write(since: int, what: MaxPool, operands: Operands) -> Mapping[str, Any] | Reason:
    if since < 10 and set(what.dilations) - {1}:
        return Reason("it has no dilations")
    if since < 10 and what.ceil_mode:
        return Reason("it has no ceil_mode")
    if since < 8 and what.storage_order:
        return Reason("it has no storage_order")
    if what.crops and first(operands).dtype in _FUSSY:
        return Reason("of floats, onnxruntime takes no stride longer than the window with auto_pad")
    return unsupported_ceil_mode(what, operands, since >= 22) or nondefault_attributes(
        dataclasses.replace(what, crops=False, indices=False)
    )


@lowering(18, applies_if=overhangs, bind=as_pads)
def by_pads(x, pads: Sequence[int]):
    """Pad for the windows that end behind the input; padding is never the largest."""
    y, indices = meaning.Same(x, pads=pads, ceil_mode=0)
    return y, indices


# --- without a pool -----------------------------------------------------------------------------------------------


def _tables(what: MaxPool, operands: Operands) -> tuple[_Array, ...]:
    """Return, for each axis, the places of each window's elements; of one in the padding, that of another inside."""
    found = windows(what, sizes_of(operands) or ())
    tables = []
    for along in found:
        bounded(along.count * along.kernel)
        places = along.places()
        inside = (places >= 0) & (places < along.size)
        first_inside = np.where(inside, places, along.size).min(axis=1, keepdims=True, initial=along.size)
        last_inside = np.where(inside, places, -1).max(axis=1, keepdims=True, initial=-1)
        tables.append(np.clip(places, first_inside, last_inside))
    return tuple(tables)


def _filled(what: MaxPool, operands: Operands) -> Reason | None:
    """Require that the windows are known, and that none is in the padding only."""
    if reason := explicit(what, operands):
        return reason
    for along in windows(what, sizes_of(operands) or ()):
        if not along.elements(0).all():
            return Reason("a window is in the padding only")
    return None


def _busy(what: MaxPool) -> list[int]:
    """Return the axes along which a window has several elements, is moved or leaves elements out."""
    rank = len(what.kernel_shape)
    return [
        axis
        for axis in range(rank)
        if (what.kernel_shape[axis], what.strides[axis], what.pads[axis], what.pads[rank + axis]) != (1, 1, 0, 0)
    ]


def _no_indices(what: MaxPool, operands: Operands) -> Reason | None:
    return Reason("its indices are used") if what.indices else _filled(what, operands)


def _last_axis(what: MaxPool, operands: Operands) -> Reason | None:
    if reason := _no_indices(what, operands):
        return reason
    return Reason("windows extend along several axes") if len(_busy(what)) > 1 else None


def _several_axes(what: MaxPool, operands: Operands) -> Reason | None:
    if reason := _no_indices(what, operands):
        return reason
    return None if len(_busy(what)) > 1 else Reason("windows extend along one axis")


def _along(what: MaxPool, operands: Operands) -> Mapping[str, Any]:
    axis = next(iter(_busy(what)), 0)
    return {"axis": axis + 2, "table": Tensor(_tables(what, operands)[axis]), "along": (axis + 3,)}


def _along_first(what: MaxPool, operands: Operands) -> Mapping[str, Any]:
    axis, rank = _busy(what)[0], len(what.kernel_shape)

    def without(field: Sequence[int], value: int) -> tuple[int, ...]:
        return tuple(value if place % rank == axis else number for place, number in enumerate(field))

    return {
        **_along(what, operands),
        "kernel_shape": without(what.kernel_shape, 1),
        "strides": without(what.strides, 1),
        "dilations": without(what.dilations, 1),
        "pads": without(what.pads, 0),
    }


@lowering(18, applies_if=_last_axis, bind=_along)
def along_axis(x, axis: int, table: Sequence[int], along: Sequence[int]):
    """Gather the elements of each window along the one axis, and take their maximum."""
    return op.ReduceMax(op.Gather(x, table, axis=axis), along, keepdims=0)


@lowering(18, applies_if=_several_axes, bind=_along_first)
def axis_by_axis(
    x,
    axis: int,
    table: Sequence[int],
    along: Sequence[int],
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
):
    """Take the maximum along the first axis, then along the others."""
    largest = op.ReduceMax(op.Gather(x, table, axis=axis), along, keepdims=0)
    return meaning.Same(largest, kernel_shape=kernel_shape, strides=strides, dilations=dilations, pads=pads)


def _wants_indices(what: MaxPool, operands: Operands) -> Reason | None:
    return _filled(what, operands) if what.indices else Reason("")


def _ravelled(tables: Sequence[_Array], sizes: Sequence[int], order: Any) -> _Array:
    """Return the places in an image as one row, of each window's elements, from those along each axis."""
    rank = len(sizes)
    bounded(math.prod(table.size for table in tables))
    spread = [
        table.reshape(
            [table.shape[0] if one == axis else 1 for one in range(rank)]
            + [table.shape[1] if one == axis else 1 for one in range(rank)]
        )
        for axis, table in enumerate(tables)
    ]
    places = np.ravel_multi_index(tuple(np.broadcast_arrays(*spread)), tuple(sizes), order=order)
    return places.reshape(math.prod(places.shape[:rank]), -1)


def _places(what: MaxPool, operands: Operands) -> Mapping[str, Any]:
    sizes, tables = sizes_of(operands) or (), _tables(what, operands)
    places = _ravelled(tables, sizes, "C")
    numbers = _ravelled(tables, sizes, "F") if what.storage_order else places
    return {
        "row": (0, 0, math.prod(sizes)),
        "places": Tensor(places),
        "numbers": Tensor(numbers.reshape(-1)),
        "starts": Tensor(np.arange(places.shape[0]) * places.shape[1]),
        "size": Tensor(np.array(math.prod(sizes))),
        "out": (0, 0, *(len(table) for table in tables)),
    }


@lowering(18, applies_if=_wants_indices, bind=_places)
def with_indices(
    x,
    row: Sequence[int],
    places: Sequence[int],
    numbers: Sequence[int],
    starts: Sequence[int],
    size: Sequence[int],
    out: Sequence[int],
):
    """Gather the elements of each window, and find their first maximum."""
    elements = op.Gather(op.Reshape(x, row), places, axis=2)
    largest = meaning.ArgMax(elements, axis=3, keepdims=0)
    channels = op.Slice(op.Shape(x), [0], [2])
    images = op.Range(0, op.Squeeze(op.ReduceProd(channels)), 1) * size
    inside = op.Gather(numbers, largest + starts)
    indices = inside + op.Reshape(images, op.Concat(channels, [1], axis=0))
    return op.Reshape(op.ReduceMax(elements, [3], keepdims=0), out), op.Reshape(indices, out)


def _sliding(what: MaxPool, operands: Operands) -> Reason | None:
    rank = first(operands).rank
    if sizes_of(operands) is not None and not explicit(what, operands):
        return Reason("the sizes are known")
    if rank is not None and rank != len(what.kernel_shape) + 2:
        return Reason("the kernel is of another rank")
    padded = what.auto_pad != "NOTSET" or any(what.pads)
    if (padded or what.ceil_mode) and set(what.dilations) - {1}:
        unknown = sizes_of(operands) is None
        return Reason("it is not known whether a dilated window is in the padding only", missing=unknown)
    if what.ceil_mode == ALL:
        return Reason("a window may be in the padding only")
    if set(what.dilations) - {1} and may_be_shorter(what):
        return Reason("the input may be shorter than a dilated window, and onnxruntime has one there", missing=True)
    return None


def _sliced(what: MaxPool, operands: Operands) -> Reason | None:
    return Reason("its indices are used") if what.indices else of_any_size(what, operands)


def _around(what: MaxPool, operands: Operands) -> Mapping[str, Any]:
    rank, dtype = len(what.kernel_shape), onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 1)
    more = [stride - 1 if what.ceil_mode else 0 for stride in what.strides]
    behind = [after + rest for after, rest in zip(what.pads[rank:], more, strict=True)]
    # A window in the padding only has the lowest number of the type, also of floats (onnxruntime 1.32.0).
    limits = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    spans = [step * (kernel - 1) + 1 for step, kernel in zip(what.dilations, what.kernel_shape, strict=True)]
    return {
        "around": (0, 0, *what.pads[:rank], 0, 0, *behind),
        "filled": int(
            all(before + after >= span - 1 for before, after, span in zip(what.pads, behind, spans, strict=False))
        ),
        "lowest": Tensor(np.array(limits.min, dtype)),
        "kernel_shape": what.kernel_shape,
        "strides": what.strides,
        "dilations": what.dilations,
    }


@lowering(18, applies_if=_sliced, bind=_around, cost=2)
def by_slices(
    x,
    around: Sequence[int],
    lowest: Sequence[int],
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    filled: int,
):
    """Compute the largest of slices of the whole input, one for each element of a window; padding is the lowest."""
    elements = op.Pad(x, around, lowest)
    return meaning.Windowed(
        elements, kernel_shape=kernel_shape, strides=strides, dilations=dilations, largest=1, filled=filled
    )


def _columns(what: MaxPool, operands: Operands) -> Mapping[str, Any]:
    """Bind windows as columns: what is one number for an axis is in its row.

    `room` is what is left behind the last window, with ceil_mode one step less one more; windows start before `last`.
    The padding in front is half of `skipped` less the size and what all windows move, or of `skipped` alone.
    """
    rank = len(what.kernel_shape)
    kernel, dilations, strides = (np.array(one) for one in (what.kernel_shape, what.dilations, what.strides))
    spans = (kernel - 1) * dilations + 1
    automatic = what.auto_pad != "NOTSET"
    pads = np.array(what.pads or (0,) * 2 * rank)
    before, after = pads[:rank], pads[rank:]
    # MaxPool-22: "output_spatial_shape[i] = ceil(input_spatial_shape[i] / strides_spatial_shape[i])" if automatic.
    room = np.full(rank, -1) if automatic else before + after - spans + (strides - 1 if what.ceil_mode else 0)
    # Integers are divided towards zero, and so does onnxruntime 1.32.0 without ceil_mode: an image that is smaller than
    # the window by less than a stride has one window there, and none with ceil_mode.
    more = strides if what.ceil_mode else 0 * strides
    lower = int(what.auto_pad == "SAME_LOWER")
    behind = np.triu(np.ones((rank, rank), bool), 1)
    return {
        "offsets": Tensor(np.indices(what.kernel_shape).reshape(rank, 1, -1) * dilations.reshape(rank, 1, 1)),
        "strides": what.strides,
        "room": tuple((room + more).tolist()),
        "last": tuple(((np.full(rank, -1) if automatic else before - 1) + more).tolist()),
        "one": int(not what.ceil_mode),
        "automatic": int(automatic),
        "skipped": tuple((spans - strides + lower if automatic else 2 * before).tolist()),
        "behind": Tensor(behind),
        "order": Tensor(behind.T if what.storage_order else behind),
    }


@lowering(18, applies_if=_sliding, bind=_columns, cost=2)
def at_run_time(
    x,
    offsets: Sequence[int],
    strides: Sequence[int],
    room: Sequence[int],
    last: Sequence[int],
    one: int,
    automatic: int,
    skipped: Sequence[int],
    behind: Sequence[int],
    order: Sequence[int],
):
    """Compute the places of each window's elements, gather these, and find their first maximum."""
    shape = op.Shape(x)
    sizes = op.Slice(shape, [2], [2147483647])
    counts = op.Min(sizes + room, sizes + last) / strides + one
    before = ((counts * strides - sizes) * automatic + skipped) / 2
    number = op.Range(0, op.Squeeze(op.ReduceProd(counts)), 1)
    turns = op.Max(counts, 1)  # where there are no windows, nothing is divided by zero either
    windows_behind = op.ReduceProd(op.Where(behind, turns, 1), [1], keepdims=1)
    moves = op.Mod(number / windows_behind, op.Unsqueeze(turns, [1])) * op.Unsqueeze(strides, [1])
    starts = op.Unsqueeze(moves - op.Unsqueeze(before, [1]), [2])
    # An element in the padding is another one of the window, the nearest inside.
    at = op.Max(op.Min(starts + offsets, op.Unsqueeze(sizes, [1, 2]) - 1), 0)
    steps = op.Unsqueeze(op.ReduceProd(op.Where(behind, sizes, 1), [1], keepdims=1), [2])
    places = op.ReduceSum(at * steps, [0], keepdims=0)
    ordered_steps = op.Unsqueeze(op.ReduceProd(op.Where(order, sizes, 1), [1], keepdims=1), [2])
    numbers = op.ReduceSum(at * ordered_steps, [0], keepdims=0)
    size = op.ReduceProd(sizes)
    channels = op.Slice(shape, [0], [2])
    elements = op.Gather(op.Reshape(x, op.Concat(channels, size, axis=0)), places, axis=2)
    largest = meaning.ArgMax(elements, axis=3, keepdims=0)
    inside = op.Gather(op.Reshape(numbers, [-1]), largest + op.Shape(places, start=1) * number)
    images = op.Range(0, op.Squeeze(op.ReduceProd(channels)), 1) * size
    indices = inside + op.Reshape(images, op.Concat(channels, [1], axis=0))
    out = op.Concat(channels, counts, axis=0)
    largest_elements = op.ReduceMax(elements, [3], keepdims=0)
    return op.Reshape(largest_elements, out, allowzero=1), op.Reshape(indices, out, allowzero=1)


OPERATOR = Operator(
    name="MaxPool",
    meaning=MaxPool,
    versions=(
        *(below_22(MaxPool, since, _write) for since in (1, 8, 10, 11, 12)),
        Version(22, write=functools.partial(_write, 22)),
    ),
    operands=("X",),
    oracle=oracle,
    normal=normal,
    wider_types=ORDERED,
    lowerings=(along_axis, axis_by_axis, with_indices, at_run_time, by_slices, by_pads),
    outputs=_used,
    # onnxruntime 1.32.0 skips a NaN, or returns it, by its place in the window, and whether its indices are used.
    nan_defined=lambda what, operands: False,
    # Of minus infinities alone it returns the least float, where indices are not wanted.
    infinity_defined=lambda what, operands: False,
    traits=Traits(
        value_range=value_ranges.places,
        miscounts=True,
        floats=(Trait.SELECTS,),
        positions_after=True,
        nan_undefined=True,
        heavy=True,
        quantized="MaxPool",
        form=moved("X"),
    ),
)
