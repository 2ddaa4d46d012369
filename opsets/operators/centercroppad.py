"""CenterCropPad: crop or pad around the middle, to a shape. Since version 18."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import distinct_axes
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class CenterCropPad:
    """The axes to which the shape applies; None: all axes, in order."""

    axes: tuple[int, ...] | None = None


_Array = np.ndarray[Any, Any]


def oracle(what: CenterCropPad, x: _Array, shape: _Array) -> _Array:
    """CenterCropPad-18: "Center crop or pad an input to given dimensions", with zeros.

    Where an odd number of elements is cropped or padded, the text names the side by its function body: of the odd one
    too many, a crop starts at the lower middle; padding has one element less in front than behind.
    """
    # CenterCropPad-18: "Behavior is undefined if an axis is repeated."
    axes = tuple(range(x.ndim)) if what.axes is None else distinct_axes(np.array(what.axes, np.int64), x.ndim)
    for axis, wanted in zip(axes, shape.tolist(), strict=True):
        size = x.shape[axis]
        if wanted <= size:
            start = (size - wanted) // 2
            x = np.take(x, range(start, start + wanted), axis=axis)
            continue
        around = [(0, 0)] * x.ndim
        around[axis] = ((wanted - size) // 2, (wanted - size) - (wanted - size) // 2)
        x = np.pad(x, around)
    return x


def _narrow(what: CenterCropPad, operands: Operands) -> Reason | None:
    shape = operands[1]
    dtype = None if shape is None else shape.dtype
    return None if dtype == TensorProto.INT32 else Reason("the shape is not of int32", missing=dtype is None)


# The function body of ONNX compares the shape with that of the input, which is of int64.
@lowering(18, applies_if=_narrow)
def widened(x, shape):
    """Cast the shape to int64, in which the function body computes."""
    return meaning.Same(x, op.Cast(shape, to=7))


OPERATOR = Operator(
    name="CenterCropPad",
    meaning=CenterCropPad,
    versions=(Version(18),),
    operands=("input_data", "shape"),
    oracle=oracle,
    lowerings=(widened,),
    moves_data=True,
    traits=Traits(floats=(Trait.MOVES,), counts=(1,), moved=(0,), exact_body=True),
)
