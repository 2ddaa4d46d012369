"""GridSample: values of a grid of pixels at places between them. Since version 16; of any rank since 20."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class GridSample:
    """The interpolation mode, the padding mode, and whether -1 and 1 are the centers of the corner pixels."""

    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: int = 0


_OLD: Mapping[str, str] = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
"""The modes as version 16 calls them; they mean the same for four dimensions."""
_NEW: Mapping[str, str] = {old: new for new, old in _OLD.items()}

_Array = np.ndarray[Any, Any]


def _reflected(place: _Array, low: float, high: float) -> _Array:
    """GridSample-16: "reflects by the border until becoming in bound"."""
    span = high - low
    if not span:
        return np.zeros_like(place) + low
    turn = np.mod(place - low, 2 * span)
    return low + np.where(turn > span, 2 * span - turn, turn)


def _taps(meaning: GridSample, place: _Array) -> Iterator[tuple[_Array, _Array]]:
    """Yield the pixels along one axis that make a value, with their weights."""
    if meaning.mode == "nearest":
        yield np.rint(place), np.ones_like(place)
        return
    base = np.floor(place)
    part = place - base
    if meaning.mode == "linear":
        yield base, 1 - part
        yield base + 1, part
        return
    a = -0.75
    for step in (-1, 0, 1, 2):
        t = np.abs(part - step)
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        yield base + step, np.where(t <= 1, near, far)


def oracle(meaning: GridSample, x: _Array, grid: _Array) -> _Array:
    """GridSample-20: "the coordinates ... are listed from the innermost tensor dimension to the outermost"."""
    sizes = x.shape[2:]
    if len(grid) != len(x) or grid.shape[-1] != len(sizes):
        raise ValueError("GridSample-20: there is not one grid for each image, or not one coordinate for each axis")
    axes = []
    for axis, size in enumerate(sizes):
        place = grid[..., len(sizes) - 1 - axis].astype(np.float64)
        low, high = (0.0, size - 1.0) if meaning.align_corners else (-0.5, size - 0.5)
        place = (place + 1) / 2 * (size - 1) if meaning.align_corners else ((place + 1) * size - 1) / 2
        if meaning.padding_mode == "reflection":
            place = _reflected(place, low, high)
        found = []
        for pixel, weight in _taps(meaning, place):
            if meaning.padding_mode == "reflection":
                pixel = _reflected(pixel, low, high)
            inside = (pixel >= 0) & (pixel <= size - 1)
            weight = weight * inside if meaning.padding_mode == "zeros" else weight
            found.append((np.clip(pixel, 0, size - 1).astype(np.int64), weight))
        axes.append(found)
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * len(sizes))
    y: Any = 0
    for taps in itertools.product(*axes):
        weight = np.prod(np.stack([weight for _, weight in taps]), axis=0)
        values = np.moveaxis(x, 1, -1)[(batch, *(pixel for pixel, _ in taps))]
        y = y + values * weight[..., None]
    return np.asarray(np.moveaxis(y, -1, 1)).astype(x.dtype)


def _lift(attributes: Mapping[str, Any]) -> GridSample:
    return GridSample(
        _NEW.get(attributes["mode"], attributes["mode"]), attributes["padding_mode"], attributes["align_corners"]
    )


def _write(meaning: GridSample, operands: Operands) -> Mapping[str, Any]:
    return {
        "mode": _OLD[meaning.mode],
        "padding_mode": meaning.padding_mode,
        "align_corners": meaning.align_corners,
    }


def _fault(meaning: GridSample, operands: Operands) -> str | None:
    return None if meaning.mode in _OLD else f"its mode is {meaning.mode!r}, and there is no such"


def _images(meaning: GridSample, operands: Operands) -> Reason | None:
    """GridSample-16: "Currently, only spatial (4-D) inputs are supported"."""
    ranks = {facts.rank for facts in operands if facts is not None} - {None}
    if not ranks:
        return Reason("the rank is unknown, and it takes rank 4 only", missing=True)
    return None if ranks == {4} else Reason(f"it takes rank 4 only, not {first(operands).rank}")


# --- pixel by pixel -----------------------------------------------------------------------------------------------

_FARTHEST = 2**22
"""Places farther out than this are taken for it: floats hold no halves beyond."""

_STEPS: Mapping[str, Sequence[int]] = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}


def _sampled(meaning: GridSample, operands: Operands) -> Reason | None:
    dtypes = {facts.dtype for facts in operands if facts is not None}
    sizes = (first(operands).shape or ())[2:]
    if None in dtypes:
        return Reason("the element type is unknown", missing=True)
    if len(dtypes) != 1 or not dtypes <= {TensorProto.FLOAT, TensorProto.DOUBLE}:
        return Reason("image and grid are not both of float, or both of double")
    if not sizes:
        return Reason("the rank is unknown", missing=True)
    return Reason("the image is empty") if 0 in sizes else None


def _nearest(meaning: GridSample, operands: Operands) -> Reason | None:
    return _sampled(meaning, operands) if meaning.mode == "nearest" else Reason("it mixes pixels")


def _mixes(meaning: GridSample, operands: Operands) -> Reason | None:
    return Reason("it takes the nearest pixel") if meaning.mode == "nearest" else _sampled(meaning, operands)


def _bound(meaning: GridSample, operands: Operands) -> Mapping[str, Any]:
    """Bind what holds of each axis, in the grid's order, "from the innermost tensor dimension to the outermost"."""
    rank = (first(operands).rank or 2) - 2
    dtype = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    reflects = meaning.padding_mode == "reflection"

    def numbers(values: Any) -> Tensor:
        return Tensor(np.array(values, dtype))

    bound = {
        "sides": tuple(range(rank + 1, 1, -1)),
        "corners": numbers(meaning.align_corners),
        "shift": numbers(0 if meaning.align_corners else 1),
        "lowest": numbers(-_FARTHEST if reflects else -4),
        "room": numbers(_FARTHEST if reflects else 3),
        "padding": meaning.padding_mode,
        "aligned": meaning.align_corners,
        "batch": (-1, *[1] * (rank + (meaning.mode != "nearest"))),
        "flat": (0, *range(2, rank + 2), 1),
        "back": (0, rank + 1, *range(1, rank + 1)),
    }
    if meaning.mode == "nearest":
        # Of an empty tensor onnxruntime 1.31.1 reduces no axis that is counted from the back.
        return {**bound, "last": rank + 1}
    near, far = _CURVES[meaning.mode]
    return {
        **bound,
        "steps": numbers(list(itertools.product(_STEPS[meaning.mode], repeat=rank))),
        "taps": (rank + 1,),
        "last": rank + 2,
        "coordinates": (rank + 2,),
        "near": numbers(near),
        "far": numbers(far),
    }


_CURVES: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "linear": ((1, -1, 0, 0), (0, 0, 0, 0)),
    "cubic": ((1, 0, -2.25, 1.25), (3, -6, 3.75, -0.75)),
}
"""The weight of a pixel by its distance, up to 1 and beyond: polynomials, the constant first; a is -0.75 in cubic."""


@lowering(18, applies_if=_nearest, bind=_bound, rounds=True)
def nearest(
    x,
    grid,
    sides: Sequence[int],
    corners: Sequence[int],
    shift: Sequence[int],
    lowest: Sequence[int],
    room: Sequence[int],
    padding: str,
    aligned: int,
    batch: Sequence[int],
    flat: Sequence[int],
    back: Sequence[int],
    last: int,
):
    """Look up the nearest pixel in a list of all; the list begins with a zero for positions outside."""
    sizes = op.Gather(op.Shape(x), sides, axis=0)
    extent = op.CastLike(sizes, grid)
    place = op.Mul(op.Sub(op.Mul(op.Add(grid, 1.0), op.Sub(extent, corners)), shift), 0.5)
    highest = op.Add(extent, room)
    limited = op.Where(op.Less(place, highest), place, highest)
    pixel = op.Round(op.Where(op.Greater(limited, lowest), limited, lowest))
    row = meaning.GridPixels(pixel, sizes, axis=last, padding_mode=padding, align_corners=aligned)
    shape = op.Shape(x)
    count = op.Gather(shape, [0], axis=0)
    depth = op.Gather(shape, [1], axis=0)
    images = op.ReduceProd(sizes, keepdims=0)
    image = op.Mul(op.Range(0, op.Gather(shape, 0, axis=0), 1), images)
    index = op.Max(op.Add(op.Add(row, op.Reshape(image, batch)), 1), 0)
    listed = op.Reshape(op.Transpose(x, perm=flat), op.Concat(op.Mul(count, images), depth, axis=0), allowzero=1)
    zero = op.Expand(op.CastLike(0.0, x), op.Concat([1], depth, axis=0))
    return op.Transpose(op.Gather(op.Concat(zero, listed, axis=0), index, axis=0), perm=back)


@lowering(18, applies_if=_mixes, bind=_bound, rounds=True)
def weighed(
    x,
    grid,
    sides: Sequence[int],
    corners: Sequence[int],
    shift: Sequence[int],
    lowest: Sequence[int],
    room: Sequence[int],
    padding: str,
    aligned: int,
    batch: Sequence[int],
    flat: Sequence[int],
    back: Sequence[int],
    steps: Sequence[int],
    taps: Sequence[int],
    last: int,
    coordinates: Sequence[int],
    near: Sequence[int],
    far: Sequence[int],
):
    """Sum the pixels around a position, each times the product of its weights along the axes.

    They are looked up in a list of all, which a pixel of zeros begins: that is what lies outside.
    """
    sizes = op.Gather(op.Shape(x), sides, axis=0)
    extent = op.CastLike(sizes, grid)
    place = op.Mul(op.Sub(op.Mul(op.Add(grid, 1.0), op.Sub(extent, corners)), shift), 0.5)
    highest = op.Add(extent, room)
    limited = op.Where(op.Less(place, highest), place, highest)
    within = op.Unsqueeze(op.Where(op.Greater(limited, lowest), limited, lowest), taps)
    pixel = op.Add(op.Floor(within), steps)
    far_off = op.Abs(op.Sub(within, pixel))
    n0, n1, n2, n3 = op.Split(near, num_outputs=4)
    f0, f1, f2, f3 = op.Split(far, num_outputs=4)
    nearby = op.Add(op.Mul(op.Add(op.Mul(op.Add(op.Mul(n3, far_off), n2), far_off), n1), far_off), n0)
    farther = op.Add(op.Mul(op.Add(op.Mul(op.Add(op.Mul(f3, far_off), f2), far_off), f1), far_off), f0)
    weight = op.ReduceProd(op.Where(op.Greater(far_off, 1.0), farther, nearby), coordinates, keepdims=1)
    row = meaning.GridPixels(pixel, sizes, axis=last, padding_mode=padding, align_corners=aligned)
    shape = op.Shape(x)
    count = op.Gather(shape, [0], axis=0)
    depth = op.Gather(shape, [1], axis=0)
    images = op.ReduceProd(sizes, keepdims=0)
    image = op.Mul(op.Range(0, op.Gather(shape, 0, axis=0), 1), images)
    index = op.Max(op.Add(op.Add(row, op.Reshape(image, batch)), 1), 0)
    listed = op.Reshape(op.Transpose(x, perm=flat), op.Concat(op.Mul(count, images), depth, axis=0), allowzero=1)
    zero = op.Expand(op.CastLike(0.0, x), op.Concat([1], depth, axis=0))
    values = op.Gather(op.Concat(zero, listed, axis=0), index, axis=0)
    return op.Transpose(op.ReduceSum(op.Mul(values, weight), taps, keepdims=0), perm=back)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make the places those between -4 and 4 that are centers and borders of pixels, halves of them, and others.

    Farther out floats hold no places between two pixels any more, and each runtime rounds as it likes.
    """
    x, grid = feeds["X"], feeds["grid"]
    sides = np.array([max(side, 1) for side in x.shape[:1:-1]])
    halves = rng.integers(-4 * sides, 4 * sides, grid.shape) / sides
    places = np.where(rng.integers(4, size=grid.shape) > 0, halves, rng.uniform(-4, 4, grid.shape))
    return {**feeds, "grid": places.astype(grid.dtype)}


@of_two
def equal_dims(node: NodeShapes, image: Shape, grid: Shape) -> Pairs:
    """Yield the batch of the image and of the grid."""
    yield image[0], grid[0]


OPERATOR = Operator(
    name="GridSample",
    meaning=GridSample,
    versions=(Version(16, lift=_lift, write=_write, applies_if=_images), Version(20), Version(22)),
    operands=("X", "grid"),
    oracle=oracle,
    lowerings=(nearest, weighed),
    adversarial=adversarial,
    fault=_fault,
    # What a place that is no number shows, the text does not say.
    nan_defined=lambda meaning, operands: False,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS, Trait.SAMPLES),
        equal_dims=equal_dims,
        spreads=False,
        reads_places=True,
        nan_undefined=True,
    ),
)
