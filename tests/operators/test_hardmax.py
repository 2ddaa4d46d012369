"""Hardmax and HardmaxAxes: the first maximum of each row, whatever axes form a row."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from operators.harness import BF16, F16, F32, F64, INF, Case, Table, arr
from opshift.opsets.operator import Operator
from opshift.opsets.operators import hardmax
from opshift.opsets.rows import Rows

RNG = np.random.default_rng(7)
FEW = RNG.integers(-2, 3, (2, 3, 4)).astype(F32)
"""Small integers tie often."""
ZEROS = arr([[0.0, -0.0, 0.0], [-0.0, 0.0, -1.0]])
DEEP = arr([[-INF, -INF, -INF], [-INF, 5, 5], [INF, 1, INF]])
EXTREME = np.array([[1.7976931348623157e308, -INF, 1.7976931348623157e308], [5e-324, 0, -5e-324]])


class TestHardmax(Table):
    operator: ClassVar[Operator] = hardmax.OPERATOR
    cases = (
        *(Case(f"axis {axis}", [FEW], Rows((axis,))) for axis in (0, 1, 2, -1, -2, -3)),
        *(Case(f"axis {axis} and on", [FEW], Rows((axis,), onward=1)) for axis in (0, 1, 2, -1, -2)),
        *(Case(f"axes {axes}", [FEW], Rows(axes)) for axes in ((0, 1), (0, 2), (1, 2), (0, 1, 2))),
        *(Case(f"axes {axes}", [FEW], Rows(axes)) for axes in ((0, -1), (1, -1), (1, -3), (0, -2), (-1, -3))),
        Case("vector", [arr([1, 3, 3])], Rows((0,))),
        Case("rank 5", [RNG.integers(0, 2, (2, 2, 3, 1, 2)).astype(F32)], Rows((1,))),
        Case("rows of one", [arr([[4], [-INF]])], Rows((1,))),
        Case("a row of all -inf", [DEEP], Rows((1,))),
        Case("a row of all -inf, by columns", [DEEP], Rows((0,))),
        Case("zeros of both signs", [ZEROS], Rows((1,))),
        Case("no rows", [np.zeros((0, 3), F32)], Rows((1,))),
        Case("empty rows", [np.zeros((2, 0), F32)], Rows((1,)), departs=""),
        Case("empty rows in front", [np.zeros((0, 3), F32)], Rows((0,))),
        Case("a long row", [RNG.integers(0, 9, (2, 5000)).astype(F32)], Rows((1,))),
        Case("double", [EXTREME], Rows((1,))),
        Case("double, first axis", [EXTREME], Rows((0,))),
        Case("double, empty rows", [np.zeros((2, 0), F64)], Rows((1,))),
        Case("float16", [FEW.astype(F16)], Rows((1,))),
        Case("float16, -inf", [DEEP.astype(F16)], Rows((-1,))),
        Case("bfloat16", [FEW.astype(BF16)], Rows((1,)), least=13),
    )
