"""LayerNormalization: mean 0 and variance 1 over the last axes, then scaled and shifted. Since version 17."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.axes import first, one_axis
from opshift.opsets.lowering import Reason, lowering, meaning, op
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class LayerNormalization:
    """The first of the axes, what is added to the variance, and the type of statistics.

    With `wider` those of double are computed in double, whatever their type.
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
    stash = onnx.helper.tensor_dtype_to_np_dtype(what.stash_type)
    wide = x.astype(x.dtype if what.wider else stash).astype(np.float64)
    axes = tuple(range(what.axis % x.ndim, x.ndim))
    mean = wide.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt(wide.var(axes, keepdims=True) + what.epsilon)
    y = (wide - mean) * inverse * scale.astype(np.float64)
    y = y if bias is None else y + bias.astype(np.float64)
    return y.astype(x.dtype), mean.astype(stash), inverse.astype(stash)


def _biased(what: LayerNormalization, operands: Operands) -> Reason | None:
    return Reason("there is no bias") if operands[2] is None else None


@lowering(18, given=_biased, rounds=True)
def shifted(x, scale, bias):
    """Scale, then add the bias."""
    y, mean, inverse = meaning.Same(x, scale)
    return y + bias, mean, inverse


def _unbiased(what: LayerNormalization, operands: Operands) -> Reason | None:
    if operands[2] is not None:
        return Reason("there is a bias")
    if first(operands).dtype is None:
        return Reason("the element type is unknown", missing=True)
    known = what.axis < 0 or first(operands).rank is not None
    return None if known else Reason("the rank is unknown", missing=True)


def _last(what: LayerNormalization, operands: Operands) -> Mapping[str, Any]:
    axes = range(what.axis, 0 if what.axis < 0 else first(operands).rank or 0)
    dtype = first(operands).dtype
    within = dtype if what.wider else what.stash_type
    return {"axes": tuple(axes), "epsilon": what.epsilon, "within": within, "stash": what.stash_type, "to": dtype}


@lowering(18, given=_unbiased, bind=_last, rounds=True)
def computed(x, scale, bias, axes: Sequence[int], epsilon: float, within: int, stash: int, to: int):
    """Compute it by the equations of the text."""
    wide = op.Cast(x, to=within)
    mean = op.ReduceMean(wide, axes, keepdims=1)
    away = wide - mean
    spread = op.Sqrt(op.ReduceMean(away * away, axes, keepdims=1) + op.Cast(epsilon, to=within))
    inverse = op.Reciprocal(spread)
    return op.Cast(away * inverse, to=to) * scale, op.Cast(mean, to=stash), op.Cast(inverse, to=stash)


def _as_run(attributes: Mapping[str, Any]) -> LayerNormalization:
    """Lift what onnxruntime runs: double is computed in double, whatever `stash_type` says (seen in 1.31.1)."""
    return LayerNormalization(**attributes, wider=True)


def _as_told(attributes: Mapping[str, Any]) -> LayerNormalization:
    return LayerNormalization(**attributes)


def _written(what: LayerNormalization, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.axis, "epsilon": what.epsilon, "stash_type": what.stash_type}


def normal(what: LayerNormalization, operands: Operands) -> tuple[LayerNormalization, Operands]:
    """Count the axis from the front, where the rank is known; nothing but double is wider than the statistics."""
    dtype = first(operands).dtype
    if dtype is not None:
        doubled = what.wider and dtype == TensorProto.DOUBLE != what.stash_type
        what = dataclasses.replace(what, wider=doubled)
    return one_axis(what, operands)


OPERATOR = Operator(
    name="LayerNormalization",
    meaning=LayerNormalization,
    versions=(Version(17, lift=_as_run, spec=_as_told, write=_written),),
    operands=("X", "Scale", "B"),
    oracle=oracle,
    normal=normal,
    lowerings=(shifted, computed),
)
