"""Shapes are fixed and what follows is folded: numbers are compared in onnxruntime, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import shape_graphs

import opshift
from opshift.passes.base.errors import UsageError

CASES = 60
PARTLY = 40


def run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """Return the outputs of a model, whose graph is not optimized."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def same(model: onnx.ModelProto, folded: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    """Compare two models bit for bit."""
    for expected, actual in zip(run(model, feeds), run(folded, feeds), strict=True):
        assert expected.dtype == actual.dtype
        np.testing.assert_array_equal(expected, actual, strict=True)


def dims_of(model: onnx.ModelProto) -> list[str]:
    return [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim]


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("seed", range(CASES))
def test_fixed_shapes_leave_no_shape_arithmetic(seed: int) -> None:
    model = shape_graphs.draw(seed)
    shape = tuple(shape_graphs.SIZES[dim] for dim in dims_of(model))
    result = opshift.convert(model, input_shapes={"x": shape}, decompose=["Loop"], verify=False)
    left = operators(result.rewritten)
    assert not left & {"Shape", "Size", "If", "Loop", "Range", "ConstantOfShape"}
    onnx.checker.check_model(result.rewritten, full_check=True)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    same(model, result.rewritten, {"x": x})


@pytest.mark.parametrize("seed", range(PARTLY))
def test_dims_that_stay_open_can_be_of_any_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = shape_graphs.draw(1000 + seed)
    dims = dims_of(model)
    fixed = {dim: shape_graphs.SIZES[dim] for dim in dims if rng.random() < 0.5}
    result = opshift.convert(model, dims=fixed, fold=True, verify=False)
    compared = 0
    for other in (0, 1, -1):
        sizes = [fixed.get(dim, max(shape_graphs.SIZES[dim] + other, 0)) for dim in dims]
        x = rng.standard_normal(sizes).astype(np.float32)
        try:
            run(model, {"x": x})
        except Exception:
            continue  # the original does not take this size
        same(model, result.rewritten, {"x": x})
        compared += 1
    assert compared


HEAD = '<ir_version: 8, opset_import: ["": {opset}]> '
PARTLY_KNOWN = {
    "a batch that Reshape infers": (
        "s = Shape (x) n = Gather (s, zero) m = Unsqueeze (n, first) t = Concat <axis = 0> (m, all) y = Reshape (x, t)",
        "Reshape",
    ),
    "a dim and a batch that Reshape copies": (
        "s = Shape (x) d = Slice (s, first, two) t = Concat <axis = 0> (d, rest) y = Reshape (x, t)",
        "Reshape",
    ),
    "dims in the shape that are known": ("s = Shape (x) d = Slice (s, two, four) y = Expand (one, d)", "Constant"),
    "Expand as torch writes it": (
        "s = Shape (x) minus = Equal (s, negative) ones = ConstantOfShape <value = int64[1] {1}> (four) "
        "t = Where (minus, ones, s) y = Expand (x, t)",
        "Expand",
    ),
    "arithmetic that leaves a dim alone": (
        "s = Shape (x) t = Mul (s, ones4) u = Sub (t, zeros4) v = Div (u, ones4) w = Cast <to = 6> (v) "
        "z = Cast <to = 7> (w) y = Reshape (x, z)",
        "Reshape",
    ),
}


@pytest.mark.parametrize(("body", "left"), PARTLY_KNOWN.values(), ids=list(PARTLY_KNOWN))
def test_dims_are_known_one_by_one(body: str, left: str) -> None:
    constants = (
        "<int64 zero = {0}, int64[1] first = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[1] rest = {24}, "
        "int64[1] all = {72}, int64[1] negative = {-1}, int64[4] ones4 = {1,1,1,1}, int64[4] zeros4 = {0,0,0,0}, "
        "float[1] one = {1}>"
    )
    text = HEAD.format(opset=17) + f"g (float[n,c,h,w] x) => (float[a,b,k,l] y) {constants} {{ {body} }}"
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    result = opshift.convert(model, dims={"c": 3, "h": 4, "w": 6}, verify=False)
    assert operators(result.rewritten) == {left}
    for n in (0, 1, 5):
        same(model, result.rewritten, {"x": np.arange(n * 72, dtype=np.float32).reshape(n, 3, 4, 6)})


def test_a_copied_dim_and_an_inferred_one_are_not_joined() -> None:
    """Reshape infers no dim of a tensor without elements where another dim is copied."""
    text = (
        HEAD.format(opset=17)
        + """g (float[n,c,8] x) => (float[a,b,k] y) <int64[1] first = {0}, int64[1] one = {1},
        int64[1] two = {2}> { s = Shape (x) n = Slice (s, first, one) c = Slice (s, one, two) d = Mul (c, two)
        f = Concat <axis = 0> (n, d, four) y = Reshape (x, f) }""".replace("four", "k").replace(
            "f = Concat", "k = Add (two, two) f = Concat"
        )
    )
    model = onnx.parser.parse_model(text)
    result = opshift.convert(model, fold=True, verify=False)
    for n in (0, 3):
        same(model, result.rewritten, {"x": np.zeros((n, 2, 8), np.float32)})


LIMIT = "<int64[2] shape = {{{rows}, 1024}}> {{ z = ConstantOfShape (shape) y = Mul (x, z) }}"


@pytest.mark.parametrize(("rows", "left"), [(1024, {"Mul"}), (1025, {"ConstantOfShape", "Mul"})])
def test_a_constant_has_at_most_a_million_elements(rows: int, left: set[str]) -> None:
    text = HEAD.format(opset=17) + "g (float x) => (float[a,b] y) " + LIMIT.format(rows=rows)
    result = opshift.convert(onnx.parser.parse_model(text), fold=True, verify=False)
    assert operators(result.rewritten) == left


def test_what_kernels_round_is_computed_by_onnxruntime() -> None:
    text = (
        HEAD.format(opset=17)
        + """g (float[4] x) => (float[4] y) <float[4] k = {0.1, 1.3, 2.7, 100}> {
        s = Sin (k) e = Exp (k) p = Softmax (e) a = Add (s, p) y = Mul (x, a) }"""
    )
    model = onnx.parser.parse_model(text)
    result = opshift.convert(model, fold=True)
    assert operators(result.rewritten) == {"Mul"}
    same(model, result.rewritten, {"x": np.array([0.3, -1, 7, 1e-3], np.float32)})


@pytest.mark.parametrize("operator", ["RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"])
def test_what_is_random_is_not_folded(operator: str) -> None:
    text = HEAD.format(opset=17) + "g (float[1,4] x) => (float[a,b] y) <float[1,4] k = {0.1, 0.2, 0.3, 0.4}> "
    cast = "f = Cast <to = 1> (r) " if operator == "Multinomial" else "f = Identity (r) "
    model = onnx.parser.parse_model(text + f"{{ r = {operator} (k) {cast} y = Add (x, f) }}")
    assert operator in operators(opshift.convert(model, fold=True, verify=False).rewritten)


def test_quantized_weights_stay() -> None:
    text = (
        HEAD.format(opset=17)
        + """g (float[4] x) => (float[4] y) <int8[4] q = {1, 2, 3, 4}, float scale = {0.5}> {
        w = DequantizeLinear (q, scale) y = Mul (x, w) }"""
    )
    assert operators(opshift.convert(onnx.parser.parse_model(text), fold=True).rewritten) == {"DequantizeLinear", "Mul"}


def test_two_weights_of_one_shape_are_not_taken_for_one() -> None:
    weights = {
        name: np.random.default_rng(place).standard_normal((256, 128)).astype("f") for place, name in enumerate("ab")
    }
    nodes = [onnx.helper.make_node("Transpose", [name], [f"t{name}"]) for name in weights]
    nodes += [onnx.helper.make_node("MatMul", ["x", f"t{name}"], [f"y{name}"]) for name in weights]
    kind = onnx.helper.make_tensor_value_info
    outputs = [kind(f"y{name}", 1, None) for name in weights]
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "g", [kind("x", 1, [2, 128])], outputs, initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    result = opshift.convert(model, fold=True)
    assert operators(result.rewritten) == {"MatMul"}
    assert len(result.rewritten.graph.initializer) == 2
    same(model, result.rewritten, {"x": np.ones((2, 128), np.float32)})


def test_unused_nodes_and_initializers_are_dropped() -> None:
    text = (
        HEAD.format(opset=17)
        + """g (float[n] x) => (float[n] y) <float[1] used = {1}, float[1] idle = {2}> {
        a = Add (x, idle) y = Mul (x, used) s = Shape (x) }"""
    )
    result = opshift.convert(onnx.parser.parse_model(text), fold=True)
    assert operators(result.rewritten) == {"Mul"}
    assert [tensor.name for tensor in result.rewritten.graph.initializer] == ["used"]


def test_a_folded_output_keeps_its_name() -> None:
    for opset in (8, 17):
        text = (
            HEAD.format(opset=opset) + "g (float[2,3] x) => (int64[2] s, float[2,3] y) { s = Shape (x) y = Relu (x) }"
        )
        model = onnx.parser.parse_model(text)
        result = opshift.convert(model, fold=True)
        assert operators(result.rewritten) <= {"Constant", "Identity", "Relu"}
        same(model, result.rewritten, {"x": np.ones((2, 3), np.float32)})


def test_functions_are_inlined_to_be_folded() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float[n,4] x) => (float[a,b] y) { y = own.flat (x) }
        <domain: "own", opset_import: ["": 17]> flat (x) => (y) { s = Shape (x) p = ReduceProd <keepdims = 1> (s)
        y = Reshape (x, p) }"""
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    result = opshift.convert(model, input_shapes={"x": (3, 4)})
    assert operators(result.rewritten) == {"Reshape"}
    assert not result.rewritten.functions
    assert "1 function was inlined to be folded." in result.notes
    text = text.replace("s = Shape (x) p = ReduceProd <keepdims = 1> (s)", "p = Cast <to = 7> (x)")
    assert opshift.convert(onnx.parser.parse_model(text), fold=True, verify=False).plan.nothing_to_do


def test_training_information_is_refused() -> None:
    model = onnx.parser.parse_model(HEAD.format(opset=17) + "g (float[n] x) => (float[n] y) { y = Relu (x) }")
    model.training_info.add().algorithm.name = "step"
    with pytest.raises(UsageError, match="training information"):
        opshift.convert(model, input_shapes={"x": (3,)})
