"""Sqrt: square roots of elements."""

import numpy as np

from opshift.opsets.carriers import QUOTIENT
from opshift.opsets.plain import plain

OPERATOR = plain("Sqrt", (6, 13), ("X",), lambda x: np.sqrt(x).astype(x.dtype), carriers=QUOTIENT)
