"""Less: whether elements of one tensor are below those of another; Less-7 takes floats only."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.legacy_broadcast import with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain, two_floats, two_integers
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


def _wide(meaning: Plain, operands: Operands) -> Reason | None:
    wide = first(operands).dtype in (TensorProto.INT64, TensorProto.UINT64)
    return None if wide else Reason("the inputs are not int64 or uint64")


@lowering(13, applies_if=_wide)
def by_halves(a, b):
    """Compare by the upper halves, then by the lower ones, each exact as a double, and as int64."""
    upper_a = op.Div(a, 4294967296)
    upper_b = op.Div(b, 4294967296)
    lower_a = op.Cast(op.Sub(a, op.Mul(upper_a, 4294967296)), to=11)
    lower_b = op.Cast(op.Sub(b, op.Mul(upper_b, 4294967296)), to=11)
    below = op.Less(op.Cast(upper_a, to=11), op.Cast(upper_b, to=11))
    return op.Or(below, op.And(op.Equal(op.Cast(upper_a, to=7), op.Cast(upper_b, to=7)), op.Less(lower_a, lower_b)))


@lowering(16)
def one_way(a, b):
    """Check that the first is less than the second or equal to it, and not the other way round."""
    return op.And(op.LessOrEqual(a, b), op.Not(op.LessOrEqual(b, a)))


@lowering(13, applies_if=two_integers)
def not_the_larger(a, b):
    """Check that the first of two integers is not the larger of both."""
    return op.Not(op.Equal(op.Max(a, b), a))


@lowering(13, applies_if=two_floats)
def not_the_larger_float(a, b):
    """Check that the first is not the larger of both, and that both are numbers: a NaN equals nothing."""
    numbers = op.And(op.Equal(a, a), op.Equal(b, b))
    return op.And(numbers, op.Not(op.Equal(op.Max(a, b), a)))


@lowering(13)
def exchanged(a, b):
    """Check whether the second is greater than the first."""
    return op.Greater(b, a)


OPERATOR = with_legacy_broadcast(
    plain(
        "Less",
        (7, 9, 13),
        ("A", "B"),
        np.less,
        (by_halves, exchanged, one_way, not_the_larger, not_the_larger_float),
        wider_types=ORDERED,
        traits=Traits(
            merges=elementwise, floats=(Trait.MOVES,), compares=True, flow=Flow.BOUNDED, equal_dims=broadcast
        ),
    ),
    1,
)
