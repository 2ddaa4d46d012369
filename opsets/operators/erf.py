"""Erf: the error function of each element. Since version 9."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import APPROXIMATE, Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import SUMMED

_erf = np.vectorize(math.erf, [np.float64])


def erf(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Erf-9: "the error function of the given input tensor element-wise"; integers give integers."""
    return np.asarray(_erf(x.astype(np.float64)).astype(x.dtype))


def _held(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return None
    return Reason("its element type holds too few digits of the polynomials", missing=dtype is None)


# The quotient is the best of these degrees for erf(x) / x by x^2 up to 15.4, from where on erf(x) is 1 in float: it is
# 1.9e-8 of itself off. No term is negative, so that no digits cancel. Computed in float, it is 3.3 * 2^-23 of itself
# off at most, over all floats from 2^-10 on (below it is one product); `APPROXIMATE` allows 4 of these units.
@lowering(13, applies_if=_held, assumes=lambda what, operands: APPROXIMATE, rounds=True)
def by_polynomials(x):
    """Divide two polynomials of the square, at most 2^-21 of each result off."""
    square = op.Min(x * x, 15.4)
    above = square * 2.046597878817222e-06 + 2.8485049641815254e-04
    above = (above * square + 3.7716167224653393e-03) * square + 5.2766533086135264e-02
    above = (above * square + 1.9056831645436955e-01) * square + 1.1283791458003023
    below = square * 3.8054025929503817e-05 + 1.1636829158790966e-03
    below = (below * square + 1.4981313989324974e-02) * square + 1.1417275031492886e-01
    below = (below * square + 5.0221950484127644e-01) * square + 1.0
    return op.Clip(x * (above / below), -1.0, 1.0)


OPERATOR = plain(
    "Erf",
    (9, 13),
    ("input",),
    erf,
    (by_polynomials,),
    wider_types=SUMMED,
    traits=Traits(
        merges=elementwise,
        inverse=lambda value: (NormalDist().inv_cdf((value + 1) / 2) / math.sqrt(2),),
        approximated=0.0,
    ),
)
