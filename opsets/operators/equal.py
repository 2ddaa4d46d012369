"""Equal: which elements of two tensors are equal; Equal-7 takes bool, int32 and int64 only."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.facts import FLOATS, INTEGERS, Dim
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import MOVED


def _floats(meaning: Plain, operands: Operands) -> Reason | None:
    return None if first(operands).dtype in FLOATS else Reason("the inputs are not known to be floats")


@lowering(13, applies_if=_floats)
def by_order(a, b):
    """Check that neither is less, and neither is NaN (a NaN is neither below 1 nor above -1)."""
    same = op.Not(op.Or(op.Less(a, b), op.Greater(a, b)))
    numbers = op.And(op.Or(op.Less(a, 1.0), op.Greater(a, -1.0)), op.Or(op.Less(b, 1.0), op.Greater(b, -1.0)))
    return op.And(same, numbers)


def _booleans(meaning: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype == TensorProto.BOOL else Reason("the inputs are not bool", missing=dtype is None)


@lowering(13, applies_if=_booleans)
def both_or_neither(a, b):
    """Ask whether not one of two booleans holds alone."""
    return op.Not(op.Xor(a, b))


def _integers(meaning: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in INTEGERS else Reason("the inputs are not of integers", missing=dtype is None)


@lowering(13, applies_if=_integers)
def neither_less(a, b):
    """Ask whether neither of two integers is less."""
    return op.Not(op.Or(op.Less(a, b), op.Greater(a, b)))


@lowering(13, applies_if=_integers)
def without_difference(a, b):
    """Ask whether the difference of two integers is zero, also one that leaves the type."""
    return op.Not(op.Cast(op.Sub(a, b), to=9))


def _strings(meaning: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype == TensorProto.STRING else Reason("the inputs are not strings", missing=dtype is None)


@lowering(18, applies_if=_strings)
def by_number(a, b):
    """Number the different strings of both, and compare their numbers."""
    every = op.Concat(op.Reshape(a, [-1]), op.Reshape(b, [-1]), axis=0)
    _, _, number, _ = op.Unique(every, sorted=0)
    count = op.Reshape(op.Size(a), [1])
    one = op.Reshape(op.Slice(number, [0], count), op.Shape(a), allowzero=1)
    other = op.Reshape(op.Slice(number, count, [2147483647]), op.Shape(b), allowzero=1)
    return op.Equal(one, other)


def _equal(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    return np.equal(a, b).astype(bool)


def _of_dims(a: Dim, b: Dim) -> Dim:
    """Tell a symbol from a negative number, and from no other symbol."""
    if isinstance(a, str) and a == b:
        return True
    named = isinstance(a, str) or isinstance(b, str)
    return False if named and any(isinstance(one, int) and one < 0 for one in (a, b)) else None


OPERATOR = with_legacy_broadcast(
    plain(
        "Equal",
        (7, 11, 13, 19),
        ("A", "B"),
        _equal,
        (by_order, both_or_neither, neither_less, without_difference, by_number),
        wider_types=MOVED,
        traits=Traits(
            merges=elementwise, floats=(Trait.MOVES,), compares=True, flow=Flow.BOUNDED, equal_dims=broadcast
        ),
        of_dims=_of_dims,
    ),
    1,
)
