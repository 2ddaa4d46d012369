"""ReduceProd: the product over some axes."""

import numpy as np

from opshift.opsets.families.reduction import reduction

OPERATOR = reduction("ReduceProd", (1, 11, 13, 18), np.prod)
