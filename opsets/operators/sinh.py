"""Sinh: the hyperbolic sine of each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sinh-22: "Calculates the hyperbolic sine of the given input tensor element-wise"."""
    return np.asarray(np.sinh(x.astype(np.float64))).astype(x.dtype)


# With u = exp(x) rounded, (u - 1) / log(u) is (exp(x) - 1) / x, of which u - 1 has lost digits. The sign comes last:
# Where of onnxruntime makes 0.0 of -0.0.
@lowering(13, rounds=True)
def by_exp(x):
    """Multiply x by (m + m / (m + 1)) / 2x near zero, where m is exp(|x|) - 1; its sign by exp(|x|) / 2 far away."""
    size = op.Abs(x)
    power = op.Exp(size)
    share = op.Where(op.Equal(power, 1.0), op.CastLike(1.0, x), (power - 1.0) / op.Log(power))
    near = (share + share / (share * size + 1.0)) * 0.5
    root = op.Exp(size * 0.5)
    far = root * 0.5 * root - 0.5 / root / root
    return op.Clip(x, -1.0, 1.0) * op.Where(op.Less(size, 1.0), near, far)


OPERATOR = plain(
    "Sinh",
    (9, 22),
    ("input",),
    _oracle,
    (by_exp,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, domains={0: Interval(-16, 16)}),
)
