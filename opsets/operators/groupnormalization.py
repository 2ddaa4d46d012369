"""GroupNormalization: mean 0 and variance 1 for each group of channels, then scaled and shifted. Since version 21.

Version 18, whose scale and bias are of groups, is deprecated in its own opset: onnx's checker takes no model that has
it, so it is not lifted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.axes import first
from opshift.opsets.lowering import Reason, lowering, op
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class GroupNormalization:
    """How many groups there are, what is added to the variance, and the type that statistics are computed in."""

    num_groups: int
    epsilon: float = float(np.float32(1e-5))
    stash_type: int = 1


def oracle(
    what: GroupNormalization, x: np.ndarray[Any, Any], scale: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """GroupNormalization-21: "y = scale * (x - mean) / sqrt(variance + epsilon) + bias", in two stages.

    "The floating-point precision used in the first stage is determined by the `stash_type`".
    """
    stash = x.astype(onnx.helper.tensor_dtype_to_np_dtype(what.stash_type)).astype(np.float64)
    length = int(np.prod(x.shape[1:])) // what.num_groups
    groups = stash.reshape(x.shape[0], what.num_groups, length)
    spread = np.sqrt(groups.var(axis=2, keepdims=True) + what.epsilon)
    normalised = ((groups - groups.mean(axis=2, keepdims=True)) / spread).reshape(x.shape)
    along = (-1, *[1] * (x.ndim - 2))
    wide: np.ndarray[Any, Any] = normalised * scale.astype(np.float64).reshape(along) + bias.astype(np.float64).reshape(
        along
    )
    return wide.astype(x.dtype)


def _typed(what: GroupNormalization, operands: Operands) -> Reason | None:
    return Reason("the element type is unknown", missing=True) if first(operands).dtype is None else None


def _bound(what: GroupNormalization, operands: Operands) -> Mapping[str, Any]:
    return {
        "groups": (what.num_groups,),
        "epsilon": what.epsilon,
        "stash": what.stash_type,
        "to": first(operands).dtype,
    }


@lowering(18, given=_typed, bind=_bound)
def computed(x, scale, bias, groups: Sequence[int], epsilon: float, stash: int, to: int):
    """Compute mean and variance as the operator's function in ONNX does, step by step, so that it rounds likewise."""
    shape = op.Shape(x)
    samples = op.Slice(shape, [0], [1])
    channels = op.Slice(shape, [1], [2])
    place = op.ReduceProd(op.Slice(shape, [2], [2147483647]), keepdims=1)
    grouped = op.Concat(samples, groups, channels / groups * place, axis=0)
    part = op.Reshape(op.Cast(x, to=stash), grouped, allowzero=1)
    mean = op.ReduceMean(part, [2], keepdims=1)
    variance = op.ReduceMean(part * part, [2], keepdims=1) - mean * mean
    normal = (part - mean) / op.Sqrt(variance + op.Cast(epsilon, to=stash))
    each = op.Cast(op.Reshape(normal, op.Concat(samples, channels, place, axis=0), allowzero=1), to=to)
    y = op.Reshape(scale, [1, -1, 1]) * each + op.Reshape(bias, [1, -1, 1])
    return op.Reshape(y, shape, allowzero=1)


OPERATOR = Operator(
    name="GroupNormalization",
    meaning=GroupNormalization,
    versions=(Version(21),),
    operands=("X", "scale", "bias"),
    oracle=oracle,
    lowerings=(computed,),
)
