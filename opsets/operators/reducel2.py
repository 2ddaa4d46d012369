"""ReduceL2: the root of the sum of squares over some axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import reduced
from opshift.opsets.families.reduction import Reduction, in_float, reduction
from opshift.opsets.registry.facts import INTEGERS
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits

Array = np.ndarray[Any, Any]


def _l2(data: Array, **options: Any) -> Array:
    result: Array = np.sqrt(np.sum(np.square(data), **options))
    return result


def _floats(what: Reduction, operands: Operands) -> Reason | None:
    whole = first(operands).dtype in INTEGERS
    return Reason("the data is of integers") if whole else dtype_known(what, operands)


@lowering(18, applies_if=_floats, bind=in_float, rounds=True)
def root_of_squares(data, axes, keepdims: int, noop: int, within: int, to: int):
    """Compute the root of the sum of squares, in float for 16-bit floats."""
    wide = op.Cast(data, to=within)
    squares = op.ReduceSum(wide * wide, axes, keepdims=keepdims, noop_with_empty_axes=noop)
    return op.Cast(op.Sqrt(squares), to=to)


def _integers(what: Reduction, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    if dtype == TensorProto.UINT64:
        return Reason("neither a double nor int64 holds the sum")
    return None if dtype in INTEGERS else Reason("the data is of floats")


@lowering(18, applies_if=_integers, bind=in_float)
def whole_root_of_squares(data, axes, keepdims: int, noop: int, within: int, to: int):
    """Compute the root in double, and subtract one if its square is above the sum.

    The root of the rounded sum is never below a whole root: of k * k, rounded by at most 2^-53 of itself, it departs
    from k by less than k's own half unit. Above it may be by rounding up, as of k * k - 1 for a k of 2^30.
    """
    squares = op.ReduceSum(data * data, axes, keepdims=keepdims, noop_with_empty_axes=noop)
    total = op.Cast(squares, to=7)
    root = op.Cast(op.Sqrt(op.Cast(total, to=11)), to=7)
    return op.Cast(root - op.Cast(op.Greater(root * root, total), to=7), to=to)


OPERATOR = reduction(
    "ReduceL2",
    (1, 11, 13, 18),
    _l2,
    (root_of_squares, whole_root_of_squares),
    body_unused="it takes the root in float, whatever the input is",
    traits=Traits(merges=reduced, floats=(Trait.SUMS,), flow=Flow.SUMMED, integers=Integers.SQUARES),
)
