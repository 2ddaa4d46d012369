"""Calls of functions: attributes of every kind, inputs that a conversion leaves unread, defaults that are spelled."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper
from running import run

import opshift
from opshift.passes.base.plan import Code

TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("", TensorProto.FLOAT, [1], [3.0]), helper.make_tensor("", TensorProto.INT64, [1], [1]), [2]
)


def branch(value: float) -> onnx.GraphProto:
    constant = helper.make_node("Constant", [], ["c"], value_float=value)
    return helper.make_graph([constant], "branch", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, [])])


def calling(
    node: onnx.NodeProto, inputs: Mapping[str, onnx.TypeProto], output: onnx.TypeProto, opset: int, **given: Any
) -> onnx.ModelProto:
    """Return a model that calls a function of one node twice; `given` are the function's attributes."""
    function = helper.make_function(
        "local", "F", list(inputs), ["y"], [node], [helper.make_opsetid("", opset)], list(given)
    )
    calls = [helper.make_node("F", list(inputs), [name], domain="local", **given) for name in ("y", "z")]
    graph = helper.make_graph(
        calls,
        "g",
        [helper.make_value_info(name, kind) for name, kind in inputs.items()],
        [helper.make_value_info(name, output) for name in ("y", "z")],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=8)


def referring(node: onnx.NodeProto, name: str, kind: int) -> onnx.NodeProto:
    node.attribute.add(name=name, ref_attr_name="p", type=kind)
    return node


def with_attribute(kind: str) -> onnx.ModelProto:
    """Return a call with an attribute of this kind."""
    attribute: Any = AttributeProto
    scalar = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    if kind == "type":
        node = referring(helper.make_node("Optional", [], ["y"]), "type", attribute.TYPE_PROTO)
        return calling(node, {}, helper.make_optional_type_proto(TENSOR), 20, p=TENSOR)
    if kind == "tensor":
        node = referring(helper.make_node("Constant", [], ["y"]), "value", attribute.TENSOR)
        return calling(node, {}, TENSOR, 20, p=helper.make_tensor("", TensorProto.FLOAT, [2], [1, 2]))
    if kind == "sparse tensor":
        node = referring(helper.make_node("Constant", [], ["y"]), "sparse_value", attribute.SPARSE_TENSOR)
        return calling(node, {}, TENSOR, 20, p=SPARSE)
    node = helper.make_node("If", ["x"], ["y"], else_branch=branch(2.0))
    node = referring(node, "then_branch", attribute.GRAPH)
    return calling(node, {"x": helper.make_tensor_type_proto(TensorProto.BOOL, [])}, scalar, 20, p=branch(1.0))


REQUESTS: list[dict[str, Any]] = [
    *({"opset": opset} for opset in (11, 17, 21)),
    *({"target": target} for target in ("onnxruntime", "webgpu")),
    {"decompose": ["Constant"]},
]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
@pytest.mark.parametrize("kind", ["type", "tensor", "sparse tensor", "graph"])
def test_an_attribute_of_any_kind_is_converted_or_refused(kind: str, request_: Mapping[str, Any]) -> None:
    model = with_attribute(kind)
    onnx.checker.check_model(model)
    try:
        converted = opshift.convert(model, verify=False, **request_).model
    except opshift.UnsupportedError:
        return
    assert isinstance(converted, onnx.ModelProto)
    onnx.checker.check_model(converted)
    assert len(converted.functions) == 1  # the calls are of one kind


FLOAT8 = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ)


@pytest.mark.parametrize(
    "dtype", [*FLOAT8, TensorProto.INT4, TensorProto.UINT4, TensorProto.BFLOAT16, TensorProto.INT8]
)
@pytest.mark.parametrize("operator", ["CastLike", "Shape", "Size"])
def test_an_input_left_unread_has_a_type_that_onnxruntime_takes(operator: str, dtype: int) -> None:
    kind, wanted = helper.make_tensor_type_proto(dtype, [4, 0]), helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
    inputs = {"a": kind, "b": wanted} if operator == "CastLike" else {"a": kind}
    output = helper.make_tensor_type_proto(TensorProto.FLOAT if operator == "CastLike" else TensorProto.INT64, None)
    model = calling(helper.make_node(operator, list(inputs), ["y"]), inputs, output, 21)
    for request_ in ({"opset": 14}, {"decompose": [operator]}):
        try:
            converted = opshift.convert(model, verify=False, **request_).model
        except opshift.UnsupportedError as error:
            codes = {refusal.code for refusal in error.refusals}
        else:
            codes = set()
        if codes:
            # bfloat16 is among the types that an input may have that nothing reads.
            assert dtype > TensorProto.BFLOAT16
            assert codes <= {Code.TYPE, Code.NO_LOWERING, Code.ABSENT_OPERATOR}
            continue
        assert isinstance(converted, onnx.ModelProto)
        for function in converted.functions:
            read = {name for node in function.node for name in node.input}
            assert set(function.input[:1]) <= read or dtype <= TensorProto.BFLOAT16


@pytest.mark.parametrize(("source", "target"), [*itertools.product((9, 12), (13, 18, 23))])
def test_mean_variance_normalization_runs_in_a_function(source: int, target: int) -> None:
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 2, 2, 3])
    model = calling(helper.make_node("MeanVarianceNormalization", ["x"], ["y"]), {"x": kind}, kind, source)
    x = np.random.default_rng(0).standard_normal((2, 2, 2, 3), np.float32)
    converted = opshift.convert(model, opset=target, verify=False).model
    assert isinstance(converted, onnx.ModelProto)
    for one, other in zip(run(model, [{"x": x}])[0], run(converted, [{"x": x}])[0], strict=True):
        np.testing.assert_array_equal(one, other)


WHOLE = ("int8", "uint8")


@pytest.mark.parametrize("target", [10, 13, 20])
@pytest.mark.parametrize(("left", "right"), [*itertools.product(WHOLE, WHOLE)])
@pytest.mark.parametrize("operator", ["MatMulInteger", "ConvInteger"])
@pytest.mark.parametrize("zeros", [0, 1])
def test_zero_points_have_the_types_of_the_call(operator: str, left: str, right: str, zeros: int, target: int) -> None:
    kinds = [onnx.TensorProto.DataType.Value(name.upper()) for name in (left, right)]
    dims = [1, 1, 2, 2] if operator == "ConvInteger" else [2, 2]
    inputs = {
        "x": helper.make_tensor_type_proto(kinds[0], dims),
        "w": helper.make_tensor_type_proto(kinds[1], dims),
        **({"zero": helper.make_tensor_type_proto(kinds[0], [])} if zeros else {}),
    }
    output = helper.make_tensor_type_proto(TensorProto.INT32, None)
    model = calling(helper.make_node(operator, list(inputs), ["y"]), inputs, output, 25)
    numbers = np.arange(4).reshape(dims)
    feed = {"x": numbers.astype(left), "w": numbers.astype(right), "zero": np.array(1, left)}
    try:
        expected = run(model, [feed])[0]
    except Exception:  # onnxruntime has no kernel for these types
        return
    result = opshift.convert(model, opset=target, verify=False).model
    assert isinstance(result, onnx.ModelProto)
    for one, other in zip(expected, run(result, [feed])[0], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("element", "lowered"), [("float", True), ("float8e4m3fn", False)])
def test_a_lowering_is_for_the_types_of_the_call(element: str, lowered: bool) -> None:
    """IsNaN takes float8, which the comparison that says it on a target without IsNaN does not."""
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 20, "f": 1]> g ({element}[3] x) => (bool[3] y) {{y = f.Fn (x)}} '
        f'<domain: "f", opset_import: ["": 20]> Fn (x) => (y) {{y = IsNaN (x)}}'
    )
    plan = opshift.plan(model, target="webnn")
    assert plan.possible is lowered
    assert lowered or plan.refusals[0].code in (Code.TYPE, Code.NO_LOWERING)
