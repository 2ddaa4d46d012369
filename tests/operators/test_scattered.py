"""Scattered: updates beside their places, along every axis, for every reduction."""

from __future__ import annotations

import numpy as np

from operators.harness import F32, Case, Table
from opshift.opsets.operators import scattered
from opshift.opsets.operators.scattered import Scattered

CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
PLACES = np.array([[[0, 1, -1], [1, 1, 0]]], np.int64)


class TestScattered(Table):
    operator = scattered.OPERATOR
    cases = (
        *(
            Case(f"{how} along {axis}", [CUBE, PLACES % 2, PLACES.astype(F32)], Scattered(axis, how))
            for how in ("add", "mul", "max", "min")
            for axis in (0, 1, 2)
        ),
        Case("from the end", [CUBE, PLACES, PLACES.astype(F32)], Scattered(1)),
        Case("int64", [CUBE.astype(np.int64), PLACES % 2, PLACES], Scattered(2, "min")),
        Case("as large as the data", [CUBE, CUBE.astype(np.int64) % 4, CUBE + 1], Scattered(2)),
    )
