"""Resize: more or fewer elements along some axes, interpolated. Versions 10, 11, 13, 18 and 19; before, Upsample."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Resize:
    """The attributes of 19. A `nearest_mode` of `simple` is `floor` along axes that grow, `ceil` along those that
    shrink.
    """

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    antialias: int = 0
    axes: tuple[int, ...] | None = None
    keep_aspect_ratio_policy: str = "stretch"


CROP = "tf_crop_and_resize"
SIMPLE = "simple"


def oracle(
    what: Resize,
    x: np.ndarray[Any, Any],
    roi: np.ndarray[Any, Any] | None = None,
    scales: np.ndarray[Any, Any] | None = None,
    sizes: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Resize-11: "every value in the output tensor [is] a weighted average of neighborhood", axis by axis."""
    axes = tuple(range(x.ndim)) if what.axes is None else what.axes
    y = x.astype(np.float64)
    kept = None
    if sizes is not None and sizes.size and what.keep_aspect_ratio_policy != "stretch":
        kept = _kept(what, [x.shape[axis] for axis in axes], sizes)
    for place, axis in enumerate(axes):
        start, end = (
            (0.0, 1.0) if what.coordinate_transformation_mode != CROP or roi is None else roi[place :: len(axes)]
        )
        length = x.shape[axis]
        if kept is not None:
            size, scale = _rounded(length, kept), kept
        elif sizes is not None and sizes.size:
            size, scale = int(sizes[place]), np.float32(sizes[place]) / np.float32(length)
        else:
            assert scales is not None
            size, scale = int(np.floor(np.float32(length) * np.float32(end - start) * scales[place])), scales[place]
        y = resized_axis(what, y, axis, size, float(scale), start, end)
    if x.dtype.kind in "iu" and _undecided(y):
        raise NotImplementedError("which integers are left of sums next to whole numbers is onnxruntime's to compute")
    return y.astype(x.dtype)


def resized_axis(
    what: Any, y: np.ndarray[Any, Any], axis: int, size: int, scale: float, start: float = 0.0, end: float = 1.0
) -> np.ndarray[Any, Any]:
    """Resize floats along one axis. `what` has the attributes of Resize."""
    length = y.shape[axis]
    weights = np.array([_weights(what, at, size, length, scale, start, end) for at in range(size)])
    shares = weights.reshape(size, length + 1)[:, :length]
    outside = weights.reshape(size, length + 1)[:, length].astype(bool)
    if what.mode == "nearest" and length:
        y = y.take(shares.argmax(1), axis)
    else:
        y = np.moveaxis(np.tensordot(shares, y, (1, axis)), 0, axis)
    if outside.any():
        y[(slice(None),) * (axis % y.ndim) + (outside,)] = what.extrapolation_value
    return y


def _undecided(sums: np.ndarray[Any, Any]) -> bool:
    """Whether sums that are cut to integers lie so close to one that in float, as kernels add, they may reach it.

    Floats have 24 digits, of which up to 16 products of rounded weights lose no more than 6.
    """
    apart = np.abs(sums - np.rint(sums))
    return bool(((apart > 0) & (apart < 2.0**-18 * np.maximum(np.abs(sums).max(initial=0), 1))).any())


def _weights(
    what: Resize, at: int, size: int, length: int, scale: float, start: float, end: float
) -> np.ndarray[Any, Any]:
    """What each element along an axis counts for one of the output; one place more, which is 1 where it is outside."""
    weights = np.zeros(length + 1)
    x = coordinate(what, np.float32(at), size, length, np.float32(scale), np.float32(start), np.float32(end))
    if what.coordinate_transformation_mode == CROP and not 0 <= x <= length - 1:
        weights[length] = 1
        return weights
    if what.mode == "nearest":
        taps, values = [_nearest(what, x, scale)], [1.0]
    elif what.antialias:
        taps, values = _filtered(what, float(x), scale, length)
    elif what.mode == "linear":
        low = int(np.floor(x))
        taps, values = [low, low + 1], [1 - (x - low), x - low]
    else:
        low = int(np.floor(x))
        taps, values = [low - 1, low, low + 1, low + 2], _cubic(x - np.float32(low), what.cubic_coeff_a)
    if what.exclude_outside and what.mode == "cubic" and not what.antialias:
        values = [value * (0 <= tap < length) for tap, value in zip(taps, values, strict=True)]
        values = [value / sum(values) for value in values]
    for tap, value in zip(taps, values, strict=True):
        weights[min(max(tap, 0), length - 1)] += value
    return weights


def coordinate(what: Any, at: Any, size: int, length: int, scale: Any, start: Any = 0, end: Any = 1) -> Any:
    """Resize-11: the coordinate "in the original tensor" of one in the resized tensor, in float."""
    one, half = np.float32(1), np.float32(0.5)
    pixel = (at + half) / scale - half
    match what.coordinate_transformation_mode:
        case "asymmetric":
            return at / scale
        case "align_corners":
            return at * np.float32(length - 1) / np.float32(size - 1) if size > 1 else np.float32(0)
        case "pytorch_half_pixel":
            return pixel if size > 1 else np.float32(0)
        case "tf_half_pixel_for_nn":
            # The text shifts along axes of scale 1 too, batches among them; onnxruntime 1.32.0 leaves those alone.
            return at if scale == one and size == length else (at + half) / scale
        case "half_pixel_symmetric":
            adjustment = np.float32(size) / (scale * np.float32(length))
            return np.float32(length) / 2 * (one - adjustment) + pixel
        case "tf_crop_and_resize":
            last = np.float32(length - 1)
            if size > 1:
                return start * last + at * (end - start) * last / np.float32(size - 1)
            return half * (start + end) * last
    return pixel


def _nearest(what: Resize, x: float, scale: float) -> int:
    rounded: Mapping[str, Callable[[float], float]] = {
        "round_prefer_floor": lambda value: np.ceil(value - np.float32(0.5)),
        "round_prefer_ceil": lambda value: np.floor(value + np.float32(0.5)),
        "floor": np.floor,
        "ceil": np.ceil,
        SIMPLE: np.ceil if scale < 1 else np.floor,
    }
    return int(rounded[what.nearest_mode](x))


def _cubic(t: Any, a: Any) -> list[Any]:
    """The four weights of cubic convolution, whose free coefficient is `a`, in float.

    Resize-11 gives no precision; these are the bits of onnxruntime 1.32.0, which are not those of a double, rounded.
    """
    t, a = np.float32(t), np.float32(a)
    one, two = np.float32(1), np.float32(2)
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, one - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (t + one, two - t)]
    return [far[0], *near, far[1]]


def _filtered(what: Resize, x: float, scale: float, length: int) -> tuple[list[int], list[float]]:
    """Return the elements around a coordinate, and their weights if an axis that shrinks is not to alias.

    Resize-18: "stretching the resampling filter by a factor max(1, 1 / scale)".
    """
    factor = min(1.0, scale)
    reach = (1 if what.mode == "linear" else 2) / factor
    taps = list(range(math.floor(x - reach) + 1, math.ceil(x + reach)))
    distances = np.abs(np.array(taps) - x) * factor
    if what.mode == "linear":
        weights = np.maximum(1 - distances, 0)
    else:
        a = what.cubic_coeff_a
        near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
        far = ((a * distances - 5 * a) * distances + 8 * a) * distances - 4 * a
        weights = np.where(distances <= 1, near, far)
    if what.exclude_outside:
        weights = weights * [0 <= tap < length for tap in taps]
    return taps, (weights / weights.sum()).tolist()


def _kept(what: Resize, lengths: Sequence[int], sizes: Any) -> np.float32:
    """Return the one scale with which no axis gets larger, or smaller, than its size."""
    scales = [np.float32(size) / np.float32(length) for size, length in zip(sizes, lengths, strict=True)]
    return min(scales) if what.keep_aspect_ratio_policy == "not_larger" else max(scales)


def _rounded(length: int, scale: Any) -> int:
    """Resize-18: "computing the nearest integer value, rounding halfway cases up"."""
    return int(np.floor(np.float32(length) * scale + np.float32(0.5)))


# --- versions -----------------------------------------------------------------------------------------------------


def _empty(operands: Operands, index: int) -> bool:
    """Whether an operand is left out, or has no elements, which is how Resize-11 leaves one out."""
    facts = operands[index]
    return facts is None or facts.size == 0


def _scales(operands: Operands) -> tuple[float, ...] | None:
    facts = operands[2]
    return None if facts is None or facts.known is None or not facts.known.size else tuple(facts.known.tolist())


def _sized(operands: Operands) -> bool | None:
    """Whether it is sizes that count, where both they and scales are inputs; None: nobody knows which one is empty.

    Resize-11: "Only one of 'scales' and 'sizes' can be specified. If 'sizes' is specified, then set scales to empty
    data (zero shape) in this operator's input list".
    """
    scales, sizes = operands[2:]
    if scales is None or sizes is None:
        return sizes is not None
    if scales.size == 0 or sizes.size:
        return True
    return False if sizes.size == 0 or scales.size else None


def normal(what: Resize, operands: Operands) -> tuple[Resize, Operands]:
    """Drop attributes that do not count in this mode, and no sizes; where all scales are known say what is nearest."""
    if _sized(operands) is False:
        operands = (*operands[:3], None)
    unused = [
        *(["nearest_mode"] if what.mode != "nearest" else []),
        *(["cubic_coeff_a"] if what.mode != "cubic" else []),
        *(["exclude_outside"] if what.mode == "nearest" or (what.mode == "linear" and not what.antialias) else []),
        *(["antialias"] if what.mode == "nearest" else []),
        *(["extrapolation_value"] if what.coordinate_transformation_mode != CROP else []),
        *(["keep_aspect_ratio_policy"] if _empty(operands, 3) else []),
    ]
    what = dataclasses.replace(what, **{name: getattr(Resize, name) for name in unused})
    if what.axes is not None and (rank := first(operands).rank):
        what = dataclasses.replace(what, axes=tuple(axis % rank for axis in what.axes))
    scales = _scales(operands)
    if what.nearest_mode == SIMPLE and scales and min(scales) >= 1:
        what = dataclasses.replace(what, nearest_mode="floor")
    elif what.nearest_mode == SIMPLE and scales and max(scales) <= 1:
        what = dataclasses.replace(what, nearest_mode="ceil")
    return what, operands


def _lift_first(attributes: Mapping[str, Any]) -> Resize:
    # Resize-10 does not tell the coordinates: x / scale, in onnxruntime 1.31.1, and of a nearest one what is below,
    # or, where an axis shrinks, above.
    return Resize(attributes["mode"], "asymmetric", SIMPLE)


def _from_corner(what: Resize, operands: Operands) -> Reason | None:
    """Ask for what Resize-10 and Upsample do with scales that are 1 or more."""
    if what.mode == "cubic" or what.coordinate_transformation_mode != "asymmetric":
        return Reason(f"it has no mode {what.mode} with {what.coordinate_transformation_mode} coordinates")
    if what != Resize(what.mode, "asymmetric", what.nearest_mode):
        return Reason("it has no axes, and no antialiasing")
    if what.mode == "linear" or what.nearest_mode == SIMPLE:
        return None
    scales = _scales(operands)
    if scales is None:
        return Reason("the nearest pixel depends on the scales, which are unknown", missing=True)
    below = what.nearest_mode == "floor" and min(scales) >= 1
    above = what.nearest_mode == "ceil" and max(scales) <= 1
    return None if below or above else Reason(f"its nearest is not by {what.nearest_mode}")


def _write_mode(what: Resize, operands: Operands) -> Mapping[str, Any]:
    return {"mode": what.mode} if what.mode != "nearest" else {}


def _of_11(what: Resize, operands: Operands) -> Reason | None:
    if operands[1] is None or operands[2] is None:
        return Reason("it needs roi and scales, empty where they do not count")
    return _in_coordinates(what, operands, ("half_pixel_symmetric",))


def _of_13(what: Resize, operands: Operands) -> Reason | None:
    return _one_alone(operands) or _in_coordinates(what, operands, ("half_pixel_symmetric", "tf_half_pixel_for_nn"))


def _of_19(what: Resize, operands: Operands) -> Reason | None:
    return _one_alone(operands) or _in_coordinates(what, operands, ("tf_half_pixel_for_nn",))


def _one_alone(operands: Operands) -> Reason | None:
    """Resize-13: "One of 'scales' and 'sizes' MUST be specified and it is an error if both are specified"."""
    if operands[2] is None or operands[3] is None:
        return None
    if _sized(operands):
        return Reason("it takes no scales besides sizes")
    return Reason("it takes scales or sizes, and how many of each there are is unknown", missing=True)


def _in_coordinates(what: Resize, operands: Operands, later: tuple[str, ...]) -> Reason | None:
    if what.nearest_mode == SIMPLE:
        return Reason("the nearest pixel depends on the scales, which are unknown", missing=_scales(operands) is None)
    mode = what.coordinate_transformation_mode
    return Reason(f"it has no {mode} coordinates") if mode in later else None


# --- operands -----------------------------------------------------------------------------------------------------

_NONE: Mapping[str, Any] = {"none": Tensor(np.zeros(0, np.float32))}


def _left_out(index: int) -> Callable[[Resize, Operands], Reason | None]:
    def applies_if(what: Resize, operands: Operands) -> Reason | None:
        return None if operands[index] is None else Reason("")

    return applies_if


@lowering(18, applies_if=_left_out(1), bind=lambda what, operands: _NONE)
def with_roi(x, roi, scales, sizes, none: Sequence[int]):
    """Add an empty roi."""
    return meaning.Same(x, none, scales, sizes)


@lowering(18, applies_if=_left_out(2), bind=lambda what, operands: _NONE)
def with_scales(x, roi, scales, sizes, none: Sequence[int]):
    """Add empty scales."""
    return meaning.Same(x, roi, none, sizes)


def _superseded(what: Resize, operands: Operands) -> Reason | None:
    return None if operands[2] is not None and _sized(operands) else Reason("the scales are left out, or may count")


@lowering(18, applies_if=_superseded)
def by_sizes(x, roi, scales, sizes):
    """Drop the empty scales."""
    return meaning.Same(x, roi, None, sizes)


def _surplus(what: Resize, operands: Operands) -> Reason | None:
    if _from_corner(what, operands):
        return Reason("it does not count x / scale")
    if operands[2] is None or operands[3] is not None:
        return Reason("no scales are given")
    return Reason("only scales are given") if operands[1] is None else None


@lowering(18, applies_if=_surplus)
def by_scales(x, roi, scales, sizes):
    """Drop the roi, which has no effect."""
    return meaning.Same(x, None, scales)


def _by_sizes(what: Resize, operands: Operands) -> Tensor | Reason:
    """Return scales that mean the same as the sizes."""
    x, sizes = first(operands), operands[3]
    if sizes is None or _empty(operands, 3):
        return Reason("no sizes are given")
    if (
        what.axes is not None
        or what.coordinate_transformation_mode == CROP
        or what.keep_aspect_ratio_policy != "stretch"
    ):
        return Reason("it names axes, crops or keeps the aspect ratio")
    if sizes.known is None or x.shape is None or not all(isinstance(dim, int) and dim for dim in x.shape):
        return Reason("the sizes before or after are computed at run time", missing=True)
    # As onnxruntime 1.31.1 has it, so that coordinates are the same bits: a float over a float.
    lengths = np.array(x.shape, np.float32)
    scales = sizes.known.astype(np.float32) / lengths
    exact = (np.floor(lengths * scales) == sizes.known).all()
    return Tensor(scales) if exact else Reason("no float is the scale of these sizes")


def _scalable(what: Resize, operands: Operands) -> Reason | None:
    found = _by_sizes(what, operands)
    return found if isinstance(found, Reason) else None


@lowering(18, applies_if=_scalable, bind=lambda what, operands: {"by": _by_sizes(what, operands)}, cost=1)
def scaled(x, roi, scales, sizes, by: Sequence[int]):
    """Give scales, which are known, in place of sizes; those stay where the target has them.

    5 / 3 is 1.6666666 in float, and inside a Scan onnxruntime 1.32.0 makes 4 of 3 times that.
    """
    return meaning.Same(x, None, by)


# --- axes ---------------------------------------------------------------------------------------------------------


def _some_axes(what: Resize, operands: Operands) -> Reason | None:
    if what.axes is None:
        return Reason("all axes are meant")
    if what.coordinate_transformation_mode == CROP or what.keep_aspect_ratio_policy != "stretch":
        return Reason("it crops or keeps the aspect ratio")
    return None if first(operands).rank is not None else Reason("the rank is unknown", missing=True)


def _cropped_axes(index: int) -> Callable[[Resize, Operands], Reason | None]:
    def applies_if(what: Resize, operands: Operands) -> Reason | None:
        if what.coordinate_transformation_mode != CROP or operands[1] is None:
            return Reason("it does not crop")
        if what.keep_aspect_ratio_policy != "stretch" or what.axes is None or _empty(operands, index):
            return Reason("all axes are meant, or it keeps the aspect ratio")
        return None if first(operands).rank is not None else Reason("the rank is unknown", missing=True)

    return applies_if


def _axes_scaled(what: Resize, operands: Operands) -> Reason | None:
    return Reason("no scales are given") if _empty(operands, 2) else _some_axes(what, operands)


def _axes_sized(what: Resize, operands: Operands) -> Reason | None:
    return Reason("no sizes are given") if _empty(operands, 3) else _some_axes(what, operands)


def _places(what: Resize, operands: Operands) -> Mapping[str, Any]:
    named, rank = what.axes or (), first(operands).rank or 0
    # What stands for an axis that is not named comes behind the numbers given: its length, or a scale of one.
    behind = [len(named) + (0 if _empty(operands, 3) else axis) for axis in range(rank)]
    index = tuple(named.index(axis) if axis in named else behind[axis] for axis in range(rank))
    return {"index": index, "axes": None}


@lowering(18, applies_if=_axes_scaled, bind=_places)
def all_scaled(x, roi, scales, sizes, index: Sequence[int], axes: Sequence[int]):
    """Give a scale for each axis, one for those not named."""
    return meaning.Same(x, None, op.Gather(op.Concat(scales, [1.0], axis=0), index, axis=0), axes=axes)


@lowering(18, applies_if=_axes_sized, bind=_places)
def all_sized(x, roi, scales, sizes, index: Sequence[int], axes: Sequence[int]):
    """Give a size for each axis, the length of those not named."""
    every = op.Gather(op.Concat(sizes, op.Shape(x), axis=0), index, axis=0)
    return meaning.Same(x, None, None, every, axes=axes)


def _regions(what: Resize, operands: Operands) -> Mapping[str, Any]:
    named, rank = what.axes or (), first(operands).rank or 0
    # Behind the region of the axes that are named stand 0 and 1, where others begin and end.
    ends = [
        named.index(axis) + place * len(named) if axis in named else 2 * len(named) + place
        for place in (0, 1)
        for axis in range(rank)
    ]
    return {**_places(what, operands), "ends": tuple(ends)}


@lowering(18, applies_if=_cropped_axes(2), bind=_regions)
def all_cropped_by_scales(
    x, roi, scales, sizes, index: Sequence[int], axes: Sequence[int], ends: Sequence[int]
):  # fmt: skip
    """Give a region and a scale for each axis: the full extent for the others."""
    region = op.Gather(op.Concat(roi, op.CastLike([0.0, 1.0], roi), axis=0), ends, axis=0)
    return meaning.Same(x, region, op.Gather(op.Concat(scales, [1.0], axis=0), index, axis=0), axes=axes)


@lowering(18, applies_if=_cropped_axes(3), bind=_regions)
def all_cropped_by_sizes(
    x, roi, scales, sizes, index: Sequence[int], axes: Sequence[int], ends: Sequence[int]
):  # fmt: skip
    """Give a region and a size for each axis: the full extent for the others."""
    region = op.Gather(op.Concat(roi, op.CastLike([0.0, 1.0], roi), axis=0), ends, axis=0)
    every = op.Gather(op.Concat(sizes, op.Shape(x), axis=0), index, axis=0)
    return meaning.Same(x, region, None, every, axes=axes)


# --- by weights -----------------------------------------------------------------------------------------------------


def _next(what: Resize, operands: Operands) -> tuple[int, np.ndarray[Any, Any]] | Reason | None:
    """Return the last axis that changes, and what each of its elements counts for one of the output; None: none does.

    The weights have a column for each element of the input, a row for each of the output.
    """
    x = first(operands)
    if what.keep_aspect_ratio_policy != "stretch" or what.coordinate_transformation_mode == CROP:
        return Reason("it crops or keeps the aspect ratio")
    factors = operands[2] if _empty(operands, 3) else operands[3]
    if factors is None or factors.known is None or x.rank is None:
        return Reason("the rank, or what it is resized to, is computed at run time", missing=True)
    axes = range(x.rank) if what.axes is None else what.axes
    if factors.known.shape != (len(axes),):
        return Reason("there is not one number for each axis")
    for place, axis in reversed(list(enumerate(axes))):
        length, number = x.dim(axis), factors.known[place]
        if _empty(operands, 3) and number == 1:
            continue
        if not isinstance(length, int) or not length:
            return Reason("the length of an axis is unknown, or none", missing=True)
        scale = np.float32(number) if _empty(operands, 3) else np.float32(number) / np.float32(length)
        size = int(np.floor(np.float32(length) * scale)) if _empty(operands, 3) else int(number)
        if max(size, 1) * length * 8 > LARGEST:
            return Reason("its weights are too many")
        weights = [_weights(what, at, size, length, float(scale), 0.0, 1.0)[:length] for at in range(size)]
        table = np.array(weights).reshape(size, length)
        if size != length or not np.array_equal(table, np.eye(length)):
            return axis, table
    return None


LARGEST = 2**24
"""Bytes of the weights of one axis."""


def _looked_up(sizes: bool) -> Callable[[Resize, Operands], Reason | None]:
    def applies_if(what: Resize, operands: Operands) -> Reason | None:
        if what.mode != "nearest":
            return Reason("it takes several elements together")
        if _empty(operands, 3) == sizes:
            return Reason("no sizes are given" if sizes else "sizes are given")
        found = _next(what, operands)
        return found if isinstance(found, Reason) else None if found else Reason("no axis changes")

    return applies_if


def _along(what: Resize, operands: Operands) -> Mapping[str, Any]:
    found = _next(what, operands)
    assert isinstance(found, tuple)
    axis, weights = found
    left = operands[2].known.copy() if operands[2] is not None and operands[2].known is not None else np.zeros(0)
    if left.size:
        left[axis if what.axes is None else what.axes.index(axis)] = 1
    return {"axis": axis, "index": tuple(weights.argmax(axis=1).tolist()), "left": Tensor(left.astype(np.float32))}


@lowering(18, applies_if=_looked_up(sizes=False), bind=_along, cost=20)
def nearest_by_scales(x, roi, scales, sizes, axis: int, index: Sequence[int], left: Sequence[int]):
    """Look up the nearest elements along one axis, then along the others."""
    return meaning.Same(op.Gather(x, index, axis=axis), None, left)


@lowering(18, applies_if=_looked_up(sizes=True), bind=_along, cost=20)
def nearest_by_sizes(x, roi, scales, sizes, axis: int, index: Sequence[int]):
    """Look up the nearest elements along one axis, then along the axes that still need resizing."""
    return meaning.Same(op.Gather(x, index, axis=axis), None, None, sizes)


def _scale_of_each(what: Resize, operands: Operands) -> list[tuple[np.float32, int]] | Reason:
    """Return for each axis the scale and the size that it gets; 0 for that of one that is not resized."""
    x = first(operands)
    if what.coordinate_transformation_mode == CROP:
        return Reason("it crops")
    factors = operands[2] if _empty(operands, 3) else operands[3]
    if factors is None or factors.known is None or x.shape is None:
        return Reason("the rank, or what it is resized to, is computed at run time", missing=True)
    axes = tuple(range(len(x.shape))) if what.axes is None else what.axes
    if factors.known.shape != (len(axes),):
        return Reason("there is not one number for each axis")
    found = [(np.float32(1), 0)] * len(x.shape)
    if what.keep_aspect_ratio_policy != "stretch":
        lengths = [dim for axis in axes if isinstance(dim := x.shape[axis], int) and dim]
        if len(lengths) != len(axes):
            return Reason("the length of an axis is unknown, or none", missing=True)
        kept = _kept(what, lengths, factors.known)
        for axis, count in zip(axes, lengths, strict=True):
            found[axis] = kept, _rounded(count, kept)
        none_left = any(found[axis][1] == 0 for axis in axes)
        return Reason("no element is left along an axis") if none_left else found
    for axis, number in zip(axes, factors.known, strict=True):
        length = x.shape[axis]
        if _empty(operands, 3) and number == 1:
            continue
        if not isinstance(length, int) or not length:
            return Reason("the length of an axis is unknown, or none", missing=True)
        scale = np.float32(number) if _empty(operands, 3) else np.float32(number) / np.float32(length)
        size = int(np.floor(np.float32(length) * scale)) if _empty(operands, 3) else int(number)
        if not size:
            return Reason("no element is left along an axis")
        found[axis] = scale, size
    return found


def _interpolated(what: Resize, operands: Operands) -> list[tuple[int, np.float32, int, int]] | Reason:
    """Return the axes along which onnxruntime interpolates, with scale, size and length.

    It does so along all spatial axes, those of scale 1 too. There a neighbor counts nothing, and if that is infinite or
    NaN, the result is NaN (seen in 1.32.0). The text defines a "weighted average of neighborhood", and no weights.
    """
    scales = _scale_of_each(what, operands)
    if isinstance(scales, Reason):
        return scales
    shape, rank = first(operands).shape or (), len(scales)
    changed = [
        axis for axis in range(rank) if scales[axis][1] and (scales[axis][0] != 1 or scales[axis][1] != shape[axis])
    ]
    if what.antialias or what.mode == "nearest":
        return [(axis, *scales[axis], length) for axis in changed if isinstance(length := shape[axis], int)]
    spatial = (1, 2) if rank == 4 and 1 in changed and 3 not in changed else range(2 if rank > 3 else 0, rank)
    axes = changed if not changed or not set(changed) <= set(spatial) else [*spatial]
    # An axis of one element, or of unknown length, that does not change: nothing but itself is known to be added.
    lengths = {axis: dim for axis in axes if isinstance(dim := shape[axis], int) and (axis in changed or dim > 1)}
    return [(axis, scales[axis][0], scales[axis][1] or length, length) for axis, length in lengths.items()]


def _taps(what: Resize, scale: np.float32, size: int, length: int) -> tuple[Any, Any]:
    """Return, tap by tap, which elements are added up and what each counts, as onnxruntime 1.32.0 has it."""
    at = np.arange(size, dtype=np.float32)
    x = at if scale == 1 else np.array([coordinate(what, one, size, length, scale) for one in at], np.float32)
    if what.antialias:
        return _windows(what, scale, length, x)
    return taps_at(what, x, length, float(scale))


def taps_at(what: Any, x: np.ndarray[Any, Any], length: int, scale: float = 1.0) -> tuple[Any, Any]:
    """Return taps and weights at points along an axis. `what` has the attributes of Resize."""
    if what.mode == "nearest":
        places = np.array([[_nearest(what, float(one), scale) for one in x]])
        return np.clip(places, 0, length - 1), np.ones(places.shape)
    if what.mode == "linear":
        x = np.clip(x, np.float32(0), np.float32(length - 1))
        low = np.minimum(x.astype(np.int64), length - 1)
        high = np.minimum(low + 1, length - 1)
        near, far = np.abs(x - high.astype(np.float32)), np.abs(x - low.astype(np.float32))
        near[low == high] = far[low == high] = 0.5
        return np.stack([low, high]), np.stack([near, far])
    low = np.floor(x)
    places = low.astype(np.int64) + np.array([-1, 0, 1, 2])[:, None]
    weights = np.array([_cubic(one, what.cubic_coeff_a) for one in x - low], np.float32).reshape(len(x), 4).T
    if what.exclude_outside:
        weights = weights * ((places >= 0) & (places < length))
        weights = weights / weights.sum(axis=0)
    return np.clip(places, 0, length - 1), weights


def _windows(what: Resize, scale: np.float32, length: int, x: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Return the taps and weights of an antialiased axis; sums of fewer taps repeat their last one with weight 0."""
    rows = [_filtered(what, float(one), float(scale), length) for one in x]
    most = max((len(taps) for taps, _ in rows), default=1)
    places = np.array([[*taps, *[taps[-1]] * (most - len(taps))] for taps, _ in rows]).T
    weights = np.array([[*values, *[0.0] * (most - len(values))] for _, values in rows]).T
    return np.clip(places, 0, length - 1), weights


def _weighed(what: Resize, operands: Operands) -> Reason | None:
    if what.mode == "nearest" and what.keep_aspect_ratio_policy == "stretch":
        return Reason("it takes the nearest element")
    dtype = first(operands).dtype
    if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE) and what.mode != "nearest":
        return Reason("it is not known to be of float or double", missing=dtype is None)
    found = _interpolated(what, operands)
    return found if isinstance(found, Reason) else None if found else Reason("no axis changes")


def _sums(what: Resize, operands: Operands) -> Mapping[str, Any]:
    found = _interpolated(what, operands)
    assert not isinstance(found, Reason)
    bounded(4 * sum(size for _, _, size, _ in found))
    tables = [_taps(what, scale, size, length) for _, scale, size, length in found]
    taps = max(len(places) for places, _ in tables)
    # Sums with fewer elements than others have the last one again, which counts nothing.
    tables = [
        (np.pad(places, more, mode="edge"), np.pad(weights, more))
        for places, weights in tables
        for more in [((0, taps - len(places)), (0, 0))]
    ]
    bounded(sum(places.size for places, _ in tables))
    return {
        "axes": tuple(axis for axis, *_ in found),
        "lengths": tuple(size for _, _, size, _ in found),
        "taps": taps,
        "places": tuple(int(one) for places, _ in tables for one in places.flat),
        "weights": tuple(float(one) for _, weights in tables for one in weights.flat),
    }


@lowering(18, applies_if=_weighed, bind=_sums, cost=20, rounds=True)
def weighed(
    x, roi, scales, sizes,
    axes: Sequence[int], lengths: Sequence[int], taps: int, places: Sequence[int], weights: Sequence[float],
):  # fmt: skip
    """Add up weighted neighbors along one axis, then along the others."""
    return meaning.Interpolated(x, axes=axes, sizes=lengths, taps=taps, places=places, weights=weights)


# --- of sizes that are known at run time ----------------------------------------------------------------------------


def _may_change(what: Resize, operands: Operands) -> tuple[list[int], list[int]] | Reason:
    """Return the axes outside of those along which onnxruntime interpolates that may change, then the others.

    See `_interpolated`: with more than three axes, the first two are a batch and channels. It changes neither, but for
    channels behind height and width. The text allows both.
    """
    rank, factors = first(operands).rank, operands[2] if _empty(operands, 3) else operands[3]
    if what.keep_aspect_ratio_policy != "stretch" or what.coordinate_transformation_mode == CROP or what.antialias:
        return Reason("it crops, keeps the aspect ratio, or its sums have more elements the more it shrinks")
    if factors is None or rank is None:
        return Reason("the rank is unknown", missing=True)
    axes = range(rank) if what.axes is None else what.axes
    numbers = [None] * len(axes) if factors.known is None else factors.known.tolist()
    if len(numbers) != len(axes):
        return Reason("there is not one number for each axis")
    kept = [1 if _empty(operands, 3) else first(operands).dim(axis) for axis in axes]
    changed = [axis for axis, number, one in zip(axes, numbers, kept, strict=True) if number != one or number is None]
    if what.mode == "nearest":
        return [], changed
    spatial = (1, 2) if rank == 4 and 1 in changed and 3 not in changed else range(2 if rank > 3 else 0, rank)
    outer = [axis for axis in changed if axis not in spatial]
    return outer, [axis for axis in axes if axis in spatial] if changed else []


def _at_run_time(sizes: bool) -> Callable[[Resize, Operands], Reason | None]:
    def applies_if(what: Resize, operands: Operands) -> Reason | None:
        if _sized(operands) is not sizes:
            return Reason("no sizes are given" if sizes else "sizes are given, or may be")
        if _empty(operands, 2 + sizes):
            return Reason("nothing is given")
        dtype = first(operands).dtype
        if dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE) and what.mode != "nearest":
            return Reason("it is not known to be of float or double", missing=dtype is None)
        found = _may_change(what, operands)
        return found if isinstance(found, Reason) else None if any(found) else Reason("no axis changes")

    return applies_if


def _axes_that_may_change(what: Resize, operands: Operands) -> Mapping[str, Any]:
    found = _may_change(what, operands)
    assert not isinstance(found, Reason)
    axes = range(first(operands).rank or 0) if what.axes is None else what.axes
    return {
        "axes": (*found[0], *found[1]),
        "at": tuple(axes.index(axis) for some in found for axis in some),
        "outer": len(found[0]),
        "mode": what.mode,
        "coordinates": what.coordinate_transformation_mode,
        "nearest": what.nearest_mode,
        "free": what.cubic_coeff_a,
        "exclude": what.exclude_outside,
    }


@lowering(18, applies_if=_at_run_time(sizes=False), bind=_axes_that_may_change, cost=40, rounds=True)
def scaled_at_run_time(
    x, roi, scales, sizes,
    axes: Sequence[int], at: Sequence[int], outer: int, mode: str, coordinates: str, nearest: str, free: float,
    exclude: int,
):  # fmt: skip
    """Compute the sizes, and where the elements lie, from scales."""
    changed = op.Gather(scales, at, axis=0)
    lengths = op.Cast(op.Gather(op.Shape(x), axes, axis=0), to=1)
    return meaning.ResizedAxes(
        x, changed, op.Cast(op.Floor(lengths * changed), to=7),
        axes=axes, outer=outer, mode=mode, coordinate_transformation_mode=coordinates, nearest_mode=nearest,
        cubic_coeff_a=free, exclude_outside=exclude,
    )  # fmt: skip


@lowering(18, applies_if=_at_run_time(sizes=True), bind=_axes_that_may_change, cost=40, rounds=True)
def sized_at_run_time(
    x, roi, scales, sizes,
    axes: Sequence[int], at: Sequence[int], outer: int, mode: str, coordinates: str, nearest: str, free: float,
    exclude: int,
):  # fmt: skip
    """Compute the scales, and where the elements lie, from sizes."""
    changed = op.Gather(sizes, at, axis=0)
    lengths = op.Cast(op.Gather(op.Shape(x), axes, axis=0), to=1)
    return meaning.ResizedAxes(
        x, op.Cast(changed, to=1) / lengths, changed,
        axes=axes, outer=outer, mode=mode, coordinate_transformation_mode=coordinates, nearest_mode=nearest,
        cubic_coeff_a=free, exclude_outside=exclude,
    )  # fmt: skip


def _unchanged(what: Resize, operands: Operands) -> bool:
    if what.keep_aspect_ratio_policy == "stretch":
        return _next(what, operands) is None
    found, shape = _scale_of_each(what, operands), first(operands).shape
    if isinstance(found, Reason) or shape is None:
        return False
    return all(not size or (scale == 1 and size == dim) for (scale, size), dim in zip(found, shape, strict=True))


# --- from the corner ----------------------------------------------------------------------------------------------


def _both_ways(what: Resize, operands: Operands) -> Reason | None:
    scales = _scales(operands)
    if what.nearest_mode != SIMPLE or not _empty(operands, 3):
        return Reason("the nearest pixel is found in the same way for all axes")
    return Reason("the scales are not known", missing=True) if scales is None else None


def _grown_and_shrunk(what: Resize, operands: Operands) -> Mapping[str, Any]:
    scales = _scales(operands) or ()
    numbers = np.array(scales, np.float32)
    return {"more": Tensor(np.maximum(numbers, 1)), "less": Tensor(np.minimum(numbers, 1))}


@lowering(18, applies_if=_both_ways, bind=_grown_and_shrunk)
def twice(x, roi, scales, sizes, more: Sequence[int], less: Sequence[int]):
    """Shrink some axes, then grow the others."""
    shrunk = meaning.Same(x, None, less, nearest_mode="ceil")
    return meaning.Same(shrunk, None, more, nearest_mode="floor")


def _grown(what: Resize, operands: Operands) -> Reason | None:
    if reason := _from_corner(what, operands):
        return reason
    scales = _scales(operands)
    if scales is None or operands[3] is not None:
        return Reason("the scales are not known", missing=True)
    return None if min(scales) >= 1 else Reason("Upsample makes nothing smaller")


@lowering(9, applies_if=_grown, bind=lambda what, operands: {"mode": what.mode})
def upsampled(x, roi, scales, sizes, mode: str):
    """Emit Upsample, the earlier name of Resize."""
    return op.Upsample(x, scales, mode=mode)


BY_WEIGHTS = (nearest_by_scales, nearest_by_sizes, weighed)


def floats_by(attributes: Mapping[str, Any]) -> tuple[Trait, ...]:
    """Return what resizing does with floats: between elements it weighs them."""
    nearest = attributes.get("mode", "nearest") == "nearest"
    return (Trait.SUMS,) if nearest else (Trait.SUMS, Trait.WEIGHS, Trait.SAMPLES)


OPERATOR = Operator(
    name="Resize",
    meaning=Resize,
    versions=(
        Version(10, lift=_lift_first, write=_write_mode, applies_if=_from_corner, without=frozenset({"roi", "sizes"})),
        Version(11, applies_if=_of_11),
        Version(13, applies_if=_of_13),
        Version(18, applies_if=_of_13),
        Version(19, applies_if=_of_19),
    ),
    operands=("X", "roi", "scales", "sizes"),
    oracle=oracle,
    normal=normal,
    lowerings=(
        with_roi,
        with_scales,
        by_sizes,
        by_scales,
        scaled,
        all_scaled,
        all_sized,
        all_cropped_by_scales,
        all_cropped_by_sizes,
        twice,
        upsampled,
        *BY_WEIGHTS,
        scaled_at_run_time,
        sized_at_run_time,
    ),
    idle=_unchanged,
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS, Trait.SAMPLES), floats_by=floats_by, counts=(1, 2, 3), grows=True),
)
