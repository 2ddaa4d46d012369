"""ReduceMin: the minimum over some axes."""

import numpy as np

from opshift.opsets.families.reduction import reduction

OPERATOR = reduction("ReduceMin", (1, 11, 12, 13, 18, 20), np.min, in_any_order=True)
