"""RoiAlign: pooling in each of some regions of an image, by interpolation. Where pixels lie is told since 16."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class RoiAlign:
    """The attributes of RoiAlign-16."""

    coordinate_transformation_mode: str = "half_pixel"
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0


def _without_shift(attributes: Mapping[str, Any]) -> RoiAlign:
    # RoiAlign-16: "Use the value 'output_half_pixel' to omit the pixel shift for the input (use this for a
    # backward-compatible behavior)."
    return RoiAlign(**{**attributes, "coordinate_transformation_mode": "output_half_pixel"})


def _write_without_shift(meaning: RoiAlign, operands: Operands) -> Mapping[str, Any] | Reason:
    if meaning.coordinate_transformation_mode != "output_half_pixel":
        # Regions could be shifted, but what is narrower than a pixel is widened to one here, and not there.
        return Reason("it knows no shift by half a pixel")
    said = vars(meaning).items()
    return {
        name: value
        for name, value in said
        if name != "coordinate_transformation_mode" and value != getattr(RoiAlign, name)
    }


def _between(image: Array, down: Array, across: Array) -> Array:
    """Interpolate between the four pixels around each point of a grid."""
    height, width = image.shape[-2:]
    y, x = np.clip(down, 0, height - 1)[:, None], np.clip(across, 0, width - 1)
    top, left = y.astype(np.int64), x.astype(np.int64)
    low, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
    above = image[..., top, left] * (1 - (x - left)) + image[..., top, right] * (x - left)
    below = image[..., low, left] * (1 - (x - left)) + image[..., low, right] * (x - left)
    result: Array = above * (1 - (y - top)) + below * (y - top)
    return result


def _places(start: float, end: float, count: int, length: int, meaning: RoiAlign) -> tuple[int, list[Array]]:
    """Return how many points sample each bin along one side of a region, and those of each bin that count.

    Outside of the image by more than one all is zero: a region may have billions of such points.
    """
    shift = 0.5 if meaning.coordinate_transformation_mode == "half_pixel" else 0.0
    start, end = start * meaning.spatial_scale - shift, end * meaning.spatial_scale - shift
    size = end - start if shift else max(end - start, 1.0)
    if not math.isfinite(size):
        raise ValueError("a region is infinite")
    points = meaning.sampling_ratio or math.ceil(size / count)
    if points < 0:
        raise ValueError("a region ends before it begins, which leaves no number of sampling points")
    step = size / count

    def inside(place: int) -> Array:
        apart = step / points
        edges = (
            sorted((edge - start - place * step) / apart for edge in (-1.0, float(length))) if apart else [0, points]
        )
        low, high = (min(max(edge + far, 0), points) for edge, far in zip(edges, (-2, 2), strict=True))
        found = start + (place + (np.arange(int(low), math.ceil(high)) + 0.5) / points) * step
        return found[(found >= -1) & (found <= length)]

    return points, [inside(place) if points > 0 else np.empty(0) for place in range(count)]


def oracle(meaning: RoiAlign, x: Array, rois: Array, batch_indices: Array) -> Array:
    """RoiAlign-16: in each bin, "sampling locations" are "computed directly through bilinear interpolation"."""
    if x.ndim != 4 or rois.shape[1:] != (4,) or batch_indices.shape != rois.shape[:1]:
        raise ValueError("the image has no four axes, or a region no four corners or no image")
    if not np.isfinite(rois).all():  # onnxruntime 1.32.0: "All 'rois' values must be finite"
        raise ValueError("a corner of a region is infinite, or none")
    height, width = x.shape[-2:]
    result = np.zeros((len(rois), x.shape[1], meaning.output_height, meaning.output_width))
    for region, (roi, batch) in enumerate(zip(rois.astype(np.float64), batch_indices.tolist(), strict=True)):
        down, rows = _places(roi[1], roi[3], meaning.output_height, height, meaning)
        across, columns = _places(roi[0], roi[2], meaning.output_width, width, meaning)
        for row, column in np.ndindex(len(rows), len(columns)):
            points = _between(x[batch].astype(np.float64), rows[row], columns[column])
            every, counted = down * across, rows[row].size * columns[column].size
            if meaning.mode == "avg":
                bins = points.sum((-2, -1)) / max(every, 1)
            else:
                bins = points.max((-2, -1), initial=-np.inf if 0 < counted == every else 0)
            result[region, :, row, column] = bins
    return result.astype(x.dtype)


@of_two
def equal_dims(node: NodeShapes, image: Shape, boxes: Shape) -> Pairs:
    """Yield the number of boxes and of their batches, and the corners of a box."""
    if len(node.inputs) > 2 and (batches := node.inputs[2]):
        yield from ((boxes[0], batches[0]), (boxes[-1], 4))


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have an image of the batch for each region: "the index of the corresponding image in the batch"."""
    batches, images = feeds["batch_indices"], len(feeds["X"])
    if not batches.flags.writeable or not images:
        return feeds
    return {**feeds, "batch_indices": rng.integers(images, size=batches.shape).astype(batches.dtype)}


OPERATOR = Operator(
    name="RoiAlign",
    meaning=RoiAlign,
    versions=(Version(10, lift=_without_shift, write=_write_without_shift), Version(16), Version(22)),
    operands=("X", "rois", "batch_indices"),
    oracle=oracle,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS, Trait.SAMPLES),
        indices={2: AlongAxis(axis=0, negative=False)},
        corners=(1,),
        equal_dims=equal_dims,
        spreads=False,
        reads_places=True,
        heavy=True,
    ),
    adversarial=adversarial,
)
