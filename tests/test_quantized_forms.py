"""Quantized models in the other form: operators of integers, or floats between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator
from running import run

import opshift
from opshift.cli.main import main
from opshift.passes.base.report import Verdict
from opshift.passes.rewrite import prepare

Constants = dict[str, Any]
U8, I8, F32 = np.uint8, np.int8, np.float32


def names(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def conv_constants(x: Any = U8, w: Any = I8, *, by_kernel: bool = True, seed: int = 0) -> Constants:
    """Return the constants of a quantized convolution of 4 channels to 6."""
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.005, 0.02, 6 if by_kernel else ()).astype(F32)
    # Sums of two products of an unsigned and such a signed byte fit 16 bits, to which some kernels cut them.
    low, high = (-64, 64) if w is I8 else (0, 256)
    return {
        "xs": F32(0.02),
        "xz": x(5),
        "w": rng.integers(low, high, (6, 4, 3, 3)).astype(w),
        "ws": scales,
        "wz": np.zeros(np.shape(scales), w),
        "b": rng.integers(-3000, 3000, 6).astype(np.int32),
        "ys": F32(0.05),
        "yz": x(7),
    }


def model_of(
    nodes: list[onnx.NodeProto], constants: Constants, inputs: dict[str, Any], outputs: dict[str, Any], opset: int = 13
) -> onnx.ModelProto:
    given, made = (
        [helper.make_tensor_value_info(name, *typed) for name, typed in one.items()] for one in (inputs, outputs)
    )
    read = {name for node in nodes for name in node.input}
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in read]
    graph = helper.make_graph(nodes, "g", given, made, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


def qlinear_conv(constants: Constants, opset: int = 13, **attributes: Any) -> onnx.ModelProto:
    """Return a model of one QLinearConv."""
    dtype = helper.np_dtype_to_tensor_dtype(constants["xz"].dtype)
    node = helper.make_node(
        "QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", *["b"] * ("b" in constants)], ["y"], **attributes
    )
    return model_of([node], constants, {"x": (dtype, [1, 4, 8, 8])}, {"y": (dtype, None)}, opset)


def pixels(model: onnx.ModelProto, count: int = 4) -> list[dict[str, Any]]:
    """Return images for the input of a model."""
    (value,) = model.graph.input
    dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    rng = np.random.default_rng(count)
    if dtype == F32:
        return [{"x": rng.normal(0, 2, shape).astype(F32)} for _ in range(count)]
    ends = np.iinfo(dtype)
    return [{"x": rng.integers(ends.min, ends.max + 1, shape).astype(dtype)} for _ in range(count)]


def steps_apart(before: onnx.ModelProto, after: onnx.ModelProto) -> int:
    """Return by how many steps the quantized outputs of two models are apart in onnxruntime at most."""
    feeds = pixels(before)
    pairs = zip(run(before, feeds, optimised=False), run(after, feeds, optimised=False), strict=True)
    return max(int(np.abs(one[0].astype(int) - other[0].astype(int)).max()) for one, other in pairs)


TO_QDQ: dict[str, tuple[Any, Any]] = {
    "by kernel": (conv_constants(), {}),
    "one scale": (conv_constants(by_kernel=False), {"pads": [1, 0, 0, 1]}),
    "of one element": ({**conv_constants(by_kernel=False), "xs": np.full(1, 0.02, F32), "xz": np.full(1, 5, U8)}, {}),
    "one zero point for all kernels": ({**conv_constants(), "wz": I8(0)}, {"auto_pad": "SAME_UPPER"}),
    "signed": (conv_constants(I8), {"strides": [2, 1]}),
    "unsigned kernels": ({**conv_constants(U8, U8, by_kernel=False), "wz": U8(120)}, {"dilations": [2, 1]}),
    "without a bias": ({name: value for name, value in conv_constants().items() if name != "b"}, {}),
}


@pytest.mark.parametrize("case", TO_QDQ)
@pytest.mark.parametrize("opset", [13, 21])
def test_qlinearconv_becomes_floats_between_dequantizelinear_and_quantizelinear(case: str, opset: int) -> None:
    constants, attributes = TO_QDQ[case]
    model = qlinear_conv(constants, opset, **attributes)
    result = opshift.convert(model, quantized="qdq", verify="nodes")
    assert result.report is not None
    assert [check.verdict for check in result.report.nodes] == [Verdict.EQUAL]
    count = 3 if "b" in constants else 2
    assert names(result.rewritten) == ["DequantizeLinear"] * count + ["Conv", "QuantizeLinear"]
    assert steps_apart(model, result.rewritten) <= 1
    held = {tensor.data_type for tensor in result.rewritten.graph.initializer if tensor.name == "w"}
    assert held <= {TensorProto.INT8, TensorProto.UINT8}, "the weights stay narrow"


def test_below_13_a_scale_for_each_kernel_is_no_dequantizelinear() -> None:
    model = qlinear_conv(conv_constants(), 12)
    result = opshift.convert(model, quantized="qdq", require_proof=True)
    assert names(result.rewritten).count("DequantizeLinear") == 1
    assert "Conv" in names(result.rewritten)
    assert "QLinearConv" not in names(result.rewritten)
    assert steps_apart(model, result.rewritten) <= 1


PRODUCTS = """<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]>
g (uint8[m,4] x, int8[4,3] v, int8[3,4] t, int32[3] c) => (uint8[m,n] y)
<float s = {0.2}, uint8 z = {120}, float[3] vs = {0.1, 0.2, 0.3}, int8[3] vz = {0, 0, 0}, float r = {0.7}>
{ y = @ }"""
OTHERS = {
    "QLinearMatMul (x, s, z, v, vs, vz, r, z)": ["DequantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear"],
    "com.microsoft.QGemm <alpha = 2.0, transB = 1> (x, s, z, t, vs, vz, c, r, z)": [
        *["DequantizeLinear"] * 3,
        "Gemm",
        "QuantizeLinear",
    ],
    "com.microsoft.QGemm (x, s, z, v, vs, vz, , r, z)": [
        "DequantizeLinear",
        "DequantizeLinear",
        "Gemm",
        "QuantizeLinear",
    ],
    "com.microsoft.QLinearAdd (x, s, z, x, r, z, s, z)": [
        "DequantizeLinear",
        "DequantizeLinear",
        "Add",
        "QuantizeLinear",
    ],
    "com.microsoft.QLinearSigmoid (x, s, z, r, z)": ["DequantizeLinear", "Sigmoid", "QuantizeLinear"],
}


@pytest.mark.parametrize("call", OTHERS)
def test_other_quantized_operators_become_floats_too(call: str) -> None:
    result = opshift.convert(parse_model(PRODUCTS.replace("@", call)), quantized="qdq", verify="nodes")
    assert result.report is not None
    assert [check.verdict for check in result.report.nodes] == [Verdict.EQUAL]
    assert names(result.rewritten) == OTHERS[call]
    assert [item.domain for item in result.rewritten.opset_import] in ([""], ["", "com.microsoft"])


def test_where_floats_would_round_to_other_steps_integers_are_computed() -> None:
    constants = {**conv_constants(by_kernel=False), "xs": F32(1e4), "ws": F32(1e4), "ys": F32(1e-4)}
    result = opshift.convert(qlinear_conv(constants), quantized="qdq", effort="quick", require_proof=True)
    assert "ConvInteger" in names(result.rewritten)


def test_without_quantized_a_qlinearconv_is_computed_in_integers() -> None:
    result = opshift.convert(qlinear_conv(conv_constants()), decompose=["QLinearConv"], verify=False)
    assert "ConvInteger" in names(result.rewritten)
    assert "DequantizeLinear" not in names(result.rewritten)


def test_a_changed_bias_of_the_qdq_form_is_found() -> None:
    model = qlinear_conv(conv_constants())
    made = opshift.convert(model, quantized="qdq", verify=False).rewritten
    for tensor in made.graph.initializer:
        if tensor.name == "b":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + 200, "b"))
    assert opshift.verify(model, made).verdict is Verdict.DIFFERENT


# --- from DequantizeLinear, an operator and QuantizeLinear to an operator on quantized values -------------------------


def qdq_conv(constants: Constants, opset: int = 13, behind: list[onnx.NodeProto] = [], **attributes: Any) -> Any:  # noqa: B006
    """Return a model of a convolution between DequantizeLinear and QuantizeLinear, with nodes from c to d behind it."""
    make, held = helper.make_node, dict(constants)
    dtype = helper.np_dtype_to_tensor_dtype(np.asarray(held["xz"]).dtype)
    axis: dict[str, Any] = {"axis": 0} if np.ndim(held["ws"]) and opset >= 13 else {}
    nodes = [
        make("DequantizeLinear", ["x", "xs", "xz"], ["xf"], "dx"),
        make("DequantizeLinear", ["w", "ws", *["wz"] * ("wz" in held)], ["wf"], "dw", **axis),
    ]
    if "b" in held:
        held.setdefault("bs", np.asarray(held["xs"] * held["ws"]).astype(F32))
        axis = {"axis": 0} if np.ndim(held["bs"]) and opset >= 13 else {}
        nodes.append(make("DequantizeLinear", ["b", "bs"], ["bf"], "db", **axis))
    nodes += [
        make("Conv", ["xf", "wf", *["bf"] * ("b" in held)], ["c"], "conv", **attributes),
        *behind,
        make("QuantizeLinear", ["d" if behind else "c", "ys", *["yz"] * ("yz" in held)], ["y"], "q"),
    ]
    made = helper.np_dtype_to_tensor_dtype(np.asarray(held.get("yz", U8(0))).dtype)
    return model_of(nodes, held, {"x": (dtype, [1, 4, 8, 8])}, {"y": (made, None)}, opset)


def exact(constants: Constants, x: Any, **attributes: Any) -> Any:
    """Return the quantized convolution of what quantized values stand for, in double."""
    held = {name: np.asarray(value).astype(np.float64) for name, value in constants.items()}
    each = (-1, *(1,) * 3)
    image = (x.astype(np.float64) - held["xz"]) * held["xs"]
    kernels = (held["w"] - held.get("wz", np.zeros(1)).reshape(each)) * held["ws"].reshape(each)
    bias = held["b"] * held["xs"] * held["ws"] if "b" in held else np.zeros(len(kernels))
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    y: Any = ReferenceEvaluator(node).run(None, {"x": image, "w": kernels, "b": bias})[0]  # type: ignore[index]
    zero = np.asarray(constants.get("yz", U8(0)))
    ends = np.iinfo(zero.dtype)
    return np.clip(np.rint(y / held["ys"]) + zero, ends.min, ends.max)


def check_joined(model: onnx.ModelProto, constants: Constants, **attributes: Any) -> onnx.ModelProto:
    """Check that a model becomes one QLinearConv, whose results are those in double but for a step."""
    result = opshift.convert(model, quantized="qoperator", verify=False)
    assert names(result.rewritten) == ["QLinearConv"], result.plan.dequantized
    onnx.checker.check_model(result.rewritten, full_check=True)
    feeds = pixels(model, 2)
    for feed, (y,) in zip(feeds, run(result.rewritten, feeds, optimised=False), strict=True):
        assert np.abs(y.astype(int) - exact(constants, feed["x"], **attributes)).max() <= 1
    return result.rewritten


GROUPED = {**conv_constants(), "w": conv_constants()["w"][:, :2]}
TO_QOPERATOR: dict[str, tuple[Any, Any]] = {
    "by kernel": (conv_constants(), {}),
    "one scale": (conv_constants(by_kernel=False), {"pads": [1, 0, 0, 1]}),
    "of one element": ({**conv_constants(by_kernel=False), "xs": np.full(1, 0.02, F32), "xz": np.full(1, 5, U8)}, {}),
    "signed": (conv_constants(I8), {"strides": [2, 1]}),
    "unsigned kernels": ({**conv_constants(U8, U8, by_kernel=False), "wz": U8(120)}, {"dilations": [2, 1]}),
    "automatic padding": (conv_constants(), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "groups": (GROUPED, {"group": 2}),
    "no bias": ({name: one for name, one in conv_constants().items() if name != "b"}, {"kernel_shape": [3, 3]}),
    "no zero point of the kernels": ({name: one for name, one in conv_constants().items() if name != "wz"}, {}),
    "no zero point of the result": ({name: one for name, one in conv_constants().items() if name != "yz"}, {}),
    "zero points beside zero": ({**conv_constants(), "wz": np.full(6, 3, I8)}, {}),
}


# DequantizeLinear-10 has one scale, which is a scalar.
SCALARS = [case for case, (held, _) in TO_QOPERATOR.items() if not np.ndim(held["xs"]) and not np.ndim(held["ws"])]


@pytest.mark.parametrize(
    ("case", "opset"),
    [*((case, 10) for case in SCALARS), *itertools.product(TO_QOPERATOR, (13, 18, 21, 23, 25))],
)
def test_a_convolution_between_dequantizelinear_and_quantizelinear_becomes_qlinearconv(case: str, opset: int) -> None:
    constants, attributes = TO_QOPERATOR[case]
    check_joined(qdq_conv(constants, opset, **attributes), constants, **attributes)


def test_both_whole_models_are_compared() -> None:
    result = opshift.convert(qdq_conv(conv_constants()), quantized="qoperator", require_proof=True)
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
    steps = {(step.action, step.node.removeprefix("main/")) for step in result.plan.prepared}
    assert steps == {*(("quantize", name) for name in ("conv", "q")), *(("drop", name) for name in ("dx", "dw", "db"))}
    assert result.plan.quantized == "qoperator"


def test_there_and_back_the_nodes_are_the_same() -> None:
    for case, (constants, attributes) in TO_QDQ.items():
        model = qlinear_conv(constants, **attributes)
        there = opshift.convert(model, quantized="qdq", verify=False).rewritten
        back = opshift.convert(there, quantized="qoperator", verify=False).rewritten
        assert names(back) == ["QLinearConv"], case
        (node,), (wanted,) = back.graph.node, model.graph.node
        assert {one.name for one in node.attribute} == {one.name for one in wanted.attribute}, case
        before, after = (
            [next((numpy_helper.to_array(t) for t in one.graph.initializer if t.name == name), None) for name in names_]
            for one, names_ in ((model, wanted.input), (back, node.input))
        )
        for one, other in zip(before, after, strict=True):
            assert one is None or (one == other).all(), case


@pytest.mark.parametrize(
    ("opset", "behind", "scale", "zero"),
    [
        (13, [helper.make_node("Relu", ["c"], ["d"])], 0.05, U8(0)),
        (13, [helper.make_node("Relu", ["c"], ["d"])], 0.05, I8(-128)),
        (10, [helper.make_node("Clip", ["c"], ["d"], min=0.0, max=6.0)], 6 / 255, U8(0)),
        (13, [helper.make_node("Clip", ["c", "zero", "six"], ["d"])], 6 / 255, U8(0)),
        (13, [helper.make_node("Clip", ["c", "zero"], ["e"]), helper.make_node("Relu", ["e"], ["d"])], 0.03, U8(0)),
    ],
)
def test_what_cuts_where_quantizelinear_does_is_absorbed(
    opset: int, behind: list[onnx.NodeProto], scale: float, zero: Any
) -> None:
    constants = {**conv_constants(type(zero), by_kernel=False), "ys": F32(scale), "yz": zero}
    constants |= {"xz": type(zero)(5), "zero": F32(0), "six": F32(6)}
    check_joined(qdq_conv(constants, opset, behind), constants)


CUTS: dict[str, tuple[Any, Any]] = {
    "a zero point above the lowest": ([helper.make_node("Relu", ["c"], ["d"])], {"yz": U8(7)}),
    "a bound below the highest": ([helper.make_node("Clip", ["c", "", "six"], ["d"])], {"yz": U8(0), "ys": F32(0.05)}),
    "a bound that is computed": ([helper.make_node("Clip", ["c", "", "bound"], ["d"])], {"yz": U8(0)}),
    "a function": ([helper.make_node("Sigmoid", ["c"], ["d"])], {}),
}


@pytest.mark.parametrize("case", CUTS)
def test_what_changes_results_on_the_way_stays(case: str) -> None:
    behind, other = CUTS[case]
    if case == "a bound that is computed":
        behind = [helper.make_node("ReduceMax", ["xf"], ["bound"], keepdims=0), *behind]
    model = qdq_conv({**conv_constants(), "six": F32(6), **other}, 13, behind)
    result = opshift.convert(model, quantized="qoperator", verify=False)
    assert "main/conv" in result.plan.dequantized
    assert result.rewritten.SerializeToString() == model.SerializeToString()


STAYS: dict[str, tuple[Any, Any]] = {
    "the scale of its bias": ({"bs": np.full(6, 0.02, F32)}, {}),
    "its bias is not quantized": ({"b": np.zeros(6, I8), "bs": F32(1)}, {}),
    "more than one scale": ({"ys": np.full(6, 0.05, F32), "yz": np.full(6, 7, U8)}, {}),
    "different zero points": ({"wz": np.array([0, 0, 1, 0, 0, 0], I8)}, {}),
    "not above zero": ({"ys": F32(0)}, {}),
    "off by half a step": ({"ys": F32(1e-5)}, {}),
    "no kernel": ({"yz": I8(7)}, {}),
    "16 bits": ({"w": conv_constants()["w"].astype(np.int16), "wz": np.zeros(6, np.int16)}, {}),
}


@pytest.mark.parametrize("words", STAYS)
def test_what_no_qlinearconv_computes_stays_with_the_reason(words: str) -> None:
    other, attributes = STAYS[words]
    model = qdq_conv({**conv_constants(), **other}, 21, **attributes)
    result = opshift.convert(model, quantized="qoperator", verify=False)
    assert words in result.plan.dequantized["main/conv"].replace("has not 8 bits", "16 bits")
    assert result.rewritten.SerializeToString() == model.SerializeToString()


def test_scales_of_one_element_may_be_scalars() -> None:
    other = {"xs": np.array([0.02], F32), "ws": F32(0.01), "wz": I8(0), "bs": F32(np.float32(0.02) * np.float32(0.01))}
    model = qdq_conv({**conv_constants(), **other, "b": np.arange(6, dtype=np.int32)}, 21)
    result = opshift.convert(model, quantized="qoperator", verify=False)
    assert names(result.rewritten) == ["QLinearConv"]


def test_a_product_of_no_terms_stays() -> None:
    text = """<ir_version: 8, opset_import: ["": 18]> g (uint8[3,0] x) => (uint8[3,6] y)
        <float s = {0.1}, uint8 z = {7}, int8[0,6] w = {}, int8 o = {0}> {
        a = DequantizeLinear (x, s, z) b = DequantizeLinear (w, s, o) c = MatMul (a, b)
        y = QuantizeLinear (c, s, z) }"""
    result = opshift.convert(parse_model(text), quantized="qoperator", verify=False)
    assert "QLinearMatMul" not in names(result.rewritten)


# --- products of matrices ---------------------------------------------------------------------------------------------

BETWEEN = """<ir_version: 8, opset_import: ["": 18]>
g (uint8[@] x, int8[#] v) => (uint8[%] y)
<float s = {0.05}, uint8 z = {7}, float[3] ks = {0.01, 0.02, 0.03}, int8[3] kz = {1, 0, -2}, float t = {0.02},
 int8 o = {3}, float r = {0.7}>
{ a = DequantizeLinear (x, s, z)
  b = $
  c = MatMul (a, b)
  y = QuantizeLinear (c, r, z) }"""
ONE, EACH = "DequantizeLinear (v, t, o)", "DequantizeLinear <axis = -1> (v, ks, kz)"
MATRICES = {
    "matrices": ("2,4", "4,3", "2,3", ONE),
    "columns": ("2,4", "4,3", "2,3", EACH),
    "a stack by columns": ("2,3,4", "4,3", "2,3,3", EACH),
    "stacks": ("2,3,4", "2,4,5", "2,3,5", ONE),
    "open sizes": ("n,4", "4,m", "n,m", ONE),
    "a vector": ("4", "4,3", "3", ONE),
}


def matrices(case: str) -> onnx.ModelProto:
    text = BETWEEN
    for mark, value in zip("@#%$", MATRICES[case], strict=True):
        text = text.replace(mark, value)
    return parse_model(text)


@pytest.mark.parametrize("case", MATRICES)
def test_a_product_between_dequantizelinear_and_quantizelinear_becomes_qlinearmatmul(case: str) -> None:
    model = matrices(case)
    result = opshift.convert(model, quantized="qoperator", require_proof=True)
    assert names(result.rewritten) == ["QLinearMatMul"]
    rng = np.random.default_rng(1)
    rows, columns = ([int(dim) if dim.isdigit() else 5 for dim in one.split(",")] for one in MATRICES[case][:2])
    x, v = rng.integers(0, 256, rows).astype(U8), rng.integers(-64, 64, columns).astype(I8)
    (y,) = run(result.rewritten, [{"x": x, "v": v}], optimised=False)[0]
    scale, zero = (0.02, 3) if MATRICES[case][3] == ONE else ([0.01, 0.02, 0.03], [1, 0, -2])
    product = (x.astype(float) - 7) * F32(0.05) @ ((v.astype(float) - zero) * np.array(scale, F32))
    assert np.abs(y - np.clip(np.rint(product / F32(0.7)) + 7, 0, 255)).max() <= 1


GEMM = {
    "Gemm (a, b)": "",
    "Gemm <beta = 0.0> (a, b, bias)": "",
    "Gemm (a, b, bias)": "it adds a third matrix",
    "Gemm <alpha = 0.5> (a, b)": "transposed or scaled",
    "Gemm <transA = 1> (a, b)": "transposed or scaled",
    "Gemm <transB = 1> (a, b)": "transposed or scaled",
}


@pytest.mark.parametrize("call", GEMM)
def test_a_gemm_becomes_qlinearmatmul_where_it_is_a_product(call: str) -> None:
    text = BETWEEN.replace("MatMul (a, b)", call).replace("float r", "float[1] bias = {1.0}, float r")
    for mark, value in zip("@#%$", ("3,3", "3,3", "3,3", ONE), strict=True):
        text = text.replace(mark, value)
    result = opshift.convert(parse_model(text), quantized="qoperator", effort="quick")
    assert GEMM[call] in "".join(result.plan.dequantized.values())
    assert ("QLinearMatMul" in names(result.rewritten)) is not bool(GEMM[call])


LONG = {
    "may not fit int32": ("2,80000", "80000,3", "2,3", ONE),
    "how many products": ("2,k", "k,3", "2,3", ONE),
    "not for columns of one matrix": ("2,4", "3,4,3", "3,2,3", EACH),
}


@pytest.mark.parametrize("words", LONG)
def test_products_that_qlinearmatmul_does_not_compute_stay(words: str) -> None:
    text = BETWEEN
    for mark, value in zip("@#%$", LONG[words], strict=True):
        text = text.replace(mark, value)
    plan = opshift.plan(parse_model(text), quantized="qoperator")
    (reason,) = plan.dequantized.values()
    assert words in reason
    assert not plan.prepared


# --- what surrounds the nodes -----------------------------------------------------------------------------------------

HEAD = '<ir_version: 8, opset_import: ["": 18 @]>'
HELD = "<float s = {0.05}, uint8 z = {7}, float t = {0.02}, int8 o = {3}, float r = {0.7}>"
PRODUCT = """a = DequantizeLinear (x, s, z)
  b = DequantizeLinear (v, t, o)
  c = MatMul (a, b)
  y = QuantizeLinear (c, r, z)"""


def test_a_dequantizelinear_with_several_readers_stays_for_the_others() -> None:
    text = f"{HEAD} g (uint8[2,4] x, int8[4,3] v) => (uint8[2,3] y, float[2,4] e) {HELD} {{ {PRODUCT} e = Neg (a) }}"
    result = opshift.convert(parse_model(text.replace("@", "")), quantized="qoperator", require_proof=True)
    assert sorted(names(result.rewritten)) == ["DequantizeLinear", "Neg", "QLinearMatMul"]


@pytest.mark.parametrize("more", ["=> (uint8[2,3] y, float[2,3] c) @", "=> (uint8[2,3] y, float[2,3] e) @ e = Neg (c)"])
def test_floats_that_others_read_stay(more: str) -> None:
    outputs, _, rest = more.partition("@")
    text = f"{HEAD} g (uint8[2,4] x, int8[4,3] v) {outputs} {HELD} {{ {PRODUCT} {rest} }}"
    plan = opshift.plan(parse_model(text.replace("@", "")), quantized="qoperator")
    assert "is an output, or is read by other nodes" in plan.dequantized["main/MatMul_2"]


INSIDE = {
    "If": """g (uint8[2,4] x, int8[4,3] v, bool p) => (uint8[2,3] w) @ { a = DequantizeLinear (x, s, z)
        w = If (p) <then_branch = i () => (uint8[2,3] y) {
            b = DequantizeLinear (v, t, o) c = MatMul (a, b) y = QuantizeLinear (c, r, z) },
          else_branch = j () => (uint8[2,3] n) {
            b = DequantizeLinear (v, t, o) c = MatMul (a, b) d = Relu (c) n = QuantizeLinear (d, r, z) }> }""",
    "Loop": """g (uint8[2,4] x, int8[4,4] v, int64 k, bool p) => (uint8[2,4] w) @ {
        w = Loop (k, p, x) <body = i (int64 m, bool q, uint8[2,4] h) => (bool q2, uint8[2,4] y) {
            q2 = Identity (q) a = DequantizeLinear (h, s, z) b = DequantizeLinear (v, t, o)
            c = MatMul (a, b) y = QuantizeLinear (c, r, z) }> }""",
}


@pytest.mark.parametrize("case", INSIDE)
def test_nodes_in_graphs_of_nodes_are_joined_too(case: str) -> None:
    model = parse_model(f"{HEAD} {INSIDE[case]}".replace("@", "", 1).replace("@", HELD))
    result = opshift.convert(model, quantized="qoperator", require_proof=True)
    (holder,) = (node for node in result.rewritten.graph.node if node.op_type == case)
    bodies = [attribute.g for attribute in holder.attribute]
    assert "QLinearMatMul" in [node.op_type for node in bodies[-1 if case == "Loop" else 0].node]
    assert all("DequantizeLinear" not in [node.op_type for node in body.node] for body in bodies[-1:] if case == "Loop")
    stays = list(result.plan.dequantized)
    assert stays == (["main/If_1.else_branch/MatMul_1"] if case == "If" else [])


def test_what_is_unused_goes_inside_and_outside_of_a_graph() -> None:
    branch = "b = DequantizeLinear (v, t, o) c = MatMul (a, b)"
    text = f"""{HEAD} g (uint8[2,4] x, int8[4,3] v, bool p) => (uint8[2,3] w) {HELD} {{ a = DequantizeLinear (x, s, z)
        w = If (p) <then_branch = i () => (uint8[2,3] y) {{ {branch} y = QuantizeLinear (c, r, z) }},
          else_branch = j () => (uint8[2,3] n) {{ {branch} n = QuantizeLinear (c, s, z) }}> }}"""
    model = parse_model(text.replace("@", ""))
    result = opshift.convert(model, quantized="qoperator", effort="quick", require_proof=True)
    assert names(result.rewritten) == ["If"]
    for attribute in result.rewritten.graph.node[0].attribute:
        assert [node.op_type for node in attribute.g.node] == ["QLinearMatMul"]
    assert [str(step.action) for step in result.plan.prepared].count("drop") == 3


def test_nodes_of_functions_are_joined_too() -> None:
    text = f"""{HEAD} g (uint8[2,4] x, int8[4,3] v) => (uint8[2,3] w) {HELD} {{ w = own.product (x, v, s, z, t, o, r) }}
      <domain: "own", opset_import: ["": 18]> product (x, v, s, z, t, o, r) => (y) {{ {PRODUCT} }}"""
    model = parse_model(text.replace("@", ', "own": 1'))
    result = opshift.convert(model, quantized="qoperator", require_proof=True)
    assert names(result.rewritten) == ["QLinearMatMul"]


def test_functions_that_are_not_inlined_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"""{HEAD} g (uint8[2,4] x, int8[4,3] v) => (uint8[2,3] w) {HELD} {{ w = own.product (x, v, s, z, t, o, r) }}
      <domain: "own", opset_import: ["": 18]> product (x, v, s, z, t, o, r) => (y) {{ {PRODUCT} }}"""
    monkeypatch.setattr(prepare, "INLINED", 0)
    plan = opshift.plan(parse_model(text.replace("@", ', "own": 1')), quantized="qoperator")
    assert plan.dequantized == {"function product": "the functions of the model are too large to be inlined"}


def test_a_target_without_the_operator_keeps_the_floats() -> None:
    plan = opshift.plan(matrices("matrices"), quantized="qoperator", target="onnxruntime", decompose=["QLinearMatMul"])
    assert plan.dequantized == {"main/MatMul_2": "QLinearMatMul is to be decomposed"}
    plan = opshift.plan(matrices("matrices"), quantized="qoperator", opset=9)
    assert "opset 9 has no QLinearMatMul" in plan.dequantized["main/MatMul_2"]


# --- faults are found -------------------------------------------------------------------------------------------------


def changed(model: onnx.ModelProto, **values: Any) -> onnx.ModelProto:
    """Return a model with other constants."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for tensor in other.graph.initializer:
        if tensor.name in values:
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(values[tensor.name]), tensor.name))
    return other


FAULTS: dict[str, Any] = {
    "scales of input and result exchanged": {"xs": F32(0.05), "ys": F32(0.02)},
    "no zero point of the input": {"xz": U8(0)},
    "no zero point of the result": {"yz": U8(0)},
    "scales of kernels in another order": {"ws": conv_constants()["ws"][::-1]},
    "a bias of another scale": {"b": conv_constants()["b"] * 2},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", ["qoperator", "qdq"])
def test_a_fault_in_the_other_form_is_found(fault: str, form: str) -> None:
    constants = conv_constants()
    model = qdq_conv(constants) if form == "qoperator" else qlinear_conv(constants)
    made = opshift.convert(model, quantized=form, verify=False).rewritten
    assert opshift.verify(model, made, effort="quick").verdict is Verdict.EQUAL
    assert opshift.verify(model, changed(made, **FAULTS[fault]), effort="quick").verdict is Verdict.DIFFERENT


# --- operators that move or select ------------------------------------------------------------------------------------

MOVED = {
    "MaxPool": ("uint8[1,2,4,4] x", "MaxPool <kernel_shape = [2, 2], pads = [0, 1, 1, 0]> (a)"),
    "Reshape": ("uint8[2,6] x", "Reshape (a, shape)"),
    "Transpose": ("uint8[2,3] x", "Transpose <perm = [1, 0]> (a)"),
    "Flatten": ("uint8[2,3,4] x", "Flatten (a)"),
    "Squeeze": ("uint8[2,1,3] x", "Squeeze (a, one)"),
    "Unsqueeze": ("uint8[2,3] x", "Unsqueeze (a, one)"),
}
AROUND = """<ir_version: 8, opset_import: ["": 18]> g (@) => (uint8[?] y)
<float s = {0.05}, uint8 z = {7}, int64[2] shape = {3, -1}, int64[1] one = {1}, float r = {#}>
{ a = DequantizeLinear (x, s, z) b = $ y = QuantizeLinear (b, r, z) }"""


def around(name: str, scale: str = "0.05") -> onnx.ModelProto:
    given, call = MOVED[name]
    model = parse_model(AROUND.replace("@", given).replace("$", call).replace("#", scale).replace("[?]", ""))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_or_selects_elements_does_so_with_quantized_ones(name: str) -> None:
    model = around(name)
    result = opshift.convert(model, quantized="qoperator", verify=False)
    assert names(result.rewritten) == [name]
    feeds = pixels(model)
    for one, other in zip(run(model, feeds), run(result.rewritten, feeds), strict=True):
        np.testing.assert_array_equal(one[0], other[0])


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements_to_another_scale_stays(name: str) -> None:
    (reason,) = opshift.plan(around(name, "0.06"), quantized="qoperator").dequantized.values()
    assert "another type, scale or zero point" in reason


def test_what_another_opset_has_in_another_version_stays() -> None:
    plan = opshift.plan(around("Squeeze"), quantized="qoperator", opset=12)
    assert "opset 12 has another Squeeze" in plan.dequantized["main/Squeeze_1"]


# --- models that onnxruntime has quantized ----------------------------------------------------------------------------

NET = """<ir_version: 8, opset_import: ["": 13]> g (float[n,3,12,12] x) => (float[n,5] y) {
  c = Conv <pads = [1, 1, 1, 1]> (x, w1, b1) r = Relu (c) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
  d = Conv <pads = [1, 1, 1, 1], group = 2> (p, w2, b2) a = Add (d, p) e = Relu (a)
  f = Conv (e, w3) k = Clip (f, zero, six) m = GlobalAveragePool (k) v = Flatten (m)
  o = MatMul (v, w4) y = Gemm <transB = 1> (o, w5, b5) }"""
SIZES: dict[str, Any] = {
    "w1": (8, 3, 3, 3),
    "b1": 8,
    "w2": (8, 4, 3, 3),
    "b2": 8,
    "w3": (6, 8, 1, 1),
    "w4": (6, 7),
    "w5": (5, 7),
    "b5": 5,
}


class Images:
    """What onnxruntime calibrates with."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self._left = iter([{"x": rng.normal(size=(2, 3, 12, 12)).astype(F32)} for _ in range(4)])

    def get_next(self) -> dict[str, Any] | None:
        return next(self._left, None)


def net_by_onnxruntime(folder: Path, form: str, image: str, kernels: str) -> onnx.ModelProto:
    from onnxruntime import quantization

    model, rng = parse_model(NET), np.random.default_rng(3)
    for name, size in SIZES.items():
        model.graph.initializer.append(numpy_helper.from_array((rng.normal(size=size) * 0.3).astype(F32), name))
    model.graph.initializer.extend(numpy_helper.from_array(np.array(n, F32), m) for m, n in (("zero", 0), ("six", 6)))
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "net.onnx")
    quantization.quantize_static(
        folder / "net.onnx",
        folder / "quantized.onnx",
        Images(),
        quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[image],
        weight_type=quantization.QuantType[kernels],
        per_channel=kernels == "QInt8",
    )
    return onnx.load(folder / "quantized.onnx")


TYPES = [("QUInt8", "QInt8"), ("QUInt8", "QUInt8"), ("QInt8", "QInt8")]


@pytest.mark.slow
@pytest.mark.parametrize("types", TYPES)
def test_a_qdq_model_of_onnxruntime_takes_the_other_form(types: tuple[str, str], tmp_path: Path) -> None:
    model = net_by_onnxruntime(tmp_path, "QDQ", *types)
    result = opshift.convert(model, quantized="qoperator", require_proof=True)
    assert names(result.rewritten).count("QLinearConv") == 3
    assert names(result.rewritten).count("QLinearMatMul") == 1
    assert {"Conv", "MatMul", "Relu"}.isdisjoint(names(result.rewritten))
    assert {node.rstrip("_0123456789") for node in result.plan.dequantized} == {
        "main/Add",
        "main/GlobalAveragePool",
        "main/Gemm",
    }


@pytest.mark.slow
@pytest.mark.parametrize("types", TYPES)
def test_a_qoperator_model_of_onnxruntime_takes_the_other_form(types: tuple[str, str], tmp_path: Path) -> None:
    model = net_by_onnxruntime(tmp_path, "QOperator", *types)
    result = opshift.convert(model, quantized="qdq", require_proof=True)
    assert not [name for name in names(result.rewritten) if name.startswith(("QLinear", "QGemm"))]
    assert [names(result.rewritten).count(name) for name in ("Conv", "MatMul", "Gemm", "Add")] == [3, 1, 1, 1]
    both = [names(one).count("DequantizeLinear") for one in (model, result.rewritten)]
    assert both[0] < both[1]


def test_weights_that_are_quantized_at_run_time_and_scales_of_constant_nodes_are_read() -> None:
    constants = conv_constants(by_kernel=False)
    model = qdq_conv(constants)
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    kernels = numpy_helper.to_array(held["w"]).astype(F32) * constants["ws"]
    held["w"].CopyFrom(numpy_helper.from_array(kernels, "wide"))
    nodes = [helper.make_node("Constant", [], [name], value=held[name]) for name in ("xs", "ws", "wz", "bs")]
    nodes += [helper.make_node("QuantizeLinear", ["wide", "ws", "wz"], ["w"]), *model.graph.node]
    kept = [tensor for name, tensor in held.items() if name not in ("xs", "ws", "wz", "bs")]
    graph = helper.make_graph(nodes, "g", model.graph.input, model.graph.output, kept)
    other = helper.make_model(graph, opset_imports=model.opset_import, ir_version=7)
    result = opshift.convert(other, quantized="qoperator", effort="quick", require_proof=True)
    assert names(result.rewritten) == ["Constant"] * 3 + ["QuantizeLinear", "QLinearConv"]
    assert {node.output[0] for node in result.rewritten.graph.node[:3]} == {"xs", "ws", "wz"}
    assert steps_apart(other, result.rewritten) <= 1


@pytest.mark.parametrize("opset", [11, 14, 22])
def test_the_form_and_the_opset_change_at_once(opset: int) -> None:
    constants = conv_constants(by_kernel=False)
    there = opshift.convert(qdq_conv(constants, 18), quantized="qoperator", opset=opset, verify=False).rewritten
    assert (names(there), there.opset_import[0].version) == (["QLinearConv"], opset)
    back = opshift.convert(there, quantized="qdq", opset=18, effort="quick", require_proof=True).rewritten
    assert names(back) == ["DequantizeLinear"] * 3 + ["Conv", "QuantizeLinear"]


def test_the_command_line_names_what_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(qdq_conv({**conv_constants(), "bs": np.full(6, 0.02, F32)}), tmp_path / "qdq.onnx")
    assert main(["plan", str(tmp_path / "qdq.onnx"), "--quantized", "qoperator"]) == 0
    shown = "".join(capsys.readouterr())
    assert "main/conv: the scale of its bias is not the product of the scales of its inputs" in shown
    assert main(["plan", str(tmp_path / "qdq.onnx"), "--quantized", "qoperator", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert (plan["quantized"], list(plan["dequantized"])) == ("qoperator", ["main/conv"])
