"""Or: the disjunction of two boolean tensors, broadcast."""

import numpy as np

from opshift.opsets.registry.plain import decided, plain

OPERATOR = plain("Or", (7,), ("A", "B"), np.logical_or, neutral=decided(1, 0))
