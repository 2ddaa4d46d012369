"""Neg: the negative value."""

import numpy as np

from opshift.opsets.carriers import WRAPPED
from opshift.opsets.plain import plain

OPERATOR = plain("Neg", (6, 13), ("X",), np.negative, carriers=WRAPPED)
