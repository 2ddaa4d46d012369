"""If and Scan: operators whose attributes are graphs. There is no numpy for graphs; whole models are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from refused import line
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
    assert line(refusal) == "no-lowering: If-11 at main/If_0"


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


LINEAR = 'y, s = LinearAttention <q_num_heads = 2, kv_num_heads = 2, update_rule = "linear"> (x, w, w)'
COMPUTED = "z = Shape (x) o = Gather <axis = 0> (z, first) m = Concat <axis = 0> (o, minus) y = Reshape (x, m)"
UNSHAPED = {
    "Attention": (24, (22, 15), "float[1,2,3,4] x, float[1,2,k,4] w", "y = Attention (x, w, w)", (1, 2, 3, 4)),
    "CausalConvWithState": (
        27,
        (26, 15),
        "float[2,2,3] x, float[2,1,k] w",
        "y, s = CausalConvWithState (x, w)",
        (2, 2, 3),
    ),
    "CenterCropPad": (
        18,
        (17, 13),
        "float[2,q,r] x, int64[2] w",
        "y = CenterCropPad <axes = [1, 2]> (x, w)",
        (2, 2, 2),
    ),
    "LinearAttention": (27, (26, 18), "float[1,2,8] x, float[1,k,8] w", LINEAR, (1, 2, 8)),
    "Reshape": (14, (13, 9), "float[2,q,r] x, int64[2] w", COMPUTED, (2, 12)),
    "Trilu": (14, (13, 9), "float[2,q,r] x, float[k] w", "y = Trilu (x)", (2, 3, 4)),
}
"""Nodes in whose place shapes may be computed that onnx does not follow: opset, targets, inputs, nodes, the shape."""

BODIES = {
    "Loop": "(int64 n, ARGS) => (float[] all) <int64[1] first = {0}, int64[1] minus = {-1}> { t = Constant <value = "
    "bool {1}> () all = Loop <body = each (int64 i, bool c) => (bool d, float[] y) { d = Identity (c) BODY }> (n, t) }",
    "Scan": "(float[n] rows, ARGS) => (float[] all) <int64[1] first = {0}, int64[1] minus = {-1}> { all = Scan "
    "<num_scan_inputs = 1, body = each (float row) => (float[] y) { BODY }> (rows) }",
}


@pytest.mark.parametrize("operator", UNSHAPED)
@pytest.mark.parametrize(("kind", "turns"), [("Loop", 2), ("Loop", 0), ("Scan", 2)])
def test_a_body_that_declares_no_shape_returns_it_still(kind: str, turns: int, operator: str) -> None:
    """Scan's kernel requires ranks, and Loop's has the rank of no iterations from what the body returns."""
    opset, targets, arguments, nodes, shape = UNSHAPED[operator]
    head = BODIES[kind].replace("ARGS", arguments).replace("BODY", nodes)
    model = parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {head}')
    for value in (*model.graph.output, *model.graph.node[-1].attribute[-1].g.output[-1:]):
        value.type.tensor_type.ClearField("shape")
    sizes = {"q": 3, "r": 4, "k": 2, "n": turns}
    feed: dict[str, np.ndarray[Any, Any]] = {"n": np.array(turns)}
    for value in model.graph.input[1 if kind == "Loop" else 0 :]:
        tensor = value.type.tensor_type
        dims = [dim.dim_value or sizes[dim.dim_param] for dim in tensor.shape.dim]
        feed[value.name] = np.full(dims, 2, np.int64 if tensor.elem_type == onnx.TensorProto.INT64 else F32)
    for target in targets:
        (found,) = run(converted(model, opset=target), [feed])
        assert found[0].shape == (2, *shape) if turns else found[0].ndim == len(shape) + 1


def test_scan_is_refused_where_an_axis_is_counted_from_the_end() -> None:
    model = parse_model(SCAN.format(opset=11, axis=-1).replace("float[4,2] rows", "float[n,2] rows"))
    (refusal,) = opshift.plan(model, opset=9).refusals
    assert line(refusal) == "no-lowering: Scan-11 at main/Scan_0"


@pytest.mark.parametrize("target", [7, 8])
def test_scan_of_unknown_length_becomes_a_loop_below_its_version(target: int) -> None:
    model = parse_model(SCAN.format(opset=11, axis=0).replace("float[4,2] rows", "float[n,2] rows"))
    result = opshift.convert(model, opset=target)
    assert result.report is not None
    assert result.report.verdict is opshift.Verdict.EQUAL
    assert "Loop" in [node.op_type for node in result.rewritten.graph.node]


def test_what_stands_in_a_branch_is_lowered() -> None:
    model: Any = parse_model(BRANCHES.format(opset=13, other=3, body="Hardmax (x)").replace("[k]", "[3]"))
    inner = [node.op_type for node in converted(model, decompose=["Hardmax"]).graph.node[0].attribute[0].g.node]
    other = [node.op_type for node in converted(model, decompose=["Hardmax"]).graph.node[0].attribute[1].g.node]
    assert "Hardmax" not in inner + other
