"""LpNormalization: an axis divided by its Lp norm. Version 22 adds bfloat16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import along_axis
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.inner_sums import InnerSum, SumUse
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class LpNormalization:
    """The axis, and the p of the Lp norm: 1 or 2."""

    axis: int = -1
    p: int = 2


def oracle(what: LpNormalization, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """LpNormalization-22: "When the Lp norm is zero ..., the output is defined to be zero".

    Squares underflow and overflow as in onnxruntime 1.32.0; those of halves are taken in float.
    """
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    powers = np.abs(wide) if what.p == 1 else wide * wide
    norm = powers.sum(what.axis, keepdims=True) ** wide.dtype.type(1 / what.p)
    return np.asarray(np.where(norm == 0, 0, wide / norm).astype(x.dtype))


def _norm(what: LpNormalization, operands: Operands, p: int) -> Reason | None:
    if what.p != p:
        return Reason(f"p is not {p}")
    return dtype_known(what, operands)


def _distances(what: LpNormalization, operands: Operands) -> Reason | None:
    return _norm(what, operands, 1)


def _lengths(what: LpNormalization, operands: Operands) -> Reason | None:
    return _norm(what, operands, 2)


def _types(what: LpNormalization, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype
    within = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    zero = Tensor(np.array(0, onnx.helper.tensor_dtype_to_np_dtype(within)))
    return {"axes": (what.axis,), "zero": zero, "within": within, "to": dtype}


@lowering(18, applies_if=_distances, bind=_types, rounds=True)
def by_l1(x, axes: Sequence[int], zero: Sequence[int], within: int, to: int):
    """Divide by the sum of absolute values, where that is not zero; in float where the input is of halves."""
    wide = op.Cast(x, to=within)
    norm = op.ReduceL1(wide, axes, keepdims=1)
    return op.Cast(op.Where(op.Equal(norm, zero), zero, wide / norm), to=to)


@lowering(18, applies_if=_lengths, bind=_types, rounds=True)
def by_l2(x, axes: Sequence[int], zero: Sequence[int], within: int, to: int):
    """Divide by the root of the sum of squares, where that is not zero; in float where the input is of halves."""
    wide = op.Cast(x, to=within)
    norm = op.ReduceL2(wide, axes, keepdims=1)
    return op.Cast(op.Where(op.Equal(norm, zero), zero, wide / norm), to=to)


OPERATOR = Operator(
    name="LpNormalization",
    meaning=LpNormalization,
    versions=(Version(1), Version(22)),
    operands=("input",),
    oracle=oracle,
    lowerings=(by_l1, by_l2),
    wider_types=COMPUTED,
    traits=Traits(
        merges=along_axis,
        floats=(Trait.SUMS, Trait.NORMALIZES, Trait.SQUARES, Trait.WEIGHS),
        inner_sum=InnerSum(SumUse.SCALED),
    ),
)
