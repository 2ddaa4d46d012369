"""Not: the negation of a boolean tensor."""

import numpy as np

from opshift.opsets.registry.plain import plain

OPERATOR = plain("Not", (1,), ("X",), np.logical_not)
