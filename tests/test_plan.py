"""What is planned: functions, refusals, semantics, assumptions and runtimes' profiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.parser import parse_model
from operators.harness import Refused, arr, converted
from refused import refused
from running import nodes_of, run

import opshift
from opshift.opsets.registry import schema_only
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.errors import UnsupportedError, UsageError
from opshift.passes.base.plan import Action, Code
from opshift.passes.rewrite import version_bump

HEAD = '<ir_version: {ir}, opset_import: ["": {opset}{more}]> '


def model(graph: str, opset: int = 13, ir: int = 8, more: str = "") -> onnx.ModelProto:
    return parse_model(HEAD.format(ir=ir, opset=opset, more=more) + graph)


def functions(main: str, *bodies: str, opset: int = 13, ir: int = 9) -> onnx.ModelProto:
    """A model with functions of the domain f; a body begins at the function's name."""
    text = HEAD.format(ir=ir, opset=opset, more=', "f": 1') + main
    for body in bodies:
        text += f' <domain: "f", opset_import: ["": {opset}, "f": 1]> {body}'
    return parse_model(text)


def same(before: onnx.ModelProto, after: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    for expected, actual in zip(run(before, [feeds])[0], run(after, [feeds])[0], strict=True):
        np.testing.assert_array_equal(expected, actual)
        assert expected.dtype == actual.dtype


def left(of: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in nodes_of(of)}


X = arr([[1, 3, 3], [2, 1, 0]])
CUBE = np.random.default_rng(0).integers(0, 3, (2, 3, 4)).astype(np.float32)

# --- functions --------------------------------------------------------------------------------------------------------

ONE = "g (float[2,3] x) => (float[2,3] y) { y = f.Hot (x) }"
HOT = "Hot (a) => (b) { b = Hardmax <axis = -1> (a) }"
FIRST = "Hot (a) => (b) { b = Hardmax <axis = 1> (a) }"


def test_a_function_that_needs_no_facts_stays_one() -> None:
    """What means the same wherever it stands is not copied for each kind of call."""
    main = """g (float[2,3] x, float16[2,3,4] z) => (float[3,2] y, float16[4,3,2] w)
        { y = f.Turn (x) w = f.Turn (z) }"""
    source = functions(main, "Turn (a) => (c) { b = Transpose (a) c = Neg (b) }")
    result = converted(source, opset=11)
    assert [function.name for function in result.functions] == ["Turn"]
    same(source, result, {"x": X, "z": CUBE.astype(np.float16)})


def test_a_function_is_copied_for_each_kind_of_call() -> None:
    main = """g (float[2,3] x, float[2,3,4] z) => (float[2,3] y, float[2,3] v, float[2,3,4] w)
        { y = f.Hot (x) v = f.Hot (y) w = f.Hot (z) }"""
    source = functions(main, FIRST)
    result = converted(source, opset=9)
    assert [function.name for function in result.functions] == ["Hot", "Hot__1"]
    assert [node.op_type for node in result.graph.node] == ["Hot", "Hot", "Hot__1"]
    same(source, result, {"x": X, "z": CUBE})


def test_a_function_called_with_several_types_is_copied() -> None:
    main = """g (float[2,3] x, int64[2,3] z) => (int64[2,1] y, int64[2,1] w) { y = f.At (x) w = f.At (z) }"""
    source = functions(main, "At (a) => (b) { b = ArgMax <axis = 1> (a) }")
    result = converted(source, decompose=["ArgMax"])
    assert "ArgMax" not in left(result)
    same(source, result, {"x": X, "z": X.astype(np.int64)})


WITH_AXIS = "Hot <axis> (a) => (b) { b = Hardmax <axis: int = @axis> (a) }"
WITH_DEFAULT = "Hot <axis: int = 1> (a) => (b) { b = Hardmax <axis: int = @axis> (a) }"


@pytest.mark.parametrize("body", [WITH_AXIS, WITH_DEFAULT])
@pytest.mark.parametrize("request_", [{"opset": 9}, {"opset": 12}, {"decompose": ["Hardmax"]}], ids=str)
def test_attributes_of_a_function_are_bound(body: str, request_: dict[str, Any]) -> None:
    main = """g (float[2,3,4] x) => (float[2,3,4] y, float[2,3,4] z, float[2,3,4] w)
        { y = f.Hot <axis = 1> (x) z = f.Hot <axis = 2> (x) w = f.Hot <axis = 1> (y) }"""
    source = functions(main, body)
    result = converted(source, **request_)
    assert all(not function.attribute and not function.attribute_proto for function in result.functions)
    same(source, result, {"x": CUBE})


@pytest.mark.parametrize("request_", [{"opset": 9}, {"decompose": ["Hardmax"]}], ids=str)
def test_a_default_is_bound_where_a_call_gives_none(request_: dict[str, Any]) -> None:
    source = functions("g (float[2,3,4] x) => (float[2,3,4] y) { y = f.Hot (x) }", WITH_DEFAULT)
    same(source, converted(source, **request_), {"x": CUBE})


def test_attributes_that_nothing_must_know_stay_parameters() -> None:
    body = "Turn <perm> (a) => (b) { b = Transpose <perm: ints = @perm> (a) }"
    source = functions("g (float[2,3,4] x) => (float[4,2,3] y) { y = f.Turn <perm = [2, 0, 1]> (x) }", body)
    result = converted(source, opset=18)
    assert list(result.functions[0].attribute) == ["perm"]
    same(source, result, {"x": CUBE})


def test_an_attribute_that_must_be_there_may_be_a_parameter() -> None:
    body = "Turned <to> (a) => (b) { b = Cast <to: int = @to> (a) }"
    source = functions("g (float[2,3] x) => (int32[2,3] y) { y = f.Turned <to = 6> (x) }", body)
    same(source, converted(source, opset=9), {"x": X})


@pytest.mark.parametrize("body", [FIRST, WITH_AXIS])
def test_a_function_in_which_nothing_changes_is_not_copied(body: str) -> None:
    """Hardmax-13 is the same at 18: there is no reason to ask what it is called with."""
    main = """g (float[2,3] x, float[2,3,4] z) => (float[2,3] y, float[2,3,4] w)
        { y = f.Hot <axis = 1> (x) w = f.Hot <axis = 2> (z) }"""
    source = functions(main if "<axis>" in body else main.replace("<axis = 1>", "").replace("<axis = 2>", ""), body)
    result = converted(source, opset=18)
    assert [function.name for function in result.functions] == ["Hot"]
    assert list(result.functions[0].node) == list(source.functions[0].node)


OUTER = "Outer (a) => (c) { b = f.Hot (a) c = Neg (b) }"


@pytest.mark.parametrize("request_", [{"opset": 9}, {"opset": 18}, {"decompose": ["Hardmax"]}], ids=str)
def test_functions_that_call_functions(request_: dict[str, Any]) -> None:
    main = """g (float[2,3] x, float[2,3,4] z) => (float[2,3] y, float[2,3,4] w) { y = f.Outer (x) w = f.Outer (z) }"""
    source = functions(main, OUTER, FIRST)
    result = converted(source, **request_)
    if "decompose" in request_:
        assert "Hardmax" not in left(result)
    same(source, result, {"x": X, "z": CUBE})


def test_a_call_in_a_branch() -> None:
    main = """g (bool c, float[2,3] x) => (float[2,3] y) { y = If (c) <
        then_branch = t () => (float[2,3] p) { p = f.Hot (x) },
        else_branch = e () => (float[2,3] q) { q = Neg (x) } > }"""
    source = functions(main, FIRST)
    result = converted(source, decompose=["Hardmax"])
    assert "Hardmax" not in left(result)
    for cond in (True, False):
        same(source, result, {"c": np.array(cond), "x": X})


def test_a_function_that_nobody_calls_is_converted_too() -> None:
    source = functions("g (float[2,3] x) => (float[2,3] y) { y = Neg (x) }", HOT)
    result = converted(source, opset=11)
    assert [item.version for item in result.functions[0].opset_import if not item.domain] == [11]


def test_a_function_that_nobody_calls_is_refused_where_a_fact_is_missing() -> None:
    source = functions("g (float[2,3] x) => (float[2,3] y) { y = Neg (x) }", FIRST)
    (refusal,) = opshift.plan(source, decompose=["Hardmax"]).refusals
    assert refusal.code is Code.MISSING_FACT
    assert refusal.node.startswith("function Hot/")


def test_a_function_called_in_too_many_ways_is_refused() -> None:
    inputs = ", ".join(f"float[{n},3] x{n}" for n in range(2, 70))
    outputs = ", ".join(f"float[{n},3] y{n}" for n in range(2, 70))
    calls = " ".join(f"y{n} = f.Hot (x{n})" for n in range(2, 70))
    source = functions(f"g ({inputs}) => ({outputs}) {{ {calls} }}", FIRST)
    refusals = opshift.plan(source, opset=9).refusals
    assert refusals
    assert refusals[0].code is Code.FUNCTION
    assert "more than 64" in refusals[0].reason


@pytest.mark.slow
def test_functions_that_call_the_next_twice_end() -> None:
    """24 of them are 2^24 calls when they are inlined."""
    chain = [f"F{n} (a) => (c) {{ b = f.F{n + 1} (a) c = f.F{n + 1} (b) }}" for n in range(23)]
    source = functions("g (float[2,3] x) => (float[2,3] y) { y = f.F0 (x) }", *chain, "F23 (a) => (b) { b = Neg (a) }")
    assert opshift.plan(source, opset=18).possible


# --- steps and refusals -----------------------------------------------------------------------------------------------


def test_a_plan_lists_what_changes_and_counts_the_rest() -> None:
    graph = """g (float[2,3] x) => (int64[2,1] i) {
        [r] r = Relu (x) [s] s = Sigmoid (r) [hot] h = Hardmax <axis = 0> (s) [arg] i = ArgMax <axis = 1> (h) }"""
    plan = opshift.plan(model(graph), opset=12)
    assert [(step.action, step.node) for step in plan.steps] == [
        (Action.VERSION_BUMP, "main/r"),
        (Action.VERSION_BUMP, "main/s"),
        (Action.LOWER, "main/hot"),
        (Action.VERSION_BUMP, "main/arg"),
    ]
    lowered = plan.steps[2]
    assert lowered.lowerings == ("permuted",)
    assert lowered.becomes == ("Transpose", "Hardmax", "Transpose")
    assert lowered.why == "opset 12 has Hardmax-11"
    assert (plan.kept, plan.source_opset, plan.target_opset) == (0, 13, 12)


REFUSALS = (
    Refused(
        "g (string[2] x) => (string[2] y) { y = StringConcat (x, x) }",
        Code.ABSENT_OPERATOR,
        "opset 19 has no StringConcat",
        {"opset": 19},
    ),
    Refused(
        "g (string[2] x) => (string[2] y) { y = StringNormalizer (x) }",
        Code.ABSENT_OPERATOR,
        "StringNormalizer",
        {"decompose": ["StringNormalizer"]},
    ),
    Refused("g (string[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }", Code.NO_LOWERING, "no string", {"opset": 8}),
    Refused(
        "g (float[n,m] x, int64[k] a) => (float[n,m] y) { y = Squeeze (x, a) }",
        Code.MISSING_FACT,
        "run time",
        {"opset": 12},
    ),
)


@pytest.mark.fast(1000)
@pytest.mark.parametrize("case", REFUSALS, ids=str)
def test_refusal(case: Refused) -> None:
    source = model(case.model, opset=20, ir=9)
    plan = opshift.plan(source, **case.request)
    assert [item.code for item in plan.refusals] == [case.code]
    assert [item.operator.partition("-")[0] for item in plan.refusals] == [case.model.split("y = ")[1].split()[0]]
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(source, **case.request)
    assert caught.value.refusals == plan.refusals


def test_what_no_row_joins_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (version_bump, schema_only):
        monkeypatch.setattr(module, "same_meaning", lambda *versions: None)
    (refusal,) = opshift.plan(
        model("g (float[2,2] x) => (int32[2,1] y) { y = Multinomial (x) }", opset=22, ir=10), opset=20
    ).refusals
    assert refusal.code == Code.UNKNOWN_OPERATOR
    assert "Multinomial-7 differs from it" in str(refusal)


def test_every_node_in_the_way_is_named() -> None:
    graph = "g (string[2] x) => (string[2] z) { [one] y = StringConcat (x, x) [two] z = StringConcat (y, y) }"
    refusals = opshift.plan(model(graph, opset=20, ir=9), opset=19).refusals
    assert [refusal.node for refusal in refusals] == ["main/one", "main/two"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "Nothing was requested"),
        ({"opset": 99}, "no opset 99"),
        ({"opset": 0}, "no opset 0"),
        ({"decompose": "Hardmax"}, "list of operators"),
        ({"decompose": ["Hardmx"]}, "did you mean Hardmax"),
        ({"opset": 13, "semantics": "text"}, "semantics is 'runtime' or 'spec'"),
        ({"opset": 13, "assume": ["NaN"]}, "no assumption 'NaN'"),
        ({"target": "no-such-runtime"}, "neither a built-in profile"),
        ({"opset": 20, "target": Target("mine", (9, 13))}, "mine does not load opset 20"),
    ],
    ids=str,
)
def test_requests_that_make_no_sense(request_: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        opshift.plan(model(ONE.replace("f.Hot", "Hardmax")), **request_)


# --- semantics --------------------------------------------------------------------------------------------------------

ONEHOT = "g ({type}[k] i, int64 d) => (float[k,m] y) <float[2] values = {{0, 1}}> {{ y = OneHot (i, d, values) }}"


@pytest.mark.parametrize(
    ("source", "semantics", "row"),
    [
        (9, "runtime", [0, 0, 0, 0, 1]),  # onnxruntime wraps at 9 too
        (9, "spec", [0, 0, 0, 0, 0]),  # OneHot-9: outside the range [0, depth) all are off
        (11, "runtime", [0, 0, 0, 0, 1]),
        (11, "spec", [0, 0, 0, 0, 1]),
    ],
)
@pytest.mark.parametrize("target", [7, 13])
def test_negative_indices(source: int, semantics: str, row: list[int], target: int) -> None:
    result = converted(model(ONEHOT.format(type="int64"), opset=source, ir=4), opset=target, semantics=semantics)
    (found,) = run(result, [{"i": np.array([-1, 2]), "d": np.array(5)}])[0]
    assert found.tolist() == [row, [0, 0, 1, 0, 0]]


@pytest.mark.parametrize("semantics", ["runtime", "spec"])
def test_fractional_indices(semantics: str) -> None:
    """OneHot-11: "the values will be casted to int64 before use"."""
    result = converted(model(ONEHOT.format(type="float")), decompose=["OneHot"], semantics=semantics)
    (found,) = run(result, [{"i": arr([1.5, 2]), "d": np.array(3)}])[0]
    assert found.tolist() == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("semantics", ["runtime", "spec"])
def test_the_oracle_judges_by_the_text(semantics: str) -> None:
    report = opshift.convert(model(ONEHOT.format(type="int64"), opset=9, ir=4), opset=7, semantics=semantics).report
    assert report is not None
    (check,) = report.nodes
    assert check.verdict == "equal"
    assert ("oracle" in check.judge) == (semantics == "spec")


# --- assumptions ------------------------------------------------------------------------------------------------------

ARGMAX = "g (float[2,3] x) => (int64[2,1] y) { y = ArgMax <axis = 1> (x) }"
NO_COMPARISON = Target(
    "bare", (13, 13), operators=frozenset({"ReduceMax", "Sub", "Sign", "Add", "Mul", "Cast", "Constant"})
)


def test_without_an_assumption_what_needs_one_is_refused() -> None:
    (refusal,) = opshift.plan(model(ARGMAX), target=NO_COMPARISON).refusals
    assert refusal.code is Code.ASSUMPTION
    assert "--assume finite-inputs" in refusal.hint
    (step,) = opshift.plan(model(ARGMAX), target=NO_COMPARISON, assume=["finite-inputs"]).steps
    assert step.assumes == ("finite-inputs",)
    result = converted(model(ARGMAX), target=NO_COMPARISON, assume=["finite-inputs"])
    assert left(result) <= (NO_COMPARISON.operators or set())
    same(model(ARGMAX), result, {"x": X})


def test_what_was_called_allow_is_an_assumption() -> None:
    for allow, words in ((["finite-inputs"], "now called assume=."), (["nan", "finite-inputs"], "no longer needed")):
        with pytest.warns(DeprecationWarning, match=words) as seen:
            (step,) = opshift.plan(model(ARGMAX), target=NO_COMPARISON, allow=allow).steps
        assert step.assumes == ("finite-inputs",)
        assert [one.filename for one in seen] == [__file__]
    with (
        pytest.warns(DeprecationWarning, match="assume="),
        pytest.raises(opshift.UsageError, match="no assumption 'NaN'"),
    ):
        opshift.convert(model(ARGMAX), opset=13, allow=["NaN"])


# --- what is faster ---------------------------------------------------------------------------------------------------

LARGE = """g (float[8,64,1000] x, float[{n},1000] z, int32[8,64,1000] w)
    => (float[8,64,1000] y, float[{n},1000] h, int64[8,64,1] i, int64[8,64,1] j) {{
    y = Hardmax <axis = 1> (x) h = Hardmax (z) i = ArgMax <axis = 2> (x) j = ArgMax <axis = 2> (w) }}"""


@pytest.mark.slow
def test_what_is_legal_is_replaced_where_that_is_faster() -> None:
    large = LARGE.format(n=1)
    assert opshift.plan(model(large), opset=13).nothing_to_do
    steps = opshift.plan(model(large), optimize=True).steps
    assert [step.operator for step in steps] == ["Hardmax", "ArgMax", "ArgMax"]
    assert {step.why for step in steps} == {"it is slower than what replaces it"}
    result = converted(model(large), optimize=True)
    rng = np.random.default_rng(0)
    x, z = (rng.integers(0, 9, (*rows, 1000)).astype(np.float32) for rows in ((8, 64), (1,)))
    same(model(large), result, {"x": x, "z": z, "w": x.astype(np.int32)})
    assert opshift.plan(result, opset=13).nothing_to_do


def test_where_a_shape_is_not_known_nothing_is_said_to_be_faster() -> None:
    graph = "g (float[n,1000] x) => (float[n,1000] y) { y = Hardmax <axis = 0> (x) }"
    assert opshift.plan(model(graph), optimize=True).nothing_to_do


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "axis", "faster"),
    [("n,21,200,200", 1, True), ("n,21,4,4", 1, False), ("n,21,h,200", 1, True), ("n,100000", 0, True)],
)
def test_what_is_faster_for_one_of_a_batch_is_so_for_many(shape: str, axis: int, faster: bool) -> None:
    """Where more is unknown, what is much faster for a nominal length is taken."""
    graph = f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Hardmax <axis = {axis}> (x) }}"
    assert opshift.plan(model(graph), optimize=True).nothing_to_do != faster
    result = converted(model(graph), optimize=True)
    for count in (1, 3):
        x = np.random.default_rng(0).integers(
            0, 9, [{"n": count, "h": 2}.get(dim) or int(dim) for dim in shape.split(",")]
        )
        same(model(graph), result, {"x": x.astype(np.float32)})


def test_any_number_of_dimensions_may_be_unknown() -> None:
    dims = ",".join(f"d{axis}" for axis in range(200))
    graph = f"g (float[{dims}] x) => (float[{dims}] y) {{ y = Hardmax <axis = 0> (x) }}"
    assert opshift.plan(model(graph), decompose=["Hardmax"]).possible


@pytest.mark.parametrize("depth", [math.inf, math.nan, 1e30, -3.0, 0.0])
def test_a_depth_that_is_no_length_is_left_to_the_run(depth: float) -> None:
    graph = "g (int64[n] x) => (float[n,d] y) <float[2] v = {0, 1}> { y = OneHot (x, depth, v) }"
    made = model(graph)
    made.graph.initializer.append(numpy_helper.from_array(np.array(depth, np.float32), "depth"))
    assert opshift.plan(made, decompose=["OneHot"]).possible


@pytest.mark.slow
def test_of_an_operator_that_goes_the_fastest_lowering_depends_on_the_shape() -> None:
    graph = "g (float[{shape}] x) => (int64[{out}] y) {{ y = ArgMax <axis = 1, select_last_index = 1> (x) }}"
    small, large = (
        opshift.plan(model(graph.format(shape=shape, out=out)), decompose=["ArgMax"], optimize=True).steps[0].lowerings
        for shape, out in (("4,10", "4,1"), ("64,1000", "64,1"))
    )
    assert "blocked" in large
    assert "blocked" not in small


# --- profiles ---------------------------------------------------------------------------------------------------------


def test_a_profile_alone_clamps_the_opset() -> None:
    assert opshift.plan(model(ARGMAX), target=Target("old", (7, 11))).target_opset == 11
    assert opshift.plan(model(ARGMAX), target=Target("new", (15, 20))).target_opset == 15
    assert opshift.plan(model(ARGMAX), target=Target("both", (7, 20))).target_opset == 13


LIMITS = {
    "dtypes": (Limit("ArgMax", dtypes={"data": ("float16",)}), "float"),
    "attributes": (Limit("ArgMax", attributes={"axis": (0,)}), "axis"),
    "max_rank": (Limit("ArgMax", max_rank=1), "rank"),
    "without": (None, ""),
}


@pytest.mark.parametrize(("limit", "word"), LIMITS.values(), ids=list(LIMITS))
def test_what_a_profile_does_not_take_is_lowered(limit: Limit | None, word: str) -> None:
    gone = frozenset({"ArgMax"} if limit is None else ())
    target = Target("mine", (13, 13), without=gone, limits=() if limit is None else (limit,))
    plan = opshift.plan(model(ARGMAX), target=target)
    assert [step.action for step in plan.steps] == [Action.LOWER]
    assert "mine" in plan.steps[0].why
    assert word in plan.steps[0].why
    same(model(ARGMAX), converted(model(ARGMAX), target=target), {"x": X})


def test_what_a_profile_takes_is_kept() -> None:
    limit = Limit("ArgMax", dtypes={"data": ("float",)}, attributes={"axis": (1,)}, max_rank=2, static=True)
    assert opshift.plan(model(ARGMAX), target=Target("mine", (13, 13), limits=(limit,))).nothing_to_do


def test_a_shape_that_is_computed_tells_the_rank() -> None:
    """onnx follows it since Reshape-14 only; without the rank nothing tells which axis -1 is."""
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[n,6] x) => (float z)'
        "<int64 zero = {0}, int64[1] first = {0}, int64[2] rest = {2, 3}> {"
        " s = Shape (x) n = Gather (s, zero) u = Unsqueeze (n, first) t = Concat <axis = 0> (u, rest)"
        " r = Reshape (x, t) y = Concat <axis = -1> (r, r) z = ReduceMax <keepdims = 0> (y) }"
    )
    result = opshift.convert(model, opset=9)
    axes = [item.i for node in result.rewritten.graph.node for item in node.attribute if item.name == "axis"]
    assert axes[-1] == 2
    assert result.report is not None
    assert result.report.verdict == "equal"


@pytest.mark.parametrize(("opset", "reason"), [(9, "opset 9 has no Resize"), (13, "Resize-13 has no antialias=1")])
def test_a_reason_is_said_once(opset: int, reason: str) -> None:
    """A way that brings the node into another form of itself fails for the same reason."""
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[n,4,8,8] x, float[m] w) => (float[n,4,a,b] y)
        { y = Resize<mode = "cubic", antialias = 1>(x, , w) }"""
    (refusal,) = opshift.plan(parse_model(text), opset=opset).refusals
    assert refusal.reason == f"{reason}; the rank, or what it is resized to, is computed at run time."
    assert refusal.details == f"{reason}; weighed: the rank, or what it is resized to, is computed at run time."


def test_a_constant_needs_a_cast_below_opset_9() -> None:
    """Constant-1 holds floats; the target casts no number to bool."""
    text = """<ir_version: 3, opset_import: ["": 7]> g (float[2] x) => (bool[2] y)
        <float[2] x = {1, 2}> { c = Constant<value = float[2] {2, 1}>() y = Greater(x, c) }"""
    cast = Limit("Cast", attributes={"to": (TensorProto.FLOAT,)})
    target = Target("mine", without=frozenset({"Greater"}), limits=(cast,))
    with refused("no-lowering: Cast-6 at main/y/Cast"):
        opshift.convert(parse_model(text), target=target)
    assert opshift.convert(parse_model(text), target=target, opset=9).report is not None
    assert [node.op_type for node in opshift.convert(parse_model(text), target="mnn").rewritten.graph.node] == [
        "Identity"
    ]
