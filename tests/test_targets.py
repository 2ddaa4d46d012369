"""Runtimes' profiles: what a file may say, what is said of one that is wrong, and what a target does to a model."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.parser import parse_model
from refused import refused
from running import run

import opshift
from opshift.cli.main import main
from opshift.opsets.registry.facts import Facts, type_name
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import NEWEST, OLDEST, schema_at
from opshift.opsets.runtimes import kernels
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.profile_source import ProfileError
from opshift.opsets.runtimes.profiles import builtin_targets, load_target, parse_target
from opshift.opsets.runtimes.releases import releases
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.base.errors import UnsupportedError
from opshift.passes.base.plan import Code
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


def test_a_profile_starts_from_another() -> None:
    base = load_target("onnxruntime-1.11")
    text = """name = "m"
base = "onnxruntime-1.11"
opset = [9, 13]
without = ["Hardmax"]
input_types = ["float"]
functions = true
[domains]
mine = ["Odd"]
[[limits]]
operator = "ArgMax"
max_rank = 4
reason = "seen"
"""
    target = parse_target(text, "m.toml")
    assert (target.name, target.version, target.measured, target.to_toml()) == ("m", "", False, text)
    assert (target.opset, target.ir_version) == ((9, 13), base.ir_version)
    assert target.without == base.without | {"Hardmax"}
    assert (target.functions, base.functions) == (True, False)
    assert target.domains == {**base.domains, "mine": frozenset({"Odd"})}
    assert target.limits == (*base.limits, Limit("ArgMax", max_rank=4, reason="seen"))
    assert target.release == base.release
    own = parse_target('name = "m"\nbase = "ncnn"\noperators = ["Add", "Sin"]', "m.toml")
    assert own.operators == frozenset({"Add", "Sin"})
    assert own.types == load_target("ncnn").types


def test_a_profile_takes_back_what_its_base_is_without() -> None:
    assert "RegexFullMatch" in load_target("onnxruntime-1.30").without
    target = parse_target('name = "m"\nbase = "onnxruntime-1.30"\noperators = ["RegexFullMatch"]', "m.toml")
    assert target.has("RegexFullMatch")


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
    "a condition alone": (limit("if_attributes = { keepdims = [0] }"), 7, "this limit on ArgMax limits nothing"),
    "a condition on what is not": (limit('if_inputs = ["axis"]', "static = true"), 8, "ArgMax has no input 'axis'"),
    "a condition without values": (
        limit("if_attributes = { keepdims = [] }", "static = true"),
        8,
        "keepdims has no value for which the limit applies",
    ),
    "ranks of what is not": (limit("ranks = { x = [2] }"), 8, "ArgMax has no input 'x'; it has data"),
    "a rank that is no list": (limit("ranks = { data = 2 }"), 8, "data has a list of ranks, such as [0, 1]"),
    "scalars of no rank": (limit("scalars = { data = [] }"), 8, "data has a list of ranks"),
    "a count of inputs of what has one": (limit("input_count = 2"), 8, "input_count is 1 or more, for operators that"),
    "a count of no inputs": (limit("input_count = 0", operator="Max"), 8, "input_count is 1 or more"),
    "a vector beside others, of what has one input": (
        limit('vectors_alone = "yes"'),
        8,
        "vectors_alone is true or false",
    ),
    "starts of what has none": (limit("starts_inside = true"), 8, "starts_inside is for Slice"),
    "types of what has no branches": (limit('returns = ["float"]'), 8, "returns is for If"),
    "branches that return no type": (limit('returns = ["flot"]', operator="If"), 8, "no element type is called 'flot'"),
    "outputs that are not": (limit('if_outputs = ["reducd"]', "never = true", 'reason = "s"'), 8, "no output 'reducd'"),
    "sizes of no number": (limit("sizes = { data = [] }"), 8, "data has a list of sizes"),
    "an output that is not": (limit('unused_outputs = ["reducd"]'), 8, "no output 'reducd'; did you mean 'reduced'?"),
    "a used output that is not": (limit('used_outputs = ["reducd"]'), 8, "no output 'reducd'; did you mean 'reduced'?"),
    "an attribute to write that is not": (limit('explicit = ["axs"]'), 8, "no attribute 'axs'"),
    "an input without negatives that is not": (limit('not_negative = ["dat"]'), 8, "did you mean 'data'?"),
    "pads of what has none": (limit('pads = ["even"]'), 8, "ArgMax has no pads"),
    "pads of no kind": (
        limit('pads = ["odd"]', operator="MaxPool"),
        8,
        "pads are even or end or spatial, not 'odd'",
    ),
    "scales of what has none": (limit('scales = ["exact"]'), 8, "scales is for Resize, not ArgMax"),
    "scales of no kind": (limit('scales = ["odd"]', operator="Resize"), 8, "scales are exact or whole or several"),
    "axes of what has none": (limit("max_axes = 2", operator="Relu"), 8, "max_axes is 1 or more, for operators that"),
    "batches of what has none": (limit('whole_batches = ["data"]'), 8, "whole_batches is for MatMul, not ArgMax"),
    "at most so many of what has one": (limit("max_inputs = 3"), 8, "max_inputs is 1 or more, for operators that"),
    "no types of constants": ('name = "m"\nconstant_types = []', 2, "constant_types is empty"),
    "a type of inputs that is not": ('name = "m"\ninput_types = ["flot"]', 2, "no element type is called 'flot'"),
    "a type of outputs that is not": ('name = "m"\noutput_types = ["flot"]', 2, "no element type is called 'flot'"),
    "a base that is not": ('name = "m"\nbase = "opencv"', 2, "base is the name of a built-in profile, not 'opencv'"),
    "a base that each machine has its own of": ('name = "m"\nbase = "onnxruntime"', 2, "not 'onnxruntime'"),
    "indices of what has none": (limit("whole_indices = true"), 8, "whole_indices is for GatherElements, not ArgMax"),
    "numbers that are words": (limit('values = { data = ["one"] }'), 8, "data has a list of numbers"),
    "branches of what has none": (limit("same_ranks = true"), 8, "same_ranks is for If"),
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
    measured = {"onnxruntime", "opencv-4", "mnn", "openvino", "ncnn", "tract", "onnxruntime-web", "webgpu"}
    listed = {"tensorrt-8", "tensorrt-8.6", "tensorrt-10", "coreml", "webnn", "qnn", "rknn"}
    assert set(builtin_targets()) == measured | listed | {one.name for one in releases()}


@pytest.mark.parametrize(
    "text",
    [
        """<ir_version: 10, opset_import: ["": 24, "local": 1]> g (float[4] x) => (float[?] y)
        { y = local.Fn <p = [0]> (x) }
        <domain: "local", opset_import: ["": 24]> Fn <p> (a) => (b) { b = Transpose <perm: ints = @p> (a) }""",
        """<ir_version: 3, opset_import: ["": 12]> g (float[2,3] x) => (float[2,3] y) { y = Identity (x) }""",
        """<ir_version: 10, opset_import: ["": 21]> g (float[8] x) => (float[3] y)
        { s = Constant <value = int64[1] {1}> () e = Constant <value = int64[1] {4}> () y = Slice (x, s, e) }""",
    ],
)
def test_a_target_without_int64_reads_constants_that_schemas_demand(text: str) -> None:
    """A Constant is no more than an initializer, which a function and ir_version 3 do not have."""
    result = opshift.convert(parse_model(text), target="ncnn")
    assert result.report is not None
    assert result.report.verdict is opshift.Verdict.EQUAL


@pytest.mark.parametrize(
    ("graph", "made"),
    [
        (
            "g (float[n] x) => (int64[] y) { y = ArgMax <axis = 0, keepdims = 0> (x) }",
            dict.fromkeys((8, 8.6, 10), "TopK"),
        ),
        (
            "g (float[2,9] x) => (float[2,3] v, int64[2,3] i) <int64[1] k = {3}> { v, i = TopK <largest = 0> (x, k) }",
            {8: "Neg"},
        ),
        (
            "g (float[1,1,4,4] x) => (float[1,1,8,8] y) <float[4] s = {1, 1, 2, 2}> "
            '{ y = Resize <mode = "cubic"> (x, , s) }',
            {8: "Gather"},
        ),
        ("g (int64[n] x, float[2] v) => (float[n,7] y) <int64 d = {7}> { y = OneHot (x, d, v) }", {8: "Equal"}),
        ("g (float[2,9] x, float[9] s) => (float[2,9] y) { y = LayerNormalization (x, s) }", {8: "ReduceMean"}),
        ("g (float[2,9] x) => (float[2,9] y) { y = Hardmax (x) }", {8: "ArgMax", 8.6: "ArgMax"}),
    ],
)
def test_each_tensorrt_is_given_what_its_parser_reads(graph: str, made: Mapping[float, str]) -> None:
    """`made` names an operator by the versions whose parser does not read the node as it is."""
    model = parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    for version in (8, 8.6, 10):
        result = opshift.convert(model, target=f"tensorrt-{version}")
        operators = {node.op_type for node in result.rewritten.graph.node}
        if version in made:
            assert made[version] in operators
        else:
            assert operators == {node.op_type for node in model.graph.node}


@pytest.mark.slow
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


@pytest.mark.slow
def test_probing_finds_what_the_table_does_not_tell(capsys: pytest.CaptureFixture[str]) -> None:
    found = probe(load_target("onnxruntime"))
    assert found.confirmed > 1000
    # Functions of operators that have no kernel for the type: no table tells. And bodies that open, and overflow.
    overflowing = {
        f"{name}-{NEWEST} "
        for name in sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})
        if kernels.wrong_body(name, NEWEST)
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
    ],
    ids=["the output is an input", "the output is a constant"],
)
def test_what_needs_identity_or_constant_is_refused(text: str, listed: Sequence[str], code: Code, words: str) -> None:
    plan = opshift.plan(parse_model(text), target=Target("plain", operators=frozenset(listed)))
    assert plan.refusals
    assert plan.refusals[0].code is code
    assert words in plan.refusals[0].reason


LONG = """<ir_version: 8, opset_import: ["": 18, "f": 1]>
g (float[1,2,4,5] x) => (float[1,2,3,2] y) { y = f.Pool (x) }
<domain: "f", opset_import: ["": 18]>
Pool (a) => (b) { b = LpPool <kernel_shape = [2, 2], strides = [1, 2]> (a) }"""


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (FUNCTION, Target("plain", operators=frozenset({"Mul"}))),
        *((LONG, name) for name in ("qnn", "webgpu", "coreml")),
    ],
    ids=["its own constant", "qnn", "webgpu", "coreml"],
)
def test_functions_are_inlined_for_targets_without_constant(text: str, target: Target | str) -> None:
    result = opshift.convert(parse_model(text), target=target, require_proof=True)
    assert isinstance(result.model, onnx.ModelProto)
    assert not result.model.functions
    assert result.notes.count("1 function was inlined.") == 1


def test_a_function_that_returns_its_input_is_inlined() -> None:
    """onnx accepts such a function, though onnxruntime does not load it."""
    text = """<ir_version: 8, opset_import: ["": 18, "f": 1]>
        g (float[2] x) => (float[2] y, float[2] z) { y, z = f.P (x) }
        <domain: "f", opset_import: ["": 18]> P (a) => (a, b) { b = Relu(a) }"""
    model = opshift.convert(parse_model(text), target="qnn", verify=False).model
    assert isinstance(model, onnx.ModelProto)
    x = np.array([-1, 2], np.float32)
    y, z = run(model, [{"x": x}])[0]
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(z, np.maximum(x, 0))


def test_functions_stay_for_targets_with_constant() -> None:
    target = Target("plain", operators=frozenset({"Mul", "Constant"}))
    result = opshift.convert(parse_model(FUNCTION), target=target)
    assert isinstance(result.model, onnx.ModelProto)
    assert [function.name for function in result.model.functions] == ["Twice"]


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outputs", "more"),
    [("float[3,1] y, int64[3,1] i", ""), ("float[3,1] y, float[3,1] z", "z = Cast <to = 1> (i)")],
    ids=["the index is an output", "the index is read twice"],
)
def test_an_index_that_others_read_stays_an_integer(outputs: str, more: str) -> None:
    model = parse_model(INDEX.format(outputs=outputs, last=0, more=more))
    plan = opshift.plan(model, target=Target("floats", operators=frozenset(FLOATS)), assume=["finite-inputs"])
    assert any("floats does not support Cast" in refusal.reason for refusal in plan.refusals)


@pytest.mark.slow
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
    weight = np.zeros((200, 200, 2), np.float32)
    text = """<ir_version: 8, opset_import: ["": 13]>
    g (float[1,200,4] x, float[200,200,2] w) => (float[1,200,3] y) { y = Conv (x, w) }"""
    target = Target("mine", operators=frozenset({"Conv"}), limits=(Limit("Conv", constant_inputs=("W",)),))
    model = parse_model(text)
    assert "it needs a constant W" in opshift.plan(model, target=target).refusals[0].reason
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    del model.graph.input[1]
    assert opshift.plan(model, target=target).nothing_to_do


def test_a_limit_holds_at_its_opsets() -> None:
    target = Target("mine", limits=(Limit("Abs", never=True, opset=(14, 18), reason="it is broken (1.0)"),))
    model = parse_model(RELU.replace("Relu", "Abs"))
    assert opshift.plan(model, target=target).nothing_to_do
    plan = opshift.plan(model, target=target, opset=14)
    assert "mine has Abs, but it is broken (1.0)" in (plan.refusals[0].reason if plan.refusals else plan.steps[0].why)


def legality(limit: Limit, graph: str) -> bool:
    """Whether a target with this limit supports all nodes of a graph at opset 13."""
    text = f'<ir_version: 8, opset_import: ["": 13]> g {graph}'
    return opshift.plan(parse_model(text), target=Target("mine", limits=(limit,))).nothing_to_do


def test_a_limit_holds_where_an_attribute_has_a_value() -> None:
    limit = Limit("ReduceMax", never=True, if_attributes={"keepdims": (0,)}, reason="seen")
    assert legality(limit, "(float[2,3] x) => (float[1,1] y) { y = ReduceMax (x) }")
    assert not legality(limit, "(float[2,3] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }")


def test_a_limit_holds_where_an_input_is_computed() -> None:
    limit = Limit("Clip", never=True, if_computed=("max",), reason="seen")
    graph = "(float[2,3] x, float run) => (float[2,3] y) <float k = {{1}}> {{ y = Clip (x, , {bound}) }}"
    assert legality(limit, graph.format(bound="k"))
    assert legality(limit, graph.format(bound=""))
    assert not legality(limit, graph.format(bound="run"))


def test_a_limit_holds_where_an_input_is_present() -> None:
    limit = Limit("Clip", never=True, if_inputs=("max",), reason="seen")
    assert legality(limit, "(float[2,3] x, float a) => (float[2,3] y) { y = Clip (x, a) }")
    assert not legality(limit, "(float[2,3] x, float a) => (float[2,3] y) { y = Clip (x, , a) }")


def test_ranks_of_an_input() -> None:
    limit = Limit("Relu", ranks={"X": (2, 4)}, never=False)
    assert legality(limit, "(float[2,3] x) => (float[2,3] y) { y = Relu (x) }")
    assert not legality(limit, "(float[2,3,4] x) => (float[2,3,4] y) { y = Relu (x) }")


def test_ranks_of_a_constant_of_one_element() -> None:
    limit = Limit("Add", scalars={"A": (0, 1)})
    graph = "(float[{dims}] x, float[1,1] run) => (float[{dims}] y) <float[{shape}] k = {{1}}> {{ y = Add ({a}, x) }}"
    assert not legality(limit, graph.format(dims="2,3", shape="1,1", a="k"))
    assert legality(limit, graph.format(dims="2,3", shape="1", a="k"))
    assert legality(limit, graph.format(dims="2,3", shape="1,1", a="run"))


def test_ranks_of_an_input_that_is_not_constant() -> None:
    limit = Limit("Add", computed_ranks={"B": (2,)})
    graph = """(float[2,3] x, float[3] run, float[2,3] same) => (float[2,3] y) <float[3] k = {{1, 2, 3}}>
        {{ y = Add (x, {b}) }}"""
    assert legality(limit, graph.format(b="k"))
    assert legality(limit, graph.format(b="same"))
    assert not legality(limit, graph.format(b="run"))


def test_a_constant_without_negative_numbers() -> None:
    limit = Limit("GatherND", not_negative=("indices",), reason="seen")
    graph = "(float[4] x, int64[1,1] run) => (float[1] y) <int64[1,1] k = {{{number}}}> {{ y = GatherND (x, {k}) }}"
    assert legality(limit, graph.format(number=3, k="k"))
    assert not legality(limit, graph.format(number=-1, k="k"))
    assert not legality(limit, graph.format(number=3, k="run"))


def test_an_attribute_without_negative_numbers() -> None:
    limit = Limit("Softmax", not_negative=("axis",), if_ranks={"input": (1,)}, reason="seen")
    graph = "(float[{dims}] x) => (float[{dims}] y) {{ y = Softmax <axis = {axis}> (x) }}"
    assert legality(limit, graph.format(dims="4", axis=0))
    assert not legality(limit, graph.format(dims="4", axis=-1))
    assert legality(limit, graph.format(dims="2,4", axis=-1))


def test_a_limit_holds_where_inputs_are_constant() -> None:
    limit = Limit("MatMul", dtypes={"A": ("float",)}, if_constant=("B",), reason="seen")
    graph = "(int32[2,2] x, int32[2,2] run) => (int32[2,2] y) <int32[2,2] k = {{1,2,3,4}}> {{ y = MatMul (x, {b}) }}"
    assert legality(limit, graph.format(b="run"))
    assert not legality(limit, graph.format(b="k"))


def test_the_number_of_axes_of_a_reduction() -> None:
    limit = Limit("ReduceMax", max_axes=2, reason="seen")
    graph = "(float[2,3,4] x) => (float[a,b,c] y) {{ y = ReduceMax {axes} (x) }}"
    assert legality(limit, graph.format(axes="<axes = [0, 2]>"))
    assert legality(limit, graph.format(axes=""))
    assert not legality(limit, graph.format(axes="<axes = [0, 1, 2]>"))
    limit = Limit("ReduceSum", max_axes=1, reason="seen")
    graph = "(float[2,3] x, int64[{count}] a) => (float[1,1] y) {{ y = ReduceSum (x, a) }}"
    assert legality(limit, graph.format(count=1))
    assert not legality(limit, graph.format(count=2))


def test_the_largest_number_of_inputs() -> None:
    limit = Limit("Sum", max_inputs=3, reason="seen")
    graph = "(float[2] x, float[2] z) => (float[2] y) {{ y = Sum ({inputs}) }}"
    assert legality(limit, graph.format(inputs="x, z, x"))
    assert not legality(limit, graph.format(inputs="x, z, x, z"))


def test_inputs_without_elements() -> None:
    limit = Limit("Concat", not_empty=("inputs",), reason="seen")
    graph = "(float[2,3] x, float[{rows},3] z) => (float[n,3] y) {{ y = Concat <axis = 0> (x, z) }}"
    assert legality(limit, graph.format(rows=1))
    assert not legality(limit, graph.format(rows=0))


@pytest.mark.parametrize(
    ("other", "constant", "allowed"),
    [("2,3,4", "4,5", True), ("2,3,4", "1,4,5", True), ("2,3,4", "2,4,5", True), ("2,1,3,4", "2,4,5", False)],
)
def test_the_batch_of_a_constant_factor(other: str, constant: str, *, allowed: bool) -> None:
    limit = Limit("MatMul", whole_batches=("B",), reason="seen")
    size = int(np.prod([int(dim) for dim in constant.split(",")]))
    numbers = ",".join(map(str, range(size)))
    graph = f"(float[{other}] x) => (float[a,b,c] y) <float[{constant}] k = {{{numbers}}}> {{ y = MatMul (x, k) }}"
    assert legality(limit, graph.replace("float[a,b,c] y", "float y")) is allowed


@pytest.mark.parametrize(
    ("scales", "allowed"),
    [
        ("1, 1, 2, 3", {"exact", "whole", "several"}),
        ("1, 1, 0.5, 1", {"exact", "several"}),
        ("1, 1, 0.25, 1", {"exact"}),
        ("1, 1, 1.3, 1", {"several"}),
    ],
)
def test_kinds_of_scales(scales: str, allowed: set[str]) -> None:
    text = f"(float[1,1,4,6] x) => (float[1,1,p,q] y) <float[4] s = {{{scales}}}> {{ y = Resize (x, , s) }}"
    for kind in ("exact", "whole", "several"):
        assert legality(Limit("Resize", scales=(kind,)), text) is (kind in allowed)
    run = "(float[1,1,4,6] x, float[4] s) => (float[1,1,p,q] y) { y = Resize (x, , s) }"
    assert not legality(Limit("Resize", scales=("exact",)), run)


def test_numbers_of_a_constant() -> None:
    limit = Limit("Pow", values={"Y": (1, 2)}, reason="seen")
    graph = "(float[4] x, float run) => (float[4] y) <float k = {{{number}}}> {{ y = Pow (x, {k}) }}"
    assert legality(limit, graph.format(number=2.0, k="k"))
    assert not legality(limit, graph.format(number=3.0, k="k"))
    assert not legality(limit, graph.format(number=2.0, k="run"))


def test_ranks_of_a_constant() -> None:
    limit = Limit("Gemm", constant_ranks={"C": (1,)}, reason="seen")
    graph = "(float[2,3] x, float[3,4] w, float[1,4] run) => (float[2,4] y) <float[{shape}] k = {{1,2,3,4}}> {{"
    graph += " y = Gemm (x, w, {k}) }}"
    assert legality(limit, graph.format(shape="4", k="k"))
    assert legality(limit, graph.format(shape="4", k="run"))
    text = f'<ir_version: 8, opset_import: ["": 13]> g {graph.format(shape="1,4", k="k")}'
    target = Target("mine", operators=frozenset({"Gemm"}), limits=(limit,))
    (refusal,) = opshift.plan(parse_model(text), target=target).refusals
    assert "it takes a constant C of rank 1, not 2" in refusal.reason


@pytest.mark.parametrize(
    ("pads", "allowed"),
    [
        ("0, 0, 0, 0", {"even", "end", "spatial"}),
        ("1, 2, 1, 2", {"even"}),
        ("0, 0, 1, 1", {"end"}),
        ("1, 0, 0, 1", set()),
    ],
)
def test_kinds_of_padding(pads: str, allowed: set[str]) -> None:
    text = f"(float[1,1,4,6] x) => (float[1,1,p,q] y) {{ y = MaxPool <kernel_shape = [4, 4], pads = [{pads}]> (x) }}"
    for kind in ("even", "end", "spatial"):
        target = Target("mine", operators=frozenset({"MaxPool"}), limits=(Limit("MaxPool", pads=(kind,)),))
        plan = opshift.plan(parse_model(f'<ir_version: 8, opset_import: ["": 13]> g {text}'), target=target)
        assert plan.nothing_to_do is (kind in allowed)


def test_padding_of_an_input_is_looked_up() -> None:
    limit = Limit("Pad", pads=("spatial",), reason="seen")
    graph = "(float[2,3,4] x, int64[6] run) => (float[a,b,c] y) <int64[6] k = {{{pads}}}> {{ y = Pad (x, {k}) }}"
    assert legality(limit, graph.format(pads="0,0,1,0,0,2", k="k"))
    assert not legality(limit, graph.format(pads="0,1,0,0,0,0", k="k"))
    assert not legality(limit, graph.format(pads="0,0,1,0,0,2", k="run"))


def test_whole_indices() -> None:
    limit = Limit("GatherElements", whole_indices=True, reason="seen")
    graph = "(float[3,4] x, int64[{dims}] i) => (float[{dims}] y) {{ y = GatherElements <axis = 1> (x, i) }}"
    assert legality(limit, graph.format(dims="3,2"))
    assert not legality(limit, graph.format(dims="2,4"))
    assert not legality(limit, graph.format(dims="n,4"))


def test_an_input_that_must_be_written() -> None:
    limit = Limit("Slice", explicit=("axes",), reason="seen")
    graph = "(float[3,4] x, int64[1] s, int64[1] e, int64[1] a) => (float[p,4] y) {{ y = Slice (x, s, e{more}) }}"
    assert legality(limit, graph.format(more=", a"))
    assert not legality(limit, graph.format(more=""))


def test_an_attribute_that_must_be_written() -> None:
    limit = Limit("MaxPool", explicit=("strides",), reason="seen")
    graph = "(float[1,1,4,4] x) => (float[1,1,3,3] y) {{ y = MaxPool <kernel_shape = [2, 2]{more}> (x) }}"
    assert legality(limit, graph.format(more=", strides = [1, 1]"))
    text = f'<ir_version: 8, opset_import: ["": 13]> g {graph.format(more="")}'
    for source in (13, 10):
        model = parse_model(text.replace('"": 13', f'"": {source}'))
        (node,) = opshift.convert(model, opset=13, target=Target("mine", limits=(limit,))).rewritten.graph.node
        assert [one.ints for one in node.attribute if one.name == "strides"] == [[1, 1]]


def test_an_output_that_must_not_be_used() -> None:
    limit = Limit("MaxPool", unused_outputs=("Indices",))
    graph = """(float[1,1,4,4] x) => (float[1,1,2,2] y{made})
        {{ y{out} = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }}"""
    assert legality(limit, graph.format(made="", out=""))
    assert not legality(limit, graph.format(made=", int64[1,1,2,2] i", out=", i"))


def test_one_of_some_outputs_must_be_used() -> None:
    limit = Limit("LSTM", used_outputs=("Y", "Y_h"))
    graph = "(float[2,1,3] x, float[1,8,3] w, float[1,8,2] r) => (float[a,b,c] z{more}) {{ {made} = LSTM (x, w, r) }}"
    assert legality(limit, graph.format(made="y, z", more=""))
    assert legality(limit, graph.format(made='"", z', more=""))
    assert legality(limit, graph.format(made='"", z, c', more=", float[d,e,f] c"))
    assert not legality(limit, graph.format(made='"", "", z', more=""))


def test_a_list_that_may_be_left_out() -> None:
    limit = Limit("MaxPool", attributes={"dilations": ((), (1, 1))})
    graph = "(float[1,1,6,6] x) => (float[1,1,{size},{size}] y) {{ y = MaxPool <kernel_shape = [2, 2]{more}> (x) }}"
    assert legality(limit, graph.format(size=5, more=""))
    assert legality(limit, graph.format(size=5, more=", dilations = [1, 1]"))
    assert not legality(limit, graph.format(size=4, more=", dilations = [2, 2]"))


def test_a_constant_of_one_element_with_more_axes_than_the_other_input() -> None:
    limit = Limit("Pow", narrow_scalars=True)
    graph = "(float[{dims}] x) => (float[{out}] y) <float[{shape}] k = {{{value}}}> {{ y = Pow (x, k) }}"
    assert legality(limit, graph.format(dims="2,3", out="2,3", shape="1,1", value=2))
    assert legality(limit, graph.format(dims="3", out="2,3", shape="2,1", value="2, 3"))
    text = '<ir_version: 8, opset_import: ["": 13]> g ' + graph.format(dims="3", out="1,3", shape="1,1", value=2)
    result = opshift.convert(parse_model(text), target=Target("mine", limits=(limit,))).rewritten
    assert [node.op_type for node in result.graph.node] == ["Unsqueeze", "Pow"]


def test_a_computed_input_of_one_axis_beside_others() -> None:
    limit = Limit("Div", vectors_alone=True)
    graph = """(float[3] x, float[2,3] m, float[3] v) => (float[{out}] y)
        <float[3] k = {{1, 2, 3}}, float one = {{2}}> {{ y = Div ({ab}) }}"""
    for out, ab, legal in (
        ("3", "x, v", True),
        ("3", "x, one", True),
        ("2,3", "m, k", True),
        ("3", "x, k", False),
        ("2,3", "m, x", False),
    ):
        assert legality(limit, graph.format(out=out, ab=ab)) == legal, ab


def test_the_number_of_elements_of_an_input() -> None:
    limit = Limit("Unsqueeze", sizes={"axes": (1,)})
    graph = "(float[n] x) => (float[{out}] y) <int64[{many}] k = {{{axes}}}> {{ y = Unsqueeze (x, k) }}"
    assert legality(limit, graph.format(out="1,n", many=1, axes="0"))
    assert not legality(limit, graph.format(out="1,1,n", many=2, axes="0, 1"))


@pytest.mark.parametrize(
    ("start", "step", "legal"), [(-3, 1, True), (-4, 1, True), (-5, 1, False), (9, 1, True), (-9, -1, True)]
)
def test_a_slice_that_starts_before_its_axis(start: int, step: int, legal: bool) -> None:
    limit = Limit("Slice", starts_inside=True)
    graph = f"""(float[4] x) => (float[n] y)
        <int64[1] s = {{{start}}}, int64[1] e = {{2}}, int64[1] a = {{0}}, int64[1] t = {{{step}}}>
        {{ y = Slice (x, s, e, a, t) }}"""
    assert legality(limit, graph) == legal
    assert legality(limit, graph.replace("x)", "x)", 1).replace("float[4]", "float[m]")) == (
        legal and not -9 < start < 0
    )


@pytest.mark.parametrize(
    ("start", "step", "legal"), [(-5, 1, True), (-1, -1, True), (-4, -1, True), (-5, -1, False), (3, -1, True)]
)
def test_a_slice_that_goes_back_from_before_its_axis(start: int, step: int, legal: bool) -> None:
    limit = Limit("Slice", backward_inside=True)
    graph = f"""(float[4] x, int64[1] q) => (float[n] y)
        <int64[1] s = {{{start}}}, int64[1] e = {{2}}, int64[1] a = {{0}}, int64[1] t = {{{step}}}>
        {{ y = Slice (x, s, e, a, t) }}"""
    assert legality(limit, graph) == legal
    assert legality(limit, graph.replace("float[4]", "float[m]")) == (legal and start != -4)
    assert legality(limit, graph.replace("(x, s,", "(x, q,")) == (step > 0)
    assert legality(limit, graph.replace("a, t)", "a, q)")) == (start != -5)


def test_a_limit_of_used_outputs() -> None:
    limit = Limit("LSTM", explicit=("initial_h",), if_outputs=("Y_c",))
    graph = """(float[5,2,3] x, float[1,16,3] w, float[1,16,4] r) => (float[?,?,?,?] y, float[?,?,?] c)
        {{ y, {outputs} = LSTM <hidden_size = 4> (x, w, r) c = Neg ({outputs}) }}"""
    assert not legality(limit, graph.format(outputs="h, c0").replace("Neg (h, c0)", "Neg (c0)"))
    assert legality(limit, graph.format(outputs="h"))


IF = """(bool c, {kind}[2] x) => ({kind}[?] y) {{ y = If (c) <
    then_branch = a () => ({kind}[2] s) {{ s = Identity (x) }},
    else_branch = b () => ({kind}[{other}] t) {{ t = {body} }}> }}"""


def test_shapes_and_types_of_branches() -> None:
    same, wider = IF.format(kind="float", other=2, body="Neg (x)"), "Concat <axis = 0> (x, x)"
    assert legality(Limit("If", same_shapes=True), same)
    assert not legality(Limit("If", same_shapes=True), IF.format(kind="float", other=4, body=wider))
    assert legality(Limit("If", same_ranks=True), IF.format(kind="float", other=4, body=wider))
    assert legality(Limit("If", returns=("float",)), same)
    assert not legality(Limit("If", returns=("float",)), IF.format(kind="int64", other=2, body="Neg (x)"))


def test_ranks_of_branches() -> None:
    limit = Limit("If", same_ranks=True, reason="seen")
    graph = """(bool c, float[2] x) => (float[{dims}] y) {{ y = If (c) <
        then_branch = a () => (float[2] s) {{ s = Neg (x) }},
        else_branch = b () => (float[{other}] t) <int64[{rank}] shape = {{{shape}}}> {{ t = Reshape (x, shape) }}> }}"""
    same = graph.format(dims="2", other="2", rank=1, shape="2")
    assert legality(limit, same)
    plan = opshift.plan(
        parse_model(
            '<ir_version: 8, opset_import: ["": 13]> g ' + graph.format(dims="", other="1,2", rank=2, shape="1, 2")
        ),
        target=Target("mine", limits=(limit,)),
    )
    assert "one rank of output 0 in both branches, not 1 and 2 (seen)" in plan.refusals[0].reason


def test_an_attribute_that_must_be_left_out() -> None:
    target = Target("mine", limits=(Limit("Constant", attributes={"value_float": ()}),))
    body = "{ k = Constant <value_float = 2.0> () y = Mul (x, k) }"
    model = parse_model(RELU.replace("{ y = Relu (x) }", body))
    result = opshift.convert(model, target=target)
    assert isinstance(result.model, onnx.ModelProto)
    assert [attribute.name for attribute in result.model.graph.node[0].attribute] == ["value"]


REDUCED = '<ir_version: {ir}, opset_import: ["": 8, "f": 1]> g (float[3,4,1,3] x) => (float[1,1,1,1] y) '
L1 = "ReduceL1 <axes = [3, 2, 1, 0]> (x)"


def test_below_opset_9_integers_that_a_target_needs_as_constants_are_initializers() -> None:
    """A Constant of integers would be a Cast there, and below ir_version 4 an initializer is an input."""
    source = parse_model(REDUCED.format(ir=3) + f"{{ y = {L1} }}")
    result = opshift.convert(source, target="opencv-4", opset=8).rewritten
    held = {tensor.name for tensor in result.graph.initializer}
    reshapes = [node for node in result.graph.node if node.op_type == "Reshape"]
    assert reshapes
    assert all(node.input[1] in held for node in reshapes)
    assert not held & {value.name for value in result.graph.input}
    assert result.ir_version == 4


def test_a_function_below_opset_9_goes_to_9_where_a_target_needs_constants(tmp_path: Path) -> None:
    body = f'{{ y = f.F (x) }} <domain: "f", opset_import: ["": 8]> F (x) => (y) {{ y = {L1} }}'
    source = parse_model(REDUCED.format(ir=8) + body)
    inlined = opshift.convert(source, target="opencv-4").rewritten
    assert [item.version for item in inlined.opset_import if not item.domain] == [8]
    text = load_target("opencv-4").to_toml()
    target = parse_target(text.replace("functions = false", "functions = true"), "keeps.toml")
    result = opshift.convert(source, target=target).rewritten
    assert [item.version for item in result.opset_import if not item.domain] == [9]
    with refused("type: ReduceL1-1 at function F/ReduceL1_0"):
        opshift.convert(source, target=target, opset=8)


def test_the_highest_ir_version_of_a_target_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "old.toml"
    path.write_text('name = "old"\nopset = [7, 8]\nir_version = [3, 3]\nstatic = true\n')
    source = parse_model(REDUCED.format(ir=3) + f"{{ y = {L1} }}")
    result = opshift.convert(source, target=str(path), decompose=["ReduceL1"]).rewritten
    assert result.ir_version == 3


def _paths(held: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to each value in nested tables and lists."""
    for key, value in held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ():
        yield (*path, key)
        yield from _paths(value, (*path, key))


def _as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_as_toml(item)}" for key, item in value.items()) + "}"
    return f"[{', '.join(map(_as_toml, value))}]" if isinstance(value, list) else json.dumps(value)


def _every_place() -> dict[tuple[Any, ...], tuple[dict[str, Any], tuple[Any, ...]]]:
    """Return, for each key of profiles, a profile of at most one limit that has it, and the path to its value."""
    found: dict[tuple[Any, ...], tuple[dict[str, Any], tuple[Any, ...]]] = {}
    for file in sorted(Path(kernels.__file__).parents[1].joinpath("targets").glob("*.toml")):
        held = tomllib.loads(file.read_text(encoding="utf-8"))
        for path in _paths(held):
            place = tuple("" if isinstance(key, int) else key for key in path)
            if path[0] != "limits" or len(path) == 1:
                found.setdefault(place, (held | {"limits": held.get("limits", [])[:1]}, path))
            else:
                found.setdefault(place, (held | {"limits": [held["limits"][path[1]]]}, (path[0], 0, *path[2:])))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [[], [[]], {}, [{}], -1, True, 1.5, "", 2**70, "::error::\n", [-1, 99]], ids=repr)
def test_a_wrong_value_anywhere_in_a_profile_is_a_profile_error_or_valid(wrong: Any) -> None:
    places = _every_place()
    assert len(places) > 40
    for profile, path in places.values():
        changed = copy.deepcopy(profile)
        held = functools.reduce(lambda table, key: table[key], path[:-1], changed)
        held[path[-1]] = wrong
        text = "\n".join(f"{json.dumps(key)} = {_as_toml(value)}" for key, value in changed.items())
        with contextlib.suppress(ProfileError):
            parse_target(text, "a.toml")
