"""GridSample: values of a grid of pixels at places between them. Any number of dimensions since 20."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.axes import first
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class GridSample:
    """How values between pixels are made, what lies outside, and whether -1 and 1 are the corners' centers."""

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
    return GridSample(_NEW[attributes["mode"]], attributes["padding_mode"], attributes["align_corners"])


def _write(meaning: GridSample, operands: Operands) -> Mapping[str, Any]:
    return {
        "mode": _OLD[meaning.mode],
        "padding_mode": meaning.padding_mode,
        "align_corners": meaning.align_corners,
    }


def _images(meaning: GridSample, operands: Operands) -> Reason | None:
    """GridSample-16: "Currently, only spatial (4-D) inputs are supported"."""
    ranks = {facts.rank for facts in operands if facts is not None} - {None}
    if not ranks:
        return Reason("the rank is unknown, and it takes rank 4 only", missing=True)
    return None if ranks == {4} else Reason(f"it takes rank 4 only, not {first(operands).rank}")


OPERATOR = Operator(
    name="GridSample",
    meaning=GridSample,
    versions=(Version(16, lift=_lift, write=_write, given=_images), Version(20), Version(22)),
    operands=("X", "grid"),
    oracle=oracle,
)
