"""Mul: the product of two tensors, broadcast."""

import numpy as np

from opshift.opsets.carriers import WRAPPED
from opshift.opsets.plain import beside, plain

OPERATOR = plain("Mul", (7, 13, 14), ("A", "B"), np.multiply, carriers=WRAPPED, neutral=beside(1))
