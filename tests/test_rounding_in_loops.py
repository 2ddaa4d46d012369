"""Rounding is measured inside of Loop and Scan, iteration by iteration: right results are equal, and wrong ones not."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import opshift
from opshift.passes.base.limits import Limits
from opshift.passes.base.report import Verdict
from opshift.passes.proof.rounding.taken_paths import Paths
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import Runnable

FORMS = {
    "Scan": "y = Scan <num_scan_inputs = 1, body = b (float[4,4] a) => (float r) { r = Det (a) }> (x)",
    "Loop": "y = Loop (n, c) <body = b (int64 k, bool d) => (bool e, float r) "
    "{ e = Identity (d) a = Gather (x, k) r = Det (a) }>",
    "Loop in Loop": "y = Loop (n, c) <body = b (int64 k, bool d) => (bool e, float r) { e = Identity (d) "
    "a = Gather (x, k) s = Loop (one, c) <body = i (int64 l, bool f) => (bool g, float t) "
    "{ g = Identity (f) t = Det (a) }> r = Squeeze (s) }>",
}

SHOWN = ["Scan", *(pytest.param(form, marks=pytest.mark.slow) for form in ("Loop", "Loop in Loop"))]


def model(form: str, scaled: str = "") -> onnx.ModelProto:
    body = re.sub(r"(\w) = Det \(a\)", scaled or r"\1 = Det (a)", FORMS[form])
    return parse_model(
        '<ir_version: 10, opset_import: ["": 23]> g (float[3,4,4] x) => (float[3] y) '
        f"<int64 n = {{3}}, int64 one = {{1}}, bool c = {{1}}> {{ {body} }}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", SHOWN)
def test_a_determinant_whose_terms_cancel_is_equal(form: str) -> None:
    rewritten = opshift.convert(model(form), decompose=["Det"], verify=False).rewritten
    assert opshift.verify(model(form), rewritten).verdict is Verdict.EQUAL


@pytest.mark.slow
@pytest.mark.parametrize("form", SHOWN)
def test_a_determinant_that_is_off_by_a_ten_thousandth_is_different(form: str) -> None:
    scaled = r"o = Det (a) p = Constant <value_float = 1.0001> () \1 = Mul (o, p)"
    assert opshift.verify(model(form), model(form, scaled)).verdict is Verdict.DIFFERENT


ATTENTION = """<ir_version: 11, opset_import: ["": 27]>
g (float[2,3,4] q, float[2,3,2] k, float[2,3,2] v, bool c) => (int64[2,3,4] y) <float m = {1000000}>
{
    h = If (c) <then_branch = t () => (float[2,3,n] a) { a, s = LinearAttention
        <q_num_heads = 2, kv_num_heads = 1, update_rule = "linear"> (q, k, v) },
        else_branch = e () => (float[2,3,n] b) { b = Neg (q) }>
    z = Mul (h, m)
    y = Cast <to = 7> (z)
}"""


@pytest.mark.slow
def test_integers_behind_a_branch_that_runs_by_its_body_are_equal() -> None:
    """onnxruntime 1.32.0 does not run the body of LinearAttention in an If alone, whose shapes are unknown."""
    original = parse_model(ATTENTION)
    rewritten = opshift.convert(original, decompose=["LinearAttention"], verify=False).rewritten
    assert opshift.verify(original, rewritten).verdict is Verdict.EQUAL
    exchanged = parse_model(ATTENTION.replace("(q, k, v)", "(q, v, k)"))
    assert opshift.verify(original, exchanged).verdict is Verdict.DIFFERENT


WAYS = """<ir_version: 8, opset_import: ["": 17]>
g (float[N,M] x, bool c, int64 n, float[M] s) => (float[M] l, float[N,M] r, float[K,M] q, float[N,M] p)
{
    p = If (c) <then_branch = t () => (float[N,M] a) { a = Relu (x) }, else_branch = e () => (float[N,M] b)
        { b = Neg (x) }>
    l, q = Loop (n, , s) <body = b (int64 k, bool d, float[M] v) => (bool o, float[M] w, float[M] u)
        { o = Not (d) z = Add (v, v) w = Identity (z) u = Identity (v) }>
    i, r = Scan <num_scan_inputs = 1, scan_input_directions = [1], body = b (float[M] v, float[M] f)
        => (float[M] w, float[M] u) { w = Add (v, f) u = Mul (v, f) }> (s, p)
}"""


def test_the_model_along_a_way_computes_the_same() -> None:
    found = parse_model(WAYS)
    interpreter = Interpreter(Runnable(found), Limits())
    paths = Paths(interpreter)
    rng = np.random.default_rng(0)
    ways = set()
    for condition, most, rows in [(True, 1, 3), (False, 0, 2), (True, 5, 1), (False, 1, 100)]:
        x, s = rng.normal(size=(rows, 2)).astype(np.float32), np.array([1, 2], np.float32)
        values = interpreter.values({"x": x, "c": np.array(condition), "n": np.array(most), "s": s})
        way = paths.iterations(values)
        ways.add(way)
        along = paths.model(way, values)
        assert paths.branches(values) == (int(condition), -1, -1)
        again = Interpreter(Runnable(along), Limits()).values({name: values[name] for name in ("x", "c", "n", "s")})
        for name in ("l", "r", "q", "p"):
            np.testing.assert_array_equal(again[name], values[name])
    assert ways == {(1, 1, 3), (0, -1, 2), (1, 1, 1), (0, 1, -1)}


SUMS = {
    "ReduceMean": "r = ReduceMean <keepdims = 0> (a)",
    "ReduceSum": "r = ReduceSum <keepdims = 0> (a)",
    "ReduceL1": "r = ReduceL1 <keepdims = 0> (a)",
    "ReduceL2": "r = ReduceL2 <keepdims = 0> (a)",
    "ReduceSumSquare": "r = ReduceSumSquare <keepdims = 0> (a)",
    "ReduceLogSumExp": "r = ReduceLogSumExp <keepdims = 0> (a)",
    "MatMul": "t = Transpose (a) u = MatMul (a, t) r = ReduceMax <keepdims = 0> (u)",
    "Softmax": "t = Softmax <axis = 0> (a) r = ReduceMax <keepdims = 0> (t)",
    "LayerNormalization": "t = LayerNormalization <axis = 0> (a, w) r = ReduceMax <keepdims = 0> (t)",
}
ROWS = {
    "Scan": "y = Scan <num_scan_inputs = 1, body = b (float[3,2] a) => (float r) {{ {sum} }}> (x)",
    "Loop": "y = Loop (n, c) <body = b (int64 k, bool d) => (bool e, float r) "
    "{{ e = Identity (d) a = Gather (x, k) {sum} }}>",
}


def _rows(form: str, inner: str) -> onnx.ModelProto:
    return parse_model(
        '<ir_version: 10, opset_import: ["": 17]> g (float[5,3,2] x) => (float[5] y) '
        "<int64 n = {5}, bool c = {1}, float[3,2] w = {1,1,1,1,1,1}> {" + ROWS[form].format(sum=inner) + "}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("operator", SUMS)
def test_a_sum_of_rows_that_are_elsewhere_in_memory_is_equal(operator: str, form: str) -> None:
    """A row of 24 bytes in a Scan is not aligned, and a kernel adds its numbers in another order."""
    for seed in range(3):
        result = opshift.convert(_rows(form, SUMS[operator]), decompose=[form], seed=seed)
        assert result.report is not None
        assert result.report.verdict is Verdict.EQUAL


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0001, 1.0])
def test_a_wrong_sum_in_a_scan_that_is_written_out_is_different(factor: float) -> None:
    scaled = f"f = Constant <value_float = {factor}> () s = Mul (a, f) r = ReduceMean <keepdims = 0> (s)"
    rewritten = opshift.convert(_rows("Scan", scaled), decompose=["Scan"], verify=False).rewritten
    found = opshift.verify(_rows("Scan", SUMS["ReduceMean"]), rewritten).verdict
    assert found is (Verdict.EQUAL if factor == 1 else Verdict.DIFFERENT)
