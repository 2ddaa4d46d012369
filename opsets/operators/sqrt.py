"""Sqrt: square roots of elements."""

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


# To the power of a half -inf is inf. The sign comes last: Where of onnxruntime makes 0.0 of -0.0.
@lowering(13, rounds=True)
def by_power(x):
    """Raise to the power of a half; below zero 0 / 0 is NaN, and -0.0, which has a negative reciprocal, remains."""
    zero = op.CastLike(0.0, x)
    root = op.Where(op.Less(x, zero), (x - x) / zero, op.Pow(x, op.CastLike(0.5, x)))
    return root * (1.0 - op.CastLike(op.Less(op.Reciprocal(x), zero), x) * 2.0)


OPERATOR = plain(
    "Sqrt",
    (1, 6, 13),
    ("X",),
    lambda x: np.sqrt(x).astype(x.dtype),
    (by_power,),
    wider_types=QUOTIENT,
    traits=Traits(merges=elementwise, domains={0: Interval(0)}, inverse=lambda value: (value * value,)),
)
