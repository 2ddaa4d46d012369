"""ProjectedAttention: rows of queries, keys and values, with masks, a past and numbers that are added."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import F32, Array, Case, Table
from opshift.opsets.microsoft import projectedattention
from opshift.opsets.microsoft.projectedattention import ProjectedAttention

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(F32)


def mask(*shape: int) -> Array:
    """A mask that keeps the first key."""
    kept = RNG.integers(0, 2, shape).astype(np.int32)
    kept[..., 0] = 1
    return kept


def arrays(rows: Array, kept: Array | None = None, past: Array | None = None, added: Array | None = None) -> list[Any]:
    return [rows, kept, past, added]


PAST = (2, 2, 2, 3, 4)


class TestProjectedAttention(Table):
    operator = projectedattention.OPERATOR
    tolerance = 1e-5
    cases = (
        Case("widths", arrays(drawn(2, 5, 28)), ProjectedAttention((8, 8, 12), num_heads=2)),
        Case("scaled", arrays(drawn(2, 5, 24)), ProjectedAttention((8, 8, 8), num_heads=4, scale=0.25)),
        Case("causal", arrays(drawn(2, 5, 24)), ProjectedAttention((8, 8, 8), num_heads=2, unidirectional=1)),
        Case("masked", arrays(drawn(2, 5, 24), mask(2, 5)), ProjectedAttention((8, 8, 8), num_heads=2)),
        Case(
            "added",
            arrays(drawn(2, 5, 24), mask(2, 5), None, drawn(1, 2, 5, 5)),
            ProjectedAttention((8, 8, 8), -100.0, 2),
        ),
        Case("past", arrays(drawn(2, 5, 24), None, drawn(*PAST)), ProjectedAttention((8, 8, 8), num_heads=2)),
        Case(
            "all",
            arrays(drawn(2, 5, 24), mask(2, 8), drawn(*PAST), drawn(2, 2, 5, 8)),
            ProjectedAttention((8, 8, 8), -100.0, 2, 0.5, 1),
        ),
    )
