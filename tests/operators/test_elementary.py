"""Functions of one number, over the whole range of each element type: none cancels near zero, or overflows early."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import BF16, F16, F32, F64, INF, NAN, Case, Table, arr
from opshift.opsets.operators import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    cos,
    cosh,
    exp,
    floor,
    log,
    sigmoid,
    sin,
    sinh,
    tan,
    tanh,
)

LINE = np.concatenate([np.linspace(-9, 9, 37), [-60, -20.5, -0.01, 0.01, 20.5, 60]])
UNIT = np.linspace(-1, 1, 33)
POSITIVE = np.array([0.01, 0.3, 1, 1.01, 2, 30, 1000])
TINY = (1e-30, -1e-7, 1e-3)
ODD = (NAN, INF, -INF, 0.0)


def over(values: object, *alone: float, odd: tuple[float, ...] = ODD) -> tuple[Case, ...]:
    """Cases of these numbers, and of others each by itself, beside which no small result passes."""
    return (
        *(Case(np.dtype(one).name, [arr(values, one)]) for one in (F32, F64)),
        *(Case(f"{one:g}", [arr([one])]) for one in (*alone, *odd)),
        Case("double, alone", [arr([alone[0]], F64)]),
        Case("scalar", [arr(0.5)]),
        Case("empty", [np.zeros((0, 3), F32)]),
    )


HALVES = (
    Case("float16", [arr([*LINE, -0.0, 2.5, NAN, INF, -INF], F16)]),
    Case("bfloat16", [arr([*LINE, -0.0, 2.5, NAN, INF, -INF], BF16)], least=13),
)


class TestFloor(Table):
    operator = floor.OPERATOR
    cases = (*over([*LINE, -0.0, 1.5, 2.5, -2.5, 4097, 1e4], 1e30, -(2.0**23) - 1, 2.0**24), *HALVES)


class TestCeil(Table):
    operator = ceil.OPERATOR
    cases = (*over([*LINE, -0.0, 1.5, 2.5, -2.5, 4097, 1e4], 1e30, -(2.0**23) - 1, 2.0**24), *HALVES)


class TestSigmoid(Table):
    operator = sigmoid.OPERATOR
    tolerance = 2e-6
    cases = (
        *over(LINE, 1e-7, 15, 89, 100),
        *(
            Case(f"float, {one:g}", [arr([one])], departs="onnxruntime 1.32.0 approximates it to 1e-7, not relatively")
            for one in (-15, -40, -80)
        ),
    )


class TestTan(Table):
    operator = tan.OPERATOR
    tolerance = 4e-6
    cases = over(LINE, *TINY, 1.57, 3.1415, 1e4)


class TestSin(Table):
    operator = sin.OPERATOR
    tolerance = 4e-6
    cases = over(LINE, *TINY, 3.1415, 1e4)


class TestCos(Table):
    operator = cos.OPERATOR
    tolerance = 4e-6
    cases = over(LINE, *TINY, 1.5707, 1e4, 1e30)


class TestExp(Table):
    operator = exp.OPERATOR
    tolerance = 2e-6
    cases = (
        *over([*np.linspace(-9, 9, 37), -60, 11.08], *TINY, -87, 88.7, 89, -104, 1000, -1000),
        *(Case(f"double, {one:g}", [arr([one], F64)]) for one in (-700, 709.7, 710)),
    )


class TestLog(Table):
    operator = log.OPERATOR
    tolerance = 2e-6
    cases = over(POSITIVE, 1e-30, 1 + 1e-6, 1e30, -1)


class TestSinh(Table):
    operator = sinh.OPERATOR
    tolerance = 4e-6
    cases = over(np.linspace(-9, 9, 37), *TINY, 60, -89.1, 90, -800)


class TestCosh(Table):
    operator = cosh.OPERATOR
    tolerance = 4e-6
    cases = over(np.linspace(-9, 9, 37), *TINY, 60, -89.1, 90, -800)


class TestTanh(Table):
    operator = tanh.OPERATOR
    tolerance = 4e-6
    cases = over(LINE, *TINY, 800, -800)


class TestAsin(Table):
    operator = asin.OPERATOR
    tolerance = 4e-6
    cases = over(UNIT, *TINY, 1 - 1e-6, 1.5)


class TestAcos(Table):
    operator = acos.OPERATOR
    tolerance = 4e-6
    cases = over(UNIT, *TINY, 1 - 1e-6, 1e-6 - 1, 1.5, -1.5)


class TestAtan(Table):
    operator = atan.OPERATOR
    tolerance = 4e-6
    cases = over([*LINE, -1, 1], *TINY, 1e30)


class TestAsinh(Table):
    operator = asinh.OPERATOR
    tolerance = 4e-6
    cases = over(LINE, *TINY, 1e4, -1e20, 3e38)


class TestAcosh(Table):
    operator = acosh.OPERATOR
    tolerance = 4e-6
    cases = over([*POSITIVE[2:], 30000], 1 + 1e-6, 1e20, 3e38, 0.5, -2, -1e10)


class TestAtanh(Table):
    operator = atanh.OPERATOR
    tolerance = 4e-6
    cases = over(UNIT[1:-1], *TINY, 1 - 1e-6, 1, -1, 1.5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "name",
    [
        *[
            "Sigmoid",
            "Tan",
            "Sin",
            "Cos",
            "Exp",
            "Log",
            "Sinh",
            "Cosh",
            "Tanh",
            "Asin",
            "Acos",
            "Atan",
            "Asinh",
            "Acosh",
            "Atanh",
            "Sqrt",
        ]
    ],
)
def test_halves_are_the_same_but_for_rounding(name: str, dtype: str) -> None:
    text = f"g ({dtype}[n] x) => ({dtype}[n] y) {{ y = {name} (x) }}"
    model = parse_model(f'<ir_version: 10, opset_import: ["": 22]> {text}')
    report = opshift.convert(model, decompose=[name]).report
    assert report is not None
    assert [check.verdict for check in report.nodes] == ["equal"]
