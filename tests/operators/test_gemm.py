"""Gemm: with and without the third matrix, transposed and scaled."""

from __future__ import annotations

import itertools

import numpy as np

from operators.harness import F32, F64, INF, Array, Case, Table, arr
from opshift.opsets.operators import gemm
from opshift.opsets.operators.gemm import Gemm

A, B = arr([[1, -2, 3], [0, 4, -5]]), arr([[2, 0, -1, 1], [1, -3, 2, 0], [-2, 1, 0, 4]])


def of(turned: tuple[int, ...], *more: Array, dtype: type = F32) -> list[Array]:
    """Return small whole numbers, which add up exactly in any order."""
    a, b = (matrix.T if turn else matrix for matrix, turn in zip((A, B), turned, strict=True))
    return [np.ascontiguousarray(a, dtype), np.ascontiguousarray(b, dtype), *(one.astype(dtype) for one in more)]


class TestGemm(Table):
    operator = gemm.OPERATOR
    cases = (
        *(
            Case(f"transposed {turned}, alpha {alpha}", of(turned), Gemm(alpha, transA=turned[0], transB=turned[1]))
            for turned, alpha in itertools.product(itertools.product((0, 1), repeat=2), (1.0, 0.5))
        ),
        Case("beta of nothing", of((0, 0)), Gemm(beta=3.0)),
        Case("third", of((0, 0), arr([[1, 2, 3, 4]])), Gemm(0.5, 2.0)),
        Case("third, not counted", of((0, 0), arr([INF])), Gemm(beta=0.0)),
        Case("third, a scalar", of((1, 0), arr(3)), Gemm(transA=1)),
        Case("double", of((0, 0), dtype=F64)),
        Case("infinite", [arr([[INF, 1], [0, -INF]]), arr([[1, 2], [3, 4]])]),
        Case("zeros", [arr([[-0.0, 0.0]]), arr([[1], [1]])]),
        Case("empty", [np.zeros((0, 3), F32), B]),
    )

    def lifts_to(self, back: object, whole: object) -> bool:
        """A C that is left out at the end is an operand that is absent."""
        return bool(back.meaning == whole.meaning)  # type: ignore[attr-defined]
