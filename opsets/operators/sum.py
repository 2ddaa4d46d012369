"""Sum: the sum of several tensors; broadcast since 8, of one shape before."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.families.scalars import AS_VECTOR, alone
from opshift.opsets.registry.lowering import Reason, lowering, meaning
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import more_than_two, one_shape, plain, single_operand
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits


def _two(meaning: Any, operands: Operands) -> Reason | None:
    return None if len(operands) == 2 else Reason(f"there are {len(operands)} operands, not two")


@lowering(13, applies_if=_two)
def added(a, b):
    """Add two tensors, which Add-7 broadcasts."""
    return a + b


@lowering(13, applies_if=more_than_two, variadic=True, rounds=True)
def in_pairs(a, between, b):
    """Add up all but the last, and add the last."""
    return meaning.Sum(a, between) + b


OPERATOR = plain(
    "Sum",
    (1, 6, 8, 13),
    (),
    lambda *x: functools.reduce(np.add, x),
    (added, in_pairs, alone, *AS_VECTOR),
    variadic=True,
    neutral=single_operand,
    applies_if={6: one_shape},
    traits=Traits(merges=elementwise, floats=(Trait.SUMS,), flow=Flow.SUMMED, equal_dims=broadcast),
)
