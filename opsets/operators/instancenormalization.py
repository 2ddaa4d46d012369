"""InstanceNormalization: mean 0 and variance 1 in each channel of each sample, then scaled and shifted by channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first, rank_unknown
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import images
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, spatial
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import channels
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class InstanceNormalization:
    """The epsilon that is added to the variance."""

    epsilon: float = float(np.float32(1e-5))


def oracle(
    what: InstanceNormalization, x: np.ndarray[Any, Any], scale: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """InstanceNormalization-6: "y = scale * (x - mean) / sqrt(variance + epsilon) + B".

    "mean and variance are computed per instance per channel", whose elements are along "D1 x D2 ... Dn".
    """
    if x.ndim < 3 or scale.shape != x.shape[1:2] or bias.shape != x.shape[1:2]:
        raise ValueError("an image has N x C x D1 ... elements, and scale and B have one for each channel")
    wide = x.astype(np.float64)
    axes = tuple(range(2, x.ndim))
    if not wide.size:
        return x
    of_channel = (-1, *[1] * len(axes))
    normal = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + what.epsilon)
    y = normal * scale.astype(np.float64).reshape(of_channel) + bias.astype(np.float64).reshape(of_channel)
    return np.asarray(y.astype(x.dtype))


def _known(what: InstanceNormalization, operands: Operands) -> Reason | None:
    rank, dtype = first(operands).rank, first(operands).dtype
    if rank is None or dtype is None:
        return Reason("the rank or the element type is unknown", missing=True)
    return None if rank > 2 else Reason("there is no axis behind the first two")


def _values(what: InstanceNormalization, operands: Operands) -> Mapping[str, Any]:
    rank, dtype = first(operands).rank or 0, first(operands).dtype
    within = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    axes = tuple(range(2, rank))
    return {"axes": axes, "behind": tuple(range(1, rank - 1)), "epsilon": what.epsilon, "within": within, "to": dtype}


@lowering(18, applies_if=_known, bind=_values, rounds=True)
def computed(x, scale, bias, axes: Sequence[int], behind: Sequence[int], epsilon: float, within: int, to: int):
    """Compute it by the equation of the text, in float where the type is narrower: squares of float16 overflow."""
    wide = op.Cast(x, to=within)
    away = wide - op.ReduceMean(wide, axes, keepdims=1)
    spread = op.Sqrt(op.ReduceMean(away * away, axes, keepdims=1) + op.Cast(epsilon, to=within))
    scales, biases = op.Unsqueeze(scale, behind), op.Unsqueeze(bias, behind)
    return op.Cast(away / spread * op.Cast(scales, to=within) + op.Cast(biases, to=within), to=to)


def _of_unknown_rank(what: InstanceNormalization, operands: Operands) -> Reason | None:
    if reason := dtype_known(what, operands):
        return reason
    return rank_unknown(what, operands)


# Not of three axes, by the operator itself: onnxruntime 1.32.0 may crash where an image has no elements.
@lowering(18, applies_if=_of_unknown_rank, bind=_values, rounds=True)
def of_rows(x, scale, bias, epsilon: float, within: int, to: int):
    """Compute it where each channel of each sample is a row, and its scale and bias are columns."""
    shape = op.Shape(x)
    wide = op.Cast(op.Flatten(x, axis=2), to=within)
    away = wide - op.ReduceMean(wide, [1], keepdims=1)
    spread = op.Sqrt(op.ReduceMean(away * away, [1], keepdims=1) + op.Cast(epsilon, to=within))
    samples_and_channels = op.Slice(shape, [0], [2])
    scales = op.Reshape(op.Expand(op.Cast(scale, to=within), samples_and_channels), [-1, 1])
    biases = op.Reshape(op.Expand(op.Cast(bias, to=within), samples_and_channels), [-1, 1])
    return op.Reshape(op.Cast(away / spread * scales + biases, to=to), shape, allowzero=1)


OPERATOR = Operator(
    name="InstanceNormalization",
    meaning=InstanceNormalization,
    versions=(Version(1), Version(6), Version(22)),
    operands=("input", "scale", "B"),
    oracle=oracle,
    lowerings=(computed, of_rows),
    wider_types=COMPUTED,
    traits=Traits(
        merges=images,
        floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS),
        equal_dims=channels,
        inner_sum=InnerSum(SumUse.CENTERED, spatial, by_channel=True),
        aborts=True,
    ),
)
