"""ImageScaler, an experimental operator of ONNX 1.0 to 1.4: a factor for all pixels, and a number for each channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import in_wide_type, known_type
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class ImageScaler:
    """The factor, and what is added to each channel."""

    bias: tuple[float, ...] = ()
    scale: float = 1.0


def fault(what: ImageScaler, operands: Operands) -> str | None:
    """Return what onnxruntime 1.32.0 refuses: a bias of another size than the channels, and what is no image."""
    shape = first(operands).shape
    if not what.bias:
        return "it has no bias"
    if shape is not None and len(shape) != 4:
        return f"its input has rank {len(shape)}, and an image has rank 4"
    channels = None if shape is None else shape[1]
    if isinstance(channels, int) and channels != len(what.bias):
        return f"its bias has {len(what.bias)} numbers, and its input {channels} channels"
    return None


def oracle(what: ImageScaler, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ImageScaler-1: "Scale and bias the input image. Bias values are stored in the same ordering as the image"."""
    if x.ndim != 4 or x.shape[1] != len(what.bias):
        raise ValueError(f"{len(what.bias)} numbers are added to the channels of an input of shape {x.shape}")
    bias = np.reshape(np.array(what.bias, np.float64), (-1, 1, 1))
    return np.asarray((what.scale * x.astype(np.float64) + bias).astype(x.dtype))


def _numbers(what: ImageScaler, operands: Operands) -> Mapping[str, Any]:
    scale = in_wide_type(scale=what.scale)(what, operands)
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(scale["within"])
    bias = np.reshape(np.array(what.bias, numpy_type), (-1, 1, 1))
    return {**scale, "bias": Tensor(bias)}


@lowering(14, applies_if=known_type, bind=_numbers, rounds=True)
def multiplied(x, bias: Sequence[int], scale: Sequence[int], within: int, to: int):
    """Multiply by the factor, and add a number to each channel."""
    return op.Cast(op.Cast(x, to=within) * scale + bias, to=to)


OPERATOR = Operator(
    name="ImageScaler",
    meaning=ImageScaler,
    versions=(Version(1),),
    operands=("input",),
    oracle=oracle,
    fault=fault,
    lowerings=(multiplied,),
    refused="an unknown element type",
    traits=Traits(floats=(Trait.MULTIPLIES, Trait.ADDS)),
)
