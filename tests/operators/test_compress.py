"""Compress: along each axis, and over all elements; conditions that are shorter than the axis."""

from __future__ import annotations

import numpy as np

from operators.harness import BF16, F32, Case, Table, text
from opshift.opsets.operators import compress
from opshift.opsets.operators.compress import Compress

CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
THREE = np.array([True, False, True])


class TestCompress(Table):
    operator = compress.OPERATOR
    cases = (
        *(Case(f"axis {axis}", [CUBE, THREE], Compress(axis), least=9) for axis in (1, -2, None)),
        *(Case(f"shorter, axis {axis}", [CUBE, THREE[:2]], Compress(axis), least=9) for axis in (0, 2, -1, None)),
        Case("none", [CUBE, np.zeros((3,), bool)], Compress(1), least=9),
        Case("an empty condition", [CUBE, np.zeros((0,), bool)], Compress(1), least=9),
        Case("no elements", [CUBE[:, :0], np.zeros((0,), bool)], Compress(1), least=9),
        Case("int64", [CUBE.astype(np.int64), THREE], Compress(1), least=9),
        Case("bfloat16", [CUBE.astype(BF16), THREE], Compress(1), least=13),
        Case("strings", [text("a", "b", "c"), THREE], least=9),
    )
