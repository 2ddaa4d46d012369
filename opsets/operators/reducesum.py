"""ReduceSum: the sum over some axes."""

import numpy as np

from opshift.opsets.reduction import reduction

OPERATOR = reduction("ReduceSum", (1, 11, 13), np.sum)
