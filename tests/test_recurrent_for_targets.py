"""RNN, GRU and LSTM for targets without them: which nodes replace them, and what a dynamic length needs."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from operators.harness import converted
from running import run, same

import opshift
from opshift.opsets.operators import rnn
from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.runtimes.target import Target
from opshift.passes.base.plan import Code
from opshift.passes.base.report import Verdict

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(name: str, tokens: int | str) -> str:
    """Return a model of one layer whose weights are constant."""
    rows = GATES[name] * 2
    numbers = ", ".join(str((place * 7 % 11 - 5) / 8) for place in range(rows * 3))
    recurrent = ", ".join(str((place * 5 % 13 - 6) / 8) for place in range(rows * 2))
    return (
        f'<ir_version: 8, opset_import: ["": 13]> g (float[{tokens},1,3] x) => (float[{tokens},1,1,2] y) '
        f"<float[1,{rows},3] w = {{{numbers}}}, float[1,{rows},2] r = {{{recurrent}}}> "
        f"{{ y = {name} <hidden_size = 2> (x, w, r) }}"
    )


@pytest.mark.parametrize("name", GATES)
def test_known_tokens_become_one_product_and_a_cell_each(name: str) -> None:
    model = parse_model(layer(name, 3))
    result = converted(model, target="ncnn")
    counted = collections.Counter(node.op_type for node in result.graph.node)
    assert not counted.keys() & {*GATES, "Loop", "Shape", "Transpose", "Squeeze"}
    # The product of the initial state, which is zeros, is a constant.
    assert counted["MatMul"] == 1 + 3 * (2 if name == "GRU" else 1) - 1
    assert counted["Concat"] == counted["Unsqueeze"] == 1
    x = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 1, 3)
    for wanted, got in zip(run(model, [{"x": x}])[0], run(result, [{"x": x}])[0], strict=True):
        assert same(wanted, got, 2e-6)


@pytest.mark.parametrize("name", GATES)
def test_unknown_tokens_need_a_shape_where_there_is_no_loop(name: str) -> None:
    (refusal,) = opshift.plan(parse_model(layer(name, "t")), target="ncnn").refusals
    assert refusal.code is Code.MISSING_FACT
    assert "--input-shape x:" in refusal.hint
    assert not opshift.plan(parse_model(layer(name, "t")), target="ncnn", input_shapes={"x": (3, 1, 3)}).refusals


@pytest.mark.parametrize("tokens", [129, "t"])
def test_many_or_unknown_tokens_become_a_loop(tokens: int | str) -> None:
    model = parse_model(layer("LSTM", tokens))
    result = converted(model, decompose=["LSTM"])
    assert "Loop" in {node.op_type for node in result.graph.node}
    x = np.linspace(-1, 1, 129 * 3, dtype=np.float32).reshape(129, 1, 3)
    assert same(run(model, [{"x": x}])[0][0], run(result, [{"x": x}])[0][0], 2e-6)


@pytest.mark.parametrize("name", GATES)
def test_float16_is_computed_in_float_as_kernels_do(name: str) -> None:
    """Products of 60000 with two weights leave the range of float16; one kernel of float16 does not notice."""
    rng = np.random.default_rng(0)
    rows = 4 * GATES[name]
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(name, ["x", "w", "r", "b"], ["y"], hidden_size=4)],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [5, 2, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [5, 1, 2, 4])],
            [
                numpy_helper.from_array(rng.uniform(-1.5, 1.5, (1, *shape)).astype(np.float16), one)
                for one, shape in (("w", (rows, 3)), ("r", (rows, 4)), ("b", (2 * rows,)))
            ],
        ),
        opset_imports=[helper.make_opsetid("", 14)],
        ir_version=8,
    )
    result = opshift.convert(model, decompose=[name])
    assert result.report is not None
    assert str(result.report.verdict) == "equal"
    signs = rng.choice([-1, 1], (5, 2, 3))
    for x in (signs * 60000, rng.normal(size=(5, 2, 3))):
        feeds = [{"x": x.astype(np.float16)}]
        (wanted,), (found,) = run(model, feeds)[0], run(result.rewritten, feeds)[0]
        assert np.isfinite(wanted).all()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2**-10)  # one unit of float16 near one


@pytest.mark.slow
def test_nan_reaches_the_outputs_of_an_rnn_whose_weights_are_finite() -> None:
    model = parse_model(layer("RNN", 3))
    weights = [constant(numpy_helper.to_array(one)) for one in model.graph.initializer]
    assert rnn.OPERATOR.nan_defined(rnn.RNN(hidden_size=2), (Facts(1, (3, 1, 3)), *weights))
    assert not rnn.OPERATOR.nan_defined(rnn.RNN(hidden_size=2), (Facts(1, (3, 1, 3)), Facts(1), Facts(1)))
    result = opshift.convert(model, decompose=["RNN"])
    x = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 1, 3)
    x[1, 0, 2] = np.nan
    for wanted, got in zip(run(model, [{"x": x}])[0], run(result.rewritten, [{"x": x}])[0], strict=True):
        assert np.isnan(wanted).any()
        assert same(wanted, got, 2e-6)


def constant_readers(model: onnx.ModelProto) -> list[str]:
    """Return the operators of nodes that read constants alone."""
    known = {"", *(tensor.name for tensor in model.graph.initializer)}
    return [node.op_type for node in model.graph.node if node.input and known.issuperset(node.input)]


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("bias", [True, False])
def test_products_of_weights_and_a_constant_state_are_folded(name: str, direction: str, bias: bool) -> None:
    """OpenCV 4.14 does not load a MatMul of two constants, as zeros and the weights of the first token are."""
    count = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(0)
    rows = 2 * GATES[name]
    shapes = {"w": (count, rows, 3), "r": (count, rows, 2), **({"b": (count, 2 * rows)} if bias else {})}
    other: dict[str, Any] = {"linear_before_reset": 1} if name == "GRU" else {}
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(name, ["x", *shapes], ["y"], hidden_size=2, direction=direction, **other)],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, count, 1, 2])],
            [numpy_helper.from_array(rng.uniform(-1, 1, of).astype(np.float32), one) for one, of in shapes.items()],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    lacking = Target("mine", without=frozenset({"Shape", "Loop", "Scan", *GATES}))
    result = opshift.convert(model, target=lacking).rewritten
    assert not constant_readers(result)
    folded = opshift.convert(model, decompose=[name, "Loop"], fold=True, verify=False).rewritten
    assert not constant_readers(folded)
    x = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 1, 3)
    for wanted, got in zip(run(model, [{"x": x}])[0], run(result, [{"x": x}])[0], strict=True):
        assert same(wanted, got, 2e-6)


@pytest.mark.parametrize("opset", [7, 14])
@pytest.mark.parametrize("tokens", [1, 4])
def test_a_constant_that_a_lowering_computes_is_one_that_the_target_takes(tokens: int, opset: int) -> None:
    """MNN takes no constant of one element with three axes in a Sum: the product of zeros and peepholes is one."""
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 4, 3), "r": (1, 4, 1), "b": (1, 8), "p": (1, 3)}
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("LSTM", ["x", "w", "r", "b", "", "", "", "p"], ["y"], hidden_size=1)],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [tokens, 1, 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [tokens, 1, 1, 1])],
            [numpy_helper.from_array(rng.uniform(-1, 1, of).astype(np.float32), one) for one, of in shapes.items()],
        ),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8,
    )
    result = opshift.convert(model, target="mnn").rewritten
    assert not opshift.plan(result, target="mnn").steps
    x = np.linspace(-1, 1, tokens * 3, dtype=np.float32).reshape(tokens, 1, 3)
    for wanted, got in zip(run(model, [{"x": x}])[0], run(result, [{"x": x}])[0], strict=True):
        assert same(wanted, got, 2e-6)


# --- parameters of functions that are left out ------------------------------------------------------------------------

BY_TEXT = {
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, None),
}
"""alpha and beta as the text has them: those of the ONNX operators of the same names."""


def activated(name: str, functions: list[str], alphas: list[float], betas: list[float]) -> onnx.ModelProto:
    """Return a model of one layer with these functions, with lists of parameters that may be too short."""
    rng = np.random.default_rng(2)
    rows = GATES[name] * 2
    lists = {"activations": functions, "activation_alpha": alphas, "activation_beta": betas}
    given: dict[str, Any] = {key: value for key, value in lists.items() if value}
    node = helper.make_node(
        name,
        ["x", "w", "r", "b"],
        ["y"],
        hidden_size=2,
        **given,
    )
    shapes = {"w": (1, rows, 3), "r": (1, rows, 2), "b": (1, 2 * rows)}
    weights = [numpy_helper.from_array(rng.uniform(-1, 1, s).astype(np.float32), n) for n, s in shapes.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2, 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 1, 2, 2])]
    graph = helper.make_graph([node], "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


LAYERS = {"RNN": 1, "GRU": 2, "LSTM": 3}


@pytest.mark.parametrize("given", ["none", "one alpha"])
@pytest.mark.parametrize("function", BY_TEXT)
@pytest.mark.parametrize("name", LAYERS)
def test_parameters_that_are_left_out_are_those_of_onnxruntime_or_of_the_text(
    name: str, function: str, given: str
) -> None:
    functions = [function] * LAYERS[name]
    alpha, beta = BY_TEXT[function]
    first = [0.75] if given == "one alpha" else []
    short = activated(name, functions, first, [])
    whole = activated(
        name,
        functions,
        [*first, *[alpha] * (LAYERS[name] - len(first))],
        [] if beta is None else [beta] * LAYERS[name],
    )
    feeds = [{"x": np.random.default_rng(3).uniform(-2, 2, (4, 2, 3)).astype(np.float32)}]
    for source, semantics in ((short, "runtime"), (whole, "spec")):
        result = converted(short, decompose=[name], semantics=semantics)
        assert name not in {node.op_type for node in result.graph.node}
        for wanted, got in zip(run(source, feeds)[0], run(result, feeds)[0], strict=True):
            assert same(wanted, got, 2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("semantics", ["runtime", "spec"])
@pytest.mark.parametrize("function", ["Affine", "Relu", "HardSigmoid"])
def test_verification_compares_functions_as_each_semantics_has_them(function: str, semantics: str) -> None:
    """Relu and HardSigmoid of NaN are 0 in the kernel of RNN (onnxruntime 1.32.0), and NaN behind it."""
    result = opshift.convert(activated("RNN", [function], [], []), decompose=["RNN"], semantics=semantics)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL


# --- lengths of sequences ---------------------------------------------------------------------------------------------


def with_lengths(name: str, lengths: list[int], direction: str = "forward", layout: int = 0) -> onnx.ModelProto:
    """Return a model of one layer with constant lengths, for a batch of as many sequences of four tokens."""
    model = activated(name, [], [], [])
    (node,) = model.graph.node
    del node.attribute[:]
    values = {"hidden_size": 2, "direction": direction, **({"layout": 1} if layout else {})}
    node.attribute.extend(helper.make_attribute(key, value) for key, value in values.items())
    node.input.append("lengths")
    batch, count = len(lengths), 2 if direction == "bidirectional" else 1
    shapes = (
        {"x": [batch, 4, 3], "y": [batch, 4, count, 2]} if layout else {"x": [4, batch, 3], "y": [4, count, batch, 2]}
    )
    for value in (*model.graph.input, *model.graph.output):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, shapes[value.name]))
    weights = [numpy_helper.to_array(one) for one in model.graph.initializer]
    for tensor, array in zip(model.graph.initializer, weights, strict=True):
        tensor.CopyFrom(numpy_helper.from_array(np.concatenate([array] * count), tensor.name))
    model.graph.initializer.append(numpy_helper.from_array(np.array(lengths, np.int32), "lengths"))
    return model


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [[4, 4], [4], [4, 3], [1, 2]], ids=str)
@pytest.mark.parametrize("name", GATES)
def test_lengths_of_whole_sequences_are_left_out(name: str, lengths: list[int], direction: str) -> None:
    model = with_lengths(name, lengths, direction)
    full = set(lengths) == {4}
    feeds = [{"x": np.random.default_rng(3).uniform(-2, 2, (4, len(lengths), 3)).astype(np.float32)}]
    for request in ({"decompose": [name]}, {"target": "ncnn"} if full else {"decompose": [name]}, {"target": "mnn"}):
        result = converted(model, **request)
        assert not full or not {"Where", "Greater"} & {node.op_type for node in result.graph.node}
        for wanted, got in zip(run(model, feeds)[0], run(result, feeds)[0], strict=True):
            assert same(wanted, got, 2e-6)


def test_lengths_of_whole_sequences_leave_the_layer_to_targets_that_do_not_read_them() -> None:
    model = with_lengths("LSTM", [4, 4])
    model.graph.node[0].output.extend(["h", "c"])
    for target in ("mnn", "opencv-4"):
        (layer,) = converted(model, target=target).graph.node
        assert layer.op_type == "LSTM"
        assert len(layer.input) == 4


@pytest.mark.parametrize("name", GATES)
def test_lengths_of_whole_sequences_count_tokens_where_the_batch_is_first(name: str) -> None:
    """onnxruntime 1.32.0 has no kernel for it: the result with the batch second is that of the model without it."""
    first, second = with_lengths(name, [4, 4, 4], layout=1), with_lengths(name, [4, 4, 4])
    x = np.random.default_rng(3).uniform(-2, 2, (3, 4, 3)).astype(np.float32)
    (got,) = run(converted(first, decompose=[name]), [{"x": x}])[0]
    (wanted,) = run(second, [{"x": x.transpose(1, 0, 2)}])[0]
    assert same(wanted.transpose(2, 0, 1, 3), got, 2e-6)
