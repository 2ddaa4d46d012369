"""Forest, and the steps that it takes: nodes level by level, and the weights of leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import F32, F64, INF, NAN, Case, Table, arr
from opshift.opsets.families.trees import FlatTrees
from opshift.opsets.ml import aggregated, descended, forest
from opshift.opsets.ml.aggregated import Aggregated
from opshift.opsets.ml.descended import Descended
from opshift.opsets.ml.forest import Forest
from opshift.opsets.registry.facts import Tensor

ROWS = arr([[-1, 4], [2, 2], [3, -5], [2.5, 0]])
UNKNOWN = arr([[NAN, 4], [2, NAN], [INF, -INF]])


def grown(dtype: Any = F32, mode: str = "BRANCH_LEQ", missing: bool = False, **more: Any) -> Forest:
    """Two trees: one of two levels, and one of a single question."""
    flat = FlatTrees(8, dtype)
    flat.add_decision(0, mode, 0, 2.0, 1, 2, missing)
    flat.add_decision(1, mode, 1, 3.0, 3, 4, False)
    flat.add_decision(5, mode, 1, 0.0, 6, 7, missing)
    weights = np.arange(2 * len(flat.decisions), dtype=dtype).reshape(-1, 2) / 4
    roots = Tensor(np.array([0, 5]))
    arrays: dict[str, Any] = flat.arrays()
    return Forest(**arrays, roots=roots, weights=Tensor(weights), depth=flat.depth([0, 5]), **more)


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


class TestForest(Table):
    operator = forest.OPERATOR
    tolerance = 1e-6
    cases = (
        *(Case(mode, [ROWS], grown(mode=mode)) for mode in MODES),
        *(Case(f"{mode} of NaN", [UNKNOWN], grown(mode=mode, missing=True)) for mode in MODES),
        Case("double", [ROWS.astype(F64)], grown(F64)),
        Case("least", [ROWS], grown(aggregate="MIN")),
        Case("largest", [UNKNOWN], grown(aggregate="MAX", missing=True)),
        Case("no rows", [ROWS[:0]], grown()),
    )


def operands(what: Forest, rows: Any, start: Any) -> list[Any]:
    """The operands of Descended: the nodes to begin with, the rows, and what the nodes ask."""
    fields = (what.features, what.thresholds, what.yes, what.no, what.missing)
    return [np.array(start), rows, *(one.array for one in fields)]


class TestDescended(Table):
    operator = descended.OPERATOR
    cases = (
        *(Case(f"{depth} levels", operands(grown(), ROWS, [[0, 5]] * 4), Descended(depth)) for depth in (0, 1, 2, 3)),
        Case("NaN at one level", operands(grown(missing=True), UNKNOWN, [[0, 5]] * 3), Descended(1, 1)),
        Case("NaN", operands(grown(missing=True), UNKNOWN, [[0, 5]] * 3), Descended(2, 1)),
        Case("NaN that goes on with no", operands(grown(), UNKNOWN, [[0, 5]] * 3), Descended(2, 0)),
    )


class TestAggregated(Table):
    operator = aggregated.OPERATOR
    cases = tuple(
        Case(f"{name} of {np.dtype(dtype).name}", [np.arange(12, dtype=dtype).reshape(2, 3, 2) % 5], Aggregated(name))
        for name in ("SUM", "MIN", "MAX")
        for dtype in (F32, F64)
    )
