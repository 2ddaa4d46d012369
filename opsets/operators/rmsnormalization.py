"""RMSNormalization: mean square 1 over the last axes, then scaled. Since version 23."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first, one_axis
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, from_axis
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class RMSNormalization:
    """The first of the axes, the epsilon that is added to the mean square, and the type of the computation.

    None for the type stands for float, and for double where the input is double.
    """

    axis: int = -1
    epsilon: float = float(np.float32(1e-5))
    stash_type: int | None = TensorProto.FLOAT


def oracle(what: RMSNormalization, x: np.ndarray[Any, Any], scale: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """RMSNormalization-23: "`normalized_axes` is `[axis, ..., rank of X - 1]`".

    "this operator casts all input variables" to `stash_type`, "and finally cast `Normalized` back to the original type
    of `X`".
    """
    if np.broadcast_shapes(x.shape, scale.shape) != x.shape:
        raise ValueError("Y has the shape of X, to which the scale is spread")
    stash = onnx.helper.tensor_dtype_to_np_dtype(what.stash_type or TensorProto.FLOAT)
    wide = x.astype(stash).astype(np.float64)
    axes = tuple(range(what.axis % x.ndim, x.ndim))
    even = wide / np.sqrt((wide**2).mean(axes, keepdims=True) + what.epsilon)
    return np.asarray((even.astype(x.dtype).astype(np.float64) * scale.astype(np.float64)).astype(scale.dtype))


def _as_run(attributes: Mapping[str, Any]) -> RMSNormalization:
    """Lift what onnxruntime 1.32.0 runs: double in double, all else in float, whatever `stash_type` is."""
    return dataclasses.replace(_as_told(attributes), stash_type=None)


def _as_told(attributes: Mapping[str, Any]) -> RMSNormalization:
    return RMSNormalization(attributes["axis"], attributes["epsilon"], attributes["stash_type"])


def normal(what: RMSNormalization, operands: Operands) -> tuple[RMSNormalization, Operands]:
    """Count the axis from the front, and name the type, where rank and type are known."""
    dtype = first(operands).dtype
    if what.stash_type is None and dtype is not None:
        wide = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
        what = dataclasses.replace(what, stash_type=wide)
    return one_axis(what, operands)


def _typed(what: RMSNormalization, operands: Operands) -> Reason | None:
    return Reason("the element type of X is unknown", missing=True) if what.stash_type is None else None


def _of_two_types(what: RMSNormalization, operands: Operands) -> Reason | None:
    data, scale = first(operands), operands[1] or Facts()
    if None in (data.dtype, scale.dtype, what.stash_type):
        return Reason("the element types of X and scale are unknown", missing=True)
    if data.dtype == scale.dtype:
        return Reason("X and scale have one type, which ONNX's body multiplies in")
    known = what.axis < 0 or data.rank is not None
    return None if known else Reason("the rank is unknown", missing=True)


def _types(what: RMSNormalization, operands: Operands) -> Mapping[str, Any]:
    axes = range(what.axis, 0 if what.axis < 0 else first(operands).rank or 0)
    scaled = (operands[1] or Facts()).dtype
    within = TensorProto.DOUBLE if scaled == TensorProto.DOUBLE else what.stash_type  # a double shows how float rounds
    types = {"within": within, "to": first(operands).dtype, "scaled": scaled}
    return {"axes": tuple(axes), "epsilon": what.epsilon, **types}


@lowering(18, applies_if=_of_two_types, bind=_types, rounds=True)
def computed(x, scale, axes: Sequence[int], epsilon: float, within: int, to: int, scaled: int):
    """Compute it by the equations of the text, and multiply in the type of the scale."""
    wide = op.Cast(x, to=within)
    even = wide / op.Sqrt(op.ReduceMean(wide * wide, axes, keepdims=1) + op.Cast(epsilon, to=within))
    return op.Cast(op.Cast(even, to=to), to=scaled) * scale


OPERATOR = Operator(
    name="RMSNormalization",
    meaning=RMSNormalization,
    versions=(Version(23, lift=_as_run, spec=_as_told, applies_if=_typed),),
    operands=("X", "scale"),
    oracle=oracle,
    normal=normal,
    lowerings=(computed,),
    wider_types=COMPUTED,
    traits=Traits(floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS), inner_sum=InnerSum(SumUse.SCALED, from_axis)),
)
