"""Atanh: the inverse hyperbolic tangent of each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Atanh-22: "Calculates the hyperbolic arctangent of the given input tensor element-wise"."""
    return np.asarray(np.arctanh(x.astype(np.float64))).astype(x.dtype)


# With u = 1 + x rounded, log(u) / (u - 1) is log(1 + x) / x, of which u has lost digits.
@lowering(13, rounds=True)
def by_log(x):
    """Halve the difference of log(1 + x) and log(1 - x), each as a multiple of x."""
    one = op.CastLike(1.0, x)
    total = x + one
    rest = one - x
    above = op.Where(op.Equal(total, one), one, op.Log(total) / (total - one))
    below = op.Where(op.Equal(rest, one), one, op.Log(rest) / (rest - one))
    return (above + below) * x * 0.5


OPERATOR = plain(
    "Atanh",
    (9, 22),
    ("input",),
    _oracle,
    (by_log,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, domains={0: Interval(-1, 1)}),
)
