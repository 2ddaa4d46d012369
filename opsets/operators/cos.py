"""Cos: the cosine of each element."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
    """Cos-22: "Calculates the cosine of the given input tensor, element-wise"."""
    return np.asarray(np.cos(x.astype(np.float64))).astype(x.dtype)


def _narrow(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype in (TensorProto.FLOAT, TensorProto.FLOAT16):
        return None
    return Reason("double has too few digits for its own cosines near zero", missing=dtype is None)


def _type(what: Plain, operands: Operands) -> Mapping[str, Any]:
    return {"to": first(operands).dtype}


# Near zero it cancels: no float is nearer to an odd multiple of pi / 2 than 1e-9 or so, which leaves 7 digits of 16.
@lowering(13, applies_if=_narrow, bind=_type, rounds=True)
def by_half_sine(x, to: int):
    """Compute 1 - 2 sin(x / 2)^2 in double."""
    sine = op.Sin(op.Cast(x, to=11) * 0.5)
    return op.Cast(1.0 - sine * sine * 2.0, to=to)


OPERATOR = plain(
    "Cos",
    (7, 22),
    ("input",),
    _oracle,
    (by_half_sine,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, inverse=lambda value: (math.acos(value),)),
)
