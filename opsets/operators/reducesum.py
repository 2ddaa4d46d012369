"""ReduceSum: the sum over some axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first, rank_known
from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import Reduction, reduction
from opshift.opsets.families.reduction_steps import length_of, one_axis_of, sum_of_halves, sum_with_last
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits


def _matrix(what: Reduction, operands: Operands, from_back: int) -> Reason | None:
    """Require one of the last two axes, which stays, of a type that MatMul accepts, and onnxruntime's kernel of it."""
    data = first(operands)
    if reason := rank_known(what, operands):
        return reason
    if data.dtype not in {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64}:
        return Reason("it is not of float, double, int32 or int64", missing=data.dtype is None)
    axis = one_axis_of(what, operands)
    if axis is None or axis != (data.rank or 0) - from_back or not what.keepdims:
        return Reason(f"it is not along the {'last' if from_back == 1 else 'last but one'} axis, which stays")
    return None


def _known(what: Reduction, operands: Operands) -> Reason | None:
    return None if length_of(what, operands) else Reason("the length of the axis is unknown, or zero", missing=True)


def _last(what: Reduction, operands: Operands) -> Reason | None:
    return _matrix(what, operands, 1) or _known(what, operands)


def _last_of_unknown_length(what: Reduction, operands: Operands) -> Reason | None:
    if reason := _matrix(what, operands, 1):
        return reason
    return Reason("the length of the axis is known") if _known(what, operands) is None else None


def _last_but_one(what: Reduction, operands: Operands) -> Reason | None:
    return _matrix(what, operands, 2) or _known(what, operands)


def _ones(what: Reduction, operands: Operands) -> Mapping[str, Any]:
    length = bounded(length_of(what, operands) or 1)
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or TensorProto.FLOAT)
    column = np.ones((length, 1), numpy_type)
    return {"column": Tensor(column), "row": Tensor(column.T), "one": Tensor(np.ones(1, numpy_type))}


@lowering(13, applies_if=_last, bind=_ones, rounds=True)
def by_column(data, axes, column: Sequence[int]):
    """Multiply by a column of ones."""
    return op.MatMul(data, column)


@lowering(15, applies_if=_last_of_unknown_length, bind=_ones, rounds=True)
def by_column_of_its_length(data, axes, one: Sequence[int]):
    """Multiply by a column of ones, as many as the axis is long at run time."""
    return op.MatMul(data, op.Expand(one, op.Concat(op.Shape(data, start=-1), [1], axis=0)))


@lowering(13, applies_if=_last_but_one, bind=_ones, rounds=True)
def by_row(data, axes, row: Sequence[int]):
    """Multiply a row of ones by it."""
    return op.MatMul(row, data)


OPERATOR = reduction(
    "ReduceSum",
    (1, 11, 13),
    np.sum,
    (by_column, by_row, by_column_of_its_length, sum_of_halves, sum_with_last),
    traits=Traits(
        merges=reduced,
        value_range=value_ranges.summed,
        floats=(Trait.SUMS,),
        flow=Flow.SUMMED,
        integers=Integers.WRAPPED,
    ),
)
