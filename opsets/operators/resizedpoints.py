"""ResizedPoints: where the elements of a resized axis lie among those it had. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.operators.resize import coordinate
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator


@dataclass(frozen=True)
class ResizedPoints:
    """The transformation of coordinates."""

    coordinate_transformation_mode: str = "half_pixel"


Array = np.ndarray[Any, Any]


def oracle(what: ResizedPoints, length: Array, size: Array, scale: Array) -> Array:
    """Return one float for each of `size` elements. All operands have one element."""
    points = [coordinate(what, np.float32(at), int(size[0]), int(length[0]), scale[0]) for at in range(int(size[0]))]
    return np.array(points, np.float32)


def _in(*modes: str) -> Callable[[ResizedPoints, Operands], Reason | None]:
    def applies_if(what: ResizedPoints, operands: Operands) -> Reason | None:
        mode = what.coordinate_transformation_mode
        return None if mode in modes else Reason(f"it has {mode} coordinates")

    return applies_if


def _shifts(what: ResizedPoints, operands: Operands) -> Mapping[str, Any]:
    return {"shift": 0.5 if what.coordinate_transformation_mode == "half_pixel" else 0.0}


@lowering(18, applies_if=_in("asymmetric", "half_pixel"), bind=_shifts)
def scaled_back(length, size, scale, shift: float):
    """Divide each place by the scale."""
    return (op.Cast(op.Range(0, op.Squeeze(size, [0]), 1), to=1) + shift) / scale - shift


@lowering(18, applies_if=_in("pytorch_half_pixel"))
def scaled_back_unless_one(length, size, scale):
    """Take the first element if only one is left."""
    return meaning.Same(length, size, scale, coordinate_transformation_mode="half_pixel") * op.Cast(
        op.Greater(size, 1), to=1
    )


@lowering(18, applies_if=_in("tf_half_pixel_for_nn"))
def scaled_back_from_the_center(length, size, scale):
    """Divide the center of each place by the scale, unless the axis does not change."""
    at = op.Cast(op.Range(0, op.Squeeze(size, [0]), 1), to=1)
    same = op.And(op.Equal(size, length), op.Not(op.Greater(scale, 1.0)))
    return op.Where(same, at, (at + 0.5) / scale)


@lowering(18, applies_if=_in("half_pixel_symmetric"))
def around_the_middle(length, size, scale):
    """Shift the points by what is cut off of the size, on both sides."""
    long = op.Cast(length, to=1)
    offset = long / 2.0 * (1.0 - op.Cast(size, to=1) / (scale * long))
    return offset + meaning.Same(length, size, scale, coordinate_transformation_mode="half_pixel")


@lowering(18, applies_if=_in("align_corners"))
def between_corners(length, size, scale):
    """Divide the way from the first element to the last; an axis that does not change keeps its places."""
    at = op.Cast(op.Range(0, op.Squeeze(size, [0]), 1), to=1)
    way = at * op.Cast(length - 1, to=1) / op.Cast(op.Max(size - 1, 1), to=1)
    return op.Where(op.Equal(size, length), at, way)


OPERATOR = Operator(
    name="ResizedPoints",
    domain="opshift.step",
    meaning=ResizedPoints,
    versions=(),
    operands=("length", "size", "scale"),
    oracle=oracle,
    lowerings=(scaled_back, scaled_back_unless_one, scaled_back_from_the_center, around_the_middle, between_corners),
    facts=lambda what, operands: (Facts(TensorProto.FLOAT, (None,)),),
)
