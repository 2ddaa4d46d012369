"""Writing a plan into a model: only what must change does; names are unique, constants shared, bytes the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from onnx.reference import ReferenceEvaluator
from operators.harness import converted
from refused import line
from running import nodes_of, run

import opshift

HEAD = '<ir_version: {ir}, opset_import: ["": {opset}{more}]> '


def model(graph: str, opset: int = 13, ir: int = 10, more: str = "") -> onnx.ModelProto:
    return parse_model(HEAD.format(ir=ir, opset=opset, more=more) + graph)


HOT = "g (float[2,3] x) => (float[2,3] y) { [hot] y = Hardmax <axis = 1> (x) }"
TWO = """g (float[2,3] x, float[2,3] z) => (float[2,3] y, float[2,3] w)
    { [hot] y = Hardmax <axis = 1> (x) [hot2] w = Hardmax <axis = 1> (z) }"""
MIXED = """g (float[n,3] x) => (float[n,3] y, int64[n,1] i)
    { r = Relu (x) [hot] y = Hardmax <axis = 1> (r) [arg] i = ArgMax <axis = 1> (y) }"""


def ops(of: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in of.graph.node]


# --- what is left alone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [HOT, TWO, MIXED])
def test_nothing_to_do_gives_the_very_bytes(graph: str, tmp_path: Path) -> None:
    source = model(graph)
    result = opshift.convert(source, opset=13, verify=False)
    assert result.plan.nothing_to_do
    assert result.rewritten.SerializeToString() == source.SerializeToString()
    # A file may hold fields in another order than protobuf would write them: it is copied byte for byte.
    odd = source.SerializeToString() + helper.make_model(helper.make_graph([], "", [], [])).SerializeToString()[:0]
    path = tmp_path / "in.onnx"
    path.write_bytes(odd)
    opshift.convert(path, opset=13, verify=False).save(tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == odd


def test_the_input_object_is_left_untouched() -> None:
    source = model(MIXED)
    before = source.SerializeToString(deterministic=True)
    opshift.convert(source, opset=7, decompose=["Hardmax", "ArgMax"])
    assert source.SerializeToString(deterministic=True) == before


def rich() -> onnx.ModelProto:
    """A model with everything that opshift has no opinion about."""
    found = model(MIXED, more=', "com.microsoft": 1')
    found.producer_name, found.producer_version, found.domain = "someone", "3", "org.example"
    found.model_version, found.doc_string = 7, "about the model"
    found.metadata_props.add(key="author", value="me")
    graph = found.graph
    graph.doc_string = "about the graph"
    graph.metadata_props.add(key="graph", value="yes")
    graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, ["n", 3]))
    graph.input[0].doc_string = "about x"
    graph.node[0].doc_string = "about relu"
    graph.node[0].metadata_props.add(key="relu", value="kept")
    graph.node[1].doc_string = "about hot"
    graph.node[1].metadata_props.add(key="namespace", value="head")
    annotation = graph.quantization_annotation.add(tensor_name="r")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    dense = helper.make_tensor("w", TensorProto.FLOAT, [1], [2.0])
    indices = helper.make_tensor("w_at", TensorProto.INT64, [1], [1])
    graph.sparse_initializer.append(helper.make_sparse_tensor(dense, indices, [3]))
    graph.initializer.append(helper.make_tensor("scale", TensorProto.FLOAT, [2], [1, 2]))
    training = found.training_info.add()
    training.algorithm.name = "step"
    training.algorithm.node.append(helper.make_node("Neg", ["x"], ["grad"]))
    return found


def test_what_opshift_does_not_know_survives() -> None:
    source = rich()
    result = converted(source, decompose=["Hardmax"])
    for field in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        assert getattr(result, field) == getattr(source, field)
    assert list(result.metadata_props) == list(source.metadata_props)
    assert list(result.training_info) == list(source.training_info)
    assert list(result.opset_import) == list(source.opset_import)
    for field in ("name", "doc_string"):
        assert getattr(result.graph, field) == getattr(source.graph, field)
    for field in ("input", "output", "value_info", "metadata_props", "quantization_annotation", "sparse_initializer"):
        assert list(getattr(result.graph, field)) == list(getattr(source.graph, field)), field
    assert result.graph.initializer[0] == source.graph.initializer[0]
    assert result.graph.node[0] == source.graph.node[0]
    assert result.graph.node[-1] == source.graph.node[-1]


def test_unknown_fields_survive() -> None:
    source = onnx.ModelProto.FromString(rich().SerializeToString() + b"\xaa\x1f\x03new")  # field 501, of a later onnx
    assert b"\xaa\x1f\x03new" in converted(source, decompose=["Hardmax"]).SerializeToString()


def test_new_nodes_say_where_they_are_from() -> None:
    result = converted(rich(), decompose=["Hardmax"])
    new = result.graph.node[1:-1]
    assert len(new) > 1
    for node in new:
        assert node.name.startswith("hot/")
        assert node.doc_string == "about hot"
        props = {item.key: item.value for item in node.metadata_props}
        assert props["namespace"] == "head"
        assert props["opshift.lowering"].startswith("Hardmax: ")


def test_below_ir_version_10_nodes_have_no_metadata() -> None:
    result = converted(model(HOT, ir=9), decompose=["Hardmax"])
    assert result.ir_version == 9
    assert not any(node.metadata_props for node in result.graph.node)


def test_the_outputs_keep_their_names() -> None:
    result = converted(model(MIXED), opset=7, decompose=["Hardmax", "ArgMax"])
    made = {name for node in result.graph.node for name in node.output}
    assert {"r", "y", "i"} <= made
    assert [value.name for value in result.graph.output] == ["y", "i"]


# --- names and constants ----------------------------------------------------------------------------------------------


def test_what_is_to_be_decomposed_and_is_not_there_is_told() -> None:
    found = opshift.convert(model(HOT), decompose=["Hardmax", "CumSum", "ArgMax"])
    assert found.notes == ("Nothing to decompose: the model has no ArgMax, CumSum.",)
    assert not opshift.convert(model(HOT), decompose=["Hardmax"]).notes
    text = """<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
    g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu (x) }"""
    (note,) = opshift.convert(onnx.parser.parse_model(text), decompose=["Gelu"]).notes
    assert "the model has no Gelu. It has com.microsoft::Gelu, which --decompose names with its domain." in note


def taken(graph: str) -> onnx.ModelProto:
    """A model in which the names that new nodes would have are taken already."""
    found = model(graph)
    found.graph.node.insert(0, helper.make_node("Relu", ["x"], ["hot/Cast.out"], name="hot/ArgMax"))
    found.graph.initializer.append(helper.make_tensor("opshift/int32[3]", TensorProto.FLOAT, [1], [0.0]))
    return found


@pytest.mark.parametrize(
    "request_", [{"decompose": ["Hardmax", "ArgMax", "OneHot"]}, {"opset": 7}, {"opset": 11}], ids=str
)
@pytest.mark.parametrize("graph", [HOT, TWO, MIXED])
def test_names_are_unique(graph: str, request_: dict[str, Any]) -> None:
    result = converted(taken(graph), **request_)
    assert not repeated(node.name for node in nodes_of(result) if node.name)
    values = [name for node in nodes_of(result) for name in node.output if name]
    initializers = [item.name for item in result.graph.initializer]
    inputs = [value.name for value in result.graph.input]
    assert not repeated(inputs)
    # Below ir_version 4 every initializer is an input as well.
    both = set(initializers) if result.ir_version < 4 else set[str]()
    assert both <= set(inputs)
    assert not repeated([*values, *initializers, *(name for name in inputs if name not in both)])
    onnx.checker.check_model(result)


def repeated(names: Any) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def test_nodes_without_a_name_are_named_after_their_output() -> None:
    source = model(HOT.replace("[hot] ", ""))
    source.graph.node[0].ClearField("name")
    assert all(node.name.startswith("y/") for node in converted(source, decompose=["Hardmax"]).graph.node)


def test_one_node_for_one_keeps_the_name() -> None:
    result = converted(model(HOT), opset=11)
    assert [(node.name, node.op_type) for node in result.graph.node] == [("hot", "Hardmax")]


def test_constants_are_shared() -> None:
    one, two = (converted(model(graph), decompose=["Hardmax"]) for graph in (HOT, TWO))
    assert [item.name for item in one.graph.initializer] == [item.name for item in two.graph.initializer]
    assert len({item.raw_data for item in two.graph.initializer}) == len(two.graph.initializer)
    assert len(two.graph.node) == 2 * len(one.graph.node)


@pytest.mark.parametrize("opset", [7, 8])
def test_at_ir_version_3_constants_are_nodes(opset: int) -> None:
    """There an initializer must be an input too; a Constant of opset 7 or 8 holds floats only."""
    source = model("g (float[2,3] x) => (float[2,3] y) { y = Hardmax <axis = 1> (x) }", opset=opset, ir=3)
    result = converted(source, decompose=["Hardmax"])
    assert result.ir_version == 3
    assert not result.graph.initializer
    constants = [node.attribute[0].t.data_type for node in result.graph.node if node.op_type == "Constant"]
    assert constants
    assert set(constants) <= {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16}
    onnx.checker.check_model(result)
    x = np.array([[1, 3, 3], [2, 1, 0]], np.float32)
    np.testing.assert_array_equal(run(result, [{"x": x}])[0][0], [[0, 1, 0], [1, 0, 0]])


def test_an_initializer_that_nobody_reads_any_more_goes() -> None:
    """The values that were folded into nodes are not left behind; what was never read stays."""
    graph = """g (int64[3] i) => (float[3,5] y) <int64 depth = {5}, float[2] values = {0, 1}, float[1] idle = {7}>
        { y = OneHot (i, depth, values) }"""
    kept = {item.name for item in converted(model(graph), decompose=["OneHot"]).graph.initializer}
    assert "idle" in kept
    assert "values" not in kept


def test_new_nodes_are_in_order_where_the_old_one_was() -> None:
    result = converted(model(MIXED), decompose=["Hardmax"])
    assert ops(result)[0] == "Relu"
    assert ops(result)[-1] == "ArgMax"
    seen = {value.name for value in (*result.graph.input, *result.graph.initializer)}
    for node in result.graph.node:
        assert {name for name in node.input if name} <= seen
        seen |= set(node.output)


SCRIPT = """import sys, hashlib, opshift
from onnx.parser import parse_model
model = parse_model(sys.stdin.read())
for request in ({"opset": 7}, {"opset": 28}, {"decompose": ["Hardmax", "ArgMax"]}):
    result = opshift.convert(model, verify=False, **request)
    print(hashlib.sha256(result.model.SerializeToString()).hexdigest(), result.plan)
"""


def test_the_same_input_gives_the_same_bytes() -> None:
    """Whatever the seed of Python's hashes."""
    text = HEAD.format(ir=10, opset=13, more="") + MIXED
    printed = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "31337")
    }
    assert len(printed) == 1


# --- If, Loop and Scan ------------------------------------------------------------------------------------------------

LOOP = """g (float[2,3] x, int64 n) => (float[2,3] y) {
    yes = Constant <value = bool {1}> ()
    y = Loop (n, yes, x) <body = each (int64 i, bool c, float[2,3] carried) => (bool more, float[2,3] next) {
        more = Identity (c)
        [hot] h = Hardmax <axis = 1> (carried)
        next = Add (h, x)
    }>
}"""
SCAN = """g (float[2] first, float[4,2] rows) => (float[2] last, int64[4,1] picked) {
    last, picked = Scan <num_scan_inputs = 1, body = each (float[2] sum, float[2] row) => (float[2] next, int64[1] at) {
        next = Add (sum, row)
        [arg] at = ArgMax <axis = 0> (next)
    }> (first, rows)
}"""
NESTED = """g (bool c, float[2,3] x) => (float[2,3] y) {
    y = If (c) <
        then_branch = t () => (float[2,3] a) {
            a = If (c) <
                then_branch = tt () => (float[2,3] b) { [hot] b = Hardmax <axis = 1> (x) },
                else_branch = te () => (float[2,3] d) { d = Neg (x) }
            >
        },
        else_branch = e () => (float[2,3] f) { [other] f = Hardmax <axis = 1> (x) }
    >
}"""
X = np.array([[1, 3, 3], [2, 1, 0]], np.float32)
GRAPHS: dict[str, tuple[str, dict[str, Any]]] = {
    "Loop": (LOOP, {"x": X, "n": np.array(3, np.int64)}),
    "Scan": (SCAN, {"first": X[0, :2], "rows": np.arange(8, dtype=np.float32).reshape(4, 2) % 3}),
    "If": (NESTED, {"c": np.array(True), "x": X}),
    "else": (NESTED, {"c": np.array(False), "x": X}),
}


@pytest.mark.parametrize("request_", [{"opset": 9}, {"opset": 18}, {"decompose": ["Hardmax", "ArgMax"]}], ids=str)
@pytest.mark.parametrize("where", GRAPHS)
def test_nodes_in_graphs_of_nodes(where: str, request_: dict[str, Any]) -> None:
    graph, feeds = GRAPHS[where]
    source = model(graph)
    result = converted(source, **request_)
    if "decompose" in request_:
        assert not {"Hardmax", "ArgMax"} & {node.op_type for node in nodes_of(result)}
    assert not repeated(node.name for node in nodes_of(result) if node.name)
    for expected, actual in zip(run(source, [feeds])[0], run(result, [feeds])[0], strict=True):
        np.testing.assert_array_equal(expected, actual)


FLEX = """<ir_version: 13, opset_import: ["": 26, "ai.onnx.preview": 1]>
g (float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v) => (float[1,2,4,8] y) {
    y = ai.onnx.preview.FlexAttention <score_mod = lower (float[B,H,L,S] scores) => (float[B,H,L,S] kept) {
        kept = Trilu <upper = 0> (scores)
    }> (q, k, v)
}"""


def test_constants_in_a_graph_of_another_domain_stand_in_it() -> None:
    source = onnx.parser.parse_model(FLEX)
    result = converted(source, opset=9)
    (attribute,) = result.graph.node[0].attribute
    known = {value.name for value in (*attribute.g.input, *attribute.g.initializer)}
    known |= {name for node in attribute.g.node for name in node.output}
    assert any(name.startswith("opshift/") for name in known)
    assert not result.graph.initializer
    assert all(name in known for node in attribute.g.node for name in node.input)
    feeds = {name: np.random.default_rng(0).standard_normal((1, 2, 4, 8)).astype(np.float32) for name in "qkv"}
    evaluators: list[Any] = [ReferenceEvaluator(one) for one in (source, result)]
    expected, actual = (evaluator.run(None, feeds)[0] for evaluator in evaluators)
    np.testing.assert_allclose(expected, actual, rtol=1e-6)


PATHS = ["main/If_0.then_branch/If_0.then_branch/hot", "main/If_0.else_branch/other"]


def test_a_node_in_a_graph_has_a_path() -> None:
    steps = opshift.plan(model(NESTED), decompose=["Hardmax"]).steps
    assert [step.node for step in steps] == PATHS


def batched(direction: int, *, lengths: bool = False) -> onnx.ModelProto:
    """Return a Scan-8 that adds products up, over two entries of a batch and three steps."""
    tensor = helper.make_tensor_value_info
    nodes = [("Mul", "a", "c", "p"), ("Add", "s", "p", "t"), ("Sub", "t", "a", "o")]
    body = helper.make_graph(
        [helper.make_node(name, [one, other], [made]) for name, one, other, made in nodes],
        "body",
        [tensor(name, TensorProto.FLOAT, [2]) for name in "sac"],
        [tensor(name, TensorProto.FLOAT, [2]) for name in "to"],
    )
    inputs = ["n" if lengths else "", "first", "x", "z"]
    scan = helper.make_node("Scan", inputs, ["last", "all"], body=body, num_scan_inputs=2, directions=[0, direction])
    shapes = {"first": [2, 2], "x": [2, 3, 2], "z": [2, 3, 2], "last": [2, 2], "all": [2, 3, 2]}
    values = {name: tensor(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    values["n"] = tensor("n", TensorProto.INT64, [2])
    graph = helper.make_graph([scan], "g", [values[name] for name in inputs if name], [values["last"], values["all"]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)


@pytest.mark.parametrize("opset", [9, 13, 26])
@pytest.mark.parametrize("direction", [0, 1])
def test_the_batch_of_a_scan_goes_into_a_scan_around_it(direction: int, opset: int) -> None:
    result = opshift.convert(batched(direction), opset=opset)
    assert result.report is not None
    assert result.report.whole.verdict == "equal"
    rng = np.random.default_rng(0)
    shapes = {"first": (2, 2), "x": (2, 3, 2), "z": (2, 3, 2)}
    feeds = {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}
    z = feeds["z"][:, ::-1] if direction else feeds["z"]
    sums = feeds["first"][:, None] + np.cumsum(feeds["x"] * z, axis=1)
    ((last, every),) = run(result.rewritten, [feeds])
    np.testing.assert_array_equal(last, sums[:, -1])
    np.testing.assert_array_equal(every, sums - feeds["x"])


def test_lengths_of_their_own_have_nowhere_to_go() -> None:
    (refusal,) = opshift.plan(batched(0, lengths=True), opset=13).refusals
    assert line(refusal) == "no-lowering: Scan-8 at main/Scan_0"


TWICE = """<ir_version: 8, opset_import: ["": 17]> g (float[3,n] x) => (float[3,n] y, float[3,n] z) {{
    y = {0}
    z = {0}
}}"""


@pytest.mark.slow
def test_equal_nodes_share_what_they_become() -> None:
    """Only what computes the outputs, which keep their names, is written for each."""
    result = opshift.convert(parse_model(TWICE.format("Softmax <axis = 0> (x)")), decompose=["Softmax"])
    once = opshift.convert(
        parse_model(TWICE.format("Softmax <axis = 0> (x)").replace("z = Softmax <axis = 0>", "z = Relu")),
        decompose=["Softmax"],
    )
    assert result.report is not None
    assert result.report.whole.verdict is opshift.Verdict.EQUAL
    assert len(result.rewritten.graph.node) == len(once.rewritten.graph.node)


def test_random_nodes_are_not_shared() -> None:
    model = parse_model(TWICE.format("Bernoulli (x)"))
    nodes = opshift.convert(model, decompose=["Bernoulli"], verify=False).rewritten.graph.node
    assert [node.op_type for node in nodes].count("RandomUniformLike") == 2
