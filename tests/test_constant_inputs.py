"""Inputs that a runtime needs constant: what the model computes is written as a constant, or the node is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from refused import line
from running import run

import opshift
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.target import Target
from opshift.passes.graph.traversal import subgraphs

NEEDS = Target("mine", limits=(Limit("Reshape", constant_inputs=("shape",), reason="seen"),))

# Each computes s, the shape [3, 2], of values that are all known.
COMPUTED: Mapping[str, str] = {
    "Shape": "t = Transpose <perm = [1, 0]> (x) s = Shape (t)",
    "Gather": "f = Shape (x) s = Gather (f, swap)",
    "Slice": "f = Shape (x) s = Slice (f, last, before, first, last)",
    "Identity": "s = Identity (shape)",
    "Cast": "f = Cast <to = 6> (shape) s = Cast <to = 7> (f)",
    "Concat": "s = Concat <axis = 0> (three, two)",
    "Size": "n = Size (x) m = Div (n, two) s = Concat <axis = 0> (m, two)",
    "Range": "s = Range (from, to, by)",
    "ConstantOfShape": "n = ConstantOfShape <value = int64[1] {1}> (pair) s = Mul (n, shape)",
    "Unsqueeze and Squeeze": "u = Unsqueeze (shape, first) s = Squeeze (u, first)",
    "Reshape of a constant": "p = Constant <value_ints = [3, 2]> () q = Identity (p) s = Add (q, first)",
    "Where": "s = Where (yes, shape, swap)",
    "Max": "k = Constant <value_ints = [3, 2]> () s = Max (k, k)",
}

CONSTANTS = """<int64[2] swap = {1, 0}, int64[2] shape = {3, 2}, int64[1] three = {3}, int64[1] two = {2},
    int64[1] first = {0}, int64[1] last = {-1}, int64[1] before = {-3}, int64 from = {3}, int64 to = {1},
    int64 by = {-1}, int64[1] pair = {2}, bool[2] yes = {1, 1}>"""

WHERE: Mapping[str, str] = {
    "main": "g (float[2,3] x, bool c) => (float[a,b] y) CONSTANTS { BODY y = Reshape (x, s) }",
    "a branch that reads it from outside": """g (float[2,3] x, bool c) => (float[a,b] y) CONSTANTS
    { BODY y = If (c) <
        then_branch = p () => (float[m,n] v) { v = Reshape (x, s) },
        else_branch = q () => (float[k,l] w) { z = Neg (x) w = Reshape (z, s) }> }""",
    "a branch": """g (float[2,3] x, bool c) => (float[a,b] y) CONSTANTS
    { y = If (c) <
        then_branch = p () => (float[m,n] v) { BODY v = Reshape (x, s) },
        else_branch = q () => (float[k,l] w) { w = Neg (x) }> }""",
}


def model(body: str, where: str = "main", constants: str = CONSTANTS) -> onnx.ModelProto:
    text = WHERE[where].replace("CONSTANTS", constants).replace("BODY", body)
    found = parse_model(f'<ir_version: 8, opset_import: ["": 13]>\n{text}')
    onnx.checker.check_model(found)
    return found


def computed(graph: onnx.GraphProto | onnx.FunctionProto, constants: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the shapes of all Reshapes that are no constants, as a runtime without any folding sees them."""
    own = {tensor.name for tensor in graph.initializer} if isinstance(graph, onnx.GraphProto) else set[str]()
    own -= {value.name for value in graph.input} if isinstance(graph, onnx.GraphProto) else set()
    constants |= own | {node.output[0] for node in graph.node if node.op_type == "Constant"}
    for node in graph.node:
        if node.op_type == "Reshape" and node.input[1] not in constants:
            yield node.input[1]
        for inner in subgraphs(node):
            yield from computed(inner, constants)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("body", COMPUTED.values(), ids=list(COMPUTED))
def test_an_input_that_must_be_constant_is_folded(body: str, where: str) -> None:
    source = model(body, where)
    assert list(computed(source.graph))
    result = opshift.convert(source, target=NEEDS).model
    assert isinstance(result, onnx.ModelProto)
    assert not list(computed(result.graph))
    onnx.checker.check_model(result, full_check=True)
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(True)}
    np.testing.assert_array_equal(run(source, [feeds])[0][0], run(result, [feeds])[0][0])
    assert opshift.convert(result, target=NEEDS).plan.nothing_to_do


@pytest.mark.parametrize("body", COMPUTED.values(), ids=list(COMPUTED))
def test_an_input_of_a_function_that_must_be_constant_is_folded(body: str) -> None:
    names = ["swap", "shape", "three", "two", "first", "last", "before", "from", "to", "by", "pair", "yes"]
    held = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> g () => () {CONSTANTS} {{ }}').graph
    nodes = [
        onnx.helper.make_node("Constant", [], [name], value=next(one for one in held.initializer if one.name == name))
        for name in names
    ]
    text = f"""<ir_version: 8, opset_import: ["": 13, "f": 1]> g (float[2,3] x) => (float[a,b] y) {{ y = f.F (x) }}
    <domain: "f", opset_import: ["": 13]> F (x) => (y) {{ {body} y = Reshape (x, s) }}"""
    source = parse_model(text)
    function = source.functions[0]
    before = list(function.node)
    del function.node[:]
    function.node.extend([*nodes, *before])
    result = opshift.convert(source, target=NEEDS).model
    assert isinstance(result, onnx.ModelProto)
    assert not any(list(computed(one)) for one in (result.graph, *result.functions))
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    np.testing.assert_array_equal(run(source, [feeds])[0][0], run(result, [feeds])[0][0])


def test_a_computed_shape_that_only_a_lowering_reads_is_folded() -> None:
    """The lowering, not the model, has the node that needs a constant."""
    target = Target("mine", without=frozenset({"Flatten"}), limits=(Limit("Reshape", constant_inputs=("shape",)),))
    result = opshift.convert(
        model("f = Flatten (x) s = Shape (x)".replace("s = Shape (x)", "s = Shape (f)")), target=target
    )
    assert isinstance(result.model, onnx.ModelProto)
    assert not list(computed(result.model.graph))


def test_what_computed_the_constant_alone_goes() -> None:
    result = opshift.convert(model(COMPUTED["Gather"]), target=NEEDS).model
    assert isinstance(result, onnx.ModelProto)
    assert [node.op_type for node in result.graph.node] == ["Reshape"]
    kept = model("f = Shape (x) s = Gather (f, swap) z = Add (s, s)")
    kept.graph.output.add(name="z").type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, [2]))
    result = opshift.convert(kept, target=NEEDS).model
    assert isinstance(result, onnx.ModelProto)
    assert [node.op_type for node in result.graph.node] == ["Constant", "Reshape"]


def test_a_default_that_a_caller_may_override_is_not_constant() -> None:
    """It is one where it stops being an input, as by default from ir_version 4 on."""
    source = model("s = Identity (shape)")
    source.graph.input.add(name="shape").type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.INT64, [2]))
    kept = opshift.plan(source, target=NEEDS, keep_initializers_as_inputs=True)
    assert [line(refusal) for refusal in kept.refusals] == ["missing-fact: Reshape-13 at main/Reshape_1"]
    result = opshift.convert(source, target=NEEDS)
    assert isinstance(result.model, onnx.ModelProto)
    assert [value.name for value in result.model.graph.input] == [value.name for value in source.graph.input][:-1]
    assert not list(computed(result.model.graph))
    # Below ir_version 4 every initializer is an input, and none is overridden.
    source.ir_version = 3
    source.graph.input.extend(
        onnx.helper.make_tensor_value_info(one.name, one.data_type, one.dims)
        for one in source.graph.initializer
        if one.name != "shape"
    )
    assert not opshift.plan(source, target=NEEDS).refusals


def test_an_if_whose_condition_the_model_computes_becomes_its_branch() -> None:
    target = Target("mine", limits=(Limit("If", constant_inputs=("cond",)),))
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) <bool no = {0}> { c = Not (no)
    y = If (c) <then_branch = p () => (float[2] v) { v = Abs (x) }, else_branch = q () => (float[2] w) { w = Neg (x) }>
    }"""
    source = parse_model(text)
    result = opshift.convert(source, target=target).model
    assert isinstance(result, onnx.ModelProto)
    assert [node.op_type for node in result.graph.node] == ["Abs"]
    source.graph.node[0].op_type = "Identity"
    result = opshift.convert(source, target=target).model
    assert isinstance(result, onnx.ModelProto)
    assert [node.op_type for node in result.graph.node] == ["Neg"]


@pytest.mark.parametrize("shape", [[200, 200], [2, 2]])
def test_a_constant_node_is_constant_however_large(shape: list[int]) -> None:
    weight = onnx.numpy_helper.from_array(np.ones(shape, np.float32))
    text = f"""<ir_version: 8, opset_import: ["": 13]>
    g (float[2,{shape[0]}] x) => (float[2,{shape[1]}] y) {{ y = MatMul (x, w) }}"""
    source = parse_model(text)
    source.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], value=weight))
    assert opshift.plan(source, target=Target("mine", limits=(Limit("MatMul", constant_inputs=("B",)),))).nothing_to_do


ALONE = ("Shape", "Gather", "Slice", "Concat", "Size", "Range", "Identity", "Cast", "ConstantOfShape", "Where")
KNOWN: Mapping[str, str] = {
    **{name: COMPUTED[name] for name in ALONE},
    "Squeeze": COMPUTED["Unsqueeze and Squeeze"],
    "Unsqueeze": COMPUTED["Unsqueeze and Squeeze"],
}


@pytest.mark.parametrize("operator", KNOWN)
def test_a_decomposed_node_whose_result_is_known_becomes_a_constant(operator: str) -> None:
    """As for a profile without the operator, which may make initializers of more constants."""
    source = model(KNOWN[operator])
    gone = opshift.convert(source, decompose=[operator]).model
    without = opshift.convert(source, target=Target("mine", without=frozenset({operator}))).model
    assert isinstance(gone, onnx.ModelProto)
    assert isinstance(without, onnx.ModelProto)
    assert operator not in {node.op_type for node in (*gone.graph.node, *without.graph.node)}
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(True)}
    np.testing.assert_array_equal(run(source, [feeds])[0][0], run(gone, [feeds])[0][0])
    np.testing.assert_array_equal(run(source, [feeds])[0][0], run(without, [feeds])[0][0])


@pytest.mark.parametrize("outputs", ["", ", int64[1] c", ", int64[1] d"])
def test_a_constant_node_is_read_as_an_initializer(outputs: str) -> None:
    """webnn has Identity and no Constant, and needs the shape of Expand constant."""
    more = "d = Identity (c)" if outputs.endswith("d") else ""
    model = parse_model(
        f'<ir_version: 7, opset_import: ["": 18]> g (float[2,1] x) => (float[2,3] y{outputs}) '
        f"{{ c = Constant <value = int64[1] {{3}}> () y = Expand (x, c) {more} }}"
    )
    there = opshift.convert(model, target="webnn").model
    assert isinstance(there, onnx.ModelProto)
    (expand,) = (node for node in there.graph.node if node.op_type == "Expand")
    assert expand.input[1] in {tensor.name for tensor in there.graph.initializer}
