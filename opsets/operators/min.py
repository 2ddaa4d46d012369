"""Min: the smallest of several tensors, broadcast."""

import functools

import numpy as np

from opshift.opsets.plain import one_shape, plain

OPERATOR = plain(
    "Min", (6, 8, 12, 13), (), lambda *x: functools.reduce(np.minimum, x), variadic=True, given={6: one_shape}
)
