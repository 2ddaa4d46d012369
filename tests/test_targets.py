"""Runtimes' profiles: what a file may say, what is said of one that is wrong, and what a target does to a model."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.parser import parse_model
from running import run

import opshift
from opshift.cli.main import main
from opshift.opsets.registry.facts import Facts, type_name
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import NEWEST, OLDEST, schema_at
from opshift.opsets.runtimes import kernels
from opshift.opsets.runtimes.profiles import ProfileError, builtin_targets, load_target, parse_target
from opshift.opsets.runtimes.releases import releases
from opshift.opsets.runtimes.target import Legality, Limit, Target
from opshift.passes.base.errors import UnsupportedError
from opshift.passes.base.results import Code
from opshift.passes.runtime.kernel_probe import probe

# --- a file -----------------------------------------------------------------------------------------------------------

ALL = """name = "m"
opset = [9, 99]
ir_version = [3, 8]
operators = ["Add", "ArgMax"]
without = ["Sub"]
[[limits]]
operator = "ArgMax"
dtypes = { data = ["float"] }
attributes = { keepdims = [1] }
constant_inputs = []
static = true
max_rank = 4
opset = [9, 12]
reason = "seen"
[[limits]]
operator = "Add"
combinations = [{ A = "float", B = "float" }]
never = true
reason = "wrong"
"""


def test_a_profile_says_all_that_it_can() -> None:
    target = parse_target(ALL, "m.toml")
    assert target.opset == (9, NEWEST)
    assert target.ir_version == (3, 8)
    assert target.operators == frozenset({"Add", "ArgMax"})
    assert target.without == {"Sub"}
    first, second = target.limits
    assert first == Limit(
        "ArgMax", {"data": ("float",)}, (), {"keepdims": (1,)}, (), True, 4, opset=(9, 12), reason="seen"
    )
    assert second == Limit("Add", combinations=({"A": "float", "B": "float"},), never=True, reason="wrong")
    assert target.to_toml() == ALL


def limit(*lines: str, operator: str = "ArgMax") -> str:
    """A profile with a comment, a limit that is right, and one that is to be wrong, whose operator is in line 7."""
    above = ('name = "m"  # operator', '# "Add"', "[[limits]]", 'operator = "Add"', "max_rank = 4", "[[limits]]")
    return "\n".join([*above, f'operator = "{operator}"', *lines])


WRONG: Mapping[str, tuple[str, int, str]] = {
    "not TOML": ("name = ", 1, "not valid TOML"),
    "not TOML, in a later line": ('name = "m"\nopset = [7, 13\n', 2, "not valid TOML"),
    "a key twice": ('name = "m"\nopset = [7, 9]\nopset = [7, 9]', 3, "not valid TOML"),
    "no name": ("# a runtime\nopset = [7, 13]", 1, "needs a name"),
    "an empty name": ('opset = [7, 13]\nname = " "', 2, "needs a name"),
    "a key that is not": ('name = "m"\n\noperatos = ["Add"]', 3, "unknown key 'operatos'; did you mean 'operators'?"),
    "a wrong type": ('name = "m"\noperators = "Add"', 2, "operators is a list, not a text"),
    "a number for a name": ("name = 3", 1, "name is a text, not a whole number"),
    "an operator that is not": (
        'name = "m"\noperators = ["Adds"]',
        2,
        "no operator is called 'Adds'; did you mean 'Add'?",
    ),
    "in a later line of the list": (
        'name = "m"\noperators = [\n  "Add",  # "OneHott"\n  "OneHott",\n]',
        4,
        "no operator is called 'OneHott'; did you mean 'OneHot'?",
    ),
    "a missing operator that is not": ('name = "m"\nwithout = ["onehot"]', 2, "did you mean 'OneHot'?"),
    "another domain": ('name = "m"\noperators = ["com.microsoft:Gelu"]', 2, "the default domain only"),
    "no name of an operator": ('name = "m"\noperators = ["Add", 3]', 2, "operators holds names of operators, not 3"),
    "an operator twice": ('name = "m"\noperators = [\n"Add",\n"Mul",\n"Add"]', 5, "Add is listed twice"),
    "a missing operator twice": ('name = "m"\nwithout = ["Add", "Add"]', 2, "Add is listed twice"),
    "no operator": ('name = "m"\noperators = []', 2, "operators is empty; omit it"),
    "in both lists": (
        'name = "m"\noperators = ["Add"]\nwithout = ["Add"]',
        3,
        "Add is both in operators and in without",
    ),
    "half a range": ('name = "m"\nopset = [7]', 2, "opset is a pair [lowest, highest], not [7]"),
    "a range of texts": ('name = "m"\nir_version = ["3", "8"]', 2, "ir_version is a pair [lowest, highest]"),
    "a range of truth": ('name = "m"\nopset = [true, 9]', 2, "opset is a pair"),
    "a range from nought": ('name = "m"\nir_version = [0, 8]', 2, "ir_version is a pair"),
    "a range backwards": ('name = "m"\nopset = [13, 7]', 2, "did you mean [7, 13]?"),
    "opsets nobody has": ('name = "m"\nopset = [1, 5]', 2, "outside of 7 to"),
    "limits that are no tables": (
        'name = "m"\nlimits = ["Add"]',
        2,
        "each limit is a table: write [[limits]] above it",
    ),
    "a limit without operator": ('name = "m"\n[[limits]]\nmax_rank = 4', 2, "a limit needs an operator"),
    "a limit on what is not": (limit("max_rank = 4", operator="ArgMx"), 7, "did you mean 'ArgMax'?"),
    "a limit's key": (limit("maxrank = 4"), 8, "unknown key 'maxrank'; did you mean 'max_rank'?"),
    "a key below the limits": (
        limit("max_rank = 4", 'without = ["Sub"]'),
        9,
        "keys of the profile must be above all limits",
    ),
    "a limit that is none": (limit('reason = "slow"'), 7, "this limit on ArgMax limits nothing; add one of dtypes"),
    "the same limit twice": (limit("max_rank = 4", operator="Add"), 7, "this limit on Add is listed twice"),
    "never, and not why": (limit("never = true"), 8, "add a reason why ArgMax must never be used"),
    "truth for a number": (limit("max_rank = true"), 8, "max_rank is a whole number, not true or false"),
    "a negative rank": (limit("max_rank = -1"), 8, "max_rank is not negative"),
    "a text for truth": (limit('static = "yes"'), 8, "static is true or false, not a text"),
    "an input that is not": (
        limit('dtypes = { dat = ["float"] }'),
        8,
        "ArgMax has no input 'dat'; did you mean 'data'?",
    ),
    "another input": (limit('dtypes = { x = ["float"] }'), 8, "ArgMax has no input 'x'; it has data"),
    "an element type that is not": (limit('dtypes = { data = ["float", "flot16"] }'), 8, "did you mean 'float16'?"),
    "numpy's name of a type": (limit('dtypes = { data = ["float32"] }'), 8, "did you mean 'float'?"),
    "a type twice": (limit('dtypes = { data = ["float", "float"] }'), 8, "float is listed twice"),
    "a type that is no list": (limit('dtypes = { data = "float" }'), 8, "data has a list of element types"),
    "no types": (limit("dtypes = { data = [] }"), 8, "data has a list of element types"),
    "a combination's type": (limit('combinations = [{ data = "flt" }]'), 8, "no element type is called 'flt'"),
    "a combination's input": (
        limit("combinations = [", '  { data = "float" },', '  { axis = "float" },', "]"),
        10,
        "ArgMax has no input 'axis'",
    ),
    "a combination that is none": (limit("combinations = [[]]"), 8, "each combination is a table"),
    "no combinations": (limit("combinations = []"), 8, "combinations holds none"),
    "an attribute that is not": (
        limit("attributes = { axes = [1] }"),
        8,
        "ArgMax has no attribute 'axes'; did you mean 'axis'?",
    ),
    "a value of another type": (limit('attributes = { axis = ["1"] }'), 8, "axis of ArgMax is never '1'"),
    "one value": (limit("attributes = { axis = 1 }"), 8, "axis has a list of the values"),
    "a constant that is not": (limit('constant_inputs = ["axis"]'), 8, "ArgMax has no input 'axis'"),
    "a constant twice": (limit('constant_inputs = ["data", "data"]'), 8, "data is listed twice"),
    "an attribute of a later version": (
        limit("attributes = { select_last_index = [0] }", "opset = [7, 11]"),
        8,
        "ArgMax has no attribute 'select_last_index'",
    ),
    "opsets without the operator": (
        limit("max_rank = 3", "opset = [7, 8]", operator="Where"),
        7,
        "no opset from 7 to 8 has Where",
    ),
    "a limit on what is missing": (
        'name = "m"\nwithout = ["Add"]\n[[limits]]\noperator = "Add"\nmax_rank = 3',
        4,
        "Add is listed in without",
    ),
    "a limit on what is not listed": (
        'name = "m"\noperators = ["Add"]\n[[limits]]\noperator = "Mul"\nmax_rank = 3',
        4,
        "Mul is not among operators",
    ),
    "limits in braces": (
        'name = "m"\nlimits = [\n{ operator = "Add", max_rank = 3 },\n{ operator = "Add", rank = 3 }]',
        4,
        "unknown key 'rank'",
    ),
    "limits with tables of their own": (
        limit("[limits.dtypes]", 'data = ["flot"]'),
        9,
        "no element type is called 'flot'; did you mean 'float'?",
    ),
}


@pytest.mark.parametrize(("text", "line", "words"), WRONG.values(), ids=list(WRONG))
def test_a_wrong_profile_is_refused_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ProfileError, match=re.escape(words)) as caught:
        parse_target(text, "mine.toml")
    assert str(caught.value).startswith(f"mine.toml:{line}: ")


def test_the_commands_say_where_a_profile_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, model = tmp_path / "mine.toml", tmp_path / "m.onnxtxt"
    file.write_text('name = "mine"\nwithout = ["OneHott"]\n')
    model.write_text(onnx.printer.to_text(parse_model(RELU)))
    wanted = f"error: {file}:2: no operator is called 'OneHott'; did you mean 'OneHot'?"
    for command in (["targets", str(file)], ["plan", str(model), "--target", str(file)]):
        assert main(command) == 2
        out, err = capsys.readouterr()
        assert (out, err.splitlines()[0][: len(wanted)]) == ("", wanted)


# --- the built-in ones ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", builtin_targets())
def test_built_in_profiles_are_right(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are read by their names, printed as they are, and what is printed serves as a user's own file."""
    target = load_target(name)
    assert target.name == name
    assert main(["targets", name]) == 0
    printed = capsys.readouterr().out
    assert printed == target.to_toml()
    assert printed.startswith("# "), "a comment names version and source"
    assert parse_target(printed, "mine.toml") == target
    assert all(limit.reason for limit in target.limits)


def test_all_runtimes_of_the_documents_are_there() -> None:
    measured = {"onnxruntime", "opencv-4", "mnn", "openvino", "ncnn"}
    listed = {"tensorrt-8", "coreml", "webnn", "webgpu", "qnn", "rknn"}
    assert set(builtin_targets()) == measured | listed | {one.name for one in releases()}


def test_the_profile_of_onnxruntime_is_its_kernel_table() -> None:
    """Each operator and version, in each combination of element types: legal where there is a kernel."""
    target = load_target("onnxruntime")
    assert target.opset == (OLDEST, kernels.newest_opset())
    assert target.ir_version == (3, kernels.newest_ir_version())
    dtypes = {type_name(dtype): dtype for dtype in TensorProto.DataType.values() if dtype}
    asked = 0
    for name in sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}):
        for opset in range(OLDEST, target.opset[1] + 1):
            schema = schema_at("", name, opset)
            if schema is None or any(
                not kind.startswith("tensor(") for parameter in schema.inputs for kind in parameter.types
            ):
                continue
            legality = Legality(opset, target=target)
            least = schema.raw.min_input
            given = [one for place, one in enumerate(schema.inputs) if place < least or not one.optional]
            variables = {parameter.type_variable: parameter for parameter in given}
            choices = [sorted(parameter.types) for parameter in variables.values()]
            for chosen in itertools.islice(itertools.product(*choices), 500):
                bound = dict(zip(variables, chosen, strict=True))
                facts = tuple(Facts(dtypes[bound[one.type_variable][len("tensor(") : -1]]) for one in given)
                attributes = {key: None for key, (required, _) in schema.attributes.items() if required}
                node = Node("", name, schema.since_version, attributes, facts, (True,))
                reason = legality.why_not(node)
                assert (reason is None) == kernels.has_kernel(node, schema, opset), (name, opset, bound, reason)
                asked += 1
    assert asked > 20_000


def test_a_profile_of_onnxruntime_gives_a_model_that_runs() -> None:
    text = """<ir_version: 8, opset_import: ["": 13]>
    g (double[2,3] x, int32[4] i) => (double[2,3] y, bool[4,5] z) <int64 d = {5}, bool[2] v = {0, 1}>
    { y = Hardmax (x) z = OneHot (i, d, v) }"""
    result = opshift.convert(parse_model(text), target="onnxruntime")
    feeds = {"x": np.array([[1.0, 2, 2], [-np.inf] * 3]), "i": np.array([0, -1, 7, 4], np.int32)}
    assert isinstance(result.model, onnx.ModelProto)
    ((hard, hot),) = run(result.model, [feeds])
    assert hard.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert [row.nonzero()[0].tolist() for row in hot] == [[0], [4], [], [4]]


def test_probing_finds_what_the_table_does_not_tell(capsys: pytest.CaptureFixture[str]) -> None:
    found = probe(load_target("onnxruntime"))
    assert found.confirmed > 1000
    # Functions of operators that have no kernel for the type: no table tells. And bodies that open, and overflow.
    overflowing = {
        f"{name}-{NEWEST} "
        for name in sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})
        if kernels.misread(name, NEWEST)
    }
    rest = [line for line in found.denied if "is listed, and does not open" not in line]
    assert all(line.startswith(tuple(overflowing)) and "opens, and is not listed" in line for line in rest)
    assert len(found.denied) < found.confirmed / 10
    # What is listed for other types than those with kernels opens nowhere.
    wrong = Target("wrong", (OLDEST, 26), (3, 13), limits=(Limit("Hardmax", {"input": ("double",)}),))
    lines = [line for line in probe(wrong).denied if line.startswith("Hardmax")]
    assert "Hardmax-13 of double is listed, and does not open" in lines
    assert "Hardmax-13 of float opens, and is not listed" in lines
    assert main(["targets", "opencv-4", "--probe"]) == 2
    assert "`opshift targets onnxruntime --probe`" in capsys.readouterr().err


# --- what a target does to a model ------------------------------------------------------------------------------------

RELU = """<ir_version: 8, opset_import: ["": 13]>
g (float[2,3] x) => (float[m,n] y) { y = Relu (x) }"""
X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)


def operators(model: Any) -> set[str]:
    """The operators of a model, also in its graphs and functions."""
    graphs, found = [model.graph, *model.functions], set()
    while graphs:
        for node in graphs.pop().node:
            found.add(node.op_type)
            graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return found


NAMED: Mapping[str, tuple[str, Sequence[str], set[str]]] = {
    "Identity between nodes": (
        "a = Identity (x) b = Relu (a) c = Identity (b) y = Neg (c)",
        ["Relu", "Neg"],
        {"Relu", "Neg"},
    ),
    "Identity of an input": ("y = Identity (x)", ["Reshape"], {"Reshape"}),
    "Identity of a result": ("a = Relu (x) y = Identity (a)", ["Relu", "Mul"], {"Relu", "Mul"}),
    "a Cast that does nothing": ("a = Cast <to = 1> (x) y = Relu (a)", ["Relu"], {"Relu"}),
    "Constant": ("k = Constant <value_float = 2.0> () y = Mul (x, k)", ["Mul"], {"Mul"}),
    "Constant, read twice": ("k = Constant <value_float = 2.0> () a = Mul (x, k) y = Mul (a, k)", ["Mul"], {"Mul"}),
    "what is constant": ("s = Shape (x) y = Reshape (x, s)", ["Reshape"], {"Reshape"}),
    "what is computed of constants": (
        "s = Shape (x) i = Constant <value_ints = [1, 0]> () t = Gather (s, i) y = Reshape (x, t)",
        ["Reshape"],
        {"Reshape"},
    ),
    "in a branch": (
        "s = ReduceMax <keepdims = 0> (x) c = Greater (s, two) d = Identity (x) y = If (c) "
        "<then_branch = t () => (float[2,3] a) { a = Identity (d) }, "
        "else_branch = e () => (float[2,3] b) { k = Constant <value_float = 2.0> () b = Mul (d, k) }>",
        ["If", "Mul", "Greater", "ReduceMax"],
        {"If", "Mul", "Greater", "ReduceMax"},
    ),
}


@pytest.mark.parametrize(("body", "listed", "left"), NAMED.values(), ids=list(NAMED))
def test_a_plain_list_of_operators_is_kept_to(body: str, listed: Sequence[str], left: set[str]) -> None:
    """Neither Identity nor Constant is written that is not listed."""
    text = RELU.replace("{ y = Relu (x) }", "<float one = {1}, float two = {2}> {" + body + "}")
    model = parse_model(text)
    result = opshift.convert(model, target=Target("plain", operators=frozenset(listed)))
    assert operators(result.model) == left
    assert isinstance(result.model, onnx.ModelProto)
    onnx.checker.check_model(result.model, full_check=True)
    np.testing.assert_array_equal(run(model, [{"x": X}])[0][0], run(result.model, [{"x": X}])[0][0])
    assert opshift.convert(result.model, target=Target("plain", operators=frozenset(listed))).plan.nothing_to_do


def test_ir_version_3_has_constants_as_nodes_unless_the_target_has_none() -> None:
    text = """<ir_version: 3, opset_import: ["": 8]>
    g (float[2,3] x) => (float[2,3] y) { k = Constant <value = float {2}> () y = Mul (x, k) }"""
    result = opshift.convert(parse_model(text), target=Target("plain", operators=frozenset({"Mul"})))
    assert isinstance(result.model, onnx.ModelProto)
    assert (operators(result.model), result.model.ir_version) == ({"Mul"}, 4)
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(parse_model(text), target=Target("old", (7, 8), (3, 3), frozenset({"Mul"})))
    assert "initializers only from ir_version 4 on" in caught.value.refusals[0].reason


FUNCTION = """<ir_version: 8, opset_import: ["": 13, "f": 1]>
g (float[2,3] x) => (float[2,3] y) { y = f.Twice (x) }
<domain: "f", opset_import: ["": 13]>
Twice (a) => (b) { k = Constant <value_float = 2.0> () b = Mul (a, k) }"""


@pytest.mark.parametrize(
    ("text", "listed", "code", "words"),
    [
        (RELU.replace("Relu", "Identity"), ["Relu"], Code.NO_LOWERING, "does not support Identity"),
        (
            RELU.replace("y = Relu (x)", "y = Constant <value = float[2,3] {1,2,3,4,5,6}> ()"),
            ["Relu"],
            Code.NO_LOWERING,
            "Identity",
        ),
        (FUNCTION, ["Mul"], Code.TYPE, "a function needs Constant"),
    ],
    ids=["the output is an input", "the output is a constant", "a constant in a function"],
)
def test_what_needs_identity_or_constant_is_refused(text: str, listed: Sequence[str], code: Code, words: str) -> None:
    plan = opshift.plan(parse_model(text), target=Target("plain", operators=frozenset(listed)))
    assert plan.refusals
    assert plan.refusals[0].code is code
    assert words in plan.refusals[0].reason


FLOATS = ["ReduceMax", "ReduceMin", "Sub", "Sign", "Add", "Mul", "Relu", "Reshape"]
INDEX = """<ir_version: 8, opset_import: ["": 13]>
g (float[3,5] x) => ({outputs}) {{
    i = ArgMax <axis = 1, select_last_index = {last}> (x)
    y = Cast <to = 1> (i)
    {more}
}}"""


@pytest.mark.parametrize("last", [0, 1])
def test_an_index_and_its_cast_are_said_at_once(last: int) -> None:
    """A runtime without integers has no way to say the one or the other."""
    model = parse_model(INDEX.format(outputs="float[3,1] y", last=last, more=""))
    target = Target("floats", operators=frozenset(FLOATS))
    result = opshift.convert(model, target=target, assume=["finite-inputs"], require_proof=True)
    assert isinstance(result.model, onnx.ModelProto)
    assert operators(result.model) <= target.operators  # type: ignore[operator]
    x = np.array([[1, 3, 3, 0, 0], [0, 0, 0, 0, 0], [5, -1, 2, 5, -1]], np.float32)
    np.testing.assert_array_equal(run(model, [{"x": x}])[0][0], run(result.model, [{"x": x}])[0][0])


@pytest.mark.parametrize(
    ("outputs", "more"),
    [("float[3,1] y, int64[3,1] i", ""), ("float[3,1] y, float[3,1] z", "z = Cast <to = 1> (i)")],
    ids=["the index is an output", "the index is read twice"],
)
def test_an_index_that_others_read_stays_an_integer(outputs: str, more: str) -> None:
    model = parse_model(INDEX.format(outputs=outputs, last=0, more=more))
    plan = opshift.plan(model, target=Target("floats", operators=frozenset(FLOATS)), assume=["finite-inputs"])
    assert any("floats does not support Cast" in refusal.reason for refusal in plan.refusals)


def test_small_integers_are_avoided_where_nothing_is_said_of_them() -> None:
    """They are the fastest in onnxruntime; OpenCV and MNN load Equal of them, and compute it wrongly."""
    text = """<ir_version: 8, opset_import: ["": 13]>
    g (float[2,21,256,256] x) => (float[2,21,256,256] y) { y = Hardmax <axis = 1> (x) }"""
    listed = frozenset({"ArgMax", "Cast", "Equal"})
    small = {TensorProto.UINT8, TensorProto.INT8}
    for target, avoided in (
        (Target("plain", operators=listed), True),
        (Target("onnxruntime", operators=listed), False),
    ):
        model = opshift.convert(parse_model(text), target=target, optimize=True).model
        assert isinstance(model, onnx.ModelProto)
        casts = {node.attribute[0].i for node in model.graph.node if node.op_type == "Cast"}
        assert casts.isdisjoint(small) is avoided


def test_large_weights_are_constant() -> None:
    """constant_inputs asks for constants, however many elements they have."""
    weight = np.zeros((200, 200), np.float32)
    text = """<ir_version: 8, opset_import: ["": 13]>
    g (float[2,200] x, float[200,200] w) => (float[2,200] y) { y = MatMul (x, w) }"""
    target = Target("mine", limits=(Limit("MatMul", constant_inputs=("B",)),))
    model = parse_model(text)
    assert "it needs a constant B" in opshift.plan(model, target=target).refusals[0].reason
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.input[1]
    assert opshift.plan(model, target=target).nothing_to_do


def test_a_limit_holds_at_its_opsets() -> None:
    target = Target("mine", limits=(Limit("Abs", never=True, opset=(14, 18), reason="it is broken (1.0)"),))
    model = parse_model(RELU.replace("Relu", "Abs"))
    assert opshift.plan(model, target=target).nothing_to_do
    plan = opshift.plan(model, target=target, opset=14)
    assert "mine has Abs, but it is broken (1.0)" in (plan.refusals[0].reason if plan.refusals else plan.steps[0].why)


def test_an_attribute_that_must_be_left_out() -> None:
    target = Target("mine", limits=(Limit("Constant", attributes={"value_float": ()}),))
    body = "{ k = Constant <value_float = 2.0> () y = Mul (x, k) }"
    model = parse_model(RELU.replace("{ y = Relu (x) }", body))
    result = opshift.convert(model, target=target)
    assert isinstance(result.model, onnx.ModelProto)
    assert [attribute.name for attribute in result.model.graph.node[0].attribute] == ["value"]
