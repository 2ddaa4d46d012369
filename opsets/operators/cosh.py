"""Cosh: the hyperbolic cosine of each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Cosh-22: "Calculates the hyperbolic cosine of the given input tensor element-wise"."""
    return np.asarray(np.cosh(x.astype(np.float64))).astype(x.dtype)


@lowering(13, rounds=True)
def by_exp(x):
    """Add up half of exp(|x|) and of its inverse, by the root of exp(|x|): the power itself overflows first."""
    root = op.Exp(op.Abs(x) * 0.5)
    return root * 0.5 * root + 0.5 / root / root


OPERATOR = plain(
    "Cosh",
    (9, 22),
    ("input",),
    _oracle,
    (by_exp,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, domains={0: Interval(-16, 16)}),
)
