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
from opshift.opsets.registry.lowering import Reason, lowering, op
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

_OUTSIDE = -(2**40)
"""What a pixel outside counts towards its row in the list of pixels: whatever is added, it stays below zero."""

_STEPS: Mapping[str, Sequence[int]] = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}


def _static(meaning: GridSample, operands: Operands) -> Reason | None:
    dtypes = {facts.dtype for facts in operands if facts is not None}
    sizes = (first(operands).shape or ())[2:]
    if None in dtypes:
        return Reason("the element type is unknown", missing=True)
    if len(dtypes) != 1 or not dtypes <= {TensorProto.FLOAT, TensorProto.DOUBLE}:
        return Reason("image and grid are not both of float, or both of double")
    if not sizes or not all(isinstance(size, int) for size in sizes):
        return Reason("the size of the image is unknown", missing=True)
    return Reason("the image is empty") if 0 in sizes else None


def _nearest(meaning: GridSample, operands: Operands) -> Reason | None:
    return _static(meaning, operands) if meaning.mode == "nearest" else Reason("it mixes pixels")


def _mixes(meaning: GridSample, operands: Operands) -> Reason | None:
    return Reason("it takes the nearest pixel") if meaning.mode == "nearest" else _static(meaning, operands)


def _pixels(meaning: GridSample, size: int) -> Sequence[int | None]:
    """Return what pixel each position is, from 0 to a period, after which all comes again; None for one outside."""
    if meaning.padding_mode == "reflection":
        inside = list(range(size))
        return (inside + inside[-2:0:-1]) if meaning.align_corners else inside + inside[::-1]
    # Nothing comes again: clipped places have no position that far out. What is below zero is at the end.
    positions = (*range(size + 8), *range(-8, 0))
    if meaning.padding_mode == "border":
        return [min(max(position, 0), size - 1) for position in positions]
    return [position if 0 <= position < size else None for position in positions]


def _tables(meaning: GridSample, operands: Operands) -> Mapping[str, Any]:
    """Bind what holds of each axis, in the grid's order, "from the innermost tensor dimension to the outermost"."""
    shape = first(operands).shape or ()
    sizes = [size for size in shape[:1:-1] if isinstance(size, int)]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    pixels = [_pixels(meaning, size) for size in sizes]
    strides = np.cumprod([1, *sizes])
    rows = [
        _OUTSIDE if pixel is None else int(pixel * stride)
        for some, stride in zip(pixels, strides[:-1], strict=True)
        for pixel in some
    ]
    lengths = [len(some) for some in pixels]
    reflects = meaning.padding_mode == "reflection"
    corners = meaning.align_corners
    rank = len(sizes)

    def numbers(values: Any) -> Tensor:
        return Tensor(np.array(values, dtype))

    bound = {
        "scale": numbers([size - 1 if corners else size for size in sizes]),
        "shift": numbers(0 if corners else 1),
        "lowest": numbers([-_FARTHEST if reflects else -4] * rank),
        "highest": numbers([_FARTHEST if reflects else size + 3 for size in sizes]),
        "period": numbers(lengths),
        "starts": numbers(np.cumsum([0, *lengths[:-1]])),
        "rows": tuple(rows),
        "images": Tensor(np.array(strides[-1])),
        "batch": (-1, *[1] * (rank + (meaning.mode != "nearest"))),
        "flat": (0, *range(2, rank + 2), 1),
        "back": (0, rank + 1, *range(1, rank + 1)),
    }
    if meaning.mode == "nearest":
        # Of an empty tensor onnxruntime 1.31.1 reduces no axis that is counted from the back.
        return {**bound, "last": (rank + 1,)}
    near, far = _CURVES[meaning.mode]
    return {
        **bound,
        "steps": numbers(list(itertools.product(_STEPS[meaning.mode], repeat=rank))),
        "taps": (rank + 1,),
        "last": (rank + 2,),
        "near": numbers(near),
        "far": numbers(far),
    }


_CURVES: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
    "linear": ((1, -1, 0, 0), (0, 0, 0, 0)),
    "cubic": ((1, 0, -2.25, 1.25), (3, -6, 3.75, -0.75)),
}
"""The weight of a pixel by its distance, up to 1 and beyond: polynomials, the constant first; a is -0.75 in cubic."""


@lowering(18, applies_if=_nearest, bind=_tables, rounds=True)
def nearest(
    x,
    grid,
    scale: Sequence[int],
    shift: Sequence[int],
    lowest: Sequence[int],
    highest: Sequence[int],
    period: Sequence[int],
    starts: Sequence[int],
    rows: Sequence[int],
    images: Sequence[int],
    batch: Sequence[int],
    flat: Sequence[int],
    back: Sequence[int],
    last: Sequence[int],
):
    """Look up the nearest pixel in a list of all; the list begins with a zero for positions outside."""
    place = op.Mul(op.Sub(op.Mul(op.Add(grid, 1.0), scale), shift), 0.5)
    limited = op.Where(op.Less(place, highest), place, highest)
    pixel = op.Round(op.Where(op.Greater(limited, lowest), limited, lowest))
    position = op.Sub(pixel, op.Mul(op.Floor(op.Div(pixel, period)), period))
    row = op.ReduceSum(op.Gather(rows, op.Cast(op.Add(position, starts), to=7), axis=0), last, keepdims=0)
    shape = op.Shape(x)
    count = op.Gather(shape, [0], axis=0)
    depth = op.Gather(shape, [1], axis=0)
    image = op.Mul(op.Range(0, op.Gather(shape, 0, axis=0), 1), images)
    index = op.Max(op.Add(op.Add(row, op.Reshape(image, batch)), 1), 0)
    listed = op.Reshape(op.Transpose(x, perm=flat), op.Concat(op.Mul(count, images), depth, axis=0), allowzero=1)
    zero = op.Expand(op.CastLike(0.0, x), op.Concat([1], depth, axis=0))
    return op.Transpose(op.Gather(op.Concat(zero, listed, axis=0), index, axis=0), perm=back)


@lowering(18, applies_if=_mixes, bind=_tables, rounds=True)
def weighed(
    x,
    grid,
    scale: Sequence[int],
    shift: Sequence[int],
    lowest: Sequence[int],
    highest: Sequence[int],
    period: Sequence[int],
    starts: Sequence[int],
    rows: Sequence[int],
    images: Sequence[int],
    batch: Sequence[int],
    flat: Sequence[int],
    back: Sequence[int],
    steps: Sequence[int],
    taps: Sequence[int],
    last: Sequence[int],
    near: Sequence[int],
    far: Sequence[int],
):
    """Sum the pixels around a position, each times the product of its weights along the axes.

    They are looked up in a list of all, which a pixel of zeros begins: that is what lies outside.
    """
    place = op.Mul(op.Sub(op.Mul(op.Add(grid, 1.0), scale), shift), 0.5)
    limited = op.Where(op.Less(place, highest), place, highest)
    within = op.Unsqueeze(op.Where(op.Greater(limited, lowest), limited, lowest), taps)
    pixel = op.Add(op.Floor(within), steps)
    far_off = op.Abs(op.Sub(within, pixel))
    n0, n1, n2, n3 = op.Split(near, num_outputs=4)
    f0, f1, f2, f3 = op.Split(far, num_outputs=4)
    nearby = op.Add(op.Mul(op.Add(op.Mul(op.Add(op.Mul(n3, far_off), n2), far_off), n1), far_off), n0)
    farther = op.Add(op.Mul(op.Add(op.Mul(op.Add(op.Mul(f3, far_off), f2), far_off), f1), far_off), f0)
    weight = op.ReduceProd(op.Where(op.Greater(far_off, 1.0), farther, nearby), last, keepdims=1)
    position = op.Sub(pixel, op.Mul(op.Floor(op.Div(pixel, period)), period))
    row = op.ReduceSum(op.Gather(rows, op.Cast(op.Add(position, starts), to=7), axis=0), last, keepdims=0)
    shape = op.Shape(x)
    count = op.Gather(shape, [0], axis=0)
    depth = op.Gather(shape, [1], axis=0)
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
