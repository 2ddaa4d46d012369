"""Sub: the difference of two tensors, broadcast."""

import numpy as np

from opshift.opsets.carriers import WRAPPED
from opshift.opsets.plain import plain

OPERATOR = plain("Sub", (7, 13, 14), ("A", "B"), np.subtract, carriers=WRAPPED)
