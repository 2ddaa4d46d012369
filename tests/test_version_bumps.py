"""Opset imports and ir_version of a result: no higher than asked for, no lower than what it holds needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from operators.harness import converted
from running import run

import opshift
from opshift.opsets.registry.schema import NEWEST, OLDEST
from opshift.opsets.runtimes.kernels import newest_ir_version, newest_opset
from opshift.passes.base.errors import UnsupportedError
from opshift.passes.base.plan import Code
from opshift.passes.graph.traversal import walk
from opshift.passes.rewrite.opset_imports import FUNCTIONS, least_ir_version

HOT = "g (float[2,3] x) => (float[2,3] y) { y = Hardmax <axis = 1> (x) }"
RELU = "g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }"


def model(opset: int, graph: str = RELU, ir_version: int = 8, more: str = "") -> onnx.ModelProto:
    return parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}{more}]> {graph}')


def imports(of: Any) -> dict[str, int]:
    return {item.domain: item.version for item in of.opset_import}


@pytest.mark.parametrize(
    ("source", "ir_version", "target", "wanted"),
    [
        (13, 8, 14, 8),  # up: it stays where it is
        (13, 7, 17, 8),  # unless the opset needs more
        (13, 7, 28, 14),
        (18, 10, 13, 7),  # down: the lowest that the opset takes
        (18, 8, 9, 4),
        (18, 8, 7, 3),
        (13, 8, 12, 7),
    ],
)
def test_ir_version_follows_the_opset(source: int, ir_version: int, target: int, wanted: int) -> None:
    result = converted(model(source, ir_version=ir_version), opset=target)
    assert (result.ir_version, imports(result)) == (wanted, {"": target})


def test_decomposing_leaves_the_ir_version_alone() -> None:
    assert converted(model(13, HOT, ir_version=9), decompose=["Hardmax"]).ir_version == 9


def needing(what: str) -> onnx.ModelProto:
    """A model of opset 7 that needs more than ir_version 3 for one thing it holds."""
    found = model(7, ir_version=13)
    graph = found.graph
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    if what == "initializer that is no input":
        graph.initializer.append(tensor)
    elif what == "initializer of a branch":  # onnxruntime 1.31.1 refuses it at ir_version 3: "not in graph input"
        branch = helper.make_graph([helper.make_node("Identity", ["w"], ["b"])], "t", [], [], [tensor])
        branch.output.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [1]))
        graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch))
    elif what == "quantization annotation":
        graph.quantization_annotation.add(tensor_name="y")
    elif what == "sparse initializer":
        indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
        graph.sparse_initializer.append(helper.make_sparse_tensor(tensor, indices, [3]))
    elif what == "training info":
        found.training_info.add().algorithm.name = "step"
    elif what == "function":
        body = [helper.make_node("Relu", ["a"], ["b"])]
        found.functions.append(helper.make_function("f", "F", ["a"], ["b"], body, [helper.make_opsetid("", 7)]))
        found.opset_import.append(helper.make_opsetid("f", 1))
    elif what == "metadata of a node":
        graph.node[0].metadata_props.add(key="k", value="v")
    elif what == "metadata of the graph":
        graph.metadata_props.add(key="k", value="v")
    elif what == "integers of a branch":
        integers = helper.make_tensor("w", TensorProto.INT64, [1], [1])
        branch = helper.make_graph([helper.make_node("Identity", ["w"], ["b"])], "t", [], [], [integers])
        branch.output.append(helper.make_tensor_value_info("b", TensorProto.INT64, [1]))
        graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
        graph.node.append(helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch))
    elif what == "a sequence of float8":
        kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT8E4M3FN, [1]))
        graph.input.append(helper.make_value_info("q", kind))
    elif what == "an optional input":
        kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [1]))
        graph.input.append(helper.make_value_info("q", kind))
    elif what in ("a default of a function's attribute", "an overload"):
        body = [helper.make_node("Relu", ["a"], ["b"])]
        overload = "o" if what == "an overload" else ""
        defaults = [] if overload else [helper.make_attribute("alpha", 1.0)]
        found.functions.append(
            helper.make_function(
                "f", "F", ["a"], ["b"], body, [helper.make_opsetid("", 7)], None, defaults, overload=overload
            )
        )
        found.opset_import.append(helper.make_opsetid("f", 1))
        graph.node.append(helper.make_node("F", ["x"], ["z"], domain="f", overload=overload))
    elif what == "operators of ai.onnx.ml":
        found.opset_import.append(helper.make_opsetid("ai.onnx.ml", 4))
        graph.node.append(helper.make_node("Binarizer", ["x"], ["z"], domain="ai.onnx.ml"))
    elif what == "a type of float8":
        graph.value_info.append(helper.make_tensor_value_info("z", TensorProto.FLOAT8E4M3FN, [1]))
    elif what == "a type of int4":
        graph.value_info.append(helper.make_tensor_value_info("z", TensorProto.INT4, [1]))
    return found


NEEDS = {
    "nothing": 3,
    "initializer that is no input": 4,
    "initializer of a branch": 4,
    "quantization annotation": 5,
    "sparse initializer": 6,
    "training info": 7,
    "function": 8,
    "metadata of a node": 10,
    "metadata of the graph": 10,
    "a type of float8": 9,
    "a type of int4": 10,
}


@pytest.mark.parametrize(("what", "least"), NEEDS.items(), ids=list(NEEDS))
def test_least_ir_version(what: str, least: int) -> None:
    model = needing(what)
    assert least_ir_version(model, tuple(walk(model))) == least


RELEASED = dict(
    zip(range(OLDEST, 29), (3, 3, 4, 5, 6, 7, 7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 13, 14), strict=True)
)
"""The ir_version of the first onnx release with each opset, from onnx's docs/Versioning.md."""
RELEASED |= {row[2]: row[1] for row in reversed(helper.VERSION_TABLE) if row[2] not in RELEASED and row[2] > OLDEST}

NOTED = """<ir_version: {ir}, opset_import: ["": {opset}]>
g (float[2,3] x) => (float[2,3] y) <float[3] w = {{1, 2, 3}}>
{{ [one] s = Add (x, w) [two] y = Hardmax <axis = 1> (s) }}"""


@pytest.mark.parametrize("ir_version", range(3, onnx.IR_VERSION + 1))
@pytest.mark.parametrize("target", range(OLDEST, NEWEST + 1))
def test_each_opset_from_each_ir_version(target: int, ir_version: int) -> None:
    """Down from the newest opset, up from the oldest: valid, it runs, and its ir_version is that of its opset."""
    x = np.asarray([[3, 1, 2], [0, 9, 1]], np.float32)
    expected = np.asarray([[0, 0, 1], [0, 1, 0]], np.float32)
    for opset in {OLDEST, NEWEST} - {target}:
        source = parse_model(NOTED.format(ir=ir_version, opset=opset))
        if ir_version < 4:
            source.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [3]))
        for node in source.graph.node if ir_version >= 10 else ():
            node.metadata_props.add(key="namespace", value="head")
        result = opshift.convert(source, opset=target, verify=False)
        made = result.rewritten
        wanted = min(ir_version, RELEASED[target]) if opset > target else max(ir_version, RELEASED[target])
        assert made.ir_version == wanted, opset
        onnx.checker.check_model(made)
        assert least_ir_version(made, tuple(walk(made))) <= max(wanted, RELEASED[target])
        assert any(node.metadata_props for node in made.graph.node) == (ir_version >= 10 and wanted >= 10)
        assert bool(result.left_out) == (ir_version >= 10 > wanted)
        assert ("w" in {value.name for value in made.graph.input}) == (wanted < 4)
        if target <= (newest_opset() or 0) and wanted <= newest_ir_version():
            session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)


KEPT = {
    "sparse initializer": (6, "sparse initializers"),
    "training info": (7, "training information"),
    "quantization annotation": (5, "quantization annotations"),
    "function": (8, "local functions"),
    "a type of float8": (9, "the element type float8e4m3fn"),
    "a type of int4": (10, "the element type int4"),
    "integers of a branch": (4, "initializers of a subgraph, which Constant-1 cannot hold"),
    "a sequence of float8": (9, "the element type float8e4m3fn"),
    "an optional input": (8, "optional or sparse values"),
    "a default of a function's attribute": (9, "default values of a function's attributes"),
    "an overload": (10, "overloads of functions"),
    "operators of ai.onnx.ml": (9, "operators of ai.onnx.ml 4"),
}


@pytest.mark.parametrize(("what", "ir_version", "said"), [(what, *rest) for what, rest in KEPT.items()], ids=list(KEPT))
def test_what_cannot_be_dropped_keeps_the_lowest_ir_version_that_holds_it(
    what: str, ir_version: int, said: str
) -> None:
    source = needing(what)
    source.opset_import[0].version = 9
    for function in source.functions:
        function.opset_import[0].version = 9
    result = opshift.convert(source, opset=8, verify=False)
    assert result.rewritten.ir_version == ir_version
    assert any(f"ir_version {ir_version} is written, not 3" in note and said in note for note in result.notes)
    assert all("metadata" not in gone for gone in result.left_out)
    wanted = max(3, ir_version - 1)
    if wanted in (4, 6) or said in FUNCTIONS:  # dropped or inlined on request alone
        opshift.convert(source, opset=8, ir_version=wanted, verify=False)
        return
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(source, opset=8, ir_version=wanted, verify=False)
    (refusal,) = caught.value.refusals
    assert refusal.code is Code.IR_VERSION
    assert refusal.hint == f"Use --ir-version {ir_version} or higher."


def test_what_is_dropped_is_said_once_with_opshifts_own_marks_first() -> None:
    source = model(18, HOT, ir_version=10)
    source.graph.node[0].metadata_props.add(key="opshift.lowering", value="one")
    source.graph.node[0].metadata_props.add(key="pkg.name", value="two")
    source.graph.value_info.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]))
    source.graph.output[0].metadata_props.add(key="k", value="v")
    source.graph.node[0].device_configurations.add(configuration_id="c")
    source.configuration.add(name="c")
    source.graph.node.append(helper.make_node("Relu", ["y"], ["z"]))
    source.graph.node[-1].metadata_props.add(key="opshift.lowering", value="one")
    result = opshift.convert(source, opset=17, verify=False)
    assert result.left_out == (
        "device configurations of 1 node",
        "opshift's own marks on 2 nodes",
        "metadata of 1 node",
        "metadata of 1 graph or value",
    )
    assert not result.rewritten.configuration


def test_nothing_is_dropped_that_a_type_has_made_room_for() -> None:
    source = needing("a type of int4")
    source.opset_import[0].version = 9
    source.graph.node[0].metadata_props.add(key="k", value="v")
    result = opshift.convert(source, opset=8, verify=False)
    assert [item.key for item in result.rewritten.graph.node[0].metadata_props] == ["k"]
    assert result.left_out == ()


# --- initializers that are inputs ---

DEFAULTED = """<ir_version: {ir}, opset_import: ["": 12]>
g (float[2,3] x, int64[2] s) => (float[3,2] y) <int64[2] s = {{3, 2}}>
{{ r = Reshape (x, s) y = Hardmax <axis = 0> (r) }}"""


@pytest.mark.parametrize(
    ("ir_version", "opset", "kept", "inputs", "noted"),
    [
        (8, 13, False, ["x"], True),
        (8, 13, True, ["x", "s"], False),
        (3, 13, False, ["x"], False),  # below 4 nobody could override them
        (3, 13, True, ["x", "s"], False),
        (3, 11, False, ["x", "s"], False),
        (8, 8, False, ["x", "s"], True),  # ir_version 3
        (8, 8, True, ["x", "s"], False),  # ir_version 4
    ],
)
def test_initializers_leave_the_inputs(ir_version: int, opset: int, kept: bool, inputs: list[str], noted: bool) -> None:
    source = parse_model(DEFAULTED.format(ir=ir_version))
    result = opshift.convert(source, opset=opset, keep_initializers_as_inputs=kept)
    assert [value.name for value in result.rewritten.graph.input] == inputs
    assert result.notes == (
        ("No longer inputs, but constants: s, which have initializers. --keep-initializers-as-inputs keeps them.",)
        if noted
        else ()
    )
    if opset == 8:
        assert result.rewritten.ir_version == (4 if kept else 3)
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert [value.name for value in source.graph.input] == ["x", "s"]


def test_an_input_that_becomes_a_constant_is_one_for_the_plan_too() -> None:
    text = """<ir_version: 8, opset_import: ["": 13]>
    g (float[2,1,3] x, int64[k] a) => (float[2,3] y) <int64[1] a = {1}> { y = Squeeze (x, a) }"""
    kept = opshift.plan(parse_model(text), opset=12, keep_initializers_as_inputs=True)
    assert not kept.possible
    result = converted(parse_model(text), opset=12)
    assert [value.name for value in result.graph.input] == ["x"]
    assert [item.name for item in result.graph.node[0].attribute] == ["axes"]


def test_what_a_caller_may_override_is_overridden_after_a_conversion_to_opset_8() -> None:
    source = parse_model(DEFAULTED.format(ir=8).replace("float[3,2] y", "float[a,b] y"))
    result = converted(source, opset=8, keep_initializers_as_inputs=True)
    assert result.ir_version == 4
    feeds = [{"x": np.arange(6, dtype=np.float32).reshape(2, 3), "s": np.array(shape)} for shape in ([6, 1], [1, 6])]
    for wanted, found in zip(run(source, feeds), run(result, feeds), strict=True):
        np.testing.assert_array_equal(found[0], wanted[0])


def test_what_cannot_be_overridden_below_ir_version_4_is_told() -> None:
    source = parse_model(DEFAULTED.format(ir=8))
    result = opshift.convert(source, opset=8, keep_initializers_as_inputs=True, ir_version=3)
    assert [note for note in result.notes if "Only from ir_version 4 on can they be overridden" in note]


@pytest.mark.parametrize("ir_version", [9, 10, 13])
def test_ir_version_on_request(ir_version: int) -> None:
    assert converted(model(13, HOT), decompose=["Hardmax"], ir_version=ir_version).ir_version == ir_version


def test_ir_version_alone_is_something_to_do() -> None:
    source = model(13, ir_version=8)
    result = converted(source, ir_version=9)
    assert (result.ir_version, source.ir_version) == (9, 8)
    assert result.graph == source.graph


def test_an_ir_version_that_is_too_low_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(model(13), opset=17, ir_version=7, verify=False)
    (refusal,) = caught.value.refusals
    assert refusal.code is Code.IR_VERSION
    assert "needs ir_version 8" in refusal.reason
    assert "--ir-version 8" in refusal.hint


def test_the_domain_of_hardmaxaxes_is_dropped_and_others_are_kept() -> None:
    graph = "g (float[2,3] x) => (float[2,3] y) { y = opshift.HardmaxAxes <axes = [0]> (x) }"
    result = converted(model(13, graph, more=', "opshift": 1, "com.microsoft": 1, "ai.onnx.ml": 3'), opset=13)
    assert imports(result) == {"": 13, "com.microsoft": 1, "ai.onnx.ml": 3}
    assert [node.domain for node in result.graph.node] == [""] * len(result.graph.node)


def test_the_long_name_of_the_default_domain_is_kept() -> None:
    source = model(13, HOT)
    source.opset_import[0].domain = "ai.onnx"
    result = converted(source, opset=11)
    assert imports(result) == {"ai.onnx": 11}
    onnx.checker.check_model(result)


def test_functions_import_the_opset_of_the_model() -> None:
    text = """<ir_version: 8, opset_import: ["": 13, "f": 1]>
    g (float[2,3] x) => (float[2,3] y) { y = f.F (x) }
    <domain: "f", opset_import: ["": 13, "com.microsoft": 1]> F (a) => (b) { b = Relu (a) }"""
    result = converted(parse_model(text), opset=18)
    assert imports(result) == {"": 18, "f": 1}
    assert imports(result.functions[0]) == {"": 18, "com.microsoft": 1}


@pytest.mark.parametrize("target", [7, 13, 26])
def test_an_older_model_keeps_a_version_that_opset_7_has(target: int) -> None:
    text = '<ir_version: 3, opset_import: ["": 1]> g (bool[2] x) => (bool[2] y) { y = Not (x) }'
    result = converted(parse_model(text), opset=target)
    assert imports(result) == {"": target}
    assert [node.op_type for node in result.graph.node] == ["Not"]


# --- an ir_version that is older than what the model holds ---


@pytest.mark.parametrize(
    ("what", "ir_version", "said"),
    [
        ("initializer that is no input", 3, ()),
        ("quantization annotation", 4, ("quantization annotations",)),
        ("training info", 6, ("training information",)),
        ("metadata of a node", 9, ("metadata of 1 node",)),
        ("metadata of the graph", 3, ("metadata of 1 graph or value",)),
    ],
)
def test_what_an_older_ir_version_has_no_place_for(what: str, ir_version: int, said: tuple[str, ...]) -> None:
    source = needing(what)
    before = source.SerializeToString()
    result = opshift.convert(source, opset=7, ir_version=ir_version, verify=False)
    assert result.rewritten.ir_version == ir_version
    assert result.left_out == said
    assert least_ir_version(result.rewritten, tuple(walk(result.rewritten))) <= ir_version
    onnx.checker.check_model(result.rewritten)
    assert source.SerializeToString() == before


OLDER = """<ir_version: 10, opset_import: ["": 13, "l": 1]>
g (bool c, float[2,3] x) => (float[2,3] y) {
    [a] h = Hardmax<axis = 0>(x)
    [b] f = l.twice<by = 3.0>(h)
    [d] y = If(c) <
        then_branch = t () => (float[2,3] s) <float[1] w = {2.0}> { s = Mul(f, w) },
        else_branch = e () => (float[2,3] n) { n = Neg(f) }>
}
<domain: "l", opset_import: ["": 13]> twice <by> (p) => (q) {
    k = Constant<value_float: float = @by>() m = Mul(p, k) q = Add(m, p)
}"""


@pytest.mark.parametrize(("ir_version", "opset"), [(3, 8), (4, 9), (7, 12), (8, 12), (9, 13)])
def test_functions_and_branches_in_an_older_ir_version(ir_version: int, opset: int) -> None:
    source = onnx.parser.parse_model(OLDER)
    for node in source.graph.node:
        node.metadata_props.add(key="pkg.torch.onnx.name", value=node.name)
    result = opshift.convert(source, opset=opset, ir_version=ir_version)
    assert result.rewritten.ir_version == ir_version
    assert bool(result.rewritten.functions) == (ir_version >= 8)
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert any(said.startswith("metadata") for said in result.left_out)


def branches_with_shapes() -> onnx.ModelProto:
    return parse_model(
        """<ir_version: 8, opset_import: ["":11]> g (bool c, float[2,6] x) => (float[3,4] y) {
            y = If (c) <then_branch = t () => (float[3,4] a) <int64[2] s = {3,4}> { a = Reshape(x, s) },
                else_branch = e () => (float[3,4] b) <int64[2] s2 = {3,4}> { b = Reshape(x, s2) }> }"""
    )


def doubling(depth: int) -> onnx.ModelProto:
    functions = "".join(
        f'<domain: "f", opset_import: ["":13, "f":1]> F{level} (a) => (c) '
        f"{{ b = f.F{level + 1}(a) c = f.F{level + 1}(b) }}"
        for level in range(depth)
    )
    last = f'<domain: "f", opset_import: ["":13]> F{depth} (a) => (b) {{ b = Relu(a) }}'
    head = '<ir_version: 8, opset_import: ["":13, "f":1]> g (float[2] x) => (float[2] y) { y = f.F0(x) }'
    return parse_model(f"{head} {functions} {last}")


def trained() -> onnx.ModelProto:
    model = parse_model(
        """<ir_version: 8, opset_import: ["":13, "f":1]> g (float[2] x) => (float[2] y) <float[2] w = {1,2}> {
            t = f.F(x) y = Mul(t, w) }
        <domain: "f", opset_import: ["":13]> F (a) => (b) { b = Relu(a) }"""
    )
    algorithm = model.training_info.add().algorithm
    algorithm.name = "a"
    algorithm.node.append(helper.make_node("F", ["w"], ["wn"], domain="f"))
    algorithm.output.add(name="wn")
    return model


GIVES_ITS_INPUT = """<ir_version: 8, opset_import: ["":13, "f":1]> g (float[2] x) => (float[2] y) {
    u, v = f.F(x) y = Add(u, v) }
<domain: "f", opset_import: ["":13]> F (a) => (b, a) { b = Relu(a) }"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "opset", "ir_version"),
    [
        (branches_with_shapes(), 8, 3),
        (doubling(24), 12, 7),
        (trained(), 12, 7),
    ],
    ids=["integers in a branch", "functions that double", "functions in training"],
)
def test_what_no_older_ir_version_holds_is_refused(source: onnx.ModelProto, opset: int, ir_version: int) -> None:
    with pytest.raises(opshift.OpshiftError) as caught:
        opshift.convert(source, opset=opset, ir_version=ir_version, verify=False)
    assert isinstance(caught.value, UnsupportedError | opshift.InvalidModelError)


@pytest.mark.slow
def test_a_function_that_gives_its_input_is_inlined() -> None:
    result = opshift.convert(parse_model(GIVES_ITS_INPUT), opset=12, ir_version=7, verify=False).rewritten
    onnx.checker.check_model(result, full_check=True)
    assert not result.functions


def test_what_a_function_alone_imports_comes_along() -> None:
    source = parse_model(
        """<ir_version: 8, opset_import: ["":13, "f":1]> g (float[2,6] x) => (float[2,6] y) { y = f.F(x) }
        <domain: "f", opset_import: ["":13, "com.microsoft":1]> F (a) => (b) { b = com.microsoft.Gelu(a) }"""
    )
    result = opshift.convert(source, opset=12, ir_version=7)
    onnx.checker.check_model(result.rewritten)
    assert {item.domain for item in result.rewritten.opset_import} == {"", "com.microsoft"}


@pytest.mark.parametrize("opset", [8, 18])
def test_constants_of_old_models_stay_constants(opset: int) -> None:
    """From ir_version 4 on an initializer that is an input is a default, and nothing that needs a constant takes it."""
    text = "g (float[m,n] x, int64[1] k) => (float[m,c] y) <int64[1] k = {2}> {y, z = TopK <axis = 1> (x, k)}"
    model = onnx.parser.parse_model(f'<ir_version: 3, opset_import: ["": 10]> {text}')
    result = opshift.convert(model, opset=opset)
    assert isinstance(result.model, onnx.ModelProto)
    inputs = [value.name for value in result.model.graph.input]
    assert inputs == (["x", "k"] if result.model.ir_version < 4 else ["x"])
    assert result.model.ir_version >= 4 or opset == 8
    assert result.report is not None
    assert result.report.verdict == "equal"
