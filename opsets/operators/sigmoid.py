"""Sigmoid: the logistic function of each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sigmoid-13: "the sigmoid function, y = 1 / (1 + exp(-x)), is applied to the tensor elementwise"."""
    return np.asarray(np.exp(-np.logaddexp(0, -x.astype(np.float64)))).astype(x.dtype)


@lowering(13, rounds=True)
def by_exp(x):
    """Divide 1, or below zero e = exp(-|x|), by 1 + e, which does not overflow."""
    power = op.Exp(op.Neg(op.Abs(x)))
    return op.Where(op.Less(x, 0.0), power, op.CastLike(1.0, x)) / (power + 1.0)


OPERATOR = plain(
    "Sigmoid",
    (1, 6, 13),
    ("X",),
    _oracle,
    (by_exp,),
    wider_types=COMPUTED,
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.zero_to_one,
        floats=(Trait.ADDS_ONE,),
        inverse=lambda value: (math.log(value / (1 - value)),),
    ),
)
