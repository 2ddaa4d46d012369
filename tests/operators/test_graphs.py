"""If and Scan: operators whose attributes are graphs. There is no numpy for graphs; whole models are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from operators.harness import F32, arr, converted

BRANCHES = """<ir_version: 8, opset_import: ["": {opset}]>
g (bool cond, float[3] x) => (float[k] y) {{
    y = If (cond) <
        then_branch = then () => (float[3] a) {{ a = Neg (x) }},
        else_branch = other () => (float[{other}] b) {{ b = {body} }}
    >
}}"""
SCAN = """<ir_version: 8, opset_import: ["": {opset}]>
g (float[2] first, float[4,2] rows) => (float[2] last, float[k,m] sums) {{
    last, sums = Scan <num_scan_inputs = 1, scan_output_axes = [{axis}], body = each (float[2] sum, float[2] row)
        => (float[2] next, float[2] out) {{ next = Add (sum, row) out = Identity (next) }}> (first, rows)
}}"""


@pytest.mark.parametrize("target", [7, 9, 11, 13, 26])
@pytest.mark.parametrize("cond", [True, False])
def test_if_goes_everywhere(target: int, cond: bool) -> None:
    model = parse_model(BRANCHES.format(opset=16, other=3, body="Abs (x)").replace("[k]", "[3]"))
    feeds = {"cond": np.array(cond), "x": arr([1, -2, 3])}
    before, after = run(model, [feeds]), run(converted(model, opset=target), [feeds])
    np.testing.assert_array_equal(before[0][0], after[0][0])


def test_branches_of_different_shapes_do_not_go_below_11() -> None:
    model = parse_model(BRANCHES.format(opset=11, other=6, body="Concat <axis = 0> (x, x)"))
    (refusal,) = opshift.plan(model, opset=10).refusals
    assert "the branches give shapes (3,) and (6,)" in refusal.reason


@pytest.mark.parametrize("target", [9, 11, 16, 26])
@pytest.mark.parametrize("axis", [0, 1])
def test_scan_goes_wherever_it_exists(target: int, axis: int) -> None:
    model = parse_model(SCAN.format(opset=11, axis=axis))
    feeds = {"first": arr([1, 2]), "rows": np.arange(8, dtype=F32).reshape(4, 2)}
    before, after = run(model, [feeds]), run(converted(model, opset=target), [feeds])
    for one, other in zip(before[0], after[0], strict=True):
        np.testing.assert_array_equal(one, other)


UNTYPED = """<ir_version: 8, opset_import: ["": 18]>
g (float[2,1] first, float[4,2] data) => (float[2,1] last, float[k,m] sums) {
    last_axis = Constant <value = int64[1] {-1}> ()
    shape = Shape <start = 0, end = 1> (data)
    two = Constant <value = int64[1] {2}> ()
    both = Concat <axis = 0> (shape, two)
    rows = Reshape (data, both)
    last, sums = Scan <num_scan_inputs = 1, body = each (sum, row) => (next, out) {
        column = Unsqueeze (row, last_axis)
        next = Add (sum, column)
        out = Squeeze (next, last_axis)
    }> (first, rows)
}"""


@pytest.mark.parametrize("target", [9, 11, 13, 16])
def test_scan_whose_graph_tells_no_shapes_still_runs(target: int) -> None:
    """Its kernel asks for shapes, which follow from a computed shape, and from axes outside of the graph."""
    model = parse_model(UNTYPED)
    feeds = {"first": arr([[1], [2]]), "data": np.arange(8, dtype=F32).reshape(4, 2)}
    before, after = run(model, [feeds]), run(converted(model, opset=target), [feeds])
    for one, other in zip(before[0], after[0], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("axis", "target", "words"), [(-1, 9, "no negative axis is defined"), (0, 8, "Scan-8")])
def test_scan_is_refused(axis: int, target: int, words: str) -> None:
    (refusal,) = opshift.plan(parse_model(SCAN.format(opset=11, axis=axis)), opset=target).refusals
    assert words in refusal.reason


def test_what_stands_in_a_branch_is_lowered() -> None:
    model: Any = parse_model(BRANCHES.format(opset=13, other=3, body="Hardmax (x)").replace("[k]", "[3]"))
    inner = [node.op_type for node in converted(model, decompose=["Hardmax"]).graph.node[0].attribute[0].g.node]
    other = [node.op_type for node in converted(model, decompose=["Hardmax"]).graph.node[0].attribute[1].g.node]
    assert "Hardmax" not in inner + other
