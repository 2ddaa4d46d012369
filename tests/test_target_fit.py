"""Constants, inputs and outputs as a target reads them, whatever the nodes are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from opshift.opsets.runtimes.limits import Limit
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.errors import UnsupportedError
from opshift.passes.base.plan import Code

HEAD = '<ir_version: 8, opset_import: ["": 13]> g '
FLOATS = Target("mine", constant_types=("float", "int64"), measured=True)


def converted(text: str, target: Target) -> onnx.ModelProto:
    """Convert a model, and check that the result stays as it is when converted again."""
    result = opshift.convert(parse_model(HEAD + text), target=target)
    again = opshift.convert(result.rewritten, target=target, verify=False)
    assert again.rewritten == result.rewritten
    assert isinstance(result.rewritten, onnx.ModelProto)
    return result.rewritten


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    ("dtype", "elements", "carrier"),
    [("bool", "1, 0", 1), ("uint8", "0, 255", 1), ("int32", "2147483647, 5", 7), ("double", "0.5, -2", 1)],
)
def test_a_constant_of_another_type_becomes_a_cast(dtype: str, elements: str, carrier: int) -> None:
    equal = f"<{dtype}[2] k = {{{elements}}}> {{ y = Equal (x, k) }}"
    model = converted(f"({dtype}[2] x) => (bool[2] y) {equal}", FLOATS)
    assert operators(model) == ["Cast", "Equal"]
    assert [tensor.data_type for tensor in model.graph.initializer] == [carrier]
    original = parse_model(HEAD + f"({dtype}[2] x) => (bool[2] y) {equal}")
    feeds = [{"x": onnx.numpy_helper.to_array(original.graph.initializer[0])}]
    assert run(model, feeds)[0][0].all()


def test_constants_of_lowerings_and_of_nodes_too() -> None:
    """A Constant node is one, and so is a mask that a lowering writes."""
    constant = "{ c = Constant <value = bool[2] {1, 0}> () y = And (x, c) }"
    assert operators(converted(f"(bool[2] x) => (bool[2] y) {constant}", FLOATS)) == ["Cast", "And"]
    folded = Target("mine", constant_types=("float", "int64"), without=frozenset({"Shape", "Not"}))
    text = "(bool[2] x) => (bool[2] y) <float[2] k = {1, 0}, float z = {0}> { c = Greater (k, z) y = And (x, c) }"
    model = converted(text, folded)
    assert operators(model) == ["Cast", "And"]
    assert run(model, [{"x": np.array([True, True])}])[0][0].tolist() == [True, False]


def test_a_constant_that_no_other_type_holds_is_refused() -> None:
    text = "(uint64[1] x) => (bool[1] y) <uint64[1] k = {18446744073709551615}> { y = Equal (x, k) }"
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(parse_model(HEAD + text), target=FLOATS)
    (refusal,) = caught.value.refusals
    assert (refusal.code, refusal.node) == (Code.TYPE, "constant 'k'")
    assert refusal.hint == "Store them in another element type."


def test_a_constant_output_is_refused() -> None:
    target = Target("mine", constant_outputs=False)
    text = "(float[2] x) => (float[2] y, float[2] z) <float[2] k = {1, 2}> { y = Relu (x) z = Identity (k) }"
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(parse_model(HEAD + text), target=target)
    (refusal,) = caught.value.refusals
    assert (refusal.code, refusal.node) == (Code.NO_LOWERING, "output 'z'")
    assert refusal.hint == "Remove it from the outputs of the model."
    assert opshift.plan(parse_model(HEAD + "(float[2] x) => (float[2] y) { y = Relu (x) }"), target=target).possible


def with_bare_outputs(model: onnx.ModelProto, *shapes: str) -> onnx.ModelProto:
    """Return a model whose outputs have no declared shape, nor have the inputs that are named."""
    for value in (*model.graph.output, *(one for one in model.graph.input if one.name in shapes)):
        value.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("{ y = Relu (x) }", [2, 3]),
        ("{ s = Shape (x) y = ConstantOfShape (s) }", [2, 3]),
        ("{ y = Transpose (x) }", [3, 2]),
        ("{ y = Hardmax <axis = 1> (x) }", [2, 3]),
    ],
)
def test_outputs_get_their_shapes_where_a_target_needs_them(body: str, shape: list[int]) -> None:
    target = Target("mine", declared_shapes=True, without=frozenset({"Hardmax"}))
    model = with_bare_outputs(parse_model(HEAD + f"(float[2,3] x) => (float y) {body}"))
    (output,) = opshift.convert(model, target=target).rewritten.graph.output
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == shape
    kept = opshift.convert(model, target=Target("mine")).rewritten.graph.output[0]
    assert not kept.type.tensor_type.HasField("shape")


@pytest.mark.parametrize(("bare", "named"), [(("x",), "input 'x'"), ((), "output 'y'")])
def test_values_of_unknown_rank_are_refused_where_a_target_needs_it(bare: tuple[str, ...], named: str) -> None:
    text = "(float[2,3] x, int64[k] s) => (float y) { y = Reshape (x, s) }"
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(with_bare_outputs(parse_model(HEAD + text), *bare), target=Target("mine", declared_shapes=True))
    refusal = caught.value.refusals[0]
    assert refusal.node == named
    assert "--input-shape" in refusal.hint


def test_an_input_that_no_node_reads_is_dropped() -> None:
    target = Target("mine", unused_inputs=False)
    model = parse_model(HEAD + "(float[2] x, float[n] z, int64 w) => (float[2] y, int64 w) { y = Relu (x) }")
    result = opshift.convert(model, target=target)
    assert [value.name for value in result.rewritten.graph.input] == ["x", "w"]
    assert [value.name for value in model.graph.input] == ["x", "z", "w"]
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert [note for note in result.notes if "'z'" in note and "no node reads" in note]
    kept = opshift.convert(model, target=Target("mine"))
    assert [value.name for value in kept.rewritten.graph.input] == ["x", "z", "w"]


def test_an_input_goes_with_the_condition_that_reads_it(tmp_path: Path) -> None:
    """The width of the other input decides which branch of a detector of voices runs at all, not the rate."""
    model = parse_model(
        HEAD + "(float[1,n] x, int64 rate) => (float[1,1] y) <int64 k = {16000}, float[2,1] u = {1, 2}, "
        "float[3,1] v = {1, 2, 3}> { c = Equal (rate, k) y = If (c) <"
        "then_branch = t () => (float[1,1] a) { a = MatMul (x, u) }, "
        "else_branch = e () => (float[1,1] b) { b = MatMul (x, v) }> }"
    )
    target = Target("mine", unused_inputs=False, without=frozenset({"If"}))
    x, rate = np.array([[-1, 2]], np.float32), np.array(16000)
    np.savez(tmp_path / "given.npz", x=x, rate=rate)
    result = opshift.convert(model, target=target, input_shapes={"x": (1, 2)}, inputs=tmp_path / "given.npz")
    assert result.report is not None
    assert result.report.verdict == "equal"
    assert [value.name for value in result.rewritten.graph.input] == ["x"]
    assert run(result.rewritten, [{"x": x}])[0][0].tolist() == [[3]]


def test_a_model_of_unread_inputs_alone_is_refused() -> None:
    target = Target("mine", unused_inputs=False)
    text = "(float[2] x) => (float[2] y) <float[2] k = {1, 2}> { y = Relu (k) }"
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(parse_model(HEAD + text), target=target)
    assert [refusal.node for refusal in caught.value.refusals] == ["input 'x'"]


def test_a_shared_constant_gets_a_copy() -> None:
    target = Target("mine", limits=(Limit("MatMul", own_constants=("A",), reason="seen"),))
    text = """(float[2,2] x) => (float[2,2] y) <float[2,2] k = {1, 2, 3, 4}>
        { p = MatMul (k, x) q = MatMul (k, p) r = MatMul (q, k) y = Add (r, k) }"""
    model = converted(text, target)
    assert [node.input[0] for node in model.graph.node] == ["k/copy", "k/copy_1", "q", "r"]
    assert [node.input[1] for node in model.graph.node][2:] == ["k", "k"]


def test_the_only_input_is_set_apart() -> None:
    target = Target("mine", limits=(Limit("Concat", not_fed=("inputs",), reason="seen"),))
    alone = "(float[1,2] x) => (float[2,2] y) <float[1,2] k = {1, 2}> { y = Concat <axis = 0> (k, x) }"
    assert operators(converted(alone, target)) == ["Identity", "Concat"]
    twice = "(float[1,2] x) => (float[2,2] y) { r = Relu (x) y = Concat <axis = 0> (r, x) }"
    assert operators(converted(twice, target)) == ["Relu", "Concat"]


def test_strings_are_refused_without_a_hint_to_change_them() -> None:
    target = Target("mine", input_types=("float", "int32"))
    refusals = {
        dtype: opshift.plan(
            parse_model(HEAD + f"({dtype}[2] x) => ({dtype}[2] y) {{ y = Identity (x) }}"), target=target
        ).refusals
        for dtype in ("string", "int64", "float")
    }
    assert [(one.node, one.hint) for one in refusals["string"]] == [("input 'x'", "")]
    # Such a target changes no type of itself, which --io-types alone would give to the inputs.
    change = "Change its element types with --types int64=int32 --io-types."
    assert [(one.node, one.hint) for one in refusals["int64"]] == [("input 'x'", change)]
    assert not refusals["float"]


def refused_ends(target: Target, graph: str) -> list[tuple[str, str]]:
    plan = opshift.plan(parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {graph}'), target=target)
    return [(one.node, one.code) for one in plan.refusals]


def test_a_target_has_other_types_inside_than_at_its_ends() -> None:
    target = Target("mine", input_types=("float",), output_types=("float", "int64"))
    inside = "(float[2] x) => (float[2] y) { h = Cast <to = 16> (x) y = Cast <to = 1> (h) }"
    assert not refused_ends(target, inside)
    out = "(float[2] x) => (bfloat16[2] y) { y = Cast <to = 16> (x) }"
    assert refused_ends(target, out) == [("output 'y'", "type")]
    assert not refused_ends(target, "(float[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }")
    assert refused_ends(target, "(int64[2] x) => (int64[2] y) { y = Neg (x) }") == [("input 'x'", "type")]


def test_a_target_whose_ends_are_tensors_has_no_sequences_there() -> None:
    target = Target("mine", input_types=("float",), output_types=("float",))
    assert refused_ends(target, "(float[2] x) => (seq(float[2]) y) { y = SequenceConstruct (x) }") == [
        ("output 'y'", "type")
    ]
    assert refused_ends(
        target,
        "(optional(seq(float[2])) x) => (float[n] y) "
        "{ s = OptionalGetElement (x) y = ConcatFromSequence <axis = 0> (s) }",
    ) == [("input 'x'", "type")]
    inside = "(float[2] x) => (float[n] y) { s = SequenceConstruct (x, x) y = ConcatFromSequence <axis = 0> (s) }"
    assert not refused_ends(target, inside)
