"""Acosh: the inverse hyperbolic cosine of each element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, in_own_type, known_type, plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Acosh-22: "Calculates the hyperbolic arccosine of the given input tensor element-wise"."""
    return np.asarray(np.arccosh(x.astype(np.float64))).astype(x.dtype)


def _far(what: Plain, operands: Operands) -> Mapping[str, Any]:
    """From where on the square of a number has all digits of what is 1 larger, and is not infinite."""
    half = first(operands).dtype == TensorProto.FLOAT16
    return in_own_type(far=2.0**10 if half else 2.0**30, two=math.log(2))(what, operands)


# With u = 1 + z rounded, z log(u) / (u - 1) has the digits of log(1 + z) that u has lost near 1.
@lowering(13, applies_if=known_type, bind=_far, rounds=True)
def by_log(x, far: Sequence[int], two: Sequence[int]):
    """Compute log(1 + z), where z is x - 1 + sqrt(x - 1) sqrt(x + 1); far away log(x) + log(2)."""
    above = x - 1.0
    more = above + op.Sqrt(above) * op.Sqrt(x + 1.0)
    total = more + 1.0
    near = op.Where(op.Equal(total, 1.0), more, op.Log(total) * more / (total - 1.0))
    return op.Where(op.Greater(x, far), op.Log(x) + two, near)


OPERATOR = plain(
    "Acosh",
    (9, 22),
    ("input",),
    _oracle,
    (by_log,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, domains={0: Interval(1)}),
)
