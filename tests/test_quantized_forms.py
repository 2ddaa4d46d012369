"""Quantized models in the other form: operators of integers, or floats between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from running import run

import opshift
from opshift.passes.base.results import Verdict

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
    values = [[helper.make_tensor_value_info(name, *typed) for name, typed in one.items()] for one in (inputs, outputs)]
    read = {name for node in nodes for name in node.input}
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in read]
    graph = helper.make_graph(nodes, "g", *values, held)
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


TO_QDQ = {
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
    assert [check.verdict for check in result.report.nodes] == [Verdict.EQUAL]
    assert names(result.rewritten) == OTHERS[call]
    assert [item.domain for item in result.rewritten.opset_import] in ([""], ["", "com.microsoft"])


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
