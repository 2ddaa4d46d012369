"""ReduceMean: the mean over some axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import Reduction, in_float, reduction
from opshift.opsets.families.reduction_steps import global_average, reduced_axes
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits

Array = np.ndarray[Any, Any]


def _mean(data: Array, **options: Any) -> Array:
    """ReduceMean-18: "Reduction over an empty set of values yields undefined"; onnxruntime 1.32.0 gives 0."""
    return np.asarray(np.mean(data, **options) if data.size else np.sum(data, **options))


def _number(what: Reduction, operands: Operands) -> int | None:
    """Return how many elements a mean is of, if that is known."""
    data, axes = first(operands), operands[1]
    if data.shape is None or (axes is not None and axes.known is None):
        return None
    dims = [data.dim(axis) for axis in reduced_axes(what, operands) or ()]
    known = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(known) if len(known) == len(dims) else None


def _averaged(what: Reduction, operands: Operands) -> Reason | None:
    if reason := dtype_known(what, operands):
        return reason
    axes = operands[1]
    known = axes is None or axes.known is not None
    return Reason("it reduces no axis") if known and reduced_axes(what, operands) == () else None


def _counted(what: Reduction, operands: Operands) -> Reason | None:
    if reason := _averaged(what, operands):
        return reason
    return None if _number(what, operands) else Reason("how many elements a mean is of is unknown, or zero", True)


def _uncounted(what: Reduction, operands: Operands) -> Reason | None:
    if reason := _averaged(what, operands):
        return reason
    return Reason("how many elements a mean is of is known") if _number(what, operands) else None


def _within(what: Reduction, operands: Operands) -> Mapping[str, Any]:
    bound = in_float(what, operands)
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(bound["within"] or TensorProto.FLOAT)
    return {**bound, "number": Tensor(np.array(_number(what, operands) or 1, numpy_type))}


@lowering(18, applies_if=_counted, bind=_within, rounds=True)
def of_sum(data, axes, keepdims: int, noop: int, within: int, to: int, number: Sequence[int]):
    """Divide the sum by the number of elements."""
    wide = op.Cast(data, to=within)
    total = op.ReduceSum(wide, axes, keepdims=keepdims, noop_with_empty_axes=noop)
    return op.Cast(total / number, to=to)


# Of nothing onnxruntime makes 0; and a mean of no elements is a quotient of none.
@lowering(18, applies_if=_uncounted, bind=_within, rounds=True)
def of_sum_and_sizes(data, axes, keepdims: int, noop: int, within: int, to: int):
    """Divide the sum by the number of elements, which is the quotient of the numbers before and after."""
    wide = op.Cast(data, to=within)
    total = op.ReduceSum(wide, axes, keepdims=keepdims, noop_with_empty_axes=noop)
    number = op.Max(op.Size(data) / op.Max(op.Size(total), 1), 1)
    return op.Cast(total / op.Cast(number, to=within), to=to)


OPERATOR = reduction(
    "ReduceMean",
    (1, 11, 13, 18),
    _mean,
    (global_average, of_sum, of_sum_and_sizes),
    traits=Traits(merges=reduced, floats=(Trait.SUMS, Trait.WEIGHS), flow=Flow.POINTWISE, integers=Integers.SUMS),
)
