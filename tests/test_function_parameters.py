"""Attributes that are a function's parameters: their defaults decide nothing, neither elements nor what is legal."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from running import run

import opshift
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Node, Operator, known_operators, lift
from opshift.opsets.registry.schema import schema_at


@pytest.mark.parametrize("operator", known_operators(), ids=lambda one: one.name)
def test_a_required_attribute_without_a_value_is_a_missing_fact(operator: Operator) -> None:
    """Lifting a node whose required attribute only a call gives returns a reason."""
    for version in operator.versions:
        schema = schema_at(operator.domain, operator.name, version.since)
        if schema is None or not any(required for required, _ in schema.attributes.values()):
            continue
        inputs = (Facts(),) * max(len(schema.inputs), 1)
        node = Node(operator.domain, operator.name, version.since, {}, inputs, (True,) * max(len(schema.outputs), 1))
        found = lift(operator, node, "runtime")
        assert isinstance(found, Reason)
        assert found.missing


FOLDED = {
    "Shrink": ("bias", "float", "0.25", "float[3] {1.0, 2.0, -3.0}", "float[3]"),
    "ReduceSum": ("keepdims", "int", "0", "float[3] {1.0, 2.0, -3.0}", "float"),
    "ArgMax": ("select_last_index", "int", "1", "float[3] {2.0, 2.0, -3.0}", "int64[1]"),
    "Concat": ("axis", "int", "0", "float[3] {1.0, 2.0, -3.0}", "float[3]"),
    "Flatten": ("axis", "int", "0", "float[3,1] {1.0, 2.0, -3.0}", "float[1,3]"),
    "Transpose": ("perm", "ints", "[0, 1]", "float[3,1] {1.0, 2.0, -3.0}", "float[3,1]"),
    "Gather": ("axis", "int", "1", "float[3,1] {1.0, 2.0, -3.0}", "float[3]"),
    "Shape": ("start", "int", "1", "float[3,1] {1.0, 2.0, -3.0}", "int64[1]"),
    "CumSum": ("reverse", "int", "1", "float[3] {1.0, 2.0, -3.0}", "float[3]"),
}
"""A parameter, its type and the value that the call gives; a constant, and the type of the output."""


@pytest.mark.parametrize("name", list(FOLDED))
def test_a_constant_is_folded_with_the_parameter_of_the_call(name: str) -> None:
    """The function is planned for its call, and what is folded has the call's value, not the default."""
    parameter, kind, value, constant, made = FOLDED[name]
    more = {"Gather": ", z", "CumSum": ", z"}.get(name, "")
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18, "local": 1]> g () => ({made} y) {{ y = local.F <p = {value}> () }}'
        f'<domain: "local", opset_import: ["": 18]> F <p> () => (y) {{'
        f" c = Constant <value = {constant}> () z = Constant <value = int64 {{0}}> ()"
        f" y = {name} <{parameter}: {kind} = @p> (c{more}) }}"
    )
    ((wanted,),) = run(model, [{}])
    planned = opshift.plan(model, decompose=[name])
    if planned.refusals:
        return
    result = opshift.convert(model, decompose=[name], verify=False)
    assert isinstance(result.model, onnx.ModelProto)
    ((found,),) = run(result.model, [{}])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("openvino", "y = GroupNormalization <num_groups = 2> (x, s, b)"),
        ("mnn", "y = Shrink (x)"),
        ("mnn", "y = Clip (x, s, b)"),
        ("tensorrt-8", "y, z = Split <num_outputs = 2> (x)"),
        ("ncnn", "d = Identity (s) y = InstanceNormalization (x, d, b)"),
        ("webgpu", "y = Add (x, x)"),
        ("qnn", "y = LayerNormalization (x, x)"),
    ],
)
@pytest.mark.parametrize("kind", ["float", "double", "float16"])
def test_a_function_of_untyped_inputs_is_planned_for_its_calls(target: str, body: str, kind: str) -> None:
    """What a target limits by types is decided with those of the call: the result needs nothing more."""
    first = "[1,4,2,2]"
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 21, "local": 1]>'
        f" g ({kind}{first} x, {kind}[4] s, {kind}[4] b) => ({kind}[?,?,?,?] y) {{ y = local.F (x, s, b) }}"
        f'<domain: "local", opset_import: ["": 21]> F (x, s, b) => (y) {{ {body} }}'
    )
    if not opshift.plan(model, target=target).refusals:
        result = opshift.convert(model, target=target, verify=False)
        assert not opshift.plan(result.model, target=target).refusals


def test_a_type_is_a_parameter() -> None:
    """A TypeProto that a call gives is told apart from others like any attribute."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18, "local": 1]> g (float[2] x) => (optional(float[2]) y)'
        " { y = local.F (x) }"
        '<domain: "local", opset_import: ["": 18]> F <t> (x) => (y) { y = Optional (x) }'
    )
    kind = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [2])
    model.graph.node[0].attribute.append(onnx.helper.make_attribute("t", kind))
    referred = onnx.AttributeProto(name="type", type=onnx.AttributeProto.TYPE_PROTO, ref_attr_name="t")
    model.functions[0].node[0].attribute.append(referred)
    assert not opshift.plan(model, target="onnxruntime").refusals


@pytest.mark.parametrize("target", [9, 13, 21])
@pytest.mark.parametrize("parameters", [("n",), ("d",), ("n", "d")])
def test_a_scan_with_batches_is_nested_with_the_parameters_of_the_call(
    parameters: tuple[str, ...], target: int
) -> None:
    """How many inputs are scanned, and in which direction, is read off the call: two calls make two functions."""
    counts = "@n" if "n" in parameters else "1"
    directions = "@d" if "d" in parameters else "[1]"
    calls = [
        f"{state}, {rows} = local.F <{', '.join(f'{name} = {values[name]}' for name in parameters)}> (a, x)"
        for state, rows, values in (
            ("p", "q", {"n": 1, "d": [1]}),
            ("r", "s", {"n": 1, "d": [0 if "d" in parameters else 1]}),
        )
    ]
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 8, "local": 1]>
        g (float[2] a, float[2,3] x) => (float[2] p, float[2,3] q, float[2] r, float[2,3] s) {{ {" ".join(calls)} }}
        <domain: "local", opset_import: ["": 8]> F <{", ".join(parameters)}> (a, x) => (y, z) {{
            y, z = Scan <num_scan_inputs: int = {counts}, directions: ints = {directions},
                body = each (float h, float v) => (float t, float w) {{ t = Sub (v, h) w = Identity (t) }}> (none, a, x)
        }}"""
    )
    model.functions[0].node[0].input[0] = ""
    result = opshift.convert(model, opset=target).rewritten
    feeds = [{"a": np.array([1, 2], np.float32), "x": np.array([[1, 5, 2], [7, 3, 4]], np.float32)}]
    for before, after in zip(run(model, feeds)[0], run(result, feeds)[0], strict=True):
        np.testing.assert_array_equal(after, before)
