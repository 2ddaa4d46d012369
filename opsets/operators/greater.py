"""Greater: Less with its operands exchanged."""

import numpy as np

from opshift.opsets.carriers import ORDERED
from opshift.opsets.lowering import lowering, op
from opshift.opsets.plain import plain


@lowering(13)
def exchanged(a, b):
    """Ask whether the second is less than the first."""
    return op.Less(b, a)


OPERATOR = plain("Greater", (7, 9, 13), ("A", "B"), np.greater, (exchanged,), carriers=ORDERED)
