"""Abs, Add, Sub, Mul, Div, Neg, Sum, Min, Max, And, Or, Xor, Not: what the others are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import BF16, F16, F32, F64, INF, NAN, Array, Case, Table, arr, by_axis
from opshift.opsets.operators import abs as abs_
from opshift.opsets.operators import add, and_, div, mean, mul, neg, not_, or_, sub, xor
from opshift.opsets.operators import max as max_
from opshift.opsets.operators import min as min_
from opshift.opsets.operators import sum as sum_

MANY = (F16, F32, F64, np.int32, np.int64, np.uint32, np.uint64)
SMALL = (np.int8, np.int16, np.uint8, np.uint16)


def pairs(dtype: Any) -> list[Array]:
    """Two tensors that broadcast; no zero in the second."""
    signed = np.dtype(dtype).kind != "u"
    first = np.array([[7, -7 if signed else 9, 0], [100, 1, 5]], dtype)
    return [first, np.array([2, -2 if signed else 3, 5], dtype)]


def ends(dtype: Any) -> list[Array]:
    """All pairs of the ends of a type; no zero in the second."""
    info = np.iinfo(dtype)
    numbers = np.array([info.max, info.min or 1, info.max - 1, 2, 3, 1], dtype)
    return [numbers[:, None], numbers[None, :]]


def quotients(dtype: Any) -> list[Array]:
    """All quotients of the ends of a type but for that of the lowest number by -1, which leaves it."""
    info = np.iinfo(dtype)
    dividends = np.array([info.max, info.max - 1, info.min, info.min + 1, 1, 0], dtype)
    return [dividends[:, None], np.array([info.max, info.max - 1, info.min or 1, 2, 3, 1], dtype)]


def numbers(rows: int, columns: int) -> Array:
    """A matrix of numbers, none of them zero."""
    return (np.arange(rows * columns).astype(F32) + 1).reshape(rows, columns)


def truths(rows: int, columns: int) -> Array:
    """A matrix of booleans."""
    return numbers(rows, columns) % 3 > 1


def binary() -> tuple[Case, ...]:
    """Cases of the four rules; types not named go to 7."""
    return (
        *(Case(np.dtype(dtype).name, pairs(dtype)) for dtype in (*MANY, *SMALL)),
        *(Case(f"{np.dtype(dtype)} that wraps", ends(dtype)) for dtype in SMALL),
        Case("bfloat16", pairs(BF16), least=13),
        Case("scalars", [arr(6), arr(4)]),
        Case("a constant of one element first", [arr([[6]]), arr([[4, 2], [5, 8]])], known=(0,)),
        Case("a constant of one element second", [arr([[4, 2], [5, 8]]), arr([[6]])], known=(1,)),
        Case("a constant of one element and more axes first", [arr([[[6]]]), arr([4, 2])], known=(0,)),
        Case("a constant of one element and more axes second", [arr([4, 2]), arr([[[6]]])], known=(1,)),
        *by_axis(numbers),
        Case("no elements", [np.zeros((0, 3), F32), arr([1, 2, 3])]),
        Case("int64 that wraps", [np.array([2**62, -(2**63)], np.int64), np.array([3, 3], np.int64)]),
    )


class TestAdd(Table):
    operator = add.OPERATOR
    cases = binary()


class TestSub(Table):
    operator = sub.OPERATOR
    cases = binary()


class TestMul(Table):
    operator = mul.OPERATOR
    cases = binary()


def multiples() -> tuple[Case, ...]:
    """Cases of integers whose quotient, by the reciprocal in double, is just below a whole number."""
    divisors = np.array([49, 98, 103, 107, 161, -187, 1, 2**31 - 1], np.int64)
    dividends = (divisors[:, None] * np.array([1, -3, 5, 1021]) + np.array([-1, 0, 1])[:, None, None]).reshape(-1, 4)
    spread = np.tile(divisors, 3)[:, None]
    kept = np.abs(dividends) < 2**31
    return tuple(
        Case(f"multiples of {np.dtype(one)}", [np.where(kept, dividends, 7).astype(one), spread.astype(one)])
        for one in (np.int32, np.int64)
    )


def quotients_of_int64() -> tuple[Case, ...]:
    """Dividends of 53 and more bits next to multiples of divisors of all sizes."""
    divisors = np.array([3, -7, 2**20 + 1, -(2**31), 2**39 - 1, 2**40 + 1, 2**53 + 1, 2**62 - 1, -(2**63)], np.int64)
    counts = np.array([2**62, 2**61, 2**42, 2**31, 2**23, 2**22, 2**9, 2, 1], np.int64)
    places = np.array([-1, 0, 1])[:, None]
    return (
        Case("int64 next to multiples", [(divisors // 3 * counts)[None] + places, divisors // 3]),
        Case("int64, the lowest number", [arr([-(2**63), 2**63 - 1, 5], np.int64), arr([-(2**63)], np.int64)]),
    )


def multiples_of_uint64() -> list[Array]:
    """Dividends next to multiples of divisors of all sizes, up to the largest number."""
    divisors = np.array([1, 3, 2**20 + 1, 2**31, 2**39 - 1, 2**40 + 1, 2**53 + 1, 2**62 - 1, 2**63 + 5], np.uint64)
    multiples = np.uint64(2**64 - 2) // divisors * divisors
    return [np.stack([multiples - np.uint64(1), multiples, multiples + np.uint64(1)]), divisors]


def doubles() -> list[Array]:
    """Quotients of powers of two, which are exact, very large and very small ones, and of what is no number."""
    ends = np.append(2.0 ** np.array([1023, 1000, 600, 1, -1, -600, -1022, -1030, -1074]), [0.0, INF])
    return [np.concatenate([ends, [NAN]])[:, None], np.concatenate([ends, -ends])]


class TestDiv(Table):
    operator = div.OPERATOR
    cases = (
        *binary(),
        *multiples(),
        *(Case(f"{np.dtype(one)}, ends", quotients(one)) for one in (np.int32, np.uint32, np.int64, np.uint64)),
        *quotients_of_int64(),
        Case("uint64 next to multiples", multiples_of_uint64()),
        Case("double, far from 1", doubles()),
    )


def unary(values: Any, *dtypes: Any) -> tuple[Case, ...]:
    return (
        *(Case(np.dtype(dtype).name, [np.array(values, dtype)]) for dtype in dtypes),
        Case("empty", [np.zeros((2, 0), F32)]),
    )


SIGNED = (F16, F32, F64, np.int8, np.int16, np.int32, np.int64)


class TestAbs(Table):
    operator = abs_.OPERATOR
    cases = (
        *unary([-3, 0, 3], *SIGNED),
        *unary([0, 3], np.uint8, np.uint64)[:2],
        *(Case(f"{np.dtype(one).name}, ends", [np.array([-0.0, 0.0, -INF, INF, NAN], one)]) for one in (F16, F32, F64)),
        *(
            Case(f"{np.dtype(one).name}, lowest", [np.array([np.iinfo(one).min, -1], one)])
            for one in (np.int8, np.int64)
        ),
        Case("bfloat16", [arr([-3, -0.0, INF, NAN], BF16)], least=13),
    )


class TestNeg(Table):
    operator = neg.OPERATOR
    cases = (*unary([-3, 0, 3], *SIGNED), Case("-0.0", [arr([-0.0, 0.0, -INF])]))


def several() -> tuple[Case, ...]:
    """Cases of operators that take any number of tensors."""
    row, column = arr([[1, 5, 3]]), arr([[4], [2]])
    return (
        Case("one", [row]),
        Case("two of one shape", [row, row[:, ::-1].copy()]),
        Case("two that broadcast", [row, column]),
        Case("a constant of one element first", [arr([[4]]), row], known=(0,)),
        Case("a constant of one element second", [row, arr([[4]])], known=(1,)),
        Case("a constant of one element and more axes first", [arr([[[4]]]), row], known=(0,)),
        Case("a constant of one element and more axes second", [row, arr([[[4]]])], known=(1,)),
        Case("three that broadcast", [row, column, arr(2.5)]),
        Case("four that broadcast", [column, row, arr(2.5), -row]),
        Case("no numbers", [arr([[NAN, 1, INF, -INF]]), arr([[2], [-INF]]), arr(0.5)]),
        *(Case(np.dtype(one).name, ends(one)[:1] * 2, runs=8) for one in (*SMALL, np.int32, np.uint32)),
        Case("int64", ends(np.int64)),
        Case("uint64", ends(np.uint64)),
        Case("three of int64", [*ends(np.int64), np.array(5)]),
        Case("three of uint64", [*ends(np.uint64), np.array(5, np.uint64)]),
        Case("double", [row.astype(F64), row.astype(F64)], runs=8),
        Case("float16", [row.astype(F16), row.astype(F16)]),
    )


class TestSum(Table):
    operator = sum_.OPERATOR
    cases = several()


def floats() -> tuple[Case, ...]:
    return tuple(case for case in several() if np.asarray(case.arrays[0]).dtype.kind == "f")


class TestMean(Table):
    operator = mean.OPERATOR
    tolerance = 1e-6
    cases = floats()


class TestMax(Table):
    operator = max_.OPERATOR
    cases = several()


class TestMin(Table):
    operator = min_.OPERATOR
    cases = several()


def logical() -> tuple[Case, ...]:
    return (
        *by_axis(truths),
        Case("all pairs", [np.array([[True], [False]]), np.array([[True, False]])]),
        Case("empty", [np.zeros((0, 2), bool), np.array([True, False])]),
    )


class TestAnd(Table):
    operator = and_.OPERATOR
    cases = logical()


class TestOr(Table):
    operator = or_.OPERATOR
    cases = logical()


class TestXor(Table):
    operator = xor.OPERATOR
    cases = logical()


class TestNot(Table):
    operator = not_.OPERATOR
    cases = (Case("both", [np.array([True, False])]), Case("empty", [np.zeros((0, 2), bool)]))
