"""Mod, Pow, BitShift and the bitwise operators: exact at the ends of every type."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import BF16, F16, F32, F64, INF, NAN, Array, Case, Code, Refused, Table, arr, by_axis
from opshift.opsets.operators import bitshift, bitwiseand, bitwisenot, bitwiseor, bitwisexor, mod
from opshift.opsets.operators import pow as pow_
from opshift.opsets.operators.bitshift import BitShift
from opshift.opsets.operators.mod import Mod

SIGNED = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)


def ends(dtype: Any) -> Array:
    info = np.iinfo(dtype)
    return np.array([info.min, info.max, info.max - 1, info.max // 3, 0, 1, 2, 5, 77], dtype)


def divisors(dtype: Any) -> Array:
    info = np.iinfo(dtype)
    return np.array([info.max, info.max // 2 + 1, 1, 3, 7, *([-3, -7, info.min] if info.min else [])], dtype)


def grid(one: Array, two: Array) -> list[Array]:
    return [one[:, None], two[None, :]]


NUMBERS = [0.0, -0.0, 1, -1, 5.5, -5.5, 7, -7, INF, -INF, NAN]
PARTS = [1, -1, 2.5, -2.5, 3, -3, INF, -INF]
SIZES = {F16: (-24, 16), BF16: (-133, 128), F32: (-149, 128), F64: (-1074, 1024)}


def of_all_sizes(dtype: Any) -> list[Array]:
    """Dividends and divisors of all sizes; some dividends are whole multiples of the divisor."""
    rng = np.random.default_rng(0)
    low, high = SIZES[dtype]
    sizes = np.exp2(rng.uniform(low, high, (2, 400))) * rng.choice([-1, 1], (2, 400))
    most = 2.0**high * (1 - 2.0**-9)
    dividends, divisors = np.clip(sizes, -most, most).astype(dtype)
    dividends[:99] = np.arange(99)
    divisors[:99] = [49] * 50 + [7] * 49
    return [dividends, divisors]


class TestMod(Table):
    operator = mod.OPERATOR
    cases = (
        *(Case(np.dtype(one).name, grid(ends(one), divisors(one))) for one in (*SIGNED, *UNSIGNED)),
        *(Case(f"{np.dtype(one)} truncated", grid(ends(one), divisors(one)), Mod(fmod=1)) for one in SIGNED[:3]),
        Case("int64 truncated", grid(ends(np.int64), divisors(np.int64)), Mod(fmod=1)),
        *(
            Case(f"{np.dtype(one)} truncated", grid(arr(NUMBERS, one), arr(PARTS, one)), Mod(fmod=1), least=least)
            for one, least in ((F16, 7), (F32, 7), (F64, 10))
        ),
        *(
            Case(f"{np.dtype(one)} of all sizes", of_all_sizes(one), Mod(fmod=1), least=least)
            for one, least in ((F16, 7), (BF16, 13), (F32, 7), (F64, 10))
        ),
        *(
            Case(f"{np.dtype(one)} by {part}", [of_all_sizes(one)[0], arr(part, one)], Mod(fmod=1), known=(1,))
            for one, parts in ((F32, (3.7, 1, -4, 1e-40, INF)), (F64, (1, -4, 2.0**1000)))
            for part in parts
        ),
        *(
            Case(
                f"a quotient of {bits} bits",
                [arr([0, 1, 49, 2.0**bits], F64), arr([3, 0.75, 49, 1.5], F64)],
                Mod(1, 24, bits),
            )
            for bits in (20, 60)
        ),
        *(
            Case(f"{np.dtype(one)}", grid(arr(NUMBERS, one), arr(PARTS, one)), least=least)
            for one, least in ((F32, 7), (F64, 10))
        ),
        Case("by -1", [np.array([-(2**31), 2**31 - 1, 5], np.int32)[1:], np.array([-1], np.int32)]),
    )
    refusals = (
        Refused(
            '<ir_version: 7, opset_import: ["": 13]> g (double[2] a, double[2] b) => (double[2] c) '
            "{ c = Mod <fmod = 1> (a, b) }",
            Code.ABSENT_OPERATOR,
            "opset 9 has no Mod",
            {"opset": 9},
        ),
    )


class TestPow(Table):
    operator = pow_.OPERATOR
    tolerance = 1e-6
    cases = (
        Case("float", [arr([1, 2, 3, -2]), arr([4, 5, 0.5, 3])]),
        *by_axis(lambda rows, columns: (np.arange(rows * columns) % 4).astype(F32).reshape(rows, columns)),
        Case("double", [arr([1, 2, 3], F64), arr([4, 5, 0.5], F64)]),
        *(
            Case(f"float to {np.dtype(one)}", [arr([1, 2, 3, -2]), np.array([4, 5, 6, 3], one)])
            for one in (np.int32, np.int64, np.uint32, np.uint64, F64)
        ),
        *(
            Case(
                f"to {power} of {np.dtype(one)}", [arr([-INF, -2.5, -0.0, 0, 3, NAN], one), arr(power, one)], known=(1,)
            )
            for power in (2, 3)
            for one in (F32, F64, F16)
        ),
        Case("int32 to int32", [np.array([1, 2, -3], np.int32), np.array([4, 5, 3], np.int32)]),
        Case("int32 to float", [np.array([1, 2, 9], np.int32), arr([4, 5, 0.5])]),
        *(
            Case(f"{np.dtype(one)}, signs", grid(arr([-2, -1, -0.0, 0, 1, 3], one), arr([-3, -2, -1, 0, 1, 2, 3], one)))
            for one in (F32, F16)
        ),
        Case("roots", [arr([-2, 0, 4]), arr([[0.5], [-0.5], [1 / 3]])]),
        Case("ends", grid(arr([-INF, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, INF, NAN]), arr([-INF, INF, NAN, 3, 2, -0.5]))),
        Case("a constant of one element first", [arr([[2]]), arr([[1, 2, 3]])], known=(0,)),
        Case("a constant of one element second", [arr([[1, 2, 3]]), arr([[2]])], known=(1,)),
        Case("a constant of one element and more axes first", [arr([[2]]), arr([1, 2, 3])], known=(0,)),
        Case("a constant of one element and more axes second", [arr([1, 2, 3]), arr([[2]])], known=(1,)),
        Case("large", [arr([1e30, 1.0000001, 2]), arr([-1.2, 1e9, 127])]),
        Case("empty", [np.zeros((0, 3), F32), arr([1, 2, 3])]),
        *(
            Case(f"{base.dtype} to {np.dtype(one)}", [base, np.array([4, 5, 3, 2, 0], one)])
            for base in (np.array([1, 2, -3, 7, 0], np.int64),)
            for one in (np.int32, np.int64, np.uint32)
        ),
        *(Case(f"int64 to a single {power}", [np.array([208063, -208063, 0]), np.array(power)]) for power in (2, 3)),
        Case("of two to int64", [np.array(2), np.arange(63)], known=(0,)),
        *(
            Case(
                f"{np.dtype(one)} to {power} of {exponent}",
                [np.array([5, 0, -3, most], one), np.array(power, exponent)],
                known=(1,),
            )
            for one, most in ((np.int32, 2), (np.int64, 13))
            for power in (1, 4, 7, 13)
            for exponent in (np.int32, F32)
        ),
        *(
            Case(f"{np.dtype(one)} to {power}", [np.array([7, 0, -3, most], one), np.array(power)], known=(1,))
            for one, most in ((np.int32, 1290), (np.int64, 208063))
            for power in (2, 3)
        ),
        *(
            Case(
                f"{np.dtype(one)} to {power}, constant",
                [arr([-INF, -2.5, -0.0, 0, 0.75, 3, INF, NAN], one), arr([power], one)],
                known=(1,),
            )
            for power in (1, 4, 5, 7, 12, -1, -2, -3, 0.5, -0.5)
            for one in (F32, F64)
        ),
    )


class TestBitShift(Table):
    operator = bitshift.OPERATOR
    cases = tuple(
        Case(
            f"{np.dtype(one)} {direction}",
            grid(ends(one), np.arange(np.dtype(one).itemsize * 8).astype(one)),
            BitShift(direction),
        )
        for one in (*SIGNED, *UNSIGNED)
        for direction in ("LEFT", "RIGHT")
    ) + tuple(
        Case(f"{np.dtype(one)} {direction} far", grid(ends(one), arr([8, -1, 64, 127], one)), BitShift(direction))
        for one in (np.int8, np.int64)
        for direction in ("LEFT", "RIGHT")
    )


def bits() -> tuple[Case, ...]:
    return (
        *(Case(np.dtype(one).name, grid(ends(one), ends(one)), symbolic=7) for one in (*SIGNED, *UNSIGNED)),
        Case("scalars", [np.array(6, np.int32), np.array(3, np.int32)]),
        Case("empty", [np.zeros((0, 2), np.int32), np.array([1, 2], np.int32)]),
    )


class TestBitwiseAnd(Table):
    operator = bitwiseand.OPERATOR
    cases = bits()


class TestBitwiseOr(Table):
    operator = bitwiseor.OPERATOR
    cases = bits()


class TestBitwiseXor(Table):
    operator = bitwisexor.OPERATOR
    cases = bits()


class TestBitwiseNot(Table):
    operator = bitwisenot.OPERATOR
    cases = tuple(Case(np.dtype(one).name, [ends(one)]) for one in (*SIGNED, *UNSIGNED))
