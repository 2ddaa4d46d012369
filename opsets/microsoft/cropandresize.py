"""com.microsoft::CropAndResize: boxes cut out of images, each resized."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CropAndResize:
    """How elements between others are sampled, and what those outside of the image are."""

    extrapolation_value: float = 0.0
    mode: str = "bilinear"


def _places(start: Array, end: Array, length: int, count: int) -> Array:
    """Return where samples lie along an axis: from the start to the end of a box, one in its middle."""
    last = np.float32(length - 1)
    if count == 1:
        return np.asarray(np.float32(0.5) * (start + end) * last)[:, None]
    step = (end - start) * last / np.float32(count - 1)
    return np.asarray(start * last)[:, None] + np.arange(count, dtype=np.float32) * step[:, None]


def _weights(what: CropAndResize, places: Array, length: int) -> Array:
    grid = np.arange(length)
    if what.mode == "nearest":
        return np.asarray(np.floor(places + np.float32(0.5))[..., None] == grid, np.float64)
    return np.asarray(np.maximum(0, 1 - np.abs(places[..., None].astype(np.float64) - grid)))


def oracle(what: CropAndResize, x: Array, boxes: Array, images: Array, size: Array) -> Array:
    """CropAndResize-1: "Extracts crops from the input image tensor and resizes them"; boxes are [y1, x1, y2, x2]."""
    height, width = x.shape[2:]
    down = _places(boxes[:, 0], boxes[:, 2], height, int(size[0]))
    across = _places(boxes[:, 1], boxes[:, 3], width, int(size[1]))
    taken = x[images].astype(np.float64)
    y = np.einsum("rih,rchw,rjw->rcij", _weights(what, down, height), taken, _weights(what, across, width))
    inside = ((down >= 0) & (down <= height - 1))[:, None, :, None] & ((across >= 0) & (across <= width - 1))[
        :, None, None
    ]
    return np.asarray(np.where(inside, y, what.extrapolation_value).astype(x.dtype))


def _mode(mode: str) -> Callable[[CropAndResize, Operands], Reason | None]:
    def applies_if(what: CropAndResize, operands: Operands) -> Reason | None:
        if what.mode not in ("bilinear", "nearest"):
            return Reason(f"mode {what.mode} is none that onnxruntime has")
        if what.mode != mode:
            return Reason("")
        return dtype_known(what, operands)

    return applies_if


def _value(what: CropAndResize, operands: Operands) -> Mapping[str, Any]:
    return {"value": what.extrapolation_value, "to": first(operands).dtype}


@lowering(18, applies_if=_mode("bilinear"), bind=_value, rounds=True)
def bilinear(x, boxes, images, size, value: float, to: int):
    """Multiply by matrices that weigh the rows and the columns of each image."""
    height = op.Squeeze(op.Shape(x, start=2, end=3), [0])
    width = op.Squeeze(op.Shape(x, start=3, end=4), [0])
    bottom = op.Cast(height - 1, to=to)
    right = op.Cast(width - 1, to=to)
    counts = op.Cast(size, to=7)
    rows = op.Squeeze(op.Slice(counts, [0], [1]), [0])
    columns = op.Squeeze(op.Slice(counts, [1], [2]), [0])
    y1, x1, y2, x2 = op.Split(boxes, axis=1, num_outputs=4)
    half = op.CastLike(0.5, x)
    down_step = (y2 - y1) * bottom / op.Cast(op.Max(rows - 1, 1), to=to)
    down = op.Where(
        op.Equal(rows, 1), (y1 + y2) * half * bottom, y1 * bottom + op.Cast(op.Range(0, rows, 1), to=to) * down_step
    )
    across_step = (x2 - x1) * right / op.Cast(op.Max(columns - 1, 1), to=to)
    across = op.Where(
        op.Equal(columns, 1),
        (x1 + x2) * half * right,
        x1 * right + op.Cast(op.Range(0, columns, 1), to=to) * across_step,
    )
    one = op.CastLike(1.0, x)
    by_row = op.Relu(one - op.Abs(op.Unsqueeze(down, [1, 3]) - op.Cast(op.Range(0, height, 1), to=to)))
    by_column = op.Relu(
        one - op.Abs(op.Unsqueeze(across, [1, 2]) - op.Unsqueeze(op.Cast(op.Range(0, width, 1), to=to), [1]))
    )
    y = op.MatMul(op.MatMul(by_row, op.Gather(x, images, axis=0)), by_column)
    zero = op.CastLike(0.0, x)
    above = op.Or(op.Less(down, zero), op.Greater(down, bottom))
    beside = op.Or(op.Less(across, zero), op.Greater(across, right))
    outside = op.Or(op.Unsqueeze(above, [1, 3]), op.Unsqueeze(beside, [1, 2]))
    return op.Where(outside, op.CastLike(value, x), y)


@lowering(18, applies_if=_mode("nearest"), bind=_value)
def nearest(x, boxes, images, size, value: float, to: int):
    """Multiply by matrices that select the rows and the columns of each image."""
    height = op.Squeeze(op.Shape(x, start=2, end=3), [0])
    width = op.Squeeze(op.Shape(x, start=3, end=4), [0])
    bottom = op.Cast(height - 1, to=to)
    right = op.Cast(width - 1, to=to)
    counts = op.Cast(size, to=7)
    rows = op.Squeeze(op.Slice(counts, [0], [1]), [0])
    columns = op.Squeeze(op.Slice(counts, [1], [2]), [0])
    y1, x1, y2, x2 = op.Split(boxes, axis=1, num_outputs=4)
    half = op.CastLike(0.5, x)
    down_step = (y2 - y1) * bottom / op.Cast(op.Max(rows - 1, 1), to=to)
    down = op.Where(
        op.Equal(rows, 1), (y1 + y2) * half * bottom, y1 * bottom + op.Cast(op.Range(0, rows, 1), to=to) * down_step
    )
    across_step = (x2 - x1) * right / op.Cast(op.Max(columns - 1, 1), to=to)
    across = op.Where(
        op.Equal(columns, 1),
        (x1 + x2) * half * right,
        x1 * right + op.Cast(op.Range(0, columns, 1), to=to) * across_step,
    )
    row = op.Floor(op.Unsqueeze(down, [1, 3]) + half)
    column = op.Floor(op.Unsqueeze(across, [1, 2]) + half)
    by_row = op.Cast(op.Equal(row, op.Cast(op.Range(0, height, 1), to=to)), to=to)
    by_column = op.Cast(op.Equal(column, op.Unsqueeze(op.Cast(op.Range(0, width, 1), to=to), [1])), to=to)
    y = op.MatMul(op.MatMul(by_row, op.Gather(x, images, axis=0)), by_column)
    zero = op.CastLike(0.0, x)
    above = op.Or(op.Less(down, zero), op.Greater(down, bottom))
    beside = op.Or(op.Less(across, zero), op.Greater(across, right))
    outside = op.Or(op.Unsqueeze(above, [1, 3]), op.Unsqueeze(beside, [1, 2]))
    return op.Where(outside, op.CastLike(value, x), y)


def undecided(inputs: Sequence[Any]) -> bool:
    """Return whether rounding decides if a sample lies inside the image, or which element is the nearest."""
    x, boxes, _, size = inputs[:4]
    if not isinstance(x, np.ndarray) or not isinstance(boxes, np.ndarray):
        return False
    if x.ndim != 4 or boxes.ndim != 2 or boxes.shape[1:] != (4,) or 0 in x.shape[2:]:
        return False
    wide = boxes.astype(np.float64)
    if not bool((np.abs(wide) < 2.0**12).all()):
        return True
    if bool((wide * 64 % 1 == 0).all()):
        return False
    if not isinstance(size, np.ndarray) or size.shape != (2,) or not bool((size > 0).all()):
        return True
    for axis in (0, 1):
        last = x.shape[2 + axis] - 1
        places = _places(wide[:, axis], wide[:, 2 + axis], last + 1, int(size[axis]))
        near = 2.0**-16 * (1 + last) * (1 + np.abs(wide).max(initial=0))
        apart = np.abs(np.stack([places, places - last, places + 0.5 - np.rint(places + 0.5)]))
        if bool((apart < near).any()):
            return True
    return False


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw boxes that reach out of the image, the whole image among them, and crops of a few elements."""
    boxes, size = feeds.get("rois"), feeds.get("crop_size")
    made: dict[str, Any] = {}
    if boxes is not None and boxes.ndim == 2 and boxes.flags.writeable:
        drawn = np.rint(rng.uniform(-0.25, 1.25, boxes.shape) * 64) / 64
        drawn[: len(drawn) // 2] = (0, 0, 1, 1)
        made["rois"] = drawn.astype(boxes.dtype)
    if size is not None and size.flags.writeable:
        made["crop_size"] = rng.integers(1, 6, size.shape).astype(size.dtype)
    return made


OPERATOR = Operator(
    name="CropAndResize",
    domain=MICROSOFT,
    meaning=CropAndResize,
    versions=(Version(1),),
    operands=("X", "rois", "batch_indices", "crop_size"),
    oracle=oracle,
    lowerings=(bilinear, nearest),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    traits=Traits(
        floats=(Trait.SUMS, Trait.SAMPLES, Trait.WEIGHS),
        indices={2: AlongAxis(axis=0, negative=False)},
        counts=(3,),
        reads_places=True,
        meaningless=undecided,
    ),
)
