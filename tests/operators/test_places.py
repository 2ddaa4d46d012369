"""Trilu and GatherElements: elements that are chosen by their place."""

from __future__ import annotations

import itertools

import numpy as np

from operators.harness import F16, F32, F64, Case, Table, arr, text
from opshift.opsets.operators import gatherelements, trilu
from opshift.opsets.operators.gatherelements import GatherElements
from opshift.opsets.operators.trilu import Trilu

CUBE = np.arange(1, 25, dtype=F32).reshape(2, 3, 4)


class TestTrilu(Table):
    operator = trilu.OPERATOR
    cases = (
        *(
            Case(f"upper {upper}, diagonal {k}, {known}", [CUBE, np.array(k)], Trilu(upper), known=known)
            for upper, k, known in itertools.product((0, 1), (-4, -1, 0, 2, 5), ((1,), ()))
        ),
        *(Case(f"upper {upper}, main diagonal", [CUBE, None], Trilu(upper)) for upper in (0, 1)),
        Case("infinities", [arr([[np.inf, -np.inf], [np.nan, 1]]), None]),
        *(
            Case(str(np.dtype(dtype)), [(CUBE[0] % 3).astype(dtype), np.array(1)], known=(1,))
            for dtype in (F64, np.int64, np.int32, bool, np.int8, F16)
        ),
        Case("empty", [CUBE[:, :0], None]),
    )


class TestGatherElements(Table):
    operator = gatherelements.OPERATOR
    cases = (
        *(
            Case(f"axis {axis} {dims}", [CUBE, np.random.default_rng(1).integers(-2, 2, dims)], GatherElements(axis))
            for axis in (0, 1, 2, -1)
            for dims in ((2, 3, 4), (1, 2, 3))
        ),
        Case("more than there are", [CUBE, np.zeros((2, 3, 9), np.int32)], GatherElements(2)),
        Case("vector", [text("a", "b"), np.array([-1, 0, 1])]),
        Case("int8", [CUBE.astype(np.int8), np.ones((2, 3, 1), np.int64)], GatherElements(2)),
        Case("none", [CUBE, np.zeros((2, 0, 4), np.int64)], GatherElements(1)),
    )
