"""LayerNormalization: mean 0 and variance 1 over the last axes, then scaled and shifted. Since version 17."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first, one_axis
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, from_axis
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class LayerNormalization:
    """The first of the axes, the epsilon, and the type of the statistics.

    With `wider` all is computed in double where the input is double, else in float, whatever their type.
    """

    axis: int = -1
    epsilon: float = float(np.float32(1e-5))
    stash_type: int = TensorProto.FLOAT
    wider: bool = False


def oracle(
    what: LayerNormalization,
    x: np.ndarray[Any, Any],
    scale: np.ndarray[Any, Any],
    bias: np.ndarray[Any, Any] | None = None,
) -> tuple[np.ndarray[Any, Any], ...]:
    """LayerNormalization-17: "`normalized_axes` is `[axis, ..., rank of X - 1]`"; Y, then Mean and InvStdDev."""
    if any(np.broadcast_shapes(x.shape, one.shape) != x.shape for one in (scale, bias) if one is not None):
        raise ValueError("Y has the shape of X, to which scale and bias are spread")
    stash = onnx.helper.tensor_dtype_to_np_dtype(what.stash_type)
    within = np.float64 if x.dtype == np.float64 else np.float32
    wide = x.astype(within if what.wider else stash).astype(np.float64)
    axes = tuple(range(what.axis % x.ndim, x.ndim))
    if not all(x.shape[axis] for axis in axes):
        # ReduceMean-18, by which Mean is defined: "Reduction over an empty set of values yields undefined".
        raise ValueError("a row without elements has no mean")
    mean = wide.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(wide.var(axes, keepdims=True) + what.epsilon)
    y = (wide - mean) * inverse * scale.astype(np.float64)
    y = y if bias is None else y + bias.astype(np.float64)
    return y.astype(x.dtype), mean.astype(stash), inverse.astype(stash)


def _biased(what: LayerNormalization, operands: Operands) -> Reason | None:
    return Reason("there is no bias") if operands[2] is None else None


@lowering(18, applies_if=_biased, rounds=True)
def shifted(x, scale, bias):
    """Scale, then add the bias."""
    y, mean, inverse = meaning.Same(x, scale)
    return y + bias, mean, inverse


def _unbiased(what: LayerNormalization, operands: Operands) -> Reason | None:
    if operands[2] is not None:
        return Reason("there is a bias")
    if reason := dtype_known(what, operands):
        return reason
    known = what.axis < 0 or first(operands).rank is not None
    return None if known else Reason("the rank is unknown", missing=True)


def _last(what: LayerNormalization, operands: Operands) -> Mapping[str, Any]:
    axes = range(what.axis, 0 if what.axis < 0 else first(operands).rank or 0)
    dtype = first(operands).dtype
    within = _wide(dtype) if what.wider else what.stash_type
    return {"axes": tuple(axes), "epsilon": what.epsilon, "within": within, "stash": what.stash_type, "to": dtype}


@lowering(18, applies_if=_unbiased, bind=_last, rounds=True)
def computed(x, scale, bias, axes: Sequence[int], epsilon: float, within: int, stash: int, to: int):
    """Compute it by the equations of the text."""
    wide = op.Cast(x, to=within)
    mean = op.ReduceMean(wide, axes, keepdims=1)
    away = wide - mean
    spread = op.Sqrt(op.ReduceMean(away * away, axes, keepdims=1) + op.Cast(epsilon, to=within))
    inverse = op.Reciprocal(spread)
    return op.Cast(away * inverse, to=to) * scale, op.Cast(mean, to=stash), op.Cast(inverse, to=stash)


def _of_any_rank(what: LayerNormalization, operands: Operands) -> Reason | None:
    if operands[2] is not None:
        return Reason("there is a bias")
    if reason := dtype_known(what, operands):
        return reason
    counted = what.axis < 0 or first(operands).rank is not None
    return Reason("the axes are known") if counted else None


def _from_axis(what: LayerNormalization, operands: Operands) -> Mapping[str, Any]:
    types = {name: value for name, value in _last(what, operands).items() if name != "axes"}
    return {**types, "axis": what.axis, "kept": (what.axis,)}


@lowering(18, applies_if=_of_any_rank, bind=_from_axis, rounds=True)
def flattened(x, scale, bias, axis: int, kept: Sequence[int], epsilon: float, within: int, stash: int, to: int):
    """Compute it on rows, where the rank is unknown; with allowzero an empty dimension is not another's."""
    shape = op.Shape(x)
    rows = op.Flatten(op.Cast(x, to=within), axis=axis)
    mean = op.ReduceMean(rows, [1], keepdims=1)
    away = rows - mean
    spread = op.Sqrt(op.ReduceMean(away * away, [1], keepdims=1) + op.Cast(epsilon, to=within))
    inverse = op.Reciprocal(spread)
    ones = op.Slice(shape, kept, [2147483647]) * 0 + 1
    reduced = op.Concat(op.Slice(shape, [0], kept), ones, axis=0)
    y = op.Reshape(op.Cast(away * inverse, to=to), shape, allowzero=1) * scale
    return (
        y,
        op.Reshape(op.Cast(mean, to=stash), reduced, allowzero=1),
        op.Reshape(op.Cast(inverse, to=stash), reduced, allowzero=1),
    )


def _wide(dtype: int | None) -> int:
    return TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT


def _as_run(attributes: Mapping[str, Any]) -> LayerNormalization:
    """Lift what onnxruntime 1.32.0 runs: double in double, all else in float, whatever `stash_type` is."""
    return LayerNormalization(**attributes, wider=True)


def _as_told(attributes: Mapping[str, Any]) -> LayerNormalization:
    return LayerNormalization(**attributes)


def _written(what: LayerNormalization, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.axis, "epsilon": what.epsilon, "stash_type": what.stash_type}


def normal(what: LayerNormalization, operands: Operands) -> tuple[LayerNormalization, Operands]:
    """Count the axis from the front, where the rank is known, and tell whether the statistics have another type."""
    dtype = first(operands).dtype
    if dtype is not None:
        what = dataclasses.replace(what, wider=what.wider and _wide(dtype) != what.stash_type)
    return one_axis(what, operands)


@of_two
def equal_dims(node: NodeShapes, data: Shape, scale: Shape) -> Pairs:
    """Yield the last dims of the data, and those of the scale."""
    return zip(reversed(data), reversed(scale), strict=False)


OPERATOR = Operator(
    name="LayerNormalization",
    meaning=LayerNormalization,
    versions=(Version(17, lift=_as_run, spec=_as_told, write=_written),),
    before=Version(1, lift=_as_run, spec=_as_told),
    operands=("X", "Scale", "B"),
    oracle=oracle,
    normal=normal,
    lowerings=(shifted, computed, flattened),
    body_unused="the difference of two means of squares cancels, and an empty dimension is copied from another",
    traits=Traits(
        floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS),
        equal_dims=equal_dims,
        inner_sum=InnerSum(SumUse.CENTERED, from_axis, squares_in_double=True, statistics=(1, 2)),
    ),
)
