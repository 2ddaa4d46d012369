"""LogSoftmax: the logarithm of Softmax. The rows are those of Hardmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.operator import Operator
from opshift.opsets.rows import LOWERINGS, VERSIONS, Rows, fault, from_rows, in_rows, normal


def oracle(rows: Rows, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """LogSoftmax-13: "LogSoftmax(input, axis) = Log(Softmax(input, axis=axis))"."""
    flat, order, shape = in_rows(rows, x)
    moved = flat - flat.max(axis=1, keepdims=True, initial=-np.inf)
    return from_rows((moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))).astype(x.dtype), order, shape)


OPERATOR = Operator(
    name="LogSoftmax",
    meaning=Rows,
    versions=VERSIONS,
    operands=("input",),
    oracle=oracle,
    normal=normal,
    fault=fault,
    lowerings=LOWERINGS,
    sums=True,
)
