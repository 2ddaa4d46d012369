"""Softmax and LogSoftmax: the rows of Hardmax; exponentials, so that numbers agree to a few units of rounding."""

from __future__ import annotations

import numpy as np

from operators.harness import F32, F64, INF, Case, Table, arr
from opshift.opsets.families.rows import Rows
from opshift.opsets.operators import logsoftmax, softmax

FEW = np.random.default_rng(1).integers(-2, 3, (2, 3, 4)).astype(F32)
CASES = (
    *(Case(f"axis {axis}", [FEW], Rows((axis,))) for axis in (0, 1, 2, -1, -2)),
    *(Case(f"axis {axis} and on", [FEW], Rows((axis,), to_end=1)) for axis in (0, 1, 2, -1, -2)),
    *(Case(f"axes {axes}", [FEW], Rows(axes)) for axes in ((0, 1), (0, 2), (0, -1), (1, -3))),
    Case("large", [arr([[1e4, 1e4 + 1, -1e30]])], Rows((1,))),
    Case("-inf beside a number", [arr([[-INF, 0, 3]])], Rows((1,))),
    Case("no rows", [np.zeros((0, 3), F32)], Rows((1,))),
    Case("double", [FEW.astype(F64)], Rows((1,))),
)


class TestSoftmax(Table):
    operator = softmax.OPERATOR
    tolerance = 1e-6
    cases = CASES


class TestLogSoftmax(Table):
    operator = logsoftmax.OPERATOR
    tolerance = 1e-6
    cases = CASES
