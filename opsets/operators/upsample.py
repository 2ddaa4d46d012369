"""Upsample: what Resize has been since 10. The scales are an attribute at 7, an input at 9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.operators import resize
from opshift.opsets.registry.lowering import lowering, meaning
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Upsample:
    """The interpolation mode: `nearest` or `linear`."""

    mode: str = "nearest"


def oracle(what: Upsample, x: np.ndarray[Any, Any], scales: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Upsample-9: "output_dimension = floor(input_dimension * scale)"; the text does not tell the coordinates.

    onnxruntime 1.31.1 takes x / scale for them, and of a nearest one what is below.
    """
    return resize.oracle(resize.Resize(what.mode, "asymmetric", "floor"), x, None, scales)


@lowering(13, bind=lambda what, operands: {"mode": what.mode})
def resized(x, scales, mode: str):
    """Emit Resize with asymmetric coordinates and floor rounding."""
    return meaning.Resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def floats_by(attributes: Mapping[str, Any]) -> tuple[Trait, ...]:
    """Return what upsampling does with floats: the nearest ones are moved."""
    nearest = attributes.get("mode", "nearest") == "nearest"
    return (Trait.MOVES,) if nearest else (Trait.SUMS, Trait.WEIGHS, Trait.SAMPLES)


def _lift_first(attributes: Mapping[str, Any]) -> Upsample:
    # Upsample-1: "Two interpolation modes: nearest(default), bilinear".
    return Upsample("linear" if attributes["mode"] == "bilinear" else attributes["mode"])


def _scales(attributes: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    # Upsample-1: "output_width = floor(input_width * width_scale)", of a "4-D tensor, [N,C,H,W]".
    return np.array([1, 1, attributes["height_scale"], attributes["width_scale"]], np.float32)


OPERATOR = Operator(
    name="Upsample",
    meaning=Upsample,
    versions=(Version(1, lift=_lift_first, made={"scales": _scales}), Version(7), Version(9)),
    operands=("X", "scales"),
    oracle=oracle,
    lowerings=(resized,),
    traits=Traits(floats=(Trait.MOVES,), floats_by=floats_by, counts=(1,), grows=True),
)
