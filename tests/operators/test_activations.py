"""Erf, Gelu, HardSwish, Mish and Swish: elements times a share that depends on them; Celu, Elu, Selu, Softplus."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import F32, F64, INF, NAN, Array, Case, Refused, Table, arr, by_axis
from opshift.opsets.families.legacy_broadcast import Aligned
from opshift.opsets.operators import (
    celu,
    elu,
    erf,
    gelu,
    hardsigmoid,
    hardswish,
    leakyrelu,
    mish,
    prelu,
    relu,
    selu,
    shrink,
    softplus,
    swish,
)
from opshift.opsets.operators.celu import Celu
from opshift.opsets.operators.elu import Elu
from opshift.opsets.operators.gelu import Gelu
from opshift.opsets.operators.hardsigmoid import HardSigmoid
from opshift.opsets.operators.leakyrelu import LeakyRelu
from opshift.opsets.operators.selu import Selu
from opshift.opsets.operators.shrink import Shrink
from opshift.opsets.operators.swish import Swish
from opshift.passes.base.plan import Code

LINE = np.concatenate([np.linspace(-9, 9, 73), [-60, -20.5, -1e-6, 0, 1e-6, 20.5, 60]])
TANH = Gelu("tanh")


SHAPES = (
    Case("float", [LINE.astype(F32)]),
    Case("scalar", [np.array(-0.5, F32)]),
    Case("empty", [np.zeros((0, 2), F32)]),
    Case("large", [np.array([[1e30, INF, NAN]], F32)]),
)


class TestRelu(Table):
    operator = relu.OPERATOR
    cases = (
        *SHAPES,
        Case("double", [LINE]),
        Case("float16", [LINE.astype(np.float16)]),
        *(Case(np.dtype(one).name, [np.array([-3, 0, 5], one)]) for one in (np.int8, np.int32, np.int64)),
    )


class TestLeakyRelu(Table):
    operator = leakyrelu.OPERATOR
    tolerance = 2e-7
    cases = (*SHAPES, Case("alpha", [LINE.astype(F32)], LeakyRelu(0.25)))


class TestHardSigmoid(Table):
    operator = hardsigmoid.OPERATOR
    tolerance = 2e-7
    cases = (*SHAPES, Case("alpha and beta", [LINE.astype(F32)], HardSigmoid(0.25, 0.75)))


def slopes(rows: int, columns: int) -> Array:
    """A matrix of slopes."""
    return (np.arange(rows * columns) - 3).astype(F32).reshape(rows, columns)


class TestPRelu(Table):
    operator = prelu.OPERATOR
    cases = (
        Case("one slope", [LINE.astype(F32), np.array([0.25], F32)]),
        Case("each its own", [slopes(2, 3), slopes(2, 3)]),
        Case("a row", [slopes(2, 3), slopes(1, 3)[0]]),
        Case("known slopes", [LINE.astype(F32).reshape(-1, 1), np.array([0.25, -2, 0.5], F32)], known=(1,)),
        Case("known slopes, one infinite", [slopes(2, 3), np.array([0.25, -np.inf, 0], F32)], known=(1,)),
        Case("channels of a vector", [slopes(2, 6).reshape(2, 3, 2), slopes(1, 3)[0]], Aligned(1, vectors=True)),
        *by_axis(slopes)[:1],
    )


class TestErf(Table):
    operator = erf.OPERATOR
    tolerance = 2e-6
    cases = tuple(replace(case, least=9, symbolic=9) for case in SHAPES)


class TestGelu(Table):
    operator = gelu.OPERATOR
    tolerance = 2e-6
    cases = (
        *(replace(case, least=7 if case.name == "empty" else 9, symbolic=9) for case in SHAPES),
        Case("tanh", [LINE.astype(F32)], TANH),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float[3] x) => (float[3] y) { y = Gelu (x) }',
            Code.ASSUMPTION,
            "Accept it with --assume approximate, or use opset 9",
            {"opset": 8},
        ),
    )


class TestHardSwish(Table):
    operator = hardswish.OPERATOR
    tolerance = 2e-6
    cases = (
        *SHAPES,
        Case("double", [LINE.astype(F64)]),
    )


class TestMish(Table):
    operator = mish.OPERATOR
    tolerance = 2e-6
    cases = (
        *SHAPES,
        Case("double", [LINE.astype(F64)], runs=27),  # onnxruntime 1.31.1 has no Softplus-22 of double
    )


class TestSwish(Table):
    operator = swish.OPERATOR
    tolerance = 2e-6
    cases = (
        *SHAPES,
        Case("alpha", [LINE.astype(F32)], Swish(-0.5)),
        Case("double", [LINE.astype(F64)], Swish(2.0)),
    )


FAR = np.array([-INF, -3e38, -1e30, -800, -104, -100, -89, -20, -1e-6, 0, 20, 88, 89, 100, 800, 1e30, 3e38, INF, NAN])


class TestSoftplus(Table):
    operator = softplus.OPERATOR
    tolerance = 2e-6
    cases = (
        *SHAPES,
        *(Case(f"{one:g}", [arr([one])]) for one in FAR),  # each by itself: small results would pass beside large ones
        *(Case(f"double {one:g}", [arr([one], F64)], runs=27) for one in FAR),
    )


NEAR = np.array([-1e-30, -0.1, 0.1, 1e-30])
CANCELS = "onnxruntime 1.32.0 subtracts 1 from exp(x) where an array has fewer elements than a vector register"


class TestElu(Table):
    operator = elu.OPERATOR
    tolerance = 2e-6
    cases = (
        *SHAPES,
        *(
            Case(f"{one:g}, alpha {alpha:g}", [arr([one])], Elu(alpha), departs=CANCELS if -1e-2 < one < 0 else "")
            for one in (*FAR, *NEAR)
            for alpha in (1.0, -0.5)
        ),
        *(Case(f"double {one:g}", [arr([one], F64)], Elu(2.0)) for one in (-700, -1e-12, 0.5)),
    )


class TestSelu(Table):
    operator = selu.OPERATOR
    tolerance = 2e-6
    cases = (
        *SHAPES,
        *(Case(f"{one:g}", [arr([one])]) for one in (*FAR[:-3], *NEAR) if not -1e-2 < one < 0),
        Case("other numbers", [arr([-3, -1e-5, 2])], Selu(0.5, 2.0)),
        Case("double", [arr([-700, -1e-12, 0.5], F64)]),
    )


class TestCelu(Table):
    operator = celu.OPERATOR
    tolerance = 2e-6
    cases = (
        *SHAPES,
        *(
            Case(f"{one:g}, alpha {alpha:g}", [arr([one])], Celu(alpha))
            for one in FAR
            for alpha in (1.0, 0.01, -2.0)
            # exp(x / alpha) - 1 cancels below 1e-3, as in onnxruntime's kernel.
            if abs(one) > 1e-3 or not one
        ),
        Case("double", [arr([-700, -1, 0, 1e300], F64)], Celu(0.5)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "double"])
@pytest.mark.parametrize(
    "node",
    [
        "Gelu (x)",
        'Gelu <approximate = "tanh"> (x)',
        "HardSwish (x)",
        "Mish (x)",
        "Swish <alpha = 0.5> (x)",
        "RMSNormalization (x, s)",
        "GroupNormalization <num_groups = 2> (x, s, s)",
    ],
)
def test_types_that_onnxruntime_has_no_kernels_for_are_proven(node: str, dtype: str) -> None:
    """The oracle judges what onnxruntime does not run."""
    text = f"g ({dtype}[2,4] x, {dtype}[4] s) => ({dtype}[2,4] y) {{ y = {node} }}"
    model = parse_model(f'<ir_version: 10, opset_import: ["": 24]> {text}')
    for opset in (22, 17, 13):
        result = opshift.convert(model, opset=opset)
        assert result.report is not None
        assert [check.verdict for check in result.report.nodes] in ([], ["equal"]), opset


FEW = [-100, -3, -2, -1, 0, 1, 2, 3, 100]
"""Elements of which no sum with a bias of 1.5 leaves int8."""


class TestShrink(Table):
    """Of integers, and of halves, the sum is a float, whatever the element type holds of the attributes."""

    operator = shrink.OPERATOR
    cases = (
        *(
            Case(f"{np.dtype(dtype).name}, {bias}, {lambd}", [np.array(FEW, dtype)], Shrink(bias, lambd))
            for dtype in (F32, F64, np.float16, np.int8, np.int16, np.int32, np.int64)
            for bias, lambd in ((0.0, 0.5), (0.5, 0.0), (0.7, 0.5), (-0.7, 1.5), (1.5, -1.0))
        ),
        *(
            Case(f"{np.dtype(dtype).name}", [np.array([0, 1, 2, 3, 100], dtype)], Shrink(0.5, 0.25))
            for dtype in (np.uint8, np.uint16, np.uint32, np.uint64)
        ),
        Case("int64, 25 bits", [np.array([2**24 + 1, -(2**24) - 1])], Shrink(0.0, 0.5)),
        Case("double, near lambd", [np.array([0.1, np.float64(F32(0.1)), 0.1000000016])], Shrink(0.7, 0.1)),
        Case("not finite", [np.array([NAN, INF, -INF, 1.0], F32)], Shrink(0.5, 0.0)),
        Case("empty", [np.zeros((0, 2), F32)]),
        Case("scalar", [np.array(-2, np.int8)], Shrink(0.5, 0.0)),
    )
