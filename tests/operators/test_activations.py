"""Erf, Gelu, HardSwish, Mish and Swish: elements times a share that depends on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import F32, F64, INF, NAN, Case, Refused, Table
from opshift.opsets.operators import erf, gelu, hardswish, mish, swish
from opshift.opsets.operators.gelu import Gelu
from opshift.opsets.operators.swish import Swish
from opshift.passes.outcome import Code

LINE = np.concatenate([np.linspace(-9, 9, 73), [-60, -20.5, -1e-6, 0, 1e-6, 20.5, 60]])
TANH = Gelu("tanh")


SHAPES = (
    Case("float", [LINE.astype(F32)]),
    Case("scalar", [np.array(-0.5, F32)]),
    Case("empty", [np.zeros((0, 2), F32)]),
    Case("large", [np.array([[1e30, INF, NAN]], F32)]),
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
            Code.ABSENT_OPERATOR,
            "opset 8 has no Erf",
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
