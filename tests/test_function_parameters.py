"""Attributes that are a function's parameters: their defaults decide nothing, neither elements nor what is legal."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from running import run

import opshift
from opshift.opsets.facts import Facts
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Node, Operator, known_operators, lift
from opshift.opsets.schema import schema_at


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
