"""Log: the natural logarithm of each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Log-13: "Calculates the natural log of the given input tensor, element-wise"."""
    return np.asarray(np.log(x.astype(np.float64))).astype(x.dtype)


@lowering(18, rounds=True)
def of_sum(x):
    """Take the logarithm of the sum of one element each."""
    return op.ReduceLogSum(op.Unsqueeze(x, [-1]), [-1], keepdims=0)


OPERATOR = plain(
    "Log",
    (1, 6, 13),
    ("input",),
    _oracle,
    (of_sum,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, domains={0: Interval(0, zero=False)}, inverse=lambda value: (math.exp(value),)),
)
