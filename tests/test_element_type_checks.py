"""Models whose element types contradict the schemas are invalid, wherever they are read; onnxruntime opens none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import onnx
import onnxruntime
import pytest
from node_tests import cases
from onnx import TensorProto, helper, parser

import opshift
from opshift.opsets.registry.schema import Schema, schema_at
from opshift.passes.analysis.element_type_checks import check_element_types
from opshift.passes.graph.traversal import graph_views

OPSET = 17
HEAD = f'<ir_version: 8, opset_import: ["" : {OPSET}]> m '
MIXED = "are of one type, and here tensor(double) and tensor(float)"

INVALID = {
    "two inputs": ("(double[2] a, float[2] b) => (double[2] y) { y = Add(a, b) }", MIXED),
    "initializer": ("(double[2] a) => (double[2] y) <float[2] b = {1, 2}> { y = Add(a, b) }", MIXED),
    "Constant": ("(double[2] a) => (double[2] y) { b = Constant<value_floats=[1.0, 2.0]>() y = Add(a, b) }", MIXED),
    "variadic": ("(double[2] a, float[2] b) => (double[4] y) { y = Concat<axis=0>(a, b) }", "its inputs 'inputs' are"),
    "behind nodes": ("(double[2] a, float[2] b) => (double[2] y) { c = Neg(b) d = Relu(a) y = Mul(d, c) }", MIXED),
    "behind a Cast": ("(double[2] a) => (double[2] y) { b = Cast<to=1>(a) y = Mul(a, b) }", MIXED),
    "optional input": ("(double[2,2] a, double[2,2] b, float[2] c) => (double[2,2] y) { y = Gemm(a, b, c) }", MIXED),
    "type": ("(int64[2] a) => (int64[2] y) { y = Sqrt(a) }", "its input 'X' is a tensor(int64)"),
    "type in all versions": ("(float[2] a) => (bool[2] y) { y = Not(a) }", "its input 'X' is a tensor(float)"),
    "indices": ("(float[4] a, float[2] i) => (float[2] y) { y = Gather(a, i) }", "its input 'indices'"),
    "shape": (
        "(float[4] a, int32[2] s) => (float[2,2] y) { y = Reshape(a, s) }",
        "its input 'shape' is a tensor(int32)",
    ),
    "output": ("(float[2] a) => (double[2] y) { y = Relu(a) }", "its output 'y' is declared as tensor(double)"),
    "value": ("(float[2] a) => (float[2] y) <double[2] b> { b = Relu(a) y = Neg(b) }", "its output 'b' is declared"),
    "branch": (
        "(bool c, double[2] a, float[2] b) => (double[2] y) { y = If(c) <then_branch = t () => (double[2] u)"
        " { u = Add(a, b) }, else_branch = e () => (double[2] v) { v = Identity(a) }> }",
        MIXED,
    ),
}


@pytest.mark.parametrize("name", INVALID)
def test_model_of_contradicting_types_is_refused_wherever_it_is_read(name: str) -> None:
    text, reason = INVALID[name]
    model = parser.parse_model(HEAD + text)
    assert not opens(model)
    uses: tuple[Callable[[], Any], ...] = (
        lambda: opshift.convert(model, target="onnxruntime"),
        lambda: opshift.convert(model, opset=13),
        lambda: opshift.plan(model, target="openvino"),
        lambda: opshift.where(model, ["onnxruntime"]),
        lambda: opshift.verify(model, model),
    )
    for use in uses:
        with pytest.raises(opshift.InvalidModelError, match=re.escape(reason)) as refused:
            use()
        assert "main/" in str(refused.value)
        assert str(refused.value).endswith("Export the model again, or repair it.")


def test_function_is_checked_for_the_types_of_each_call() -> None:
    head = f'<ir_version: 8, opset_import: ["" : {OPSET}, "l" : 1]> m '
    body = f'<domain: "l", opset_import: ["" : {OPSET}]> f (p, q) => (r) {{ r = Add(p, q) }}'
    right = "(double[2] a, float[2] b) => (double[2] y, float[2] z) { y = l.f(a, a) z = l.f(b, b) } "
    check(parser.parse_model(head + right + body))
    wrong = "(double[2] a, float[2] b) => (double[2] y) { y = l.f(a, b) } "
    with pytest.raises(opshift.InvalidModelError, match=r"function f/Add_0.*'A' and 'B'"):
        check(parser.parse_model(head + wrong + body))
    result = "(float[2] a) => (double[2] y) { x = l.f(a, a) y = Relu(x) } "
    with pytest.raises(opshift.InvalidModelError, match="declared as"):
        check(parser.parse_model(head + result + body))


def test_a_node_of_unknown_types_passes() -> None:
    check(parser.parse_model(HEAD + "(double[2] a) => (double[2] y) { b = com.microsoft.Any(a) y = Add(a, b) }"))


# --- all operators ----------------------------------------------------------------------------------------------------


def test_every_operator_with_two_inputs_of_one_type_refuses_two() -> None:
    checked = 0
    for schema in operators():
        for first, second in pairs(schema):
            model = model_of(schema, {first: "tensor(float)", second: "tensor(double)"})
            if model is None:
                continue
            checked += 1
            with pytest.raises(opshift.InvalidModelError, match=re.escape("are of one type")):
                check(model)
            check(model_of(schema, {first: "tensor(float)", second: "tensor(float)"}))
    assert checked > 100


def test_every_operator_refuses_an_input_of_another_type() -> None:
    checked = 0
    for schema in operators():
        for place, parameter in enumerate(schema.inputs):
            for other in ("tensor(float)", "tensor(string)", "tensor(bool)"):
                if other not in parameter.types and (model := model_of(schema, {place: other})) is not None:
                    checked += 1
                    with pytest.raises(opshift.InvalidModelError, match=r"does not accept|are of one type"):
                        check(model)
    assert checked > 300


@pytest.mark.slow
def test_no_model_of_onnx_is_refused() -> None:
    models = [case.model for case in cases("")]
    assert len(models) > 1000
    for model in models:
        check(model)


def check(model: onnx.ModelProto | None) -> None:
    assert model is not None
    check_element_types(model, tuple(graph_views(model)))


def opens(model: onnx.ModelProto) -> bool:
    """Return whether onnxruntime opens a model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception:
        return False
    return True


def operators() -> Iterator[Schema]:
    """Yield the newest version of each operator of ONNX."""
    newest = onnx.defs.onnx_opset_version()
    for name in sorted({one.name for one in onnx.defs.get_all_schemas() if not one.domain}):
        if (schema := schema_at("", name, newest)) is not None:
            yield schema


def pairs(schema: Schema) -> Iterator[tuple[int, int]]:
    """Yield two inputs that have one type, which may be float or double."""
    inputs = [
        (place, one)
        for place, one in enumerate(schema.inputs)
        if one.homogeneous and one.types >= {"tensor(float)", "tensor(double)"}
    ]
    for place, one in inputs:
        for other, two in inputs:
            if place < other and one.type_variable == two.type_variable:
                yield place, other
        if one.variadic:
            yield place, place + 1


def model_of(schema: Schema, types: dict[int, str]) -> onnx.ModelProto | None:
    """Return a model of one node, whose other inputs have a type that the schema permits; None if it needs others."""
    needed = max(schema.raw.min_input, *(place + 1 for place in types))
    values = []
    for place in range(needed):
        parameter = schema.input(place)
        assert parameter is not None
        text = types.get(place) or next((one for one in sorted(parameter.types) if one.startswith("tensor(")), "")
        bound = {one.type_variable: types[at] for at in types if (one := schema.input(at)) and one.homogeneous}
        if place not in types and parameter.homogeneous:
            text = bound.get(parameter.type_variable, text)
        if not text.startswith("tensor("):
            return None
        dtype = TensorProto.DataType.Value(text.removeprefix("tensor(").removesuffix(")").upper())
        values.append(helper.make_tensor_value_info(f"i{place}", dtype, None))
    node = helper.make_node(schema.name, [value.name for value in values], ["y"])
    graph = helper.make_graph([node], "g", values, [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", onnx.defs.onnx_opset_version())])
