"""ReduceSum: the sum over some axes."""

import numpy as np

from opshift.opsets.families.reduction import reduction

OPERATOR = reduction("ReduceSum", (1, 11, 13), np.sum)
