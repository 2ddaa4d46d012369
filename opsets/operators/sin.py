"""Sin: the sine of each element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sin-22: "Calculates the sine of the given input tensor, element-wise"."""
    return np.asarray(np.sin(x.astype(np.float64))).astype(x.dtype)


def _not_double(meaning: Plain, operands: Operands) -> Reason | None:
    """Refuse double, for which onnxruntime 1.32.0 has a kernel of Sin and none of Tan."""
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return Reason("onnxruntime has no kernel of Tan for double") if dtype == TensorProto.DOUBLE else None


@lowering(13, applies_if=_not_double, rounds=True)
def by_half_tangent(x):
    """Compute 2 / (t + 1 / t) with t = tan(x / 2)."""
    tangent = op.Tan(x * 0.5)
    return 2.0 / (tangent + op.Reciprocal(tangent))


OPERATOR = plain(
    "Sin",
    (7, 22),
    ("input",),
    _oracle,
    (by_half_tangent,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, inverse=lambda value: (math.asin(value),)),
)
