"""Reciprocal: one over each element."""

import numpy as np

from opshift.opsets.carriers import QUOTIENT
from opshift.opsets.plain import plain

OPERATOR = plain("Reciprocal", (6, 13), ("X",), lambda x: np.reciprocal(x).astype(x.dtype), carriers=QUOTIENT)
