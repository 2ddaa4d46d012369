"""Xor: whether one of two booleans holds, and not the other, broadcast."""

import numpy as np

from opshift.opsets.registry.plain import beside, plain

OPERATOR = plain("Xor", (7,), ("A", "B"), np.logical_xor, neutral=beside(0))
