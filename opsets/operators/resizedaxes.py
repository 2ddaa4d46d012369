"""ResizedAxes: axes of lengths that are known at run time, resized one after the other. No model has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators.resize import SIMPLE, resized_axis
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator


@dataclass(frozen=True)
class ResizedAxes:
    """The axes, and attributes of Resize. `scales` and `sizes` have one number for each axis.

    Along the first `outer` of them, an element that stays in its place is not added to others, which may be infinite.
    """

    axes: tuple[int, ...] = ()
    outer: int = 0
    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    antialias: int = 0


Array = np.ndarray[Any, Any]


def oracle(what: ResizedAxes, x: Array, scales: Array, sizes: Array) -> Array:
    """Resize along one axis after the other."""
    y: Array = x.astype(np.float64)
    for place, (axis, scale, size) in enumerate(zip(what.axes, scales, sizes, strict=True)):
        if place >= what.outer or scale != 1:
            y = resized_axis(what, y, axis, int(size), float(scale))
    return y.astype(x.dtype)


def _nearest(simple: bool) -> Callable[[ResizedAxes, Operands], Reason | None]:
    def applies_if(what: ResizedAxes, operands: Operands) -> Reason | None:
        if not what.axes:
            return Reason("no axis is left")
        return None if (what.nearest_mode == SIMPLE) == simple else Reason(f"nearest is by {what.nearest_mode}")

    return applies_if


def _next(what: ResizedAxes, operands: Operands) -> Mapping[str, Any]:
    return {
        "axis": what.axes[0],
        "along": what.axes[:1],
        "axes": what.axes[1:],
        "outer": max(what.outer - 1, 0),
        "alone": int(what.outer > 0),
        "mode": what.mode,
        "coordinates": what.coordinate_transformation_mode,
        "nearest": what.nearest_mode,
        "free": what.cubic_coeff_a,
        "exclude": what.exclude_outside,
    }


@lowering(18, applies_if=_nearest(simple=False), bind=_next)
def by_points(
    x, scales, sizes, axis: int, along: Sequence[int], axes: Sequence[int], outer: int, alone: int, mode: str,
    coordinates: str, nearest: str, free: float, exclude: int,
):  # fmt: skip
    """Find out where the elements along one axis lie, and look these up; then along the others."""
    length = op.Gather(op.Shape(x), along, axis=0)
    size, scale = op.Slice(sizes, [0], [1]), op.Slice(scales, [0], [1])
    points = meaning.ResizedPoints(length, size, scale, coordinate_transformation_mode=coordinates)
    y = meaning.Sampled(
        x, points, axis=axis, alone=alone, mode=mode, nearest_mode=nearest, cubic_coeff_a=free, exclude_outside=exclude
    )
    behind = op.Slice(scales, [1], [2147483647])
    return meaning.Same(y, behind, op.Slice(sizes, [1], [2147483647]), axes=axes, outer=outer)


@lowering(18, applies_if=_nearest(simple=True), bind=_next)
def by_whole_points(x, scales, sizes, axis: int, along: Sequence[int], axes: Sequence[int], coordinates: str):
    """Look up the next elements along an axis that shrinks, those before along others."""
    length = op.Gather(op.Shape(x), along, axis=0)
    size, scale = op.Slice(sizes, [0], [1]), op.Slice(scales, [0], [1])
    points = meaning.ResizedPoints(length, size, scale, coordinate_transformation_mode=coordinates)
    whole = op.Where(op.Less(scale, 1.0), op.Ceil(points), op.Floor(points))
    y = meaning.Sampled(x, whole, axis=axis, nearest_mode="floor")
    return meaning.Same(y, op.Slice(scales, [1], [2147483647]), op.Slice(sizes, [1], [2147483647]), axes=axes)


def _facts(what: ResizedAxes, operands: Operands) -> tuple[Facts, ...]:
    data = first(operands)
    shape = data.shape and tuple(None if axis in what.axes else dim for axis, dim in enumerate(data.shape))
    return (Facts(data.dtype, shape),)


OPERATOR = Operator(
    name="ResizedAxes",
    domain="opshift.step",
    meaning=ResizedAxes,
    versions=(),
    operands=("x", "scales", "sizes"),
    oracle=oracle,
    lowerings=(by_points, by_whole_points),
    facts=_facts,
    idle=lambda what, operands: not what.axes,
)
