"""Right results that verification once rejected, by cause, and wrong ones beside them that it still finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.parser import parse_model

import opshift
from opshift.opsets.registry.node_traits import rounds, traits
from opshift.opsets.registry.traits import Trait
from opshift.passes.base.limits import Limits
from opshift.passes.proof.integer_overflow import overflows
from opshift.passes.proof.undefined_behavior import UndefinedFilter
from opshift.passes.runtime.ort_models import Runnable

WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")
NORMALIZATION = "g (float[n,4] x, float[4] s) => (float[n,4] y) {y = RMSNormalization <epsilon = 0.0> (x, s)}"
CASES = [
    *[
        (f"g () => (int32[n] y) <int32 c = {{9}}> {{y = {window} <output_datatype = 6> (c)}}", 22, None, window)
        for window in WINDOWS
    ],
    *[
        (f"g (bool b) => (int32[n] y) <int64 c = {{3}}> {{y = If (b) <then_branch = t () => (int32[n] u) "
         f"{{u = {window} <output_datatype = 6, periodic = 0> (c)}}, else_branch = e () => (int32[n] v) "
         f"{{v = {window} <output_datatype = 6, periodic = 0> (c)}}>}}", 22, None, window)
        for window in WINDOWS
    ],
    ("g (float[2,1] x) => (float[2,1] y) {y = Scan <num_scan_inputs = 1, body = b (float[1] i) => (float[1] o) "
     "{o = Elu <alpha = 2.0> (i)}> (x)}", 23, None, "Elu"),
    ("g () => (float[1,1,1] y) <float[1,2,3] c = {5.0684648, -0.18840422, -0.4895954, -1.7114464, 1.3850708, 0.1}> "
     "{y = ReduceSum <keepdims = 1> (c)}", 12, None, "ReduceSum"),
    (NORMALIZATION, 25, 22, None),
    ("g (float[2] x) => (uint8[2] y, float s, uint8 z) {y, s, z = DynamicQuantizeLinear (x)}", 22, None,
     "DynamicQuantizeLinear"),
    ("g (float[2,1,2,3,1] x, float[1,h,w,2] p) => (float[2,1,1,h,w] y) {y = Scan <num_scan_inputs = 1, "
     "body = b (float[1,2,3,1] i) => (float[1,1,h,w] o) {o = GridSample (i, p)}> (x)}", 19, None, "GridSample"),
    ("g (float[1,1,2,3] x, float[1,h,w,2] p) => (float[1,1,h,w] y) {y = GridSample (x, p)}", 19, None, "GridSample"),
    ("g (int32[n] x) => (int32[n] y) {y = Shrink (x)}", 9, 8, None),
    ("g (int32[4,4] x) => (int32[1,4] y) <int64[1] a = {0}> {y = ReduceLogSumExp (x, a)}", 27, None,
     "ReduceLogSumExp"),
    ("g (float[3,4,3] x) => (float y) {y = ReduceProd <keepdims = 0> (x)}", 13, None, "ReduceProd"),
    ('g (float[3,4,3] x, int64 n) => (float[m] y) {y = Loop (n, "") <body = b (int64 i, bool c) => (bool d, float z) '
     "{d = Identity (c) z = ReduceProd <keepdims = 0> (x)}>}", 13, None, "ReduceProd"),
    ("g (float[2,2,3] q, float[2,k,3] k, float[2,v,3] v) => (float[2,2,3] y) "
     "{y = Attention <q_num_heads = 1, kv_num_heads = 1> (q, k, v)}", 28, 24, None),
    *[
        (f"g (float[{batch},2,3] q, float[{batch},4,3] k, float[{batch},4,3] v, int64[{count}] n) => "
         f"(float[{batch},2,3] y) {{y = Attention <q_num_heads = 1, kv_num_heads = 1> (q, k, v, , , , n)}}",
         25, opset, None)
        for batch, count in ((2, 2), (1, 1), ("b", "m")) for opset in (20, 24)
    ],
    ("g (float[2,2,3,4] x, float[a,b,c] s, float[d,e,f] t) => (float[2,2,3,4] y) {y = RotaryEmbedding (x, s, t)}", 23,
     None, "RotaryEmbedding"),
    ("g (float[a,b] x, float[c,d] z) => (float[a,d] y) {y = Einsum <equation = \"ij,jk->ik\"> (x, z)}", 13, 11, None),
    ("g (int64[3,4] x, int64[n] s) => (int64[a,b] y) {y = ReduceSum (x, s)}", 13, 11, None),
    ("g (int32[n] x) => (int32[] y) {y = ReduceL2 <keepdims = 0> (x)}", 18, 8, None),
    ("g (int64 x) => (int64 y) {y = ReduceL1 (x, )}", 28, 16, None),
    ("g (uint8[a,b,c] x, int64[6] p) => (uint8[d,e,f] y) {y = Pad (x, p)}", 12, 11, None),
    *[
        (f"g (optional({kind}) x) => ({kind} y) {{y = OptionalGetElement (x)}}", 28, opset, None)
        for kind in ("float[n]", "float", "int64[n]", "string[n]") for opset in (15, 16, 18)
    ],
    *[
        (f"g (optional({kind}) x) => (bool y) {{y = OptionalHasElement (x)}}", 28, opset, None)
        for kind in ("float[n]", "int64[n]") for opset in (15, 16)
    ],
    ("g (float[2,b,2,s,h] x, float[3,2,2] k) => (float[2,b,2,s,h] y) <float[3,2,2] c = {1,2,3,4,5,6,7,8,9,10,11,12}> "
     "{y = Scan <num_scan_inputs = 1, body = o (i) => (j) {j = RotaryEmbedding <num_heads = 2> (i, c, k)}> (x)}", 23,
     None, "RotaryEmbedding"),
    *[
        (f"g (float[n,c,h,w] x) => (float[n,c,k,l] y) {{y = {pool} <strides = [2,1], auto_pad = \"{way}\", "
         "kernel_shape = [1,2]> (x)}", 22, 10, None)
        for pool in ("AveragePool", "MaxPool", "LpPool") for way in ("SAME_LOWER", "SAME_UPPER")
    ],
    ("g () => (double[3] y) <double[3] c = {1.555881071948944, -2.2, 0.7}> {y = Gelu <approximate = \"tanh\"> (c)}", 20,
     None, "Gelu"),
    ("g (double[n] x) => (double[n] y) {y = Gelu <approximate = \"tanh\"> (x)}", 20, 19, None),
    ("g (bool[2,3] x, bool[a,b] z) => (bool[c,3] y) {u = Identity (x) y = Concat <axis = -2> (u, z)}", 24, 20, None),
    ("g (float[n,m] x) => (float[n,m] y) <int64 c = {1}> {y = CumProd <exclusive = 1, reverse = 1> (x, c)}", 26, 20,
     None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "source", "opset", "decompose"), CASES)
def test_right_result_is_accepted(text: str, source: int, opset: int | None, decompose: str | None) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {source}]> {text}')
    result = opshift.convert(model, opset=opset, decompose=[decompose] if decompose else ())
    assert result.report is not None
    assert result.report.verdict == "equal", result.report


IN_FUNCTIONS = [
    ("bfloat16 a, bfloat16 b, bfloat16 c", "bfloat16 y", "y = Clip (a, b, c)", 18, 16, None),
    ("float[2] a, float b, int8 c", "int8[2] y", "y = QuantizeLinear (a, b, c)", 10, None, "QuantizeLinear"),
    ("float a, float b, float c", "float y", "y = Swish <alpha = 2.0> (a)", 25, None, "Swish"),
    ("float16[2,2,3] a, int64[4] b, float c", "float16[n,h,w,2] y", "y = AffineGrid <align_corners = 1> (a, b)", 20, 14,
     None),
]  # fmt: skip


@pytest.mark.parametrize("place", ["{y = f.Fn (a, b, c)}", "{t = Constant <value = bool {1}> () y = If (t) <"
                         "then_branch = one () => (u) {u = f.Fn (a, b, c)}, "
                         "else_branch = two () => (v) {v = f.Fn (a, b, c)}>}"], ids=["graph", "If"])  # fmt: skip
@pytest.mark.parametrize(("inputs", "output", "body", "source", "opset", "decompose"), IN_FUNCTIONS)
def test_right_result_in_a_function_is_accepted(
    inputs: str, output: str, body: str, source: int, opset: int | None, decompose: str | None, place: str
) -> None:
    """What the text excludes, and what kernels round, is known of the nodes of functions as of others."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {source}, "f": 1]> g ({inputs}) => ({output}) {place} '
        f'<domain: "f", opset_import: ["": {source}]> Fn (a, b, c) => (y) {{{body}}}'
    )
    result = opshift.convert(model, opset=opset, decompose=[decompose] if decompose else ())
    assert result.report is not None
    assert result.report.verdict != "different", result.report


def test_a_body_without_types_that_fit_is_a_missing_kernel() -> None:
    """ONNX's body of Attention multiplies queries by keys, then by values, with one type for all."""
    text = "g (double[1,2,2] q, double[1,2,2] k, bfloat16[1,2,2] v) => (double[1,2,2] y) {%s}"
    call = "y = Attention <q_num_heads = 1, kv_num_heads = 1> (q, k, v)"
    model = onnx.parser.parse_model(f'<ir_version: 11, opset_import: ["": 28]> {text % call}')
    result = opshift.convert(model, opset=23)
    assert result.report is not None
    reasons = [check.reason for check in (*result.report.nodes, result.report.whole)]
    assert any("the body that onnxruntime inlines has no types that fit" in reason for reason in reasons), reasons


def verdict(original: str, rewritten: str, opset: int) -> str:
    models = (
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {one}') for one in (original, rewritten)
    )
    return str(opshift.verify(*models).verdict)


@pytest.mark.parametrize(
    ("original", "rewritten"),
    [
        ("y = Elu (x)", "y = Elu <alpha = 1.0001> (x)"),
        ("y = Softplus (x)", "e = Exp (x) y = Log (e)"),
        ("y = LpNormalization <axis = 0> (x)", "y = LpNormalization <axis = 0, p = 1> (x)"),
    ],
)
def test_more_than_a_unit_of_one_is_a_difference(original: str, rewritten: str) -> None:
    whole = "g (float[n] x) => (float[n] y) {%s}"
    assert verdict(whole % original, whole % rewritten, 18) == "different"


@pytest.mark.parametrize("kind", ["double", "float"])
def test_more_than_the_constants_of_the_body_are_rounded_by_is_a_difference(kind: str) -> None:
    whole = f"g ({kind}[n] x) => ({kind}[n] y) <{kind} k = {{1.00001}}> {{%s}}"
    call = 'z = Gelu <approximate = "tanh"> (x) y = Max (z, z)'
    assert verdict(whole % call, whole % call.replace("Max (z, z)", "Mul (z, k)"), 20) == "different"


def test_an_integer_window_that_is_off_by_one_is_a_difference() -> None:
    whole = "g () => (int32[n] y) <int32 c = {%d}> {w = HannWindow <output_datatype = 6> (c) y = Add (w, w)}"
    assert verdict(whole % 9, whole.replace("Add (w, w)", "Add (w, c)") % 9, 17) == "different"


def test_sums_of_updates_that_double_does_not_hold_are_compared() -> None:
    whole = (
        "g (int64[4] x, int64[3] i, int64[3] u) => (int64[4] y) <int64[1] a = {0}, int64 k = {9007199254740992}> {%s}"
    )
    right = 'w = Mul (u, k) y = ScatterElements <reduction = "add"> (x, i, w)'
    by_double = right.replace(
        "w = Mul (u, k)", "d = Cast <to = 11> (u) f = Cast <to = 11> (k) e = Mul (d, f) w = Cast <to = 7> (e)"
    )
    assert verdict(whole % right, whole % right, 18) == "equal"
    assert verdict(whole % right, whole % by_double, 18) == "different"


@pytest.mark.parametrize("wrong", ["ReduceLogSumExp <keepdims = 0> (x)", "ReduceLogSum <axes = [1], keepdims = 0> (x)"])
def test_wrong_logarithms_of_sums_of_integers_are_different(wrong: str) -> None:
    whole = "g (int32[3,4] x) => (int32[n] y) {y = %s}"
    right = "ReduceLogSumExp <axes = [1], keepdims = 0> (x)"
    assert verdict(whole % right, whole % right, 13) == "equal"
    assert (
        verdict(whole % right, (whole % wrong).replace("[n] y", " y" if "axes" not in wrong else "[n] y"), 13)
        == "different"
    )


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("ReduceL2", np.array([46340], np.int32), False),
        ("ReduceL2", np.array([46341], np.int32), True),
        ("ReduceL2", np.array([1e30], np.float32), False),
        ("ReduceSum", np.array([2**31 - 1, 1], np.int32), False),
        ("ReduceSum", np.array([2**53 - 1, 1], np.int64), False),
        ("ReduceSum", np.array([2**53, 2], np.int64), True),
        ("ReduceLogSumExp", np.array(2**53, np.int64), False),
        ("ReduceLogSumExp", np.array(2**54, np.int64), True),
        ("ReduceMean", np.array([2**31 - 1, 1], np.int32), True),
        ("ReduceLogSumExp", np.array([3, 2], np.int32), False),
        ("ReduceLogSumExp", np.array([3, 3, 3], np.int32), False),
        ("ReduceLogSumExp", np.array([3, 2, 2, 2, 2, 2], np.int32), True),
        ("ReduceLogSumExp", np.array([-5, -6], np.int32), True),
        ("ReduceLogSumExp", np.array([3], np.int32), False),
        ("Shrink", np.array([2**24], np.int32), False),
        ("Shrink", np.array([2**24 + 1], np.int32), True),
    ],
)
def test_what_overflows(operator: str, value: NDArray[np.generic], expected: bool) -> None:
    assert overflows(onnx.helper.make_node(operator, ["x"], ["y"]), [value]) is expected


@pytest.mark.parametrize(
    ("axes", "options", "expected"),
    [([1], {}, False), ([0], {}, True), ([-1], {}, False), ([], {}, False), (None, {}, True)],
)
def test_logarithms_of_sums_are_looked_at_along_the_reduced_axes(
    axes: list[int] | None, options: dict[str, Any], expected: bool
) -> None:
    node = onnx.helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], **options)
    read = [np.array([[4, -6], [3, -5]], np.int32), None if axes is None else np.array(axes, np.int64)]
    assert overflows(node, read) is expected


@pytest.mark.parametrize(
    ("reduction", "data", "updates", "expected"),
    [
        ("add", [2**30], [2**29, 2**28], False),
        ("add", [2**30], [2**30], True),
        ("add", [0], [-(2**31)], True),
        ("mul", [3], [2**29, 1, 0], False),
        ("mul", [3], [2**29, -2], True),
        ("mul", [0], [2**31 - 1], False),
        ("max", [2**31 - 1], [2**31 - 1], False),
        ("none", [2**31 - 1], [2**31 - 1], False),
    ],
)
def test_what_overflows_once_updates_are_joined(
    reduction: str, data: list[int], updates: list[int], expected: bool
) -> None:
    node = onnx.helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction=reduction)
    narrow = [np.array(data, np.int32), np.zeros(len(updates), np.int64), np.array(updates, np.int32)]
    wide = [np.array(data), narrow[1], np.array(updates)]
    assert overflows(node, narrow) is expected
    assert overflows(node, wide) is False
    assert overflows(node, [np.array([2**53 + 1]), *wide[1:]]) is (reduction == "mul")
    assert overflows(node, [np.array([2**63 - 1]), *wide[1:]]) is (reduction in ("add", "mul"))


def test_what_moves_or_selects_is_compared_bit_for_bit() -> None:
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    assert not [
        name for name in names if rounds(name) and {Trait.MOVES, Trait.SELECTS}.intersection(traits(name).floats)
    ]


QUANTIZED = "<float s = {0.5}, uint8 z = {1}>"
UNWRITTEN = [
    (f"g (uint8[n,c,h,w] x, uint8[m,c,k,l] v) => (uint8[n,m,p,q] y) {QUANTIZED} "
     "{y = QLinearConv (x, s, z, v, s, z, s, z)}", (1, 2, 3, 3), (4, 2, 2, 2)),
    ("g (uint8[n,c,h,w] x, uint8[m,c,k,l] v) => (int32[n,m,p,q] y) {y = ConvInteger (x, v)}", (1, 2, 3, 3),
     (4, 2, 2, 2)),
    (f"g (uint8[n,c] x, uint8[c,m] v) => (uint8[n,m] y) {QUANTIZED} {{y = QLinearMatMul (x, s, z, v, s, z, s, z)}}",
     (3, 2), (2, 4)),
    ("g (uint8[n,c] x, uint8[c,m] v) => (int32[n,m] y) {y = MatMulInteger (x, v)}", (3, 2), (2, 4)),
]  # fmt: skip


def test_the_state_after_an_empty_sequence_does_not_count() -> None:
    """onnxruntime 1.32.0 leaves the cells of LSTM as memory is."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 22]> g (float[s,3,2] x, float[1,4,2] w, float[1,4,1] r) => '
        "(float[1,3,1] y) {v, z, y = LSTM <hidden_size = 1> (x, w, r)}"
    )
    excluded = UndefinedFilter(Runnable(model), (), Limits())
    weights = {"w": np.ones((1, 4, 2), np.float32), "r": np.ones((1, 4, 1), np.float32)}
    assert not excluded({"x": np.ones((2, 3, 2), np.float32), **weights}, False)
    assert excluded({"x": np.ones((0, 3, 2), np.float32), **weights}, False).outputs == {"y"}


@pytest.mark.parametrize(("text", "first", "second"), UNWRITTEN)
def test_a_sum_of_no_products_does_not_count(text: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    """onnxruntime 1.32.0 leaves it as memory is."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 21]> {text}')
    excluded = UndefinedFilter(Runnable(model), (), Limits())
    feeds = {"x": np.ones(first, np.uint8), "v": np.ones(second, np.uint8)}
    assert not excluded(feeds, False)
    shared = 0 if len(second) == 2 else 1
    empty = {"x": np.ones((first[0], 0, *first[2:]), np.uint8), "v": np.delete(feeds["v"], range(2), shared)}
    assert excluded(empty, False).outputs == {"y"}


@pytest.mark.parametrize("new_axis", [0, 1])
def test_a_sequence_joined_with_an_empty_element_of_another_shape_does_not_count(new_axis: int) -> None:
    """onnxruntime 1.32.0 leaves the place of that element as memory is."""
    text = f"g (seq(float[n,3]) x) => (float y) {{y = ConcatFromSequence <axis = 0, new_axis = {new_axis}> (x)}}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    excluded = UndefinedFilter(Runnable(model), (), Limits())
    full, empty = np.ones((2, 3), np.float32), np.ones((0, 3), np.float32)
    assert not excluded({"x": [full, full]}, False)
    assert not excluded({"x": [empty, empty]}, False)
    assert excluded({"x": [full, empty]}, False).outputs == {"y"}


@pytest.mark.slow
def test_double_that_is_stashed_in_float_is_rounded_in_float() -> None:
    """ONNX's body, which onnxruntime runs, and a lowering compute GroupNormalization in float, in different orders."""
    text = """g (double[n,6,4] x, double[6] s) => (double[n,6,4] y)
        {y = GroupNormalization <num_groups = 3> (x, s, s)}"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 21]> {text}')
    report = opshift.convert(model, opset=20).report
    assert report is not None
    assert report.verdict == "equal", report


@pytest.mark.parametrize("other", ["epsilon = 0.002", "epsilon = 0.001, axis = 1"])
def test_variances_of_double_that_cancel_hide_no_wrong_normalization(other: str) -> None:
    text = """g (double[n,6,4] x, double[4] s) => (double[n,6,4] y) {y = LayerNormalization <%s> (x, s)}"""
    assert verdict(text % "epsilon = 0.001", text % other, 17) == "different"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "opset"),
    [
        ("RMSNormalization (x, s)", 22),
        ("LayerNormalization (x, s)", 16),
        ("LpNormalization (x)", 0),
        ("Softmax (x)", 0),
        ("LogSoftmax (x)", 0),
        ("MeanVarianceNormalization <axes = [0]> (x)", 0),
    ],
    ids=lambda value: str(value).partition(" ")[0],
)
def test_long_rows_in_a_branch_are_bounded(node: str, opset: int) -> None:
    """Nothing shows what the sums of a body are rounded to, of thousands of nearly equal numbers."""
    names = ("then", "else")
    branches = ", ".join(f"{name}_branch = {name} () => (float[n] {name}y) {{{name}y = {node}}}" for name in names)
    text = f"g (bool c, float[n] x, float[1] s) => (float[n] y) {{y = If (c) <{branches}>}}"
    source = parse_model(f'<ir_version: 10, opset_import: ["": {23 if opset else 13}]> {text}')
    request: dict[str, Any] = {"opset": opset} if opset else {"decompose": [node.partition(" ")[0]]}
    report = opshift.convert(source, **request).report
    assert report is not None
    assert report.verdict is opshift.Verdict.EQUAL


@pytest.mark.parametrize(
    ("graph", "source", "request_"),
    [
        ("g (int32[1,2,12] x) => (int32[1,a,5,3] y) <int64[2] s = {5, 3}, int64[2] b = {2, 1}> {y = Col2Im (x, s, b)}",
         28, {"opset": 17}),
        ("g (float[2,4,2] x) => (float[2,a,4] y) <int64[1] s = {4}, int64[1] b = {2}> "
         "{y = Col2Im <dilations = [2]> (x, s, b)}", 20, {"opset": 17}),
        ("g (double[n,2,3] x, double[a,b,c] w, double[1] v) => (double[n,k,3] y) "
         '{y = ConvTranspose <auto_pad = "SAME_UPPER", kernel_shape = [2]> (x, w, v)}', 28,
         {"decompose": ["ConvTranspose"]}),
        ("g (float[n,c,3,1,3] x, float[n,3,4,1,3] p) => (float[n,c,3,4,1] y) "
         "{y = GridSample <align_corners = 1> (x, p)}", 28, {"opset": 19}),
        ("g (int64 x) => (int64 y) {y = ReduceProd <keepdims = 0> (x)}", 12, {"decompose": ["ReduceProd"]}),
        ("g (float[1,1,2,1] x, int32[a,b,c] t) => (float y) "
         '{y = NegativeLogLikelihoodLoss <reduction = "sum"> (x, t)}', 21,
         {"decompose": ["NegativeLogLikelihoodLoss"], "opset": 14}),
        ("g (float16 x) => (float16 y) {y = HardSigmoid (x)}", 7, {"decompose": ["HardSigmoid"]}),
    ],
    ids=["sums beyond int32", "dilated blocks of a vector", "weights that do not fit", "no channels",
         "products beyond the whole numbers of double", "labels of another shape", "halves at a bound"],
)  # fmt: skip
def test_right_results_of_the_fuzzer_are_accepted(graph: str, source: int, request_: dict[str, Any]) -> None:
    model = parse_model(f'<ir_version: 8, opset_import: ["": {source}]> {graph}')
    report = opshift.convert(model, **request_).report
    assert report is not None
    assert report.whole.verdict is opshift.Verdict.EQUAL
    assert not any(check.verdict is opshift.Verdict.DIFFERENT for check in report.nodes)


def branches(of_x: str, other: str) -> str:
    held = ", ".join(
        f"{name}_branch = {name} () => (float[n,64] {name}y, float[n,64] {name}z) {{ {of_x} {other} }}".replace(
            "Y", f"{name}y"
        ).replace("Z", f"{name}z")
        for name in ("then", "else")
    )
    inputs = "bool c, float[n,64] x, float[64,64] w, float[64] s"
    return f"g ({inputs}) => (float[n,64] y, float[n,64] z) {{y, z = If (c) <{held}>}}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "wrong"),
    [
        (branches("t = MatMul (x, w) Y = Softmax (t)", "Z = Abs (x)"),
         branches("k = Constant <value = float {1.001}> () t = MatMul (x, w) u = Softmax (t) Y = Mul (u, k)",
                  "Z = Abs (x)")),
        (branches("Y = LayerNormalization (x, s)", "Z = Abs (x)"),
         branches("k = Constant <value = float {1.001}> () u = LayerNormalization (x, s) Y = Mul (u, k)",
                  "Z = Abs (x)")),
        (branches("Y = LayerNormalization (x, s)", "Z = Abs (x)"),
         branches("Y = LayerNormalization (x, s)", "Z = Relu (x)")),
        ("g (float16[n] x) => (float16[n] y) {y = HardSigmoid <alpha = 10.0> (x)}",
         "g (float16[n] x) => (float16[n] y) {y = HardSigmoid <alpha = 11.0> (x)}"),
        ("g (int64[n] i, float[n] x) => (float[n] y) {d = Shape (i) p = ReduceProd <keepdims = 0> (d) "
         "f = Cast <to = 1> (p) y = Mul (x, f)}",
         "g (int64[n] i, float[n] x) => (float[n] y) {d = Shape (i) p = ReduceProd <keepdims = 0> (d) "
         "f = Cast <to = 1> (p) y = Add (x, f)}"),
    ],
    ids=["a factor behind a Softmax", "a factor behind a normalization", "another output", "another slope",
         "a sum for a product"],
)  # fmt: skip
def test_wrong_ones_beside_them_are_found(graph: str, wrong: str) -> None:
    one, other = (parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}') for text in (graph, wrong))
    for each in (one, other):
        onnx.checker.check_model(each, full_check=True)
    assert opshift.verify(one, other).verdict is opshift.Verdict.DIFFERENT


def test_a_function_with_dilations_as_a_parameter_is_verified() -> None:
    text = """<ir_version: 8, opset_import: ["": 18, "f": 1]> g (float[1,4,2] x) => (float[1,2,4] y)
        <int64[1] s = {4}, int64[1] b = {2}> { y = f.F <d = [2]> (x, s, b) }
        <domain: "f", opset_import: ["": 18]> F <d> (x, s, b) => (y) { y = Col2Im <dilations: ints = @d> (x, s, b) }"""
    model = parse_model(text)
    other = parse_model(text.replace("d = [2]", "d = [2] "))
    other.graph.name = "other"
    assert opshift.verify(model, other).verdict is opshift.Verdict.EQUAL


@pytest.mark.parametrize("kind", ["float", "int64"])
def test_a_constant_that_a_branch_does_not_read_leaves_nothing_out(kind: str) -> None:
    """The end of a Slice, as PyTorch writes it, is no number that a sum in a branch may overflow with."""
    whole = (
        f"g ({kind}[4] x, bool c) => ({kind} y) <int64[1] start = {{1}}, int64[1] end = {{9223372036854775807}}> "
        f"{{ a = Slice (x, start, end) y = If (c) "
        f"<then_branch = t () => ({kind} p) {{ p = ReduceSum <keepdims = 0> (a) }}, "
        f"else_branch = e () => ({kind} q) {{ q = %s <keepdims = 0> (a) }}> }}"
    )
    assert verdict(whole % "ReduceMax", whole % "ReduceMin", 13) == "different"
    assert verdict(whole % "ReduceMax", whole % "ReduceMax", 13) == "equal"
