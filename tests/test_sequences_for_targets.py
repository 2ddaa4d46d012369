"""Sequences and optionals for targets without them: in an If, a Loop, and an optional."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from refused import refused
from test_folding import operators, run, same

import opshift
from opshift.opsets.registry.structural import SEQUENCES
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.report import Verdict

NO_LISTS = Target("npu", without=frozenset(SEQUENCES))
CONSTANTS = "<int64 zero = {0}, int64 one = {1}, int64 last = {-1}>"


def parsed(body: str, opset: int = 18, inputs: str = "float[2,3] x", outputs: str = "float[a,b] y") -> onnx.ModelProto:
    """Return a model that reads `zero`, `one` and `last`; its outputs have no declared shape."""
    head = f'<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {CONSTANTS} '
    model = parse_model(f"{head} {{ {body} }}")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- optionals --------------------------------------------------------------------------------------------------------

OPTIONALS = {
    "a sequence": "q = SequenceConstruct (x, n) o = Optional (q) p = OptionalGetElement (o) y = SequenceAt (p, one)",
    "its length": (
        "q = SequenceConstruct (x, n) o = Optional (q) p = OptionalGetElement (o) l = SequenceLength (p) "
        "f = Cast <to = 1> (l) y = Mul (n, f)"
    ),
    "an empty sequence": (
        "q = SequenceEmpty <dtype = 1> () o = Optional (q) h = OptionalHasElement (o) "
        "f = Cast <to = 1> (h) y = Add (n, f)"
    ),
    "a sequence that is no optional": (
        "q = SequenceConstruct (x, n) h = OptionalHasElement (q) p = OptionalGetElement (q) r = SequenceAt (p, last) "
        "f = Cast <to = 1> (h) y = Add (r, f)"
    ),
    "an empty sequence that is no optional": (
        "q = SequenceEmpty <dtype = 1> () h = OptionalHasElement (q) f = Cast <to = 1> (h) y = Add (n, f)"
    ),
    "another optional": "o = Optional (x) p = Identity (o) q = OptionalGetElement (p) y = Add (q, n)",
}


@pytest.mark.parametrize("request_of", [{"target": NO_LISTS}, {"opset": 9}], ids=["target", "opset"])
@pytest.mark.parametrize("body", OPTIONALS.values(), ids=list(OPTIONALS))
def test_what_is_in_an_optional_is_read_in_its_place(body: str, request_of: dict[str, Any]) -> None:
    model = parsed(f"n = Neg (x) {body}")
    result = opshift.convert(model, verify=False, **request_of)
    assert not operators(result.rewritten) & set(SEQUENCES)
    same(model, result.rewritten, {"x": random(2, 3)})


# --- branches ---------------------------------------------------------------------------------------------------------


def sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)


def branch(name: str, body: str, result: onnx.ValueInfoProto) -> onnx.GraphProto:
    """Return a branch that returns a float "t" and another value, from the text of its nodes."""
    text = f'<ir_version: 8, opset_import: ["": 18]> {name} () => (float[2,3] t_{name}) {{ {body} }}'
    graph = parse_model(text).graph
    graph.output.append(result)
    return graph


def with_if(then: str, other: str, body: str, kind: Any = sequence) -> onnx.ModelProto:
    """Return a model with an If whose branches return a tensor and `q`; `body` makes `y` of these."""
    model = parsed(f"t = Neg (x) q = SequenceEmpty <dtype = 1> () {body}", inputs="float[2,3] x, bool c")
    branches = {
        "then_branch": branch("a", f"t_a = Exp (x) {then}", kind("q_a")),
        "else_branch": branch("b", f"t_b = Tanh (x) {other}", kind("q_b")),
    }
    nodes = [helper.make_node("If", ["c"], ["t", "q"], **branches), *model.graph.node[2:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


BRANCHES = {
    "elements": ("q_a = SequenceConstruct (x, t_a)", "n = Neg (x) q_b = SequenceConstruct (t_b, n)"),
    "the same twice": ("q_a = SequenceConstruct (x, x)", "q_b = SequenceConstruct (t_b, x)"),
    "parts": ("q_a = SplitToSequence <axis = 0> (x)", "q_b = SplitToSequence <axis = 0> (t_b)"),
    "one of another": (
        "r = SequenceConstruct (x, t_a) e = SequenceAt (r, one) q_a = SequenceConstruct (e, x)",
        "q_b = SequenceConstruct (x, t_b)",
    ),
    "one put in": ("r = SequenceConstruct (x) q_a = SequenceInsert (r, t_a)", "q_b = SequenceConstruct (x, t_b)"),
}


@pytest.mark.parametrize("without_if", [False, True])
@pytest.mark.parametrize("name", BRANCHES)
def test_an_if_returns_the_elements_of_a_sequence(name: str, without_if: bool) -> None:
    read = "p = SequenceAt (q, last) j = ConcatFromSequence <axis = 0> (q) l = Neg (p) y = Concat <axis = 0> (l, j, t)"
    model = with_if(*BRANCHES[name], read)
    target = Target("npu", without=frozenset({*SEQUENCES, *(["If"] if without_if else [])}))
    result = opshift.convert(model, target=target)
    assert not operators(result.rewritten) & set(SEQUENCES)
    assert ("If" in operators(result.rewritten)) != without_if
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    for condition in (True, False):
        same(model, result.rewritten, {"x": random(2, 3), "c": np.array(condition)})


def optional(name: str) -> onnx.ValueInfoProto:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    return helper.make_value_info(name, kind)


def test_a_sequence_of_an_if_that_another_node_gives_out_is_there_still() -> None:
    """It lost the If, and was written without what makes it."""
    text = """<ir_version: 8, opset_import: ["": 17]> g (bool c, float[2] x) => (seq(float[2]) y) { q = If (c)
        <then_branch = g () => (seq(float[2]) t) { t = SequenceConstruct (x) },
        else_branch = g () => (seq(float[2]) e) { n = Neg (x) e = SequenceConstruct (n) }> y = Identity (q) }"""
    with refused("absent-operator: SequenceConstruct-11 at main/q/SequenceConstruct"):
        opshift.convert(onnx.parser.parse_model(text), decompose=["SequenceConstruct"])


def test_an_if_returns_the_tensor_of_an_optional() -> None:
    model = with_if("q_a = Optional (x)", "q_b = Optional (t_b)", "g = OptionalGetElement (q) y = Add (g, t)", optional)
    result = opshift.convert(model, target=NO_LISTS)
    assert not operators(result.rewritten) & set(SEQUENCES)
    for condition in (True, False):
        same(model, result.rewritten, {"x": random(2, 3), "c": np.array(condition)})


def test_branches_that_return_different_numbers_of_elements_stay() -> None:
    model = with_if("q_a = SequenceConstruct (x)", "q_b = SequenceConstruct (t_b, x)", "y = SequenceAt (q, last)")
    plan = opshift.plan(model, target=NO_LISTS)
    assert {refusal.operator.partition("-")[0] for refusal in plan.refusals} >= {"SequenceAt", "SequenceConstruct"}


UNUSED = {
    "in the model": ("Optional", "o = Optional (x) y = Neg (x)"),
    "one that others use, which are unused": (
        "SplitToSequence",
        "q = SplitToSequence (x) r = SequenceErase (q, zero) y = Neg (x)",
    ),
    "in a branch": (
        "If",
        "y = If (c) <then_branch = a () => (float[2,3] p) { q = SequenceConstruct (x) p = Neg (x) },"
        " else_branch = b () => (float[2,3] r) { i = Cast <to = 7> (x) s = ArgMax (i) r = Exp (x) }>",
    ),
}


@pytest.mark.parametrize("name", UNUSED)
def test_unused_nodes_are_in_the_way_of_nothing(name: str) -> None:
    operator, body = UNUSED[name]
    model = parsed(body, inputs="float[2,3] x, bool c" if operator == "If" else "float[2,3] x")
    result = opshift.convert(model, target=Target("npu", without=frozenset({operator, *SEQUENCES})))
    assert operators(result.rewritten) <= {"Neg", "Exp", "Where"}
    for condition in (True, False):
        feeds = {"x": random(2, 3), "c": np.array(condition)}
        same(model, result.rewritten, {value.name: feeds[value.name] for value in model.graph.input})


# --- loops ------------------------------------------------------------------------------------------------------------


def collecting(
    body: str, element: str = "e = Exp (v)", again: str = "again = Identity (go)", count: str = "int64 count"
) -> onnx.ModelProto:
    """Return a model with a Loop that adds `e` to `q`; `body` reads this."""
    model = parsed(f"w = Neg (x) q = SequenceEmpty <dtype = 1> () {body}", inputs=f"float[2,3] x, {count}, int64 at")
    head = '<ir_version: 8, opset_import: ["": 18]> b (int64 i, bool go, float[2,3] v) => (bool again, float[2,3] w_b) '
    graph = parse_model(f"{head} {{ {again} w_b = Tanh (v) {element} after = SequenceInsert (before, e) }}").graph
    graph.input.append(sequence("before"))
    graph.output.append(sequence("after"))
    loop = helper.make_node("Loop", ["count", "", "x", "empty"], ["w", "q"], body=graph)
    empty = helper.make_node("SequenceEmpty", [], ["empty"], dtype=TensorProto.FLOAT)
    nodes = [empty, loop, *model.graph.node[2:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


READERS = {
    **{
        f"stacked along {axis}": f"y = ConcatFromSequence <axis = {axis}, new_axis = 1> (q)"
        for axis in (0, 1, 2, -1, -3)
    },
    **{f"joined along {axis}": f"y = ConcatFromSequence <axis = {axis}> (q)" for axis in (0, 1, -1, -2)},
    "one of them": "y = SequenceAt (q, last)",
    "one whose place is an input": "y = SequenceAt (q, at)",
    "their number": "l = SequenceLength (q) f = Cast <to = 1> (l) y = Mul (w, f)",
    "nothing": "y = Neg (w)",
    "in a branch": (
        "l = SequenceLength (q) c = Less (l, last) y = If (c) "
        "<then_branch = s () => (float[m,n] p) { p = ConcatFromSequence <axis = 0> (q) },"
        " else_branch = t () => (float[m,n] r) { r = ConcatFromSequence <axis = 1> (q) }>"
    ),
    "twice": "s = ConcatFromSequence <axis = 0> (q) t = SequenceAt (q, zero) y = Concat <axis = 0> (s, t)",
}
ENDS = {
    "a count": "again = Identity (go)",
    "a condition": "s = ReduceSum <keepdims = 0> (v) again = Less (s, big)",
}


@pytest.mark.parametrize("request_of", [{"target": "tensorrt-10"}, {"opset": 9}], ids=str)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", READERS)
def test_a_loop_that_collects_returns_rows_where_there_is_loop(name: str, end: str, request_of: dict[str, Any]) -> None:
    model = collecting(READERS[name], again=ENDS[end])
    if end == "a condition":
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1.5, np.float32), "big"))
    result = opshift.convert(model, **request_of)
    assert not operators(result.rewritten) & set(SEQUENCES)
    assert "Loop" in operators(result.rewritten)
    for count in (1, 3):
        same(model, result.rewritten, {"x": random(2, 3), "count": np.array(count), "at": np.array(0)})


ELEMENTS = {
    "an outer value": "e = Identity (x)",
    "a returned one": "e = Identity (w_b)",
    "one of a sequence in the body": "p = SplitToSequence <axis = 0, keepdims = 0> (v) e = SequenceAt (p, one)",
    "a scalar": "e = ReduceMax <keepdims = 0> (v)",
}


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=list(ELEMENTS))
def test_whatever_a_loop_collects_is_a_row(element: str) -> None:
    model = collecting("y = ConcatFromSequence <axis = 0, new_axis = 1> (q)", element)
    result = opshift.convert(model, target="tensorrt-10")
    same(model, result.rewritten, {"x": random(2, 3), "count": np.array(3), "at": np.array(0)})


def test_elements_of_different_shapes_are_not_rows() -> None:
    """The element of each iteration is one longer: the rows of a Loop have one shape."""
    element = "j = Add (i, one) k = Unsqueeze (j, axes) u = Slice (x, starts, k, axes) e = Identity (u)"
    model = collecting("y = ConcatFromSequence <axis = 0> (q)", element, count="int64 count")
    for name, number in (("axes", 0), ("starts", 0)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([number]), name))
    assert run(model, {"x": random(2, 3), "count": np.array(2), "at": np.array(0)})[0].shape == (3, 3)
    assert {refusal.operator.partition("-")[0] for refusal in opshift.plan(model, target=NO_LISTS).refusals} >= {
        "SequenceInsert",
        "ConcatFromSequence",
    }


@pytest.mark.parametrize("target", ["tensorrt-8", "tensorrt-8.6", "tensorrt-10", "rknn"])
@pytest.mark.parametrize("place", ["", ", zero"])
def test_a_counted_loop_goes_to_targets_without_sequences(place: str, target: str) -> None:
    model = collecting("y = ConcatFromSequence <axis = 0> (q)")
    (insert,) = (node for node in model.graph.node[1].attribute[0].g.node if node.op_type == "SequenceInsert")
    insert.input.extend(["zero"] if place else [])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(3), "count"))
    kept = [value for value in model.graph.input if value.name == "x"]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    result = opshift.convert(model, target=target)
    assert not operators(result.rewritten) & set(SEQUENCES)
    # A Loop that puts elements in front has no rows in that order.
    assert ("Loop" in operators(result.rewritten)) == (target != "rknn" and not place)
    same(model, result.rewritten, {"x": random(2, 3)})


CARRIED = {
    "the next two": "u = SequenceAt (p, zero) v = SequenceAt (p, one) w = Add (u, v) q = SequenceConstruct (v, w)",
    "one that goes, and one that comes": (
        "r = SequenceErase (p, zero) u = SequenceAt (r, last) w = Neg (u) q = SequenceInsert (r, w)"
    ),
    "the same": "q = Identity (p)",
    "exchanged": "u = SequenceAt (p, zero) v = SequenceAt (p, one) q = SequenceConstruct (v, u)",
    "the same one twice": "u = SequenceAt (p, one) q = SequenceConstruct (u, u)",
    "in a branch": (
        "z = Cast <to = 9> (i) q = If (z) <"
        "then_branch = a () => (seq(float[2,3]) q_a) { s = SequenceAt (p, one) q_a = SequenceConstruct (s, x) }, "
        "else_branch = b () => (seq(float[2,3]) q_b) "
        "{ s = SequenceAt (p, zero) m = Exp (s) q_b = SequenceConstruct (m, s) }>"
    ),
}


def carrying(body: str, opset: int = 18) -> onnx.ModelProto:
    """Return a model with a Loop of a run-time count that carries a sequence of two, and returns rows beside it."""
    return parsed(
        "t = Neg (x) f = SequenceConstruct (x, t) g, h = Loop (count, , f) <"
        "body = b (int64 i, bool c, seq(float[2,3]) p) "
        f"=> (bool d, seq(float[2,3]) q, float[2,3] row) {{ d = Identity (c) {body} k = SequenceLength (q) "
        "l = Cast <to = 1> (k) row = Add (l, x) }> "
        "j = ConcatFromSequence <axis = 0> (g) m = ReduceSum <keepdims = 0> (h) y = Add (j, m)",
        opset,
        inputs="float[2,3] x, int64 count",
    )


@pytest.mark.parametrize("request_of", [{"target": NO_LISTS}, {"opset": 11}, {"opset": 9}], ids=["target", "11", "9"])
@pytest.mark.parametrize("body", CARRIED.values(), ids=list(CARRIED))
def test_a_loop_carries_the_elements_of_a_sequence_of_fixed_length(body: str, request_of: dict[str, Any]) -> None:
    model = carrying(body)
    result = opshift.convert(model, **request_of)
    assert not operators(result.rewritten) & set(SEQUENCES)
    assert "Loop" in operators(result.rewritten)
    for count in (0, 1, 4):
        same(model, result.rewritten, {"x": random(2, 3), "count": np.array(count)})


def test_a_sequence_that_grows_is_not_one_of_fixed_length() -> None:
    plan = opshift.plan(carrying("q = SequenceInsert (p, x)"), target=NO_LISTS)
    assert {refusal.operator.partition("-")[0] for refusal in plan.refusals} >= {"SequenceInsert", "SequenceConstruct"}


@pytest.mark.parametrize("opset", [11, 12])
def test_below_13_an_if_returns_elements(opset: int) -> None:
    """If-11 and Loop-11 have tensors alone, though there are sequences."""
    model = with_if(*BRANCHES["elements"], "y = ConcatFromSequence <axis = 0> (q)")
    result = opshift.convert(model, opset=opset)
    for condition in (True, False):
        same(model, result.rewritten, {"x": random(2, 3), "c": np.array(condition)})


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("maker", ["SplitToSequence <axis = 0> (x)", "SequenceConstruct (x, x)"])
def test_below_14_a_sequence_is_passed_on_without_identity(maker: str, opset: int) -> None:
    """Alone, the replacement was an Identity, which has tensors only there: right conversions were rejected."""
    model = parsed(f"q = {maker} r = Identity (q) y = ConcatFromSequence <axis = 1> (r)", inputs="float[n,3] x")
    result = opshift.convert(model, opset=opset)
    assert "Identity" not in operators(result.rewritten)
    same(model, result.rewritten, {"x": random(2, 3)})


def test_opencv_has_no_sequences() -> None:
    model = parsed("n = Neg (x) q = SequenceConstruct (x, n) y = ConcatFromSequence <axis = 0> (q)")
    result = opshift.convert(model, target="opencv-4")
    assert not operators(result.rewritten) & set(SEQUENCES)
    same(model, result.rewritten, {"x": random(2, 3)})


def test_the_rows_of_a_counted_loop_have_a_known_number() -> None:
    """TensorRT 8 has no sequences; the parts of what the Loop returns are known because its length is."""
    body = (
        "s = ConcatFromSequence <axis = 2, new_axis = 1> (q) p = SplitToSequence <axis = 2> (s) y = SequenceAt (p, one)"
    )
    model = collecting(body, count="int64 unused")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(3), "count"))
    kept = [value for value in model.graph.input if value.name == "x"]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    result = opshift.convert(model, target="tensorrt-8")
    assert not operators(result.rewritten) & set(SEQUENCES)
    same(model, result.rewritten, {"x": random(2, 3)})
