"""Interpolated: sums of one, two, three and four weighted elements, along one axis and two."""

from __future__ import annotations

import numpy as np

from operators.harness import F32, F64, INF, Case, Table, arr
from opshift.opsets.operators import interpolated
from opshift.opsets.operators.interpolated import Interpolated

GRID = arr([[1, 2, 4], [8, -16, 32]])
TWO = Interpolated((1,), (4,), 2, (0, 0, 1, 2, 1, 1, 2, 2), (1, 0.5, 0.25, 1, 0, 0.5, 0.75, 0))
FOUR = Interpolated((0,), (1,), 4, (0, 1, 1, 0), (0.5, 0.25, -0.5, 2))
ONE = Interpolated((1, 0), (4, 1), 1, (2, 0, 0, 1, 1), (1, 1, 1, 1, 1))
THREE = Interpolated((0, 1), (1, 2), 3, (0, 1, 1, 0, 1, 1, 2, 2, 0), (0.5, 0.25, 2, 1, 0, 0.5, 0.25, 0.5, 3))
BOTH = Interpolated((0, 1), (1, 2), 2, (0, 1, 0, 1, 1, 2), (0.5, 0.5, 1, 0.25, 0, 0.75))


class TestInterpolated(Table):
    operator = interpolated.OPERATOR
    cases = (
        *(Case(f"two of {np.dtype(dtype).name}", [GRID.astype(dtype)], TWO) for dtype in (F32, F64)),
        Case("four", [GRID], FOUR),
        Case("one", [GRID], ONE),
        Case("three", [GRID], THREE),
        Case("two axes", [GRID], BOTH),
        Case("infinite", [arr([[INF, 2, 4], [8, -INF, 32]])], TWO),
    )
