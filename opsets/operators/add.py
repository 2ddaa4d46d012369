"""Add: the sum of two tensors, broadcast."""

import numpy as np

from opshift.opsets.carriers import WRAPPED
from opshift.opsets.lowering import lowering, op
from opshift.opsets.plain import beside, plain


@lowering(13)
def of_negative(a, b):
    """Subtract the negative of the second."""
    return op.Sub(a, op.Neg(b))


OPERATOR = plain(
    "Add", (7, 13, 14), ("A", "B"), np.add, (of_negative,), carriers=WRAPPED, neutral=beside(0, floats=-0.0)
)
