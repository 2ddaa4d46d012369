"""Asinh: the inverse hyperbolic sine of each element."""

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
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Asinh-22: "Calculates the hyperbolic arcsine of the given input tensor element-wise"."""
    return np.asarray(np.arcsinh(x.astype(np.float64))).astype(x.dtype)


def _far(what: Plain, operands: Operands) -> Mapping[str, Any]:
    """From where on the square of a number has all digits of what is 1 larger, and is not infinite."""
    half = first(operands).dtype == TensorProto.FLOAT16
    return in_own_type(far=2.0**10 if half else 2.0**30, two=math.log(2))(what, operands)


# With u = 1 + z rounded, log(u) / (u - 1) is log(1 + z) / z, of which u has lost digits. The sign comes last: Where of
# onnxruntime makes 0.0 of -0.0.
@lowering(13, applies_if=known_type, bind=_far, rounds=True)
def by_log(x, far: Sequence[int], two: Sequence[int]):
    """Compute log(1 + z), where z is a + a / (1 / a + sqrt(1 + 1 / a^2)), of a = |x|; far away log(a) + log(2)."""
    size = op.Abs(x)
    part = op.Reciprocal(size)
    ratio = op.Reciprocal(part + op.Sqrt(part * part + 1.0)) + 1.0
    total = size * ratio + 1.0
    share = op.Where(op.Equal(total, 1.0), op.CastLike(1.0, x), op.Log(total) / (total - 1.0)) * ratio
    whole = op.Where(op.Greater(size, far), op.Log(size) + two, share * size)
    return op.Clip(x, -1.0, 1.0) * op.Where(op.Less(size, 1.0), share, whole)


OPERATOR = plain(
    "Asinh",
    (9, 22),
    ("input",),
    _oracle,
    (by_log,),
    wider_types=COMPUTED,
    traits=Traits(
        merges=elementwise,
    ),
)
