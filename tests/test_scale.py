"""What is done to a large model is work by what must change: counted, since times differ from machine to machine."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model

import opshift
from opshift.cli.main import main
from opshift.opsets.native import onnx_process
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.target import Target
from opshift.passes.analysis import lazy_inference, scopes
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph import traversal
from opshift.passes.io import reader
from opshift.passes.rewrite import function_planner, lowering_search, node_context, specialiser
from opshift.passes.rewrite.op_type_decisions import OpTypeDecisions, occurring_types

NODES = 2000


def chain(count: int, *, lowered: int = 10, opset: int = 12) -> onnx.ModelProto:
    """A model of so many nodes; every tenth must be rewritten for opset 13."""
    values = ["x", *(f"v{place}" for place in range(count - 1)), "y"]
    nodes = [
        helper.make_node("Hardmax", [before], [after], name=f"n{place}", axis=1)
        if lowered and place % lowered == 0
        else helper.make_node(("Relu", "Neg", "Abs")[place % 3], [before], [after], name=f"n{place}")
        for place, (before, after) in enumerate(itertools.pairwise(values))
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many nodes are described one by one, and how many onnx infers in whole models."""
    counts: Counter[str] = Counter()

    def view(node: Any, *rest: Any) -> Any:
        counts["described"] += 1
        return scopes.view(node, *rest)

    def infer_shapes(model: Any, *rest: Any, **options: Any) -> Any:
        nodes = sum(len(graph.node) for graph in (model.graph, *model.functions))
        counts["inferred"] += nodes
        return original(model, *rest, **options)

    def described(model: onnx.ModelProto, *rest: Any) -> Any:
        counts["functions beside"] += len(model.functions)
        return scopes.describe(model, *rest)

    original = onnx_process.infer_shapes
    monkeypatch.setattr(function_planner, "describe", described)
    for module in (node_context, lazy_inference):
        monkeypatch.setattr(module, "view", view)
    monkeypatch.setattr(onnx_process, "infer_shapes", infer_shapes)
    return counts


def test_equal_nodes_are_described_once(counted: Counter[str]) -> None:
    result = opshift.convert(chain(NODES), opset=13, verify=False)
    assert Counter(step.action for step in result.plan.steps) == {Action.VERSION_BUMP: 1800, Action.LOWER: 200}
    assert counted["described"] <= 12  # each kind once for its facts, Hardmax once to be derived
    assert counted["inferred"] == 0


def test_kinds_that_stay_are_never_described(counted: Counter[str]) -> None:
    result = opshift.convert(chain(NODES, lowered=0), opset=13, verify=False)
    assert len(result.plan.steps) == NODES
    assert counted == Counter()


def test_the_whole_model_is_inferred_once_where_facts_do_not_follow(counted: Counter[str]) -> None:
    model = chain(NODES)
    model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    result = opshift.convert(model, opset=13, verify=False)
    assert sum(step.action is Action.LOWER for step in result.plan.steps) == 200
    assert counted["inferred"] == NODES
    assert counted["described"] <= 12


def test_nodes_that_differ_are_left_to_the_inference_of_the_whole(counted: Counter[str]) -> None:
    """One by one they would take longer."""
    model = chain(NODES, lowered=0)
    for place, node in enumerate(model.graph.node):
        node.op_type = "LeakyRelu"
        node.attribute.append(helper.make_attribute("alpha", place / NODES))
    model.graph.node.add(op_type="Hardmax", input=["y"], output=["z"]).attribute.append(
        helper.make_attribute("axis", 1)
    )
    model.graph.output[0].name = "z"
    opshift.convert(model, opset=13, verify=False)
    assert counted["described"] <= lazy_inference.MOST + 3
    assert counted["inferred"] == NODES + 1


def test_nodes_that_are_alike_are_told_apart_from_others() -> None:
    """By attributes, by types of inputs and by outputs that are left out, not by names."""
    text = (
        "(float[2,3] x, float[2,4] z) => (float[2,3] y) { a = Hardmax <axis = 1> (x) b = Relu(a)"
        " y = Hardmax <axis = 1> (b) d = Hardmax <axis = 0> (y) e = Hardmax <axis = 1> (z)"
        " f, g = Split <axis = 0> (x) h, i = Split <axis = 0> (y) j, k = Split <axis = 0> (b) }"
    )
    model = parse_model(f'<ir_version: 8, opset_import: ["": 12]> g {text}')
    model.graph.node[-1].output[1] = ""
    walks: list[traversal.GraphView | traversal.GraphWalk] = [*traversal.graph_views(model), *traversal.walk(model)]
    for walked in walks:
        for places in (range(8), reversed(range(8))):
            known = lazy_inference.StaticFacts(model, walked)
            found = {place: known.alike(place) for place in places}
            assert None not in found.values()
            assert found[0] == found[2]
            assert found[5] == found[6]
            assert len(set(found.values())) == 6


@pytest.mark.parametrize(
    "text",
    [
        "(float[2] x) => (float[2] z) <float n> { n = Constant <value = float {3.0}> () z = Clip(x, , n) }",
        "(float[2] x) => (float[2] z) <float k = {3}, float n> { n = Neg(k) z = Clip(x, , n) }",
        "(float[2] x) => (float[2] z) <float n> { s = Size(x) n = Cast <to = 1> (s) z = Clip(x, , n) }",
    ],
)
def test_what_is_declared_may_be_constant_all_the_same(text: str) -> None:
    """The target takes constant bounds only, and has neither Neg nor Size: the bound is a Constant or initializer."""
    model = parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}')
    limit = Limit("Clip", constant_inputs=("max",))
    target = Target("t", without=frozenset({"Neg", "Size", "Cast"}), limits=(limit,))
    result = opshift.convert(model, target=target, verify=False)
    assert {node.op_type for node in result.rewritten.graph.node} - {"Constant"} == {"Clip"}
    constants = {node.output[0] for node in result.rewritten.graph.node if node.op_type == "Constant"}
    constants |= {tensor.name for tensor in result.rewritten.graph.initializer}
    assert result.rewritten.graph.node[-1].input[2] in constants


def test_names_of_renewed_nodes_are_asked_for_by_reports_only(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    original = Step.at

    def at(step: Step, node: str) -> Step:
        told.append(node)
        return original(step, node)

    monkeypatch.setattr(Step, "at", at)
    model = chain(NODES)
    model.graph.node[3].ClearField("name")
    result = opshift.convert(model, opset=13, verify=False)
    assert len(result.plan.steps) == NODES
    assert len(told) <= NODES / 10
    names = [f"main/{node.name or f'{node.op_type}_{index}'}" for index, node in enumerate(model.graph.node)]
    assert [step.node for step in result.plan.steps] == names
    assert [step.node for step in result.plan.steps[2:5]] == names[2:5]
    assert result.plan.steps[-1].node == names[-1]
    assert result.plan.steps == tuple(result.plan.steps)
    assert hash(result.plan.steps) == hash(tuple(result.plan.steps))


def test_kinds_that_differ_have_much_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    """What bodies of lowerings hold whatever the shape is looked at once, and no way beyond what another costs."""
    count = 20
    counts: Counter[str] = Counter()
    for owner, name in ((specialiser, "infer"), (lowering_search.Deriver, "_derive_node")):
        original = getattr(owner, name)

        def counted(*given: Any, original: Any = original, name: str = name) -> Any:
            counts[name] += 1
            return original(*given)

        monkeypatch.setattr(owner, name, counted)
    nodes = [helper.make_node("Hardmax", [f"x{place}"], [f"y{place}"], axis=1) for place in range(count)]
    shapes = [[2, 3 + place, 4] for place in range(count)]
    inputs, outputs = (
        [
            helper.make_tensor_value_info(f"{name}{place}", TensorProto.FLOAT, shape)
            for place, shape in enumerate(shapes)
        ]
        for name in "xy"
    )
    graph = helper.make_graph(nodes, "kinds", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    assert len(opshift.plan(model, opset=13).kinds) == count
    assert counts["infer"] <= 120 * count  # of the 600 nodes that the bodies have
    assert counts["_derive_node"] <= 100 * count  # twice as many were all costs told


@pytest.mark.slow
@pytest.mark.parametrize("opset", [9, 13, 18, 22])
def test_kinds_say_what_single_nodes_say(opset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same plans come of looking at every node."""
    fixtures = sorted((Path(__file__).parent.parent / "fixtures").glob("*.onnxtxt"))
    # int16 has no kernel for Neg, which is lowered then; without the zero point the type is that of no input.
    texts = (
        "(int16[2] x, float[2] f) => (int16[2] y, float[2] g) { y = Neg(x) g = Neg(f) }",
        "(float[2] x, float s) => (uint8[2] y) { z = Neg(x) y = QuantizeLinear(z, s) }",
        "(seq(int16[2]) x, int64 i) => (int16[2] y) { z = SequenceAt(x, i) y = Neg(z) }",
    )
    models: list[Any] = [parse_model(f'<ir_version: 8, opset_import: ["": 12]> g {text}') for text in texts]

    def plans() -> list[Any]:
        found: list[Any] = []
        for model in (*fixtures, *models):
            try:
                found.append(opshift.plan(model, opset=opset))
            except opshift.OpshiftError as error:
                found.append(str(error))
        return found

    by_kind = plans()
    monkeypatch.setattr(OpTypeDecisions, "version_bump_step", lambda *_: None)
    assert plans() == by_kind


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("(float[2] x) => (float[2] y) { y = Relu(x) }", {TensorProto.FLOAT}),
        ("(float[2] x) => (double[2] y) { y = Cast <to = 11> (x) }", {TensorProto.FLOAT, TensorProto.DOUBLE}),
        ("(float[2] x) => (float[2] y) { s = Shape(x) y = Relu(x) }", {TensorProto.FLOAT, TensorProto.INT64}),
        ("(float[2] x) => (float[2] y) <int8[1] w = {1}> { y = Relu(x) }", {TensorProto.FLOAT, TensorProto.INT8}),
        ("(float[2] x, float s) => (uint8[2] y) { y = QuantizeLinear(x, s) }", None),
        ("(float[2] x) => (float[2] y) { y = l.Other(x) }", None),
        ("() => (float[2] y) { y = RandomNormal <shape = [2]> () }", None),
    ],
)
def test_types_that_a_model_can_have(text: str, types: set[int] | None) -> None:
    model = parse_model(f'<ir_version: 8, opset_import: ["": 12, "l": 1]> g {text}')
    for walked in (tuple(traversal.walk(model)), tuple(traversal.graph_views(model))):
        assert occurring_types(model, walked, 12) == types


def test_facts_are_those_of_the_whole_model() -> None:
    """What follows node by node, and what onnx infers of the whole model."""
    texts = (
        "(float[2,n,4] x) => (float[n] y) { a = Relu(x) b = Hardmax <axis = 1> (a) c = Transpose <perm = [1, 0, 2]> (b)"
        " s = Constant <value_ints = [0, -1]> () y = ReduceSum(c) }",
        "(float[2,3] x, int64[2] i) => (float[k] y) <float[3,5] w = {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14}>"
        " { a = MatMul(x, w) b = Gather <axis = 1> (a, i) c = Cast <to = 7> (b) d, e = Split <axis = 0> (c)"
        " y = Cast <to = 1> (d) }",
        "(float[2,3] x) => (float[k] y) { s = Shape(x) r = Reshape(x, s) t = Relu(r) y = Flatten(t) }",
        "(float[2,3] x, float[3] w) => (float[k] y) { a = Add(x, w) b = Relu(a) c = Relu(w) y = Relu(w) }",
    )
    known = 0
    for text in texts:
        model = parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}')
        whole, single = scopes.describe(model), lazy_inference.StaticFacts(model, next(traversal.walk(model)))
        for name in (name for node in model.graph.node for name in node.output):
            facts = single.find(name)
            known += facts is not None
            assert facts in (None, whole[name])
    assert known == 12  # none of what is made of a shape, nor what is declared otherwise


def test_functions_are_described_by_themselves(counted: Counter[str]) -> None:
    """What is inferred grows as their number, not as its square."""
    count = 100
    calls = " ".join(f"v{place + 1} = l.f{place}(v{place})" for place in range(count))
    bodies = "".join(
        f'<domain: "l", opset_import: ["": 12]> f{place} (a) => (b) {{ b = Hardmax <axis = 1> (a) }}'
        for place in range(count)
    )
    text = (
        f'<ir_version: 8, opset_import: ["": 12, "l": 1]> g (float[2,3,4] v0) => (float[2,3,4] v{count}) {{ {calls} }}'
    )
    result = opshift.convert(parse_model(f"{text} {bodies}"), opset=13, verify=False)
    assert sum(step.action is Action.LOWER for step in result.plan.steps) == count
    assert counted["inferred"] <= 8 * count
    assert counted["functions beside"] == 0
    names = [node.name for function in result.rewritten.functions for node in function.node]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", ["If", "Loop"])
def test_graphs_nested_as_deep_as_protobuf_parses(kind: str) -> None:
    depth = 31
    model = nested(kind, depth)
    result = opshift.convert(model, opset=13, verify=False)
    assert sum(step.action is Action.LOWER for step in result.plan.steps) == (depth + 1 if kind == "If" else 1)
    assert onnx.ModelProto.FromString(result.rewritten.SerializeToString()) == result.rewritten


def nested(kind: str, depth: int) -> onnx.ModelProto:
    """A Hardmax in graphs inside graphs; each If has one in the other branch, too."""

    def hardmax(name: str) -> onnx.NodeProto:
        return helper.make_node("Hardmax", ["x"], [name], axis=1)

    def value(name: str, element: int = TensorProto.FLOAT, shape: Any = (2, 3, 4)) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, element, shape)

    node, name = hardmax("v0"), "v0"
    for place in range(1, depth + 1):
        out = f"v{place}"
        if kind == "If":
            branch = helper.make_graph([node], f"then{place}", [], [value(name)])
            other = helper.make_graph([hardmax(f"other{place}")], f"else{place}", [], [value(f"other{place}")])
            node = helper.make_node("If", ["c"], [out], then_branch=branch, else_branch=other)
        else:
            same = helper.make_node("Identity", [f"given{place}"], [f"kept{place}"])
            inputs = [value(f"i{place}", TensorProto.INT64, ()), value(f"given{place}", TensorProto.BOOL, ())]
            inputs.append(value(f"state{place}"))
            outputs = [value(f"kept{place}", TensorProto.BOOL, ()), value(name)]
            body = helper.make_graph([node, same], f"body{place}", inputs, outputs)
            node = helper.make_node("Loop", ["n", "c", "x"], [out], body=body)
        name = out
    ends = [value("x"), value("c", TensorProto.BOOL, ()), value("n", TensorProto.INT64, ())]
    graph = helper.make_graph([node], "g", ends, [value(name)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)


def test_a_run_that_lowers_nothing_imports_neither_onnxscript_nor_onnxruntime(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(chain(20, lowered=0), model)
    code = (
        "import sys, opshift\n"
        f"result = opshift.convert({str(model)!r}, decompose=['Hardmax'], verify=False)\n"
        "assert result.plan.nothing_to_do\n"
        "print(*sorted({'onnxscript', 'onnx_ir', 'onnxruntime', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_plan_goes_to_another_process() -> None:
    made = opshift.plan(chain(20), opset=13)
    copy = pickle.loads(pickle.dumps(made))
    assert copy == made
    assert copy.kinds == made.kinds
    assert len(made.kinds) == 4
    assert copy.to_json() == made.to_json()


def test_a_large_file_is_rewritten_without_a_second_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are in one of both models; what is written is the same."""
    model = chain(4)
    weights = np.arange(9_000, dtype=np.float32).reshape(3, 3, 1000)
    for name, array in (("large", weights), ("small", np.zeros(3, np.float32))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "model.onnx")
    copied = opshift.convert(tmp_path / "model.onnx", opset=13)
    assert copied.source_model == model
    monkeypatch.setattr(reader, "SMALL", 0)
    result = opshift.convert(tmp_path / "model.onnx", opset=13)
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert result.rewritten == copied.rewritten
    assert result.plan == copied.plan
    assert result.plan.kinds == copied.plan.kinds
    assert [tensor.HasField("raw_data") for tensor in result.source_model.graph.initializer] == [False, True]
    assert result.source_model.graph.node == model.graph.node
    for one, name in ((result, "one.onnx"), (copied, "other.onnx")):
        one.save(tmp_path / name)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()
    assert onnx.load(tmp_path / "model.onnx") == model
    given = model.SerializeToString()
    opshift.convert(model, opset=13, verify=False)
    assert model.SerializeToString() == given


@pytest.mark.parametrize("asked", [["--opset", "13"], ["--opset", "28", "--ir-version", "4"]])
@pytest.mark.parametrize("command", [["plan", "model.onnx"], ["convert", "model.onnx", "-o", "out.onnx"]])
def test_the_size_of_a_large_file_is_told(
    command: list[str],
    asked: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where its weights have gone to what is made of it, and where that is refused."""
    monkeypatch.chdir(tmp_path)
    model = chain(4)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(9_000, np.float32), "large"))
    onnx.save(model, "model.onnx")
    monkeypatch.setattr(reader, "SMALL", 0)
    main([*command, *asked, "--json"])
    assert json.loads(capsys.readouterr().out)["before"]["size"] == Path("model.onnx").stat().st_size
