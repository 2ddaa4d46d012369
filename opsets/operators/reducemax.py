"""ReduceMax: the maximum over some axes."""

import numpy as np

from opshift.opsets.families.reduction import reduction

OPERATOR = reduction("ReduceMax", (1, 11, 12, 13, 18, 20), np.max, in_any_order=True)
