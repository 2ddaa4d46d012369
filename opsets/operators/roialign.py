"""RoiAlign: pooling by interpolation in regions of an image. Since 16, an attribute defines the positions of pixels."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class RoiAlign:
    """The attributes of RoiAlign-16.

    With the coordinate_transformation_mode `sizes`, which no version has, regions are left, top, width and height in
    pixels. With `corners`, the mode `max` takes the largest product of a pixel and its weight, as onnxruntime 1.32.0
    does, not the largest of the sums of four.
    """

    coordinate_transformation_mode: str = "half_pixel"
    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0
    corners: bool = False


def _of_spec(attributes: Mapping[str, Any]) -> RoiAlign:
    # RoiAlign-16: "Use the value 'output_half_pixel' to omit the pixel shift for the input (use this for a
    # backward-compatible behavior)."
    return RoiAlign(**{"coordinate_transformation_mode": "output_half_pixel", **attributes})


def _of_runtime(attributes: Mapping[str, Any]) -> RoiAlign:
    found = _of_spec(attributes)
    return dataclasses.replace(found, corners=found.mode == "max")


def _write(meaning: RoiAlign, operands: Operands) -> Mapping[str, Any] | Reason:
    fields = {name: value for name, value in vars(meaning).items() if name != "corners"}
    if meaning.coordinate_transformation_mode == "sizes":
        return Reason("it takes regions by their corners")
    return {name: value for name, value in fields.items() if value != getattr(RoiAlign, name)}


def _write_without_shift(meaning: RoiAlign, operands: Operands) -> Mapping[str, Any] | Reason:
    if meaning.coordinate_transformation_mode != "output_half_pixel":
        # Regions could be shifted, but what is narrower than a pixel is widened to one here, and not there.
        return Reason("it knows no shift by half a pixel")
    return _write(dataclasses.replace(meaning, coordinate_transformation_mode="half_pixel"), operands)


def _around(image: Array, down: Array, across: Array) -> Array:
    """Return the four pixels around each point of a grid, times their weights, which are of the element type."""
    height, width = image.shape[-2:]
    y, x = np.clip(down, 0, height - 1)[:, None], np.clip(across, 0, width - 1)
    lower, right = y - np.floor(y), x - np.floor(x)
    top, left = y.astype(np.int64), x.astype(np.int64)
    rows = (top, 1 - lower), (np.minimum(top + 1, height - 1), lower)
    columns = (left, 1 - right), (np.minimum(left + 1, width - 1), right)
    return np.stack([image[..., row, at] * (one * other) for row, one in rows for at, other in columns])


FARTHEST = 2.0**24
"""Pixels: places farther out hold no fraction in float, and what is read there is not defined."""


def _places(start: Any, end: Any, count: int, length: int, meaning: RoiAlign) -> tuple[int, list[Array]]:
    """Return how many points sample each bin along one side of a region, and those of each bin that count.

    They are computed in the element type, like in the kernel: rounding decides which are inside. Outside of the image
    by more than one all is zero: a region may have billions of such points.
    """
    shift = 0.5 if meaning.coordinate_transformation_mode == "half_pixel" else 0.0
    size = end
    if meaning.coordinate_transformation_mode != "sizes":
        scale = type(start)(meaning.spatial_scale)
        start, end = start * scale - shift, end * scale - shift
        size = end - start if shift else np.maximum(end - start, 1)
    if not math.isfinite(size):
        raise ValueError("a region is infinite")
    step = size / count
    points = meaning.sampling_ratio or math.ceil(step)
    if points < 0:
        raise ValueError("a region ends before it begins, which leaves no number of sampling points")
    rounding = 8 * np.finfo(type(start)).eps * min(abs(float(start)) + abs(float(size)), FARTHEST)

    def inside(place: int) -> Array:
        first, apart = start + step * place, float(step) / points
        edges = (-1.0 - rounding - float(first), length + rounding - float(first))
        low, high = sorted(edge / apart for edge in edges) if apart else (0, points)
        numbers = np.arange(int(min(max(low - 2, 0), points)), math.ceil(min(max(high + 2, 0), points)))
        found: Array = first + step * (numbers.astype(type(start)) + 0.5) / points
        return found[(found >= -1) & (found <= length)]

    return points, [inside(place) if points > 0 else np.empty(0) for place in range(count)]


def oracle(meaning: RoiAlign, x: Array, rois: Array, batch_indices: Array) -> Array:
    """RoiAlign-16: in each bin, "sampling locations" are "computed directly through bilinear interpolation"."""
    if 0 in x.shape[2:]:
        raise ValueError("an image has no pixels")
    if x.ndim != 4 or rois.shape[1:] != (4,) or batch_indices.shape != rois.shape[:1]:
        raise ValueError("the image has no four axes, or a region no four corners or no image")
    if not np.isfinite(rois).all():  # onnxruntime 1.32.0: "All 'rois' values must be finite"
        raise ValueError("a corner of a region is infinite, or none")
    if np.any((batch_indices < 0) | (batch_indices >= len(x))):
        raise ValueError("a region is of no image of the batch")
    height, width = x.shape[-2:]
    result = np.zeros((len(rois), x.shape[1], meaning.output_height, meaning.output_width))
    for region, (roi, batch) in enumerate(zip(rois, batch_indices.tolist(), strict=True)):
        down, rows = _places(roi[1], roi[3], meaning.output_height, height, meaning)
        across, columns = _places(roi[0], roi[2], meaning.output_width, width, meaning)
        for row, column in np.ndindex(len(rows), len(columns)):
            pixels = _around(x[batch].astype(np.float64), rows[row], columns[column])
            points = pixels.max(axis=0) if meaning.corners else pixels.sum(axis=0)
            every, counted = down * across, rows[row].size * columns[column].size
            if meaning.mode == "avg":
                bins = points.sum((-2, -1)) / max(every, 1)
            else:
                bins = points.max((-2, -1), initial=-np.inf if 0 < counted == every else 0)
            result[region, :, row, column] = bins
    return result.astype(x.dtype)


def _pixels(meaning: RoiAlign, operands: Operands) -> Reason | None:
    dtypes = {facts.dtype for facts in operands[:2] if facts is not None}
    if None in dtypes:
        return Reason("the element type is unknown", missing=True)
    if meaning.sampling_ratio < 0:
        return Reason("its sampling_ratio is negative")
    if len(dtypes) != 1 or not dtypes <= {TensorProto.FLOAT, TensorProto.DOUBLE}:
        return Reason("image and regions are not both of float, or both of double")
    return None


def _shifted(meaning: RoiAlign, operands: Operands) -> Reason | None:
    is_shifted = meaning.coordinate_transformation_mode == "half_pixel"
    return _pixels(meaning, operands) if is_shifted else Reason("pixels are not shifted")


def _unshifted(meaning: RoiAlign, operands: Operands) -> Reason | None:
    is_unshifted = meaning.coordinate_transformation_mode == "output_half_pixel"
    return _pixels(meaning, operands) if is_unshifted else Reason("pixels are shifted")


def _sized(mode: str, *, corners: bool) -> Callable[[RoiAlign, Operands], Reason | None]:
    def applies_if(meaning: RoiAlign, operands: Operands) -> Reason | None:
        if meaning.coordinate_transformation_mode != "sizes":
            return Reason("regions are still given by their corners")
        return None if (meaning.mode, meaning.corners) == (mode, corners) else Reason(f"the mode is not {mode}")

    return applies_if


def _scale(what: RoiAlign, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype((operands[1] or Facts()).dtype or TensorProto.FLOAT)
    kept = {name: value for name, value in vars(what).items() if name not in _PLACED}
    return {**kept, "scale": Tensor(np.array(what.spatial_scale, dtype))}


_PLACED = ("coordinate_transformation_mode", "spatial_scale")
"""The fields of the meaning that the sizes of regions in pixels replace."""


@lowering(18, applies_if=_shifted, bind=_scale)
def shifted(
    x, rois, batch_indices, scale: Sequence[int], mode: str, output_height: int, output_width: int,
    sampling_ratio: int, corners: bool,
):  # fmt: skip
    """Compute the sizes of regions that are shifted by half a pixel."""
    start, end = op.Split(rois * scale - 0.5, num_outputs=2, axis=1)
    return meaning.Same(
        x, op.Concat(start, end - start, axis=1), batch_indices, coordinate_transformation_mode="sizes", mode=mode,
        output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio, corners=corners,
    )  # fmt: skip


@lowering(18, applies_if=_unshifted, bind=_scale)
def widened(
    x, rois, batch_indices, scale: Sequence[int], mode: str, output_height: int, output_width: int,
    sampling_ratio: int, corners: bool,
):  # fmt: skip
    """Compute the sizes of regions, at least that of one pixel."""
    start, end = op.Split(rois * scale, num_outputs=2, axis=1)
    return meaning.Same(
        x, op.Concat(start, op.Max(end - start, 1.0), axis=1), batch_indices, coordinate_transformation_mode="sizes",
        mode=mode, output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio,
        corners=corners,
    )  # fmt: skip


def _bins(what: RoiAlign, operands: Operands) -> Mapping[str, Any]:
    return {name: getattr(what, name) for name in ("output_height", "output_width", "sampling_ratio")}


@lowering(18, applies_if=_sized("avg", corners=False), bind=_bins, rounds=True)
def averaged(x, regions, batch_indices, output_height: int, output_width: int, sampling_ratio: int):
    """Add the weighed pixels of each bin."""
    pixels = meaning.RegionPixels(
        x, regions, batch_indices, output_height=output_height, output_width=output_width,
        sampling_ratio=sampling_ratio, mean=True,
    )  # fmt: skip
    return op.Transpose(op.ReduceSum(pixels, [2, 4], keepdims=0), perm=[0, 3, 1, 2])


@lowering(18, applies_if=_sized("max", corners=True), bind=_bins, rounds=True)
def largest_product(x, regions, batch_indices, output_height: int, output_width: int, sampling_ratio: int):
    """Take the largest of the weighed pixels, as onnxruntime does."""
    pixels = meaning.RegionPixels(
        x, regions, batch_indices, output_height=output_height, output_width=output_width,
        sampling_ratio=sampling_ratio, mean=False,
    )  # fmt: skip
    return op.Transpose(op.ReduceMax(pixels, [2, 4], keepdims=0), perm=[0, 3, 1, 2])


@lowering(18, applies_if=_sized("max", corners=False), bind=_bins, rounds=True)
def largest_point(x, regions, batch_indices, output_height: int, output_width: int, sampling_ratio: int):
    """Take the largest of the sums of the four pixels around each point."""
    pixels = meaning.RegionPixels(
        x, regions, batch_indices, output_height=output_height, output_width=output_width,
        sampling_ratio=sampling_ratio, mean=False,
    )  # fmt: skip
    above, below = op.Split(pixels, num_outputs=2, axis=2)
    left, right = op.Split(above + below, num_outputs=2, axis=4)
    return op.Transpose(op.ReduceMax(left + right, [2, 4], keepdims=0), perm=[0, 3, 1, 2])


@of_two
def equal_dims(node: NodeShapes, image: Shape, boxes: Shape) -> Pairs:
    """Yield the number of boxes and of their batches, and the corners of a box."""
    if len(node.inputs) > 2 and (batches := node.inputs[2]):
        yield from ((boxes[0], batches[0]), (boxes[-1], 4))


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have an image of the batch for each region: "the index of the corresponding image in the batch".

    Most regions begin and end at quarters of a pixel, whatever the scale: in the image or around its corners, some of
    them small or without an area.
    """
    x, rois, batches = feeds["X"], feeds["rois"], feeds["batch_indices"]
    drawn = dict(feeds)
    if batches.flags.writeable and len(x):
        drawn["batch_indices"] = rng.integers(len(x), size=batches.shape).astype(batches.dtype)
    if rois.flags.writeable and rois.shape[1:] == (4,) and x.ndim == 4 and rng.integers(4):
        sides = 4 * np.array(x.shape[:1:-1])
        ends = ((-8, sides), (-8, 1), (sides - 4, sides + 4))
        places = (rng.integers(low, high, (len(rois), 2)) for low, high in ends)
        sizes = (rng.integers(0, high, (len(rois), 2)) for high in (sides + 8, 9, 1))
        start, size = (rng.permuted(np.stack([*some]), axis=0)[0] for some in (places, sizes))
        corners = np.concatenate([start, start + size], axis=1) / rng.choice([4, 2, 1, 0.25])
        drawn["rois"] = corners.astype(rois.dtype)
    return drawn


OPERATOR = Operator(
    name="RoiAlign",
    meaning=RoiAlign,
    versions=(
        Version(10, lift=_of_runtime, spec=_of_spec, write=_write_without_shift),
        Version(16, lift=_of_runtime, spec=_of_spec, write=_write),
        Version(22, lift=_of_runtime, spec=_of_spec, write=_write),
    ),
    lowerings=(shifted, widened, averaged, largest_product, largest_point),
    operands=("X", "rois", "batch_indices"),
    oracle=oracle,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS, Trait.SAMPLES),
        indices={2: AlongAxis(axis=0, negative=False)},
        corners=(1,),
        equal_dims=equal_dims,
        spreads=False,
        reads_places=True,
        nan_undefined=True,
        heavy=True,
    ),
    adversarial=adversarial,
    # Of which products with NaN the largest is one, no text says; an infinity times a weight of zero is one.
    nan_defined=lambda meaning, operands: meaning.mode != "max",
    infinity_defined=lambda meaning, operands: meaning.mode != "max",
)
