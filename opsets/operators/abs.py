"""Abs: the absolute value."""

from __future__ import annotations

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, SIGNED, UNSIGNED
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


def _of_unsigned(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in UNSIGNED else Reason("the input is not unsigned", missing=dtype is None)


def _of_floats(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in FLOATS else Reason("the input is not of floats", missing=dtype is None)


@lowering(14, applies_if=_of_unsigned)
def of_unsigned(x):
    """Return unsigned numbers as they are."""
    return op.Identity(x)


@lowering(14, applies_if=_of_floats)
def parted(x):
    """Add what is above zero to the negative of what is below: the sum of a zero and 0.0 is 0.0."""
    return op.Add(op.Relu(x), op.Relu(op.Neg(x)))


# 0 - x, because -x of 0.0 is -0.0.
@lowering(14)
def chosen(x):
    """Choose the number where it is above zero, and zero minus the number elsewhere."""
    zero = op.CastLike(0, x)
    return op.Where(op.Greater(x, zero), x, op.Sub(zero, x))


def _of_signed(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in SIGNED else Reason("the input is not of signed integers", missing=dtype is None)


@lowering(14, applies_if=_of_signed)
def larger(x):
    """Take the larger of an integer and its negative, which the lowest integer is itself."""
    return op.Max(x, op.Neg(x))


OPERATOR = plain(
    "Abs",
    (1, 6, 13),
    ("X",),
    np.abs,
    (of_unsigned, parted, chosen, larger),
    wider_types=QUOTIENT,
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.absolute,
        floats=(Trait.MOVES,),
        inverse=lambda value: (value, -value),
    ),
)
