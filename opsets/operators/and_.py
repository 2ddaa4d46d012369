"""And: the conjunction of two boolean tensors, broadcast."""

import numpy as np

from opshift.opsets.plain import plain

OPERATOR = plain("And", (7,), ("A", "B"), np.logical_and)
