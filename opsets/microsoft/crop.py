"""Crop, an experimental operator of ONNX 1.0 to 1.4: an image without its borders, or a part of given size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import END, first
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Crop:
    """The borders (left, top, right, bottom), and the size of the part (height, width) behind the first two."""

    border: tuple[int, ...] = ()
    scale: tuple[int, ...] = ()


def fault(what: Crop, operands: Operands) -> str | None:
    """Return what onnxruntime 1.32.0 refuses: borders and sizes of another number, below zero, or too large."""
    shape = first(operands).shape
    if len(what.border) != 4 or min(what.border) < 0:
        return "its border is not four numbers from zero on: left, top, right and bottom"
    if what.scale and (len(what.scale) != 2 or min(what.scale) < 0):
        return "its scale is not two numbers from zero on: height and width"
    if shape is not None and len(shape) != 4:
        return f"its input has rank {len(shape)}, and an image has rank 4"
    left, top, right, bottom = what.border
    needed = (top + bottom, left + right)
    if what.scale:
        part = (top + what.scale[0], left + what.scale[1])
        needed = (max(needed[0], part[0]), max(needed[1], part[1]))
    for size, least in zip(shape[2:] if shape else (), needed, strict=False):
        if isinstance(size, int) and size < least:
            return f"it crops an axis of {size} elements where {least} are needed"
    return None


def _ends(what: Crop) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where each of the last two axes starts and ends; a negative end counts from the back."""
    left, top, right, bottom = what.border
    if what.scale:
        return (top, left), (top + what.scale[0], left + what.scale[1])
    return (top, left), (-bottom or END, -right or END)


def oracle(what: Crop, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Crop-1: "If scale is given, then optionally start the crop offset by the left/top border amounts".

    "If scale is not provided, crop the borders as provided."
    """
    (top, left), (bottom, right) = _ends(what)
    return x[:, :, top:bottom, left:right]


def _places(what: Crop, operands: Operands) -> Mapping[str, Any]:
    starts, ends = _ends(what)
    return {"starts": starts, "ends": ends}


@lowering(13, bind=_places)
def sliced(x, starts: Sequence[int], ends: Sequence[int]):
    """Slice both axes of the image."""
    return op.Slice(x, starts, ends, [2, 3])


OPERATOR = Operator(
    name="Crop",
    meaning=Crop,
    versions=(Version(1),),
    operands=("input",),
    oracle=oracle,
    fault=fault,
    lowerings=(sliced,),
    moves_data=True,
    refused="nothing",
    traits=Traits(floats=(Trait.MOVES,)),
)
