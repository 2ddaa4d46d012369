"""GridPixels: which pixel of an image lies at each place, as GridSample pads it. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]

OUTSIDE = -(2**40)
"""The index of a place outside: so low that it stays negative after any addition."""


@dataclass(frozen=True)
class GridPixels:
    """Attributes of GridSample, and the last axis of the places: their coordinates, the innermost first."""

    axis: int = 0
    padding_mode: str = "zeros"
    align_corners: int = 0


def oracle(what: GridPixels, places: Array, sizes: Array) -> Array:
    """Return each pixel's row in a list of all pixels of an image; below zero for places outside."""
    inside = np.clip(places, 0, sizes - 1)
    if what.padding_mode == "reflection":
        turn = np.maximum(2 * (sizes - what.align_corners), 1)
        part = places % turn
        inside = np.minimum(part, 2 * sizes - 1 - what.align_corners - part)
    parts = inside.astype(np.int64) * np.cumprod([1, *sizes[:-1]])
    if what.padding_mode == "zeros":
        parts = np.where(inside == places, parts, OUTSIDE)
    return np.asarray(parts.sum(-1))


def _sizes(operands: Operands) -> list[int]:
    known = None if operands[1] is None else operands[1].known
    return [] if known is None else known.tolist()


def _constant(what: GridPixels, operands: Operands) -> Reason | None:
    if not _sizes(operands):
        return Reason("the size of the image is unknown", missing=True)
    return None if all(_sizes(operands)) else Reason("the image is empty")


def _pixels(what: GridPixels, size: int) -> Sequence[int | None]:
    """Return what pixel each position is, from 0 to a period, after which all comes again; None for one outside."""
    if what.padding_mode == "reflection":
        inside = list(range(size))
        return (inside + inside[-2:0:-1]) if what.align_corners else inside + inside[::-1]
    # Nothing comes again: clipped places have no position that far out. What is below zero is at the end.
    positions = (*range(size + 8), *range(-8, 0))
    if what.padding_mode == "border":
        return [min(max(position, 0), size - 1) for position in positions]
    return [position if 0 <= position < size else None for position in positions]


def _dtype(operands: Operands) -> Any:
    return onnx.helper.tensor_dtype_to_np_dtype((operands[0] or Facts()).dtype or TensorProto.FLOAT)


def _tables(what: GridPixels, operands: Operands) -> Mapping[str, Any]:
    sizes = _sizes(operands)
    bounded(2 * sum(sizes))
    pixels = [_pixels(what, size) for size in sizes]
    strides = np.cumprod([1, *sizes[:-1]])
    rows = [
        OUTSIDE if pixel is None else int(pixel * stride)
        for some, stride in zip(pixels, strides, strict=True)
        for pixel in some
    ]
    lengths = [len(some) for some in pixels]
    return {
        "period": Tensor(np.array(lengths, _dtype(operands))),
        "starts": Tensor(np.cumsum([0, *lengths[:-1]]).astype(_dtype(operands))),
        "rows": tuple(rows),
        "last": (what.axis,),
    }


@lowering(18, applies_if=_constant, bind=_tables)
def looked_up(
    places, sizes, period: Sequence[int], starts: Sequence[int], rows: Sequence[int], last: Sequence[int]
):  # fmt: skip
    """Look up each coordinate's part in a table."""
    position = op.Sub(places, op.Mul(op.Floor(op.Div(places, period)), period))
    return op.ReduceSum(op.Gather(rows, op.Cast(op.Add(position, starts), to=7), axis=0), last, keepdims=0)


def _padded(mode: str) -> Callable[[GridPixels, Operands], Reason | None]:
    def applies_if(what: GridPixels, operands: Operands) -> Reason | None:
        if what.padding_mode != mode:
            return Reason(f"it pads with {what.padding_mode}")
        known = (operands[0] or Facts()).dtype and isinstance((operands[1] or Facts()).dim(0), int)
        return None if known else Reason("the element type is unknown, or how many axes there are", missing=True)

    return applies_if


def _of_any_size(what: GridPixels, operands: Operands) -> Mapping[str, Any]:
    axes = (operands[1] or Facts()).dim(0)
    assert isinstance(axes, int)
    return {
        "before": Tensor(np.tril(np.ones((axes, axes), bool), -1)),
        "last": (what.axis,),
        "outside": OUTSIDE,
        "corners": what.align_corners,
        "dtype": (operands[0] or Facts()).dtype,
    }


@lowering(18, applies_if=_padded("zeros"), bind=_of_any_size, cost=2)
def inside_only(places, sizes, before: Sequence[int], last: Sequence[int], outside: int, dtype: int):
    """Multiply the coordinates by the sizes of the axes behind; a place outside is below zero."""
    strides = op.ReduceProd(op.Where(before, sizes, 1), [1], keepdims=0)
    inside = op.Max(op.Min(places, op.Cast(sizes - 1, to=dtype)), 0.0)
    parts = op.Where(op.Equal(inside, places), op.Cast(inside, to=7) * strides, outside)
    return op.ReduceSum(parts, last, keepdims=0)


@lowering(18, applies_if=_padded("border"), bind=_of_any_size, cost=2)
def clipped(places, sizes, before: Sequence[int], last: Sequence[int], dtype: int):
    """Multiply the nearest coordinates inside by the sizes of the axes behind."""
    strides = op.ReduceProd(op.Where(before, sizes, 1), [1], keepdims=0)
    inside = op.Max(op.Min(places, op.Cast(sizes - 1, to=dtype)), 0.0)
    return op.ReduceSum(op.Cast(inside, to=7) * strides, last, keepdims=0)


@lowering(18, applies_if=_padded("reflection"), bind=_of_any_size, cost=2)
def mirrored(places, sizes, before: Sequence[int], last: Sequence[int], corners: int, dtype: int):
    """Multiply the mirrored coordinates by the sizes of the axes behind."""
    strides = op.ReduceProd(op.Where(before, sizes, 1), [1], keepdims=0)
    turn = op.Cast(op.Max((sizes - corners) * 2, 1), to=dtype)
    part = op.Sub(places, op.Mul(op.Floor(op.Div(places, turn)), turn))
    inside = op.Min(part, op.Cast(sizes * 2 - 1 - corners, to=dtype) - part)
    return op.ReduceSum(op.Cast(inside, to=7) * strides, last, keepdims=0)


def _facts(what: GridPixels, operands: Operands) -> tuple[Facts, ...]:
    shape = (operands[0] or Facts()).shape
    return (Facts(TensorProto.INT64, shape and shape[:-1]),)


OPERATOR = Operator(
    name="GridPixels",
    domain="opshift.step",
    meaning=GridPixels,
    versions=(),
    operands=("places", "sizes"),
    oracle=oracle,
    lowerings=(looked_up, inside_only, clipped, mirrored),
    facts=_facts,
)
