"""`--types` changes the element types inside a model where that is exact, and refuses what is not known to fit."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from composed import composed
from node_tests import _array, cases
from onnx import TensorProto
from onnx.parser import parse_model
from refused import refused
from running import RUNS_TO, Array, nodes_of, opset_of, run
from test_random_models import RANDOM, OtherError, same
from test_random_models import feeds as random_feeds
from test_random_models import run as run_alone

import opshift
from opshift.opsets.registry.facts import Facts, constant, type_name
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.schema import OLDEST
from opshift.opsets.registry.value_ranges import RangeNode, ValueRange
from opshift.opsets.runtimes.profile_source import ProfileError
from opshift.opsets.runtimes.profiles import parse_target
from opshift.passes.analysis.departures import distance
from opshift.passes.base.errors import UnsupportedError, UsageError, VerificationError
from opshift.passes.base.plan import Action, Code
from opshift.passes.base.report import Verdict
from opshift.passes.rewrite.float_islands import IslandSearch
from opshift.passes.runtime.ort_models import RejectedError

HEAD = '<ir_version: 9, opset_import: ["": 17]> '
NARROWER = {"int64": "int32"}


def proto_of(result: opshift.Result) -> onnx.ModelProto:
    assert isinstance(result.model, onnx.ModelProto)
    return result.model


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def types_of(model: onnx.ModelProto) -> dict[str, str]:
    """Return the element types of all values of the main graph."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, check_type=True).graph
    values = (*inferred.input, *inferred.output, *inferred.value_info)
    found = {value.name: type_name(value.type.tensor_type.elem_type) for value in values}
    found.update((tensor.name, type_name(tensor.data_type)) for tensor in inferred.initializer)
    return found


TABLE = """g (float[2,9] x, int64[2,3] ids, float[50,2] table) => (float[2,3,2] y, int64[2] last) {
    one = Constant <value_int = 1> ()
    e = Gather (table, ids)
    k = ArgMax <axis = 1, keepdims = 0> (x)
    next = Add (k, one)
    twice = Mul (next, next)
    f = Cast <to = 1> (twice)
    s = ReduceSum <keepdims = 0> (f)
    y = Mul (e, s)
    last = Identity (twice)
}"""


def test_values_inside_become_int32_and_inputs_and_outputs_stay() -> None:
    result = opshift.convert(parse_model(HEAD + TABLE), types=NARROWER)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    found = types_of(proto_of(result))
    assert {name for name, dtype in found.items() if dtype == "int64"} == {"ids", "k", "last"}
    assert (found["next"], found["one"], found["twice"]) == ("int32",) * 3
    assert operators(proto_of(result)).count("Cast") == 3  # after ArgMax, before the output, and the model's own


def test_inputs_and_outputs_change_with_io_types() -> None:
    result = opshift.convert(parse_model(HEAD + TABLE), types=NARROWER, io_types=True)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    found = types_of(proto_of(result))
    assert {name for name, dtype in found.items() if dtype == "int64"} == {"k"}
    assert (found["ids"], found["last"]) == ("int32", "int32")


def test_names_of_values_and_constants_stay() -> None:
    result = opshift.convert(parse_model(HEAD + TABLE), types=NARROWER, verify=False)
    assert {"one", "next", "twice", "f"} <= {name for node in proto_of(result).graph.node for name in node.output}


def test_the_plan_lists_the_nodes_that_change() -> None:
    found = opshift.plan(parse_model(HEAD + TABLE), types=NARROWER)
    changed = [step.operator for step in found.prepared if step.action is Action.RETYPE]
    assert changed == ["Add", "Mul", "Cast", "Identity"]


# name -> graph, a part of the reason; the first node that is refused
REFUSED: dict[str, tuple[str, str, str]] = {
    "an input of unknown range": ("g (int64[n] x) => (int64[n] y) { z = Add (x, x) y = Neg (z) }", "Add", "'x'"),
    "a product beyond a double": (
        "g (int64[4,4,3] x) => (int64 y) { p = ReduceProd <keepdims = 0> (x) y = Neg (p) }",
        "ReduceProd",
        "'x'",
    ),
    "a product of dims": (
        "g (float[a,b] x) => (float[c] y) { s = Shape (x) p = Mul (s, s) f = Cast <to = 1> (p) y = Neg (f) }",
        "Mul",
        "'p'",
    ),
    "a constant beyond int32": (
        "g (float[4] x) => (float y) <int64 big = {2147483648}> { k = ArgMax <axis = 0, keepdims = 0> (x) "
        "s = Add (k, big) y = Cast <to = 1> (s) }",
        "Add",
        "'s'",
    ),
    "a sum of many": (
        "g (float[n] x) => (float y) { k = NonZero (x) s = ReduceSum <keepdims = 0> (k) y = Cast <to = 1> (s) }",
        "ReduceSum",
        "'s'",
    ),
    "a float that may be large": (
        "g (float[4] x) => (float[4] y) { i = Cast <to = 7> (x) j = Neg (i) y = Cast <to = 1> (j) }",
        "Cast",
        "'i'",
    ),
    "a carried value that grows": (
        "g (float[4] x, int64 n) => (float y) <int64 zero = {1}> { t = Constant <value = bool {1}> () "
        "v = Loop (n, t, zero) <body = b (int64 i, bool c, int64 a) => (bool d, int64 e) "
        "{ d = Identity (c) e = Add (a, a) }> y = Cast <to = 1> (v) }",
        "Loop",
        "'v'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_known_to_fit_is_refused_by_node(case: str) -> None:
    graph, operator, value = REFUSED[case]
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(parse_model(HEAD + graph), types=NARROWER)
    refusal = caught.value.refusals[0]
    assert refusal.code is Code.TYPE
    assert refusal.operator.startswith(f"{operator}-")
    assert value in refusal.reason
    assert "fits-int32" in refusal.hint or "--input-shape" in refusal.hint


def test_a_constant_that_does_not_fit_is_kept_where_only_it_is_read() -> None:
    graph = "g (float[9] x) => (float[m] y) <int64[1] end = {9223372036854775807}, int64[1] start = {2}>"
    graph += " { s = Slice (x, start, end) y = Neg (s) }"
    result = opshift.convert(parse_model(HEAD + graph), types=NARROWER)
    assert types_of(proto_of(result))["end"] == "int64"


def test_an_accepted_assumption_is_reported() -> None:
    graph = "g (int64[n] x) => (int64[n] y) { z = Add (x, x) y = Neg (z) }"
    result = opshift.convert(parse_model(HEAD + graph), types=NARROWER, assume=["fits-int32"])
    assert types_of(proto_of(result))["z"] == "int32"
    assert ("fits-int32",) in {step.assumes for step in result.plan.prepared}


def test_a_fixed_shape_bounds_what_follows_from_it() -> None:
    graph = "g (float[a,b] x) => (float[c] y) { i = NonZero (x) f = Mul (i, i) g = Cast <to = 1> (f) y = Neg (g) }"
    with pytest.raises(UnsupportedError, match="--input-shape"):
        opshift.convert(parse_model(HEAD + graph), types=NARROWER)
    result = opshift.convert(parse_model(HEAD + graph), types=NARROWER, input_shapes={"x": (3, 4)}, verify=False)
    assert types_of(proto_of(result))["f"] == "int32"


def test_a_value_read_in_both_types_has_a_cast_for_one() -> None:
    graph = """g (float[4,6] x) => (float[a,b] y) <int64[2] one = {1, 1}> {
        s = Shape (x) t = Add (s, one) f = Cast <to = 1> (t) e = Expand (f, one) z = ConstantOfShape (t)
        w = ReduceSum <keepdims = 0> (e) y = Add (z, w) }"""
    model = parse_model(HEAD + graph)
    result = opshift.convert(model, decompose=["Tanh"], types=NARROWER)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL


def test_casts_that_lose_nothing_go() -> None:
    graph = """g (bool[3] x, int32[3] n) => (bool[3] y, int32[3] m) {
        f = Cast <to = 1> (x) y = Cast <to = 9> (f) w = Cast <to = 7> (n) v = Neg (w) m = Cast <to = 6> (v) }"""
    result = opshift.convert(parse_model(HEAD + graph), types=NARROWER, assume=["fits-int32"])
    assert operators(proto_of(result)) == ["Identity", "Neg", "Identity"]


def test_branches_and_bodies_change_with_the_node() -> None:
    graph = """g (float[4] x, bool c) => (float y) <int64 zero = {0}, int64 three = {3}> {
        t = Constant <value = bool {1}> ()
        k = ArgMax <axis = 0, keepdims = 0> (x)
        b = If (c) <then_branch = p () => (int64 u) { u = Add (k, three) },
                    else_branch = q () => (int64 v) { v = Identity (zero) }>
        l = Loop (three, t, b) <body = r (int64 i, bool d, int64 a) => (bool e, int64 o) {
            e = Identity (d) h = Min (a, three) o = Max (h, zero) }>
        y = Cast <to = 1> (l) }"""
    result = opshift.convert(parse_model(HEAD + graph), types=NARROWER)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert types_of(proto_of(result))["l"] == "int32"
    assert types_of(proto_of(result))["b"] == "int32"


def test_bytes_become_floats_where_nothing_wraps() -> None:
    graph = "g (uint8[2,3] x) => (uint8[3,2] y) { t = Transpose (x) y = Max (t, t) }"
    result = opshift.convert(parse_model(HEAD + graph), types={"uint8": "float"}, io_types=True)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert set(types_of(proto_of(result)).values()) == {"float"}


# name -> graph, changes: what the old type does beyond its own numbers, a wider one does not
WRAPS: dict[str, tuple[str, dict[str, str]]] = {
    "a sum": (
        "g (uint8[4] x, uint8[4] z) => (uint8[4] y) <uint8 two = {2}> { a = Add (x, z) y = Div (a, two) }",
        {"uint8": "int32"},
    ),
    "a difference": (
        "g (uint8[4] x, uint8[4] z) => (uint8[4] y) <uint8 two = {2}> { a = Sub (x, z) y = Div (a, two) }",
        {"uint8": "int32"},
    ),
    "a Cast that cuts": (
        "g (int64[4] x) => (uint8[4] y) <uint8 two = {2}> { a = Cast <to = 2> (x) y = Div (a, two) }",
        {"uint8": "int32"},
    ),
    "a Cast that truncates": (
        "g (float[4] x) => (float[4] y) { a = Cast <to = 2> (x) b = Max (a, a) y = Cast <to = 1> (b) }",
        {"uint8": "float"},
    ),
    "a Cast that asks whether it is zero": (
        "g (float[4] x) => (float[4] y) { a = Cast <to = 9> (x) b = Transpose (a) y = Cast <to = 1> (b) }",
        {"bool": "uint8"},
    ),
    "the same of integers": (
        "g (int64[4] x) => (float[4] y) { a = Cast <to = 9> (x) b = Transpose (a) y = Cast <to = 1> (b) }",
        {"bool": "int32"},
    ),
    "a Cast that truncates what is known to fit": (
        "g (float[4] x) => (float[4] y) <float low = {-9}, float high = {9}> "
        "{ c = Clip (x, low, high) a = Cast <to = 7> (c) b = Add (a, a) y = Cast <to = 1> (b) }",
        {"int64": "float"},
    ),
    "the same of doubles": (
        "g (double[4] x) => (double[4] y) <double low = {-9}, double high = {9}> "
        "{ c = Clip (x, low, high) a = Cast <to = 6> (c) b = Mul (a, a) y = Cast <to = 11> (b) }",
        {"int32": "double"},
    ),
    "a Cast that asks whether what is known to fit is zero": (
        "g (float[4] x) => (float[4] y) <float low = {0}, float high = {1}> "
        "{ c = Clip (x, low, high) a = Cast <to = 9> (c) b = Transpose (a) y = Cast <to = 1> (b) }",
        {"bool": "uint8"},
    ),
    "all bits": (
        "g (uint8[4] x) => (uint8[4] y) <uint8 two = {2}> { a = BitwiseNot (x) y = Div (a, two) }",
        {"uint8": "int64"},
    ),
}


@pytest.mark.parametrize("case", WRAPS)
def test_what_a_wider_type_would_compute_otherwise_keeps_its_type(case: str) -> None:
    graph, changes = WRAPS[case]
    model = parse_model(HEAD.replace("17", "18") + graph)
    result = opshift.convert(model, types=changes)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert types_of(proto_of(result))["a"] == types_of(model)["a"]


def test_a_type_that_an_attribute_gives_by_default_is_written_down() -> None:
    graph = "g (int64[1] n, int32[2,2] i, float[k] x) => (float[k] y, int32[2,2] e) {"
    graph += " z = ConstantOfShape (n) y = Add (z, x) v = EyeLike (i) w = Add (v, i) e = Neg (w) }"
    result = opshift.convert(parse_model(HEAD + graph), types={"float": "double", "int32": "int64"})
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    found = types_of(proto_of(result))
    assert (found["z"], found["v"]) == ("double", "int64")


@pytest.mark.parametrize("element", ["float16", "bfloat16"])
@pytest.mark.parametrize("call", ['Gelu<approximate = "tanh">(x)', "LayerNormalization(x, s)", "Mish(x)", "Softmax(x)"])
def test_what_a_wider_type_does_not_round_on_the_way_is_rounding(call: str, element: str) -> None:
    text = f"g ({element}[2,8] x, {element}[8] s) => ({element}[2,8] y) {{ z = {call} y = Identity (z) }}"
    model = parse_model(HEAD.replace("17", "22") + text)
    report = opshift.convert(model, types={element: "float"}).report
    assert report is not None
    assert report.verdict is Verdict.EQUAL or "onnxruntime does not load the original" in report.whole.reason


@pytest.mark.parametrize("operator", ["RandomNormalLike", "RandomUniformLike", "EyeLike", "Bernoulli"])
@pytest.mark.parametrize(("read", "constant"), [("c", "float16[2,2] c = {1, 2, 3, 4}"), ("z", "float16 c = {1}")])
def test_a_type_that_an_input_gives_by_default_stays_where_the_input_changes(
    operator: str, read: str, constant: str
) -> None:
    """The output of the model keeps its type, and what it is made like does not."""
    graph = f"g (float16[2,2] x) => (float16[2,2] y, float16[2,2] v) <{constant}> "
    graph += f"{{ z = Sigmoid (x) v = Abs (z) y = {operator} ({read}) }}"
    result = opshift.convert(parse_model(HEAD + graph), types={"float16": "float"}, verify=operator == "EyeLike")
    assert types_of(proto_of(result))["y"] == "float16"
    assert types_of(proto_of(result)).get(read, "float") == "float"  # an EyeLike of a constant is one


def test_a_type_that_nothing_but_the_operator_gives_stays() -> None:
    graph = "g (float[2,3] x, float[] s) => (uint8[3,2] y) { q = QuantizeLinear (x, s) y = Transpose (q) }"
    result = opshift.convert(parse_model(HEAD + graph), types={"uint8": "int8"}, assume=["fits-int32"], verify=False)
    assert types_of(proto_of(result))["q"] == "uint8"


def test_quantized_values_keep_their_type() -> None:
    graph = "g (float[2,3] x, float[] s) => (float[2,3] y) <uint8 z = {7}> { q = QuantizeLinear (x, s, z) "
    graph += "y = DequantizeLinear (q, s, z) }"
    result = opshift.convert(parse_model(HEAD + graph), types={"uint8": "int32"})
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert types_of(proto_of(result))["q"] == "uint8"


def test_a_cast_at_an_output_has_a_name_of_its_own() -> None:
    graph = "g (float[2,9] x) => (int32[2] y) { k = ArgMax <axis = 1, keepdims = 0> (x) i = Cast <to = 6> (k) "
    graph += "y = Add (i, i) z = Neg (y) }"
    model = parse_model(HEAD + graph)
    model.graph.node[0].name = "y"
    result = opshift.convert(model, types={"int32": "int64"})
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    names = [node.name for node in proto_of(result).graph.node]
    assert len(names) == len(set(names))


def test_truth_values_become_integers_where_they_are_only_moved() -> None:
    graph = """g (float[4,3] x, int64[2] i) => (float[2,3] y) {
        zero = Constant <value_float = 0.0> ()
        b = Greater (x, zero)
        c = Gather (b, i)
        d = Transpose <perm = [0, 1]> (c)
        y = Cast <to = 1> (d)
    }"""
    result = opshift.convert(parse_model(HEAD + graph), types={"bool": "uint8"})
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    found = types_of(proto_of(result))
    assert (found["b"], found["c"], found["d"]) == ("bool", "uint8", "uint8")


def test_detours_through_a_type_go() -> None:
    graph = """g (bool[4] x, uint8[4] z) => (bool[4] y, uint8[4] w) {
        a = Cast <to = 1> (x) b = Cast <to = 9> (a) y = Not (b)
        c = Cast <to = 6> (z) d = Cast <to = 2> (c) w = Max (d, z)
    }"""
    result = opshift.convert(parse_model(HEAD + graph), types={"bool": "uint8"})
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert operators(proto_of(result)) == ["Not", "Max"]


def test_added_casts_are_no_unchanged_nodes() -> None:
    plan = opshift.plan(parse_model(HEAD + TABLE), types=NARROWER)
    nodes = len(parse_model(HEAD + TABLE).graph.node)
    assert plan.kept == nodes


# --- targets ---------------------------------------------------------------------------------------------------------

SMALL = """name = "small"
opset = [13, 17]
types = ["float", "int32", "bool"]

[[limits]]
operator = "Gather"
dtypes = { data = ["float"] }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_types_that_a_target_lacks_are_changed_without_being_asked(small: Path) -> None:
    graph = """g (float[2,9] x, float16[2] h) => (float[2] y) {
        one = Constant <value_int = 1> ()
        k = ArgMax <axis = 1, keepdims = 0> (x)
        next = Add (k, one)
        f = Cast <to = 1> (next)
        y = Abs (f)
    }"""
    model = parse_model(HEAD + graph.replace(", float16[2] h", ""))
    result = opshift.convert(model, target=small)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert {name for name, dtype in types_of(proto_of(result)).items() if dtype == "int64"} == {"k"}
    assert result.plan.types == {"int64": "int32"}
    assert opshift.convert(proto_of(result), target=small).plan.nothing_to_do
    with pytest.raises(UnsupportedError, match=r"input 'h': its element type is float16.*--io-types"):
        opshift.convert(parse_model(HEAD + graph), target=small)
    outer = opshift.convert(parse_model(HEAD + graph), target=small, io_types=True)
    assert types_of(proto_of(outer))["h"] == "float"


def test_a_target_that_lacks_a_type_refuses_what_does_not_fit_another(small: Path) -> None:
    graph = "g (float[a,b] x) => (float[c] y) { s = Shape (x) p = Mul (s, s) f = Cast <to = 1> (p) y = Abs (f) }"
    with refused("type: Mul-14 at main/Mul_1"):
        opshift.convert(parse_model(HEAD + graph), target=small)


ABSENT: dict[str, tuple[str, dict[str, str] | None]] = {
    "bytes that wrap": (
        "g (uint8[n,8] x, uint8[8] o) => (uint8[n] m) { z = Add (x, o) m = ReduceMax <axes = [1], keepdims = 0> (z) }",
        None,
    ),
    "doubles that depart": (
        "g (double[n,8] x) => (double[n,8] y) <double big = {1e9}> { a = Add (x, big) y = Sub (a, big) }",
        {"double": "float"},
    ),
}


@pytest.mark.parametrize("case", ABSENT)
def test_a_node_that_keeps_an_absent_type_is_refused(case: str) -> None:
    """Also where no limit names its operator."""
    graph, types = ABSENT[case]
    target = parse_target(SMALL.partition("[[limits]]")[0], "small.toml")
    found = opshift.plan(parse_model(HEAD + graph), target=target, types=types, io_types=True)
    assert any(one.code is Code.TYPE and "small has no" in one.reason for one in found.refusals)


def test_a_node_gets_the_types_that_a_target_accepts_there(small: Path) -> None:
    graph = "g (float[2,9] x) => (float[2] y) { k = ArgMax <axis = 1, keepdims = 0> (x) i = Cast <to = 6> (k)"
    graph += " n = Gather (i, z) a = Add (n, i) y = Cast <to = 1> (a) }"
    graph = graph.replace("(float[2,9] x)", "(float[2,9] x, int32[2] z)")
    result = opshift.convert(parse_model(HEAD + graph), target=small)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert types_of(proto_of(result))["n"] == "float"
    assert [step.operator for step in result.plan.prepared if "but it takes data as float" in step.why] == ["Gather"]


def test_a_node_whose_values_may_not_fit_keeps_its_refusal(small: Path) -> None:
    graph = "g (int32[n] x, int32[2] z) => (int32[2] y) { y = Gather (x, z) }"
    with refused("missing-fact: Gather-13 at main/Gather_0"):
        opshift.convert(parse_model(HEAD + graph), target=small)


def test_truth_values_are_gathered_as_numbers_for_tensorrt() -> None:
    graph = "g (float[4,5] x, int32[3] i) => (bool[3,5] y) <float z = {0}> { a = Greater (x, z) y = Gather (a, i) }"
    result = opshift.convert(parse_model(HEAD.replace("17", "13") + graph), target="tensorrt-8")
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert operators(proto_of(result)) == ["Greater", "Cast", "Gather", "Cast"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('types = ["float32"]', "did you mean 'float'"),
        ("types = []", "types is empty"),
        ('types = ["float", "float"]', "listed twice"),
        ('types = "float"', "types is a list"),
    ],
)
def test_wrong_types_of_a_profile_end_with_a_sentence(line: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        parse_target(f'name = "x"\n{line}\n', "x.toml")


# --- float16 ---------------------------------------------------------------------------------------------------------

HALF = {"float": "float16"}

# name -> graph, the nodes that keep float, a part of the first reason
ISLANDS: dict[str, tuple[str, set[str], str]] = {
    "an epsilon that becomes 0": (
        "g (float[4,8] x) => (float[4,8] y) <float e = {1e-12}> { m = ReduceMean <axes = [-1]> (x) d = Sub (x, m) "
        "s = Mul (d, d) v = ReduceMean <axes = [-1]> (s) w = Add (v, e) r = Sqrt (w) y = Div (d, r) }",
        {"Add", "Sqrt"},
        "has the element 1e-12, which is 0 in float16",
    ),
    "an epsilon that is an attribute": (
        "g (float[4,8] x, float[8] s) => (float[4,8] y) { a = Relu (x) b = LayerNormalization <epsilon = 1e-12> (a, s) "
        "y = Tanh (b) }",
        {"LayerNormalization"},
        "its epsilon 1e-12 becomes 0 or infinity in float16",
    ),
    "a mask of large numbers": (
        "g (float[4,8] x, bool[4,8] k) => (float[4,8] y) <float n = {-1e9}, float z = {0}> { m = Where (k, z, n) "
        "r = Relu (x) a = Add (r, m) s = Softmax (a) y = Tanh (s) }",
        {"Where", "Add", "Softmax"},
        "1e+09, which",
    ),
    "a sum of a long row": (
        "g (float[1,70000] x) => (float[1,1] y) <float o = {1}> { a = Add (x, o) b = Mul (a, a) y = ReduceSum (b) }",
        {"ReduceSum"},
        "which overflows",
    ),
    "a mean whose sum overflows": (
        "g (float[1,70000] x) => (float[1,1] y) <float o = {3}> { a = Add (x, o) b = ReduceMean (a) y = Neg (b) }",
        {"ReduceMean"},
        "on the way, which overflows",
    ),
    "a variance that overflows": (
        "g (float[4,64] x) => (float[4,64] y) <float h = {300}> { a = Mul (x, h) m = ReduceMean <axes = [-1]> (a) "
        "d = Sub (a, m) s = Mul (d, d) v = ReduceMean <axes = [-1]> (s) r = Sqrt (v) y = Div (d, r) }",
        {"Mul", "ReduceMean", "Sqrt"},
        "which overflows",
    ),
    "squares that a normalization adds up": (
        "g (float[4,8] x, float[8] s) => (float[4,8] y) <float h = {300}> { a = Mul (x, h) "
        "b = LayerNormalization (a, s) y = Tanh (b) }",
        {"LayerNormalization"},
        "on the way, which overflows",
    ),
    "a small probability": (
        "g (float[4,1] x) => (float[4,1] y) <float b = {-17.3}, float c = {0.01}> { a = Mul (x, c) d = Add (a, b) "
        "y = Sigmoid (d) }",
        {"Mul", "Add", "Sigmoid"},
        "loses digits or becomes 0",
    ),
    "a difference of large numbers": (
        "g (float[4,8] x) => (float[4,8] y) <float b = {1000}> { a = Add (x, b) c = Sub (a, b) y = Tanh (c) }",
        {"Add", "Sub"},
        "departs by",
    ),
    "a decision": (
        "g (float[4,100] x) => (int64[4] y) <float b = {0.001}> { a = Mul (x, b) c = Exp (a) "
        "y = ArgMax <axis = 1, keepdims = 0> (c) }",
        {"Exp", "ArgMax"},
        "which holds no floats",
    ),
    "integers that may be large": (
        "g (int32[4,4] x) => (float[4,4] y) { c = Cast <to = 1> (x) t = Tanh (c) y = Neg (t) }",
        {"Cast"},
        "has values in",
    ),
    "a value that is large already": (
        "g (float[4,8] x) => (float[4,8] y) <float h = {9000}> { a = Mul (x, h) r = Relu (x) b = Add (r, r) "
        "c = Tanh (a) y = Add (b, c) }",
        {"Mul", "Tanh"},
        "and 4 times that overflows",
    ),
    "a value that overflows in a body": (
        "g (float[4] x) => (float[4] y) <int64 n = {3}, bool t = {1}, float h = {300}> { a = Relu (x) "
        "b = Loop (n, t, a) <body = q (int64 i, bool c, float[4] s) => (bool d, float[4] u) "
        "{ d = Identity (c) m = Mul (s, h) v = Mul (m, m) w = Sqrt (v) u = Div (w, h) }> y = Tanh (b) }",
        {"Mul", "Sqrt"},
        "which overflows",
    ),
    "a value that becomes 0 in a body of a body": (
        "g (float[4] x) => (float[4] y) <int64 n = {3}, bool t = {1}, float h = {0.0001}> { a = Relu (x) "
        "b = Loop (n, t, a) <body = q (int64 i, bool c, float[4] s) => (bool d, float[4] u) { d = Identity (c) "
        "u = Loop (n, t, s) <body = r (int64 j, bool e, float[4] p) => (bool f, float[4] o) "
        "{ f = Identity (e) m = Mul (p, h) v = Mul (m, m) w = Sqrt (v) o = Div (w, h) }> }> y = Tanh (b) }",
        {"Mul", "Sqrt"},
        "becomes 0",
    ),
    "a mean whose sum overflows in a branch": (
        "g (float[1,70000] x, bool c) => (float[1,1] y) { a = Exp (x) b = If (c) <then_branch = p () => (float[1,1] u) "
        "{ u = ReduceMean (a) }, else_branch = q () => (float[1,1] v) { v = ReduceMax (a) }> y = Neg (b) }",
        {"ReduceMean"},
        "on the way, which overflows",
    ),
    "a sum that is carried": (
        "g (float[4,8] x) => (float[4,8] y) <int64 n = {200}, bool t = {1}, float h = {0.003}> { a = Relu (x) "
        "y = Loop (n, t, a) <body = q (int64 i, bool c, float[4,8] s) => (bool d, float[4,8] u) "
        "{ d = Identity (c) m = Mul (x, h) v = Tanh (m) u = Add (s, v) }> }",
        {"Loop", "Add"},
        "departs by",
    ),
    "a large number that is carried at first": (
        "g (float[2] x) => (float[2] y) <int64 n = {3}, bool t = {1}, float[2] big = {1e9, 1e9}> { a = Sin (x) "
        "b = Loop (n, t, big) <body = q (int64 i, bool c, float[2] s) => (bool d, float[2] u) "
        "{ d = Identity (c) e = Exp (a) u = Min (s, e) }> y = Tanh (b) }",
        {"Loop"},
        "its constant 'big' has the element 1e+09",
    ),
    "a branch that no input takes": (
        "g (float[4] x) => (float[4] y) { a = ReduceMax <keepdims = 0> (x) h = Constant <value_float = 1e30> () "
        "c = Greater (a, h) b = If (c) <then_branch = p () => (float[4] u) { u = Exp (x) }, "
        "else_branch = q () => (float[4] v) { v = Sin (x) }> y = Neg (b) }",
        {"Greater", "Exp", "If"},
        "no value was measured",
    ),
    "a branch with numbers that no input shows": (
        "g (float[4] x, int64 n) => (float[4] y) { b = Constant <value = int64 {123456}> () c = Equal (n, b) "
        "z = Relu (x) y = If (c) <then_branch = t () => (float[4] a) { k = Constant <value = float {100000}> () "
        "a = Mul (z, k) }, else_branch = e () => (float[4] d) { w = Constant <value = float {2}> () d = Mul (z, w) }> "
        "}",
        {"If", "Mul"},
        "did not run",
    ),
    "a value that grows with a count that is an input": (
        "g (float[4] x, int64 n) => (float[4] y) <bool t = {1}> { a = Tanh (x) y = Loop (n, t, a) "
        "<body = q (int64 i, bool c, float[4] s) => (bool d, float[4] u) { d = Identity (c) u = Add (s, s) }> }",
        {"Loop"},
        "counted at run time",
    ),
}


@pytest.mark.parametrize("case", ISLANDS)
def test_nodes_stay_in_float_where_float16_is_not_enough(case: str) -> None:
    graph, expected, why = ISLANDS[case]
    result = opshift.convert(parse_model(HEAD + graph), types=HALF)
    assert result.report is not None
    assert result.report.verdict is (Verdict.WITHIN_BOUND if result.plan.types else Verdict.EQUAL)
    operators_kept = {node.rpartition("/")[2].rpartition("_")[0] for node in result.plan.wide}
    assert operators_kept == expected
    assert any(why in reason for reason in result.plan.wide.values())
    onnx.checker.check_model(proto_of(result), full_check=True)


def test_float16_is_used_where_it_is_enough() -> None:
    graph = "g (float[4,8] x) => (float[4,8] y) <float[8,8] w> { a = MatMul (x, w) b = Relu (a) y = Tanh (b) }"
    model = parse_model(HEAD + graph.replace("<float[8,8] w> ", ""))
    weights = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 4
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    result = opshift.convert(model, types=HALF)
    assert result.report is not None
    assert result.report.verdict is Verdict.WITHIN_BOUND
    assert not result.plan.wide
    found = types_of(proto_of(result))
    assert {name for name, dtype in found.items() if dtype == "float"} == {"x", "y"}
    assert found["w"] == "float16"
    assert "normally distributed and zeros, seed 1" in result.report.whole.reason
    assert "the bound is 0.0312" in result.report.whole.reason
    assert "worst: 'y'[" in result.report.whole.reason


def test_float16_with_io_types_changes_inputs_and_outputs() -> None:
    graph = "g (float[4,8] x) => (float[4,8] y) { a = Relu (x) y = Tanh (a) }"
    result = opshift.convert(parse_model(HEAD + graph), types=HALF, io_types=True)
    assert result.report is not None
    assert result.report.verdict is Verdict.WITHIN_BOUND
    assert set(types_of(proto_of(result)).values()) == {"float16"}


BODIES: dict[str, str] = {
    "a Loop": "g (float[4,8] x) => (float[4,8] y, float[3,4,8] s) <int64 n = {3}, bool t = {1}> { a = Relu (x) y, s = "
    "Loop (n, t, a) <body = q (int64 i, bool c, float[4,8] v) => (bool d, float[4,8] u, float[4,8] w) "
    "{ d = Identity (c) m = Mul (v, x) u = Sin (m) w = Exp (u) }> }",
    "a Scan": "g (float[5,2,8] x, float[2,8] h, float[8,8] W) => (float[2,8] y, float[5,2,8] s) { y, s = "
    "Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1], "
    "body = q (float[2,8] a, float[2,8] v) => (float[2,8] o, float[2,8] k) "
    "{ p = MatMul (a, W) r = Add (p, v) o = Tanh (r) k = Neg (o) }> (h, x) }",
    "both branches of an If": "g (float[4,8] x, bool c) => (float[4,8] y) { a = Relu (x) y = If (c) "
    "<then_branch = p () => (float[4,8] u) { u = Exp (a) }, else_branch = q () => (float[4,8] v) { v = Mul (x, a) }> }",
    "an If in a Loop whose shapes grow": "g (float[1,8] x) => (float[k,8] y) <int64 n = {3}, int64 o = {1}, "
    "bool t = {1}> { a = Sin (x) y = Loop (n, t, a) <body = q (int64 i, bool c, float[m,8] v) => (bool d, float[l,8] u)"
    " { d = Identity (c) b = Less (i, o) e = If (b) <then_branch = r () => (float[1,8] f) { f = Exp (a) }, "
    "else_branch = s () => (float[1,8] g) { g = Neg (a) }> u = Concat <axis = 0> (v, e) }> }",
}


def inner_types(model: onnx.ModelProto) -> set[str]:
    """Return the element types of the outputs of the graphs in nodes."""
    graphs = [attribute.g for node in nodes_of(model) for attribute in node.attribute if attribute.HasField("g")]
    return {type_name(value.type.tensor_type.elem_type) for graph in graphs for value in graph.output}


@pytest.mark.parametrize("opset", [9, 13, 17, 21])
@pytest.mark.parametrize("case", BODIES)
def test_bodies_and_branches_become_float16(case: str, opset: int) -> None:
    model = parse_model(HEAD.replace("17", str(opset)) + BODIES[case])
    result = opshift.convert(model, types=HALF)
    assert result.report is not None
    assert result.report.verdict is Verdict.WITHIN_BOUND
    assert result.plan.wide == {}
    assert "float" not in inner_types(proto_of(result))
    rng = np.random.default_rng(1)
    feeds = {
        value.name: np.array(True)
        if value.name == "c"
        else rng.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }
    for before, after in zip(run(model, [feeds])[0], run(proto_of(result), [feeds])[0], strict=True):
        assert after.dtype == before.dtype
        assert distance(before, after).size < 1 / 32


@pytest.mark.parametrize(("factor", "why"), [(1e6, "which overflows in float16"), (1e-7, "becomes 0 in float16")])
def test_an_output_that_its_new_type_does_not_hold_is_refused(factor: float, why: str) -> None:
    graph = f"g (float[4,8] x) => (float[4,8] y) <float f = {{{factor}}}> {{ a = Tanh (x) y = Mul (a, f) }}"
    model = parse_model(HEAD + graph)
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(model, types=HALF, io_types=True)
    refusal = caught.value.refusals[0]
    assert (refusal.code, refusal.node) == (Code.TYPE, "output 'y'")
    assert why in refusal.reason
    assert "--io-types" in refusal.hint
    result = opshift.convert(model, types=HALF)
    assert result.report is not None
    assert result.report.verdict is Verdict.WITHIN_BOUND


def test_given_inputs_decide_which_nodes_stay() -> None:
    graph = "g (float[2,2] x) => (float[2,2] y) { a = Mul (x, x) b = Sqrt (a) c = Tanh (b) y = Neg (c) }"
    model = parse_model(HEAD + graph)
    assert not opshift.convert(model, types=HALF).plan.wide
    large = {"x": np.full((2, 2), 1000, np.float32)}
    result = opshift.convert(model, types=HALF, inputs=large)
    assert set(result.plan.wide) == {"main/Mul_0", "main/Sqrt_1"}
    assert result.report is not None
    assert "on 1 input (1 given)" in result.report.whole.reason


def test_an_island_that_is_missed_is_found_by_the_verification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IslandSearch, "search", lambda self, model: {})
    graph = ISLANDS["a sum of a long row"][0]
    with pytest.raises(VerificationError, match="departs by inf"):
        opshift.convert(parse_model(HEAD + graph), types=HALF)


def test_doubles_become_floats_within_the_bound_of_floats() -> None:
    graph = """g (double[4,8] x) => (double[4,8] y) <double b = {1e6}>
        { a = Add (x, b) c = Sub (a, b) d = Tanh (c) y = Neg (d) }"""
    result = opshift.convert(parse_model(HEAD + graph), types={"double": "float"})
    assert result.report is not None
    assert result.report.verdict is Verdict.WITHIN_BOUND
    assert set(result.plan.wide) == {"main/Add_0", "main/Sub_1"}
    assert types_of(proto_of(result))["c"] == "double"


HALVED = int(os.environ.get("OPSHIFT_RANDOM", "60"))


def in_float16(draw: random.Random) -> str:
    """Draw a model, give it float16 where that is enough, and return what became of it."""
    model = composed(draw)
    if any(node.op_type in RANDOM for node in nodes_of(model)):
        return "other"
    try:
        inputs = random_feeds(model, draw)
        run_alone(model, inputs)
    except (OtherError, RejectedError):
        return "other"
    try:
        result = opshift.convert(model, types=HALF, inputs=inputs)
    except UnsupportedError as error:
        return "refused" if "narrower floats are chosen" in str(error) else f"wrong: {error}"
    except VerificationError as error:
        return f"wrong: {error}"
    assert result.report is not None
    narrowed = any(step.action is Action.RETYPE for step in result.plan.prepared)
    if result.report.verdict is not (Verdict.WITHIN_BOUND if narrowed else Verdict.EQUAL):
        return f"wrong: {result.report.whole.reason}"
    return "narrowed" if narrowed else "as it was"


@pytest.mark.slow
def test_random_models_stay_within_the_bound_in_float16() -> None:
    found = [in_float16(random.Random(f"{SEED}:{number}")) for number in range(HALVED)]
    assert [f"{number}: {one}" for number, one in enumerate(found) if one.startswith("wrong")] == []
    assert found.count("narrowed") >= HALVED // 20


def test_a_distance_is_relative_to_the_row_of_an_output() -> None:
    boxes = np.stack([np.full(32, 640.0), np.linspace(0, 1, 32)])
    wrong = boxes + np.array([[0.0], [0.2]])
    assert distance(boxes, wrong).size > 0.1
    assert distance(boxes, wrong, rows=False).size < 0.001
    assert distance(np.array([3e-8]), np.array([1.0])).size > 1e6
    assert distance(np.array([np.inf, np.nan]), np.array([np.inf, np.nan])).size == 0
    assert distance(np.array([7.0]), np.array([np.inf])).size == np.inf
    assert distance(np.zeros((0, 3)), np.zeros((0, 3))).size == 0


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"types": {"int65": "int32"}}, "did you mean int64"),
    ({"types": {"int64": "int64"}}, "to itself"),
    ({"types": {"float": "bfloat16"}}, "it can become double, float16"),
    ({"types": {"FP32": "float16"}}, "did you mean float?"),
    ({"types": "int64=int32"}, "is a mapping"),
    ({"types": {"int64": 6}}, "give names"),
    ({"io_types": True, "opset": 17}, "give types too"),
    ({"types": NARROWER, "io_types": 1}, "True or False"),
]


@pytest.mark.parametrize(("asked", "message"), WRONG)
def test_wrong_requests_end_with_a_sentence(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        opshift.convert(parse_model(HEAD + TABLE), **asked)


# --- ONNX's own tests of nodes ---------------------------------------------------------------------------------------


def _integers(case: Any) -> bool:
    values = (*case.model.graph.input, *case.model.graph.output)
    return any(value.type.tensor_type.elem_type == TensorProto.INT64 for value in values)


UNRUN = {
    "test_affine_grid_2d_align_corners_expanded",
    "test_affine_grid_2d_expanded",
    "test_attention_4d_causal_padded_kv_bf16",
    "test_attention_4d_causal_padded_kv_bf16_expanded",
    "test_attention_4d_diff_heads_mask4d_padded_kv",
    "test_attention_4d_padded_kv_bf16",
    "test_attention_4d_padded_kv_bf16_expanded",
    "test_bitcast_float64_to_int64",
    "test_bitcast_int64_to_float64",
    "test_bitshift_left_int64",
    "test_bitshift_right_int64",
    "test_onehot_with_bfloat16_values",
    "test_reduce_max_empty_set_bool",
    "test_reversesequence_bfloat16",
    "test_roialign_aligned_false",
    "test_roialign_aligned_true",
    "test_roialign_mode_max",
    "test_top_k_uint64",
    "test_unique_bfloat16_sorted_without_axis",
}
"""Models that onnxruntime 1.32.0 has no kernel for, that it rejects, or whose numbers do not fit int32.

AffineGrid's body makes a Range of vectors of one element, and loads only as long as their shape is not known.
"""
CASES = {
    case.name: case
    for case in cases("")
    if _integers(case) and opset_of(case.model) >= OLDEST and case.name not in UNRUN
}


def _changed(array: Array) -> Array:
    return array.astype(np.int32) if array.dtype == np.int64 else array


@pytest.mark.parametrize("name", CASES)
def test_nodes_of_int32_return_what_those_of_int64_do(name: str) -> None:
    case = CASES[name]
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    for entry in model.opset_import:
        entry.version = min(entry.version, RUNS_TO)
    given, _ = case.data_sets[0]
    names = [value.name for value in model.graph.input]
    feed = {key: _array(value) for key, value in zip(names, given, strict=False)}
    expected = run(model, [feed])[0]
    result = opshift.convert(model, types=NARROWER, io_types=True, assume=["fits-int32"], verify=False)
    declared = {value.name: value.type.tensor_type.elem_type for value in proto_of(result).graph.input}
    assert TensorProto.INT64 not in declared.values()
    actual = run(proto_of(result), [{key: _changed(value) for key, value in feed.items()}])[0]
    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(_changed(one), other)
        assert other.dtype == _changed(one).dtype


# --- random models ---------------------------------------------------------------------------------------------------

CHANGES = (
    {"int64": "int32"},
    {"int64": "float"},
    {"int32": "int64"},
    {"uint8": "int32", "int8": "int32"},
    {"float": "double"},
    {"float16": "float", "bfloat16": "float"},
    {"bool": "uint8"},
    {"uint8": "float", "bool": "int32"},
)
MODELS = int(os.environ.get("OPSHIFT_RANDOM", "200"))
SEED = int(os.environ.get("OPSHIFT_SEED", "1"))


def in_other_types(draw: random.Random) -> str:
    """Draw a model, change its types, and return what became of it: "wrong: ..." among others."""
    model = composed(draw)
    if any(node.op_type in RANDOM for node in nodes_of(model)):
        return "other"
    try:
        inputs = random_feeds(model, draw)
        expected = run_alone(model, inputs)
    except (OtherError, RejectedError):
        return "other"
    changes, outer = draw.choice(CHANGES), draw.random() < 0.5
    try:
        asked: dict[str, Any] = {"types": changes, "io_types": outer, "assume": ["fits-int32"]}
        result = opshift.convert(model, verify=False, **asked).rewritten
    except UnsupportedError:
        return "refused"
    types = {value.name: value.type.tensor_type.elem_type for value in result.graph.input}
    fed = {name: one.astype(onnx.helper.tensor_dtype_to_np_dtype(types[name])) for name, one in inputs.items()}
    try:
        found = run_alone(result, fed)
    except RejectedError as error:
        return f"wrong: {changes}, outside too: {outer}: {error}"
    again = [
        one.astype(old.dtype) if outer and isinstance(one, np.ndarray) and isinstance(old, np.ndarray) else one
        for old, one in zip(expected, found, strict=True)
    ]
    if not all(map(same, expected, again)):
        return f"wrong: {changes}, outside too: {outer}: {expected} became {found}"[:600]
    return "changed" if result.SerializeToString() != model.SerializeToString() else "as it was"


@pytest.mark.slow
def test_random_models_return_the_same_in_other_types() -> None:
    found = [in_other_types(random.Random(f"{SEED}:{number}")) for number in range(MODELS)]
    assert [f"{number}: {one}" for number, one in enumerate(found) if one.startswith("wrong")] == []
    assert found.count("changed") >= MODELS // 8


# --- ranges ----------------------------------------------------------------------------------------------------------

ELEMENTWISE = {
    "Add": 2, "Sub": 2, "Mul": 2, "Div": 2, "Mod": 2, "Neg": 1, "Abs": 1, "Max": 2, "Min": 2, "Sign": 1, "Relu": 1,
    "BitwiseAnd": 2, "BitwiseOr": 2, "BitwiseXor": 2, "BitwiseNot": 1,
}  # fmt: skip
EXACT: dict[str, Any] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: np.trunc(a / b).astype(np.int64),
    "Mod": np.mod,
    "Neg": np.negative,
    "Abs": np.abs,
    "Max": np.maximum,
    "Min": np.minimum,
    "Sign": np.sign,
    "Relu": lambda a: np.maximum(a, 0),
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "BitwiseNot": np.invert,
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_ranges_hold_all_results_and_their_ends_are_reached(name: str) -> None:
    """All numbers of small ranges are tried: what an operator returns of them is in its range."""
    rule = traits(name).value_range
    assert rule is not None
    numbers = range(-4, 5)
    ranges = [(low, high) for low in numbers for high in numbers if low <= high]
    rng = np.random.default_rng(0)
    for _ in range(300):
        chosen = [ranges[rng.integers(len(ranges))] for _ in range(ELEMENTWISE[name])]
        inputs = np.array(list(itertools.product(*(range(low, high + 1) for low, high in chosen))), np.int64).T
        if name in ("Div", "Mod"):
            inputs = inputs[:, inputs[1] != 0]
        facts = [Facts(TensorProto.INT64, (inputs.shape[1],)) for _ in chosen]
        found = rule(RangeNode({}, [ValueRange(*one) for one in chosen], facts, [Facts(TensorProto.INT64)]))
        if not inputs.size:
            continue
        result = EXACT[name](*inputs)
        assert found[0] is not None
        assert found[0].low <= result.min()
        assert result.max() <= found[0].high
        if name not in ("Div", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            assert (found[0].low, found[0].high) == (result.min(), result.max())


REDUCTIONS: dict[str, Any] = {"ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMax": np.max, "ReduceMin": np.min}


@pytest.mark.parametrize("name", [*REDUCTIONS, "ReduceL1", "ReduceSumSquare", "CumSum"])
def test_ranges_of_reductions_hold_all_results(name: str) -> None:
    rule = traits(name).value_range
    assert rule is not None
    rng = np.random.default_rng(1)
    functions: dict[str, Any] = REDUCTIONS | {
        "ReduceL1": lambda a, axis: np.abs(a).sum(axis),
        "ReduceSumSquare": lambda a, axis: (a * a).sum(axis),
        "CumSum": np.cumsum,
    }
    for _ in range(300):
        low, high = sorted(rng.integers(-5, 6, 2).tolist())
        array = rng.choice([low, high, rng.integers(low, high + 1)], (3, 4)).astype(np.int64)
        axis = int(rng.integers(0, 2))
        axes = constant(np.array([axis], np.int64))
        node = RangeNode({}, [ValueRange(low, high), None], [Facts(TensorProto.INT64, (3, 4)), axes], [Facts()])
        found = rule(node)[0]
        assert found is not None
        result = functions[name](array, axis=axis)
        assert found.low <= result.min()
        assert result.max() <= found.high


def test_every_operator_that_computes_integers_has_a_range_or_moves_them() -> None:
    """Those without one are refused, and listed here."""
    without = {
        *("BitShift", "BitCast", "CumProd", "Einsum", "Gemm", "GridSample", "If", "Loop", "Scan", "Multinomial"),
        *("PRelu", "ReduceL2", "ReduceMean", "Resize", "Shrink", "TensorScatter", "Bernoulli", "Col2Im", "Constant"),
        *("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", "ConstantOfShape", "StringSplit"),
    }
    found = set()
    for schema in onnx.defs.get_all_schemas():
        makes = any("tensor(int64)" in output.types for output in schema.outputs)
        own = traits(schema.name)
        if not schema.domain and not schema.deprecated and makes and own.value_range is None and not own.moved:
            found.add(schema.name)
    assert found == without


def test_rows_of_zeros_stay_zero_in_float16() -> None:
    """An epsilon that float16 does not hold must not become 0 behind the node that reads it."""
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[n,8] x) => (float[n,8] y) <float e = {1e-12}> '
        "{ s = ReduceL2 <axes = [1]> (x) d = Clip (s, e) h = Shape (x) b = Expand (d, h) y = Div (x, b) }"
    )
    x = np.vstack([np.linspace(-2, 2, 8), np.zeros(8)]).astype(np.float32)
    for outer in (False, True):
        result = opshift.convert(model, types={"float": "float16"}, io_types=outer)
        assert result.report is not None
        assert result.report.verdict is Verdict.WITHIN_BOUND
        (y,) = run(proto_of(result), [{"x": x.astype(np.float16) if outer else x}])[0]
        np.testing.assert_allclose(y.astype(np.float32), x / max(float(np.linalg.norm(x[0])), 1e-12), atol=2**-10)


def test_inputs_of_the_user_have_the_types_of_the_given_model() -> None:
    """Also where inputs get other types: what these do not hold is an error."""
    half = parse_model(HEAD + "g (float[n] x) => (float[n] y) { a = Relu (x) y = Tanh (a) }")
    values = [{"x": np.array(one, np.float32)} for one in ([0.5, -1], [2.0])]
    result = opshift.convert(half, types=HALF, io_types=True, inputs=values)
    assert result.report is not None
    assert result.report.verdict is Verdict.WITHIN_BOUND
    assert "on 2 inputs (2 given)" in result.report.whole.reason
    with pytest.raises(UsageError, match=r"100000\.0 given for x is beyond the range of float16"):
        opshift.convert(half, types=HALF, io_types=True, inputs={"x": np.array([1e5], np.float32)})
    whole = parse_model(HEAD + "g (int64[n] i, float[9,2] t) => (float[n,2] y) { y = Gather (t, i) }")
    given = {"i": np.array([0, 8, -1])}
    result = opshift.convert(whole, types=NARROWER, io_types=True, inputs=given)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    with pytest.raises(UsageError, match="beyond the range of int32"):
        opshift.convert(whole, types=NARROWER, io_types=True, inputs={"i": np.array([2**40])})


def test_what_reads_bits_keeps_its_type() -> None:
    text = """<ir_version: 13, opset_import: ["": 26]> g (float16[2] x) => (uint16[2] y)
        { a = Neg (x) b = Neg (a) y = BitCast <to = 4> (b) }"""
    result = opshift.convert(parse_model(text), types={"float16": "float"})
    onnx.checker.check_model(proto_of(result), full_check=True)
    assert types_of(proto_of(result))["y"] == "uint16"


@pytest.mark.parametrize(("operator", "gates"), [("GRU", 3), ("LSTM", 4)])
def test_what_onnxruntime_runs_in_float_alone_stays_in_float(operator: str, gates: int) -> None:
    """onnxruntime 1.32.0 lists kernels of double for both, which raise once they run."""
    graph = f"g (float[3,2,4] x, float[1,{gates * 5},4] w, float[1,{gates * 5},5] r) => (float[3,1,2,5] y) "
    graph += f"{{ a = Relu (x) b = {operator} <hidden_size = 5> (a, w, r) y = Tanh (b) }}"
    result = opshift.convert(parse_model(HEAD + graph), types={"float": "double"})
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert result.report.whole.inputs > 0
    found = types_of(proto_of(result))
    assert (found["a"], found["b"]) == ("double", "float")


def test_a_cast_back_is_the_cast_before() -> None:
    """Attention masks of torch: bool, cast to bool, where the cast becomes one to uint8."""
    graph = "g (int64[4] x, float[4] z) => (float[4] y) <int64 o = {0}> { e = Equal (x, o) c = Cast <to = 9> (e) "
    graph += "f = Constant <value_float = -1e9> () y = Where (c, f, z) }"
    result = opshift.convert(parse_model(HEAD + graph), types={"bool": "uint8"})
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert operators(proto_of(result)) == ["Equal", "Constant", "Where"]
    graph = "g (bool[4] x) => (int64[4] y) <int64 a = {0}> { c = Cast <to = 7> (x) d = CumSum (c, a) "
    graph += "e = Mul (d, c) y = Abs (e) }"
    result = opshift.convert(parse_model(HEAD + graph), types={"int64": "int16"})
    made = {name: node for node in proto_of(result).graph.node for name in node.output}
    pairs = [node for node in made.values() if node.op_type == "Cast" and node.input[0] in made]
    assert not [node for node in pairs if made[node.input[0]].op_type == "Cast"]


def test_integers_that_become_inputs_of_floats_are_fed_whole_numbers() -> None:
    """A mask that is compared with zero: 0.5 is not one of its values."""
    graph = "g (int64[4] x) => (float[4] y) <int64 o = {0}> { i = Abs (x) b = Equal (i, o) y = Cast <to = 1> (b) }"
    result = opshift.convert(parse_model(HEAD + graph), types={"int64": "float"}, io_types=True)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert types_of(proto_of(result))["x"] == "float"
    doubled = "g (int64[4] x) => (int64[4] y) { y = Add (x, x) }"
    with refused("type: Add-14 at main/Add_0"):
        opshift.convert(parse_model(HEAD + doubled), types={"int64": "float"}, io_types=True)


def test_quantized_bytes_are_written_out_for_a_target_without_them() -> None:
    graph = "g (float[2,3] x) => (float[3,2] y) <float s = {0.02}, uint8 z = {100}> { q = QuantizeLinear (x, s, z) "
    graph += "t = Transpose (q) d = DequantizeLinear (t, s, z) y = Neg (d) }"
    model = parse_model(HEAD.replace("17", "13") + graph)
    result = opshift.convert(model, target="tensorrt-8")
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    found = types_of(proto_of(result))
    assert (found["q"], found["t"]) == ("int32", "int32")
    values = np.random.default_rng(1).uniform(-4, 4, (2, 3)).astype(np.float32)
    inputs = [{"x": values}, {"x": np.full((2, 3), 1e9, np.float32)}, {"x": np.full((2, 3), 0.01, np.float32)}]
    for before, after in zip(run(model, inputs), run(proto_of(result), inputs), strict=True):
        assert before[0].tobytes() == after[0].tobytes()


def test_inputs_of_several_types_that_become_one_are_fed_their_own() -> None:
    graph = (
        "g (uint8[4] x, int64[4] n) => (float[4] y, int64[4] m) <int64 a = {1}> { c = Cast <to = 1> (x) y = Sqrt (c) "
    )
    graph += "m = Max (n, a) }"
    result = opshift.convert(parse_model(HEAD + graph), types={"int64": "int32", "uint8": "int32"}, io_types=True)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    found = types_of(proto_of(result))
    assert (found["x"], found["n"], found["m"]) == ("int32", "int32", "int32")


@pytest.mark.parametrize("target", ["mnn", "tensorrt-8", "tensorrt-8.6", "tensorrt-10"])
def test_a_target_that_computes_double_as_float_gets_a_note(target: str) -> None:
    model = parse_model(HEAD.replace("17", "13") + "g (double[4] x) => (double[4] y) { z = Exp (x) y = Neg (z) }")
    result = opshift.convert(model, target=target)
    assert [note for note in result.notes if f"{target} computes double as float: --types double=float" in note]
    narrower = opshift.convert(model, target=target, types={"double": "float"}, io_types=True)
    assert narrower.report is not None
    assert narrower.report.verdict is Verdict.WITHIN_BOUND
    assert not [note for note in narrower.notes if "computes double" in note]


@pytest.mark.parametrize("target", ["coreml", "webnn"])
def test_a_target_without_double_refuses_it(target: str) -> None:
    model = parse_model(HEAD + "g (double[4] x) => (double[4] y) { z = Exp (x) y = Tanh (z) }")
    with pytest.raises(UnsupportedError, match="--types double=float --io-types"):
        opshift.convert(model, target=target)
    report = opshift.convert(model, target=target, types={"double": "float"}, io_types=True).report
    assert report is not None
    assert report.verdict is Verdict.WITHIN_BOUND


UNLIKE = [
    "g (float[4] x, float[3] i) => (float[4] y) { y = Add (x, i) }",
    "g (float[4] x, float[3,2] i) => (float[8] y) { c = Concat <axis = 0> (x, i) y = Neg (c) }",
]
"""Models of contradicting shapes, which are not inferred if nothing changes."""


@pytest.mark.parametrize("graph", UNLIKE)
def test_a_copy_that_onnxruntime_does_not_load_is_unchecked(graph: str) -> None:
    report = opshift.convert(parse_model(HEAD + graph), target="onnxruntime").report
    assert report is not None
    assert report.verdict is Verdict.UNCHECKED
    assert "onnxruntime does not load it" in report.whole.reason
    right = parse_model(HEAD + graph.replace("float[3]", "float[4]").replace("float[3,2]", "float[4]"))
    report = opshift.convert(right, target="onnxruntime").report
    assert report is not None
    assert report.verdict is Verdict.EQUAL
