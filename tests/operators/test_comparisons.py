"""Less, Greater, Equal and what is made of them: exact for every element type, NaN and infinities included."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import BF16, F16, F32, F64, INF, NAN, Array, Case, Table, arr, by_axis, text
from opshift.opsets.operators import equal, greater, greaterorequal, isnan, less, lessorequal

ODD = [0.0, -0.0, 1, -1, INF, -INF, NAN, 0.5, 2, -2]
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
NEAR = np.array([2**53, 2**53 + 1, 2**32, 2**32 - 1, -(2**63), 2**63 - 1, -1, 0, -(2**32), 2**31], np.int64)


def grid(values: Array) -> list[Array]:
    """All pairs of values, as a column and a row."""
    return [values[:, None], values[None, :]]


def ends(dtype: Any) -> Array:
    """The least and the largest integers of a type, and some between."""
    info = np.iinfo(dtype)
    return np.array([info.min, info.max, info.max - 1, info.min + 1, 0, 1, info.max // 2 + 1], dtype)


def ordered() -> tuple[Case, ...]:
    """Cases of every type that has an order."""
    floats = (F16, F32, F64)
    return (
        *(Case(np.dtype(dtype).name, grid(arr(ODD, dtype))) for dtype in floats),
        Case("bfloat16", grid(arr(ODD, BF16)), least=13),
        *(Case(np.dtype(dtype).name, grid(ends(dtype))) for dtype in INTEGERS),
        Case("int64 near doubles", grid(NEAR)),
        Case("shapes", [arr([[1, 2, 3]]), arr(2)]),
        Case("empty", [np.zeros((0, 3), F32), arr(2)]),
    )


def numbers(rows: int, columns: int) -> Array:
    """A matrix of three numbers in turn."""
    return (np.arange(rows * columns) % 3).astype(F32).reshape(rows, columns)


class TestLess(Table):
    operator = less.OPERATOR
    cases = (*ordered(), *by_axis(numbers))


class TestGreater(Table):
    operator = greater.OPERATOR
    cases = (*ordered(), *by_axis(numbers))


class TestLessOrEqual(Table):
    operator = lessorequal.OPERATOR
    cases = ordered()


class TestGreaterOrEqual(Table):
    operator = greaterorequal.OPERATOR
    cases = ordered()


class TestEqual(Table):
    operator = equal.OPERATOR
    cases = (
        *ordered(),
        *by_axis(numbers),
        Case("bool", grid(np.array([True, False]))),
        Case("string", grid(text("a", "b", "")), least=11),
        Case("string, shapes", [text("a", "b", "b"), np.array("b", object)], least=11),
        Case("string, empty", [text().reshape(0, 3), text("a", "b", "b")], symbolic=11),
    )


class TestIsNaN(Table):
    operator = isnan.OPERATOR
    cases = (
        *(Case(np.dtype(dtype).name, [arr(ODD, dtype)]) for dtype in (F16, F32, F64)),
        Case("bfloat16", [arr(ODD, BF16)], least=13),
        Case("empty", [np.zeros((0, 3), F32)]),
        Case("scalar", [arr(NAN)]),
    )
