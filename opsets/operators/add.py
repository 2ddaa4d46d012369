"""Add: the sum of two tensors, broadcast."""

import numpy as np

from opshift.opsets.carriers import WRAPPED
from opshift.opsets.plain import plain

OPERATOR = plain("Add", (7, 13, 14), ("A", "B"), np.add, carriers=WRAPPED)
