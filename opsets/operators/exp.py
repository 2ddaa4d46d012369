"""Exp: the exponential of each element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, in_own_type, plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Exp-13: "Calculates the exponential of the given input tensor, element-wise"."""
    return np.asarray(np.exp(x.astype(np.float64))).astype(x.dtype)


_BASES: Mapping[int, tuple[float, float]] = {
    TensorProto.DOUBLE: (2.718281828459045, 5.318237706605891e-17),
    TensorProto.FLOAT: (2.7182817459106445, 3.0367859981727844e-08),
    TensorProto.FLOAT16: (2.716796875, 5.464331160648754e-04),
}
"""By element type, the largest number b that is not above e, and the logarithm of e / b."""


def _typed(what: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype in _BASES:
        return None
    return Reason("the element type holds too few digits of e", missing=dtype is None)


def _base(what: Plain, operands: Operands) -> Mapping[str, Any]:
    base, lost = _BASES[first(operands).dtype or 0]
    return in_own_type(base=base, lost=lost)(what, operands)


# Of infinities, and where the power is one, the factor counts for nothing.
@lowering(13, applies_if=_typed, bind=_base, rounds=True)
def by_power(x, base: Sequence[int], lost: Sequence[int]):
    """Raise e, rounded down to b, and multiply by 1 + x log(e / b)."""
    factor = op.Where(op.Less(op.Abs(x), 1000.0), x * lost + 1.0, op.CastLike(1.0, x))
    return op.Pow(base, x) * factor


OPERATOR = plain(
    "Exp",
    (1, 6, 13),
    ("input",),
    _oracle,
    (by_power,),
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, domains={0: Interval(-16, 16)}, inverse=lambda value: (math.log(value),)),
)
