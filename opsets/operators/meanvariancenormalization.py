"""MeanVarianceNormalization: mean 0 and variance 1 over some axes. Since version 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, listed
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class MeanVarianceNormalization:
    """The axes over which mean and variance are computed."""

    axes: tuple[int, ...] = (0, 2, 3)


def oracle(what: MeanVarianceNormalization, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """MeanVarianceNormalization-9: "(X-EX)/sqrt(E(X-EX)^2)".

    Its function body adds 1e-9 to the root, the text and onnxruntime 1.32.0 do not.
    """
    wide = x.astype(np.float64)
    away = wide - wide.mean(what.axes, keepdims=True)
    return np.asarray((away / np.sqrt((away**2).mean(what.axes, keepdims=True))).astype(x.dtype))


def _types(what: MeanVarianceNormalization, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype
    within = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    return {"axes": what.axes, "within": within, "to": dtype}


@lowering(18, applies_if=dtype_known, bind=_types, rounds=True)
def by_distance(x, axes: Sequence[int], within: int, to: int):
    """Square the distances from the mean, in float for 16-bit floats, whose squares overflow."""
    wide = op.Cast(x, to=within)
    away = wide - op.ReduceMean(wide, axes, keepdims=1)
    spread = op.Sqrt(op.ReduceMean(away * away, axes, keepdims=1))
    return op.Cast(away / spread, to=to)


OPERATOR = Operator(
    name="MeanVarianceNormalization",
    meaning=MeanVarianceNormalization,
    # In a function onnxruntime 1.32.0 infers the body of 13 without the default: "One and only one of the attributes
    # 'value', 'value_*' or 'sparse_value' must be specified for a Constant node".
    versions=(Version(9), Version(13, write=lambda what, operands: {"axes": what.axes}, explicit=frozenset({"axes"}))),
    operands=("X",),
    oracle=oracle,
    lowerings=(by_distance,),
    wider_types=COMPUTED,
    body_unused="the difference of two means of squares cancels, and the text does not add 1e-9",
    traits=Traits(
        floats=(Trait.SUMS, Trait.NORMALIZES, Trait.SQUARES, Trait.WEIGHS),
        inner_sum=InnerSum(SumUse.CENTERED, listed, bare=True),
    ),
)
