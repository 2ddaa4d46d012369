"""Unique: elements and slices, sorted and as they occur, with indices, inverse indices and counts."""

from __future__ import annotations

import numpy as np

from operators.harness import F32, F64, INF, Case, Code, Refused, Table, arr
from opshift.opsets.operators import unique
from opshift.opsets.operators.unique import Unique

RNG = np.random.default_rng(5)
NUMBERS = arr([2, 1, 1, 3, 4, 3, -INF, 0, INF, 2, -INF])
MATRIX = RNG.integers(0, 2, (4, 5)).astype(F32)
CUBE = RNG.integers(0, 2, (3, 4, 2)).astype(F32)


class TestUnique(Table):
    operator = unique.OPERATOR
    cases = (
        *(
            Case(f"{name}, sorted {ascending}", [array], Unique(None, ascending), least=9)
            for ascending in (0, 1)
            for name, array in (
                ("a vector", NUMBERS),
                ("a matrix", MATRIX),
                ("zeros", arr([0.0, -0.0, 1, -0.0])),
                ("nothing", np.zeros(0, F32)),
                ("one", arr([7])),
                ("doubles", NUMBERS.astype(F64)),
                ("integers", np.array([5, 2**62, 5, -(2**62), 2**62 + 1], np.int64)),
                ("bytes", RNG.integers(-3, 3, (3, 4)).astype(np.int8)),
                ("booleans", np.array([True, False, True])),
            )
        ),
        *(
            Case(f"{name} along {axis}, sorted {ascending}", [array], Unique(axis, ascending), least=9)
            for ascending in (0, 1)
            for name, array, axis in (
                ("a vector", NUMBERS, 0),
                ("a matrix", MATRIX, 0),
                ("a matrix", MATRIX, -1),
                ("a cube", CUBE, 1),
                ("a cube", CUBE, 2),
                ("bytes", CUBE.astype(np.int8), 0),
            )
        ),
        Case("words", [np.array(["b", "a", "b", ""], object)], Unique(None, 0), least=19),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (string[4] x) => (string[n] y) { y = Unique (x) }',
            Code.NO_LOWERING,
            "no operator compares strings",
            {"decompose": ["Unique"]},
        ),
    )
