"""Hardmax and HardmaxAxes: the first maximum of each row, whatever axes form a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles
import pytest
from onnx.parser import parse_model

from operators.harness import BF16, F16, F32, F64, INF, Case, Code, Refused, Table, arr, converted, differs, ran
from opshift.opsets.families.rows import Rows
from opshift.opsets.operators import hardmax

RNG = np.random.default_rng(7)
FEW = RNG.integers(-2, 3, (2, 3, 4)).astype(F32)
"""Small integers tie often."""
ZEROS = arr([[0.0, -0.0, 0.0], [-0.0, 0.0, -1.0]])
DEEP = arr([[-INF, -INF, -INF], [-INF, 5, 5], [INF, 1, INF]])
EXTREME = np.array([[1.7976931348623157e308, -INF, 1.7976931348623157e308], [5e-324, 0, -5e-324]])

MODEL = """<ir_version: 8, opset_import: ["": {opset}]>
g ({type}[2,3] x) => ({type}[2,3] y) {{ y = Hardmax <axis = 0> (x) }}"""


class TestHardmax(Table):
    operator = hardmax.OPERATOR
    cases = (
        *(Case(f"axis {axis}", [FEW], Rows((axis,))) for axis in (0, 1, 2, -1, -2, -3)),
        *(Case(f"axis {axis} and on", [FEW], Rows((axis,), to_end=1)) for axis in (0, 1, 2, -1, -2)),
        *(Case(f"axes {axes}", [FEW], Rows(axes)) for axes in ((0, 1), (0, 2), (1, 2), (0, 1, 2))),
        *(Case(f"axes {axes}", [FEW], Rows(axes)) for axes in ((0, -1), (1, -1), (1, -3), (1, -2), (0, 2, -2))),
        Case("vector", [arr([1, 3, 3])], Rows((0,))),
        Case("rank 5", [RNG.integers(0, 2, (2, 2, 3, 1, 2)).astype(F32)], Rows((1,))),
        Case("rows of one", [arr([[4], [-INF]])], Rows((1,))),
        Case("a row of all -inf", [DEEP], Rows((1,))),
        Case("a row of all -inf, by columns", [DEEP], Rows((0,))),
        Case("zeros of both signs", [ZEROS], Rows((1,))),
        Case("no rows", [np.zeros((0, 3), F32)], Rows((1,))),
        Case("empty rows", [np.zeros((2, 0), F32)], Rows((1,))),
        Case("empty rows in front", [np.zeros((0, 3), F32)], Rows((0,))),
        Case("a long row", [RNG.integers(0, 9, (2, 5000)).astype(F32)], Rows((1,))),
        Case("double", [EXTREME], Rows((1,))),
        Case("double, first axis", [EXTREME], Rows((0,))),
        Case("double, empty rows", [np.zeros((2, 0), F64)], Rows((1,))),
        Case("float16", [FEW.astype(F16)], Rows((1,))),
        Case("float16, -inf", [DEEP.astype(F16)], Rows((-1,))),
        Case("bfloat16", [FEW.astype(BF16)], Rows((1,)), least=13),
    )
    refusals = (
        Refused(MODEL.format(opset=13, type="bfloat16"), Code.TYPE, "bfloat16", {"opset": 12}),
        Refused(MODEL.format(opset=13, type="float"), Code.OPSET_TOO_OLD, "below 7", {"opset": 6}),
    )


# DirectML's worked examples of ACTIVATION_HARDMAX1.
DIRECTML = arr([[[12, 0], [-101, 11]], [[3, 234], [0, -101]]])
WORKED = {
    (1,): [[[1, 0], [0, 1]], [[1, 1], [0, 0]]],
    (0,): [[[1, 0], [0, 1]], [[0, 1], [1, 0]]],
    (0, 2): [[[0, 0], [0, 1]], [[0, 1], [0, 0]]],
}
AXES = """<ir_version: 8, opset_import: ["": {opset}, "opshift": 1]>
g (float[{dims}] x) => (float[{dims}] y) {{ y = opshift.HardmaxAxes <axes = {axes}> (x) }}"""


@pytest.mark.parametrize("request_", [{"opset": 7}, {"opset": 13}, {"opset": 26}, {"decompose": ["Hardmax"]}], ids=str)
@pytest.mark.parametrize("axes", [*WORKED, (-2,), (-3, -1), (2, 0), (1, 1)], ids=str)
def test_hardmax_axes(axes: tuple[int, ...], request_: dict[str, Any]) -> None:
    for dims in ("2,2,2", "n,m,k"):
        model = converted(parse_model(AXES.format(opset=13, dims=dims, axes=list(axes))), **request_)
        assert all(node.domain == "" for node in model.graph.node)
        assert not differs([oracles.hardmax_axes(DIRECTML, axes)], ran(model, {"x": DIRECTML}), 0)


@pytest.mark.parametrize(("axes", "hot"), WORKED.items(), ids=str)
def test_directml(axes: tuple[int, ...], hot: list[Any]) -> None:
    np.testing.assert_array_equal(hardmax.oracle(Rows(axes), DIRECTML), hot)
