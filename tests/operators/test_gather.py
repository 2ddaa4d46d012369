"""Gather and ScatterElements: indices from both ends, along every axis."""

from __future__ import annotations

import itertools

import numpy as np

from operators.harness import F32, Case, Table, arr, text
from opshift.opsets.operators import gather, scatterelements
from opshift.opsets.operators.gather import Gather
from opshift.opsets.operators.scatterelements import ScatterElements

CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
MIXED = np.array([[0, -1], [1, -2]], np.int64)


class TestGather(Table):
    operator = gather.OPERATOR
    cases = (
        *(
            Case(f"axis {axis}, {what}", [CUBE, MIXED], Gather(axis), known=known)
            for axis, (what, known) in itertools.product((0, 1, 2, -1, -2), {"known": (1,), "computed": ()}.items())
        ),
        *(Case(f"axis {axis}, int32", [CUBE, MIXED.astype(np.int32)], Gather(axis)) for axis in (0, 2)),
        Case("from the front", [CUBE, np.array([1, 0], np.int64)], Gather(1), known=(1,)),
        Case("a scalar index", [CUBE, np.array(-1, np.int64)], Gather(0)),
        Case("a known scalar index", [CUBE, np.array(-1, np.int64)], Gather(2), known=(1,)),
        Case("strings", [text("a", "b", "c"), np.array([-1, 0], np.int64)]),
        Case("bool", [CUBE > 5, MIXED], Gather(1)),
        Case("no indices", [CUBE, np.zeros((0,), np.int64)], Gather(1)),
        Case("empty slices", [np.zeros((3, 0), F32), MIXED], Gather(0)),
    )


class TestScatterElements(Table):
    operator = scatterelements.OPERATOR
    cases = (
        *(
            Case(
                f"axis {axis}",
                [CUBE[0], np.array([[1, 0]], np.int64), arr([[-5, -6]])],
                ScatterElements(axis),
                least=11,
            )
            for axis in (0, 1, -1)
        ),
        *(
            Case(
                f"{reduction} into one place",
                [CUBE[0, 0], np.array([1, 1, 0], np.int64), arr([2, 3, 0.5])],
                ScatterElements(0, reduction),
                least=since,
            )
            for reduction, since in {"add": 16, "mul": 16, "max": 18, "min": 18}.items()
        ),
    )
