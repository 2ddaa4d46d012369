"""Tanh: the hyperbolic tangent of each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Tanh-13: "Calculates the hyperbolic tangent of the given input tensor element-wise"."""
    return np.asarray(np.tanh(x.astype(np.float64))).astype(x.dtype)


# With u = exp(z) rounded, (u - 1) / log(u) is (exp(z) - 1) / z, of which u - 1 has lost digits. The sign comes last:
# Where of onnxruntime makes 0.0 of -0.0.
@lowering(13, rounds=True)
def by_exp(x):
    """Divide -m by m + 2, where m is exp(-2 |x|) - 1, which is no more than 1; near zero multiply x by it over |x|."""
    size = op.Abs(x)
    twice = size * -2.0
    power = op.Exp(twice)
    share = op.Where(op.Equal(power, 1.0), op.CastLike(1.0, x), (power - 1.0) / op.Log(power))
    near = share * 2.0 / (share * twice + 2.0)
    far = (1.0 - power) / (power + 1.0)
    return op.Clip(x, -1.0, 1.0) * op.Where(op.Less(size, 1.0), near, far)


OPERATOR = plain(
    "Tanh",
    (1, 6, 13),
    ("input",),
    _oracle,
    (by_exp,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, inverse=lambda value: (math.atanh(value),)),
)
