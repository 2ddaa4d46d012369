"""Sub: the difference of two tensors, broadcast."""

import numpy as np

from opshift.opsets.carriers import WRAPPED
from opshift.opsets.lowering import lowering, op
from opshift.opsets.plain import beside, plain


@lowering(13)
def of_negative(a, b):
    """Add the negative of the second."""
    return op.Add(a, op.Neg(b))


OPERATOR = plain(
    "Sub", (7, 13, 14), ("A", "B"), np.subtract, (of_negative,), carriers=WRAPPED, neutral=beside(0, right_only=True)
)
