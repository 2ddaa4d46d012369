"""ReduceMean: the mean over some axes."""

import numpy as np

from opshift.opsets.reduction import reduction

OPERATOR = reduction("ReduceMean", (1, 11, 13, 18), np.mean)
