"""Nodes that are read all at once: the same is found as node by node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import pytest
from onnx import AttributeProto, NodeProto, helper

import opshift
from opshift.passes.graph import traversal
from opshift.passes.graph.columnar import columnar_view
from opshift.passes.graph.traversal import walk

FIXTURES = sorted((Path(__file__).parent.parent / "fixtures").rglob("*.onnxtxt"))

TEXT = """
<ir_version: 10, opset_import: ["" : 18, "other": 1]>
g (float[N] x, bool b) => (float[N] y, double[N] z) {
    [one] c = Constant <value = float {1.0}> ()
    [two] d = Add (x, c)
    [three] s, t = Split <num_outputs = 2> (d)
    [four] y = If (b) <then_branch = t () => (float[N] p) { p = Relu (d) }, else_branch =
        e () => (float[N] q) { q = Neg (d) }>
    [five] u = other.Relu <to = 7> (y)
    [six] z = Cast <to = 11> (y)
}
"""


def found(model: onnx.ModelProto, *, at_once: bool) -> object:
    """Return what both walks find."""
    main = columnar_view(model) if at_once else None
    assert (main is not None) is at_once
    bodies = [
        (one.path, one.holders, dict(one.by_op_key), list(one.names), list(one.outputs), set(one.dtypes), one.depth)
        for one in traversal.graph_views(model, main)
    ]
    walked = [(dict(one.by_op_key), one.noted, one.placed, set(one.dtypes)) for one in walk(model, main)]
    return bodies, walked


def note(node: NodeProto) -> None:
    node.metadata_props.add(key="k", value="v")


def place(node: NodeProto) -> None:
    node.device_configurations.add(configuration_id="d")


def overload(node: NodeProto) -> None:
    node.overload = "o"


def unknown_type(node: NodeProto) -> None:
    node.attribute.append(AttributeProto.FromString(b"\x0a\x01a\xa0\x01\x63"))  # type 99


def untyped(node: NodeProto) -> None:
    node.attribute.add(name="a", i=1)


def renamed(node: NodeProto) -> None:
    node.ClearField("name")


@pytest.mark.parametrize("path", FIXTURES[::3], ids=lambda path: path.stem)
def test_fixtures_say_the_same(path: Path) -> None:
    """Of a model whose nodes all say the same fields."""
    model = onnx.parser.parse_model(path.read_text(encoding="utf-8"))
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"n{index}"
        node.domain = ""
    assert found(model, at_once=True) == found(model, at_once=False)


@pytest.mark.parametrize("count", range(1, 7))
@pytest.mark.parametrize("change", [note, place, unknown_type, untyped, None])
def test_models_say_the_same(count: int, change: Callable[[NodeProto], None] | None) -> None:
    """With attributes of all sorts, several outputs, graphs, notes."""
    model = onnx.parser.parse_model(TEXT)
    del model.graph.node[count:]
    if change:
        change(model.graph.node[-1])
    assert found(model, at_once=True) == found(model, at_once=False)


def test_no_names_at_all() -> None:
    """What no node says is empty for all."""
    model = onnx.parser.parse_model(TEXT)
    for node in model.graph.node:
        renamed(node)
    assert found(model, at_once=True) == found(model, at_once=False)


@pytest.mark.parametrize("change", [overload, renamed])
def test_what_only_some_say_is_asked_node_by_node(change: Callable[[NodeProto], None]) -> None:
    """Nobody can tell then to which node a field belongs."""
    model = onnx.parser.parse_model(TEXT)
    assert columnar_view(model) is not None
    model.graph.node[0].ClearField("domain")
    assert columnar_view(model) is None  # another has one that is not empty
    model.graph.node[0].domain = ""
    change(model.graph.node[1])
    assert columnar_view(model) is None


def test_a_field_said_twice_is_said_once() -> None:
    """A file may say the name of one node twice, and that of another not at all: the last counts."""
    nodes = [b"\x12\x01a\x1a\x01n\x1a\x01m\x22\x04Relu", b"\x12\x01b\x22\x03Neg"]
    graph = b"".join(b"\x0a" + bytes([len(node)]) + node for node in nodes)
    model = onnx.ModelProto.FromString(b"\x08\x08\x3a" + bytes([len(graph)]) + graph)
    assert [node.name for node in model.graph.node] == ["m", ""]
    assert columnar_view(model) is None
    model.graph.node[1].name = "k"
    read = columnar_view(model)
    assert read is not None
    assert read.names == ["m", "k"]


def test_training_and_functions_are_walked() -> None:
    """They are graphs of their own."""
    model = onnx.parser.parse_model(TEXT)
    del model.graph.node[3:]
    model.functions.append(
        helper.make_function("f", "F", ["a"], ["b"], [helper.make_node("Cast", ["a"], ["b"], to=16)], [])
    )
    model.training_info.add().algorithm.node.add(op_type="Neg")
    assert found(model, at_once=True) == found(model, at_once=False)


def test_the_main_graph_is_walked_first() -> None:
    """What a walk finds first is taken for the main graph, whatever else the model has."""
    model = onnx.parser.parse_model(TEXT)
    for name in ("F", "G"):
        node = helper.make_node("Cast", ["a"], ["b"], to=16)
        model.functions.append(helper.make_function("f", name, ["a"], ["b"], [node], []))
    model.training_info.add().algorithm.node.add(op_type="Neg")
    walked = [one.graph.name for one in walk(model)]
    assert walked[0] == "g"
    assert walked.index("t") > 0
    assert next(one.graph.name for one in traversal.graph_views(model)) == "g"


def test_a_main_graph_is_not_read_by_the_places_of_a_function() -> None:
    """An initializer that stops being an input makes the planner walk over the model again."""
    text = """
    <ir_version: 10, opset_import: ["": 14, "local": 1]>
    g (float[2,1,1] x, float[2,3] c) => (float[2,3] y, uint8[2,1,1] a, float b, uint8 d)
    <float[2,3] c = {1,2,3,4,5,6}> {
        y = local.F (c)
        a, b, d = DynamicQuantizeLinear (x)
    }
    <domain: "local", opset_import: ["": 14]>
    F (c) => (y) {
        z = Neg (c)
        y = Ceil (z)
    }
    """
    result = opshift.convert(onnx.parser.parse_model(text), opset=15)
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert [node.op_type for node in result.rewritten.graph.node] == ["F", "DynamicQuantizeLinear"]
