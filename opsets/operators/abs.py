"""Abs: the absolute value."""

import numpy as np

from opshift.opsets.carriers import QUOTIENT
from opshift.opsets.plain import plain

OPERATOR = plain("Abs", (6, 13), ("X",), np.abs, carriers=QUOTIENT)
