"""Max: the largest of several tensors, broadcast."""

import functools

import numpy as np

from opshift.opsets.plain import one_shape, plain

OPERATOR = plain(
    "Max", (6, 8, 12, 13), (), lambda *x: functools.reduce(np.maximum, x), variadic=True, given={6: one_shape}
)
