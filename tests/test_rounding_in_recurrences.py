"""Rounding is measured inside of RNN, GRU and LSTM, step by step: right results are equal, and wrong ones not.

With large weights, a state multiplies the rounding of earlier ones; the activation functions of onnxruntime have the
absolute error of a number near 1, however small their results.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import opshift
from opshift.opsets.operators import rnn
from opshift.opsets.registry.inner_rounding import InnerRounding
from opshift.passes.base.report import Verdict
from opshift.passes.proof.rounding.suspects import is_suspect
from opshift.passes.proof.rounding.wide_nodes import WideNode

Array = np.ndarray[Any, Any]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
HIDDEN, FEATURES = 5, 2


def layer(
    operator: str,
    scale: float,
    tokens: int | str,
    *,
    seed: int = 1,
    bias: float = 1.0,
    form: str = "graph",
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a layer whose recurrence weights have this scale, in a graph or in the body of a Scan over one batch."""
    rng = np.random.default_rng(seed)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[operator] * HIDDEN
    weights = {
        "w": rng.normal(size=(directions, rows, FEATURES)) * 0.3,
        "r": rng.normal(size=(directions, rows, HIDDEN)) * scale,
        "b": rng.normal(size=(directions, 2 * rows)) * bias,
    }
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    node = helper.make_node(operator, ["x", "w", "r", "b"], ["y", "y_h"], hidden_size=HIDDEN, **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [tokens, 1, FEATURES])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [tokens, directions, 1, HIDDEN])
    nodes, inputs, outputs = [node], [x], [y]
    if form == "Scan":
        body = helper.make_graph([node], "body", [x], [y])
        nodes = [helper.make_node("Scan", ["xs"], ["ys"], num_scan_inputs=1, body=body)]
        inputs = [helper.make_tensor_value_info("xs", TensorProto.FLOAT, [2, tokens, 1, FEATURES])]
        outputs = [helper.make_tensor_value_info("ys", TensorProto.FLOAT, [2, tokens, directions, 1, HIDDEN])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


RIGHT: dict[str, tuple[str, float, int | str, dict[str, Any]]] = {
    "the error of Tanh, multiplied": ("RNN", 4.0, 8, {"direction": "reverse", "clip": 5.0, "bias": 0}),
    "chaotic states": ("RNN", 8.0, 40, {"direction": "bidirectional", "clip": 5.0, "bias": 0}),
    "gates that are large": ("GRU", 12.0, 13, {"activations": ["LeakyRelu", "Sigmoid"], "linear_before_reset": 1}),
    "states that overflow": ("GRU", 12.0, 30, {"activations": ["Elu", "Relu"]}),
    "states that are clipped at the end of the type": (
        "LSTM",
        8.0,
        40,
        {"activations": ["Relu", "LeakyRelu", "Softplus"]},
    ),
    "a chaotic state of unknown length": ("GRU", 12.0, "t", {"clip": 1.0, "bias": 0}),
    "in a Scan": ("RNN", 8.0, 20, {"clip": 5.0, "bias": 0, "form": "Scan"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", RIGHT)
def test_a_layer_with_large_weights_is_equal_to_its_decomposition(case: str) -> None:
    operator, scale, tokens, attributes = RIGHT[case]
    original = layer(operator, scale, tokens, **attributes)
    report = opshift.convert(original, decompose=[operator]).report
    assert report is not None
    assert report.verdict is Verdict.EQUAL


def _swapped(name: str) -> Callable[[onnx.NodeProto, dict[str, Array]], None]:
    def swap(node: onnx.NodeProto, weights: dict[str, Array]) -> None:
        gates = weights[name].reshape(weights[name].shape[0], -1, HIDDEN, *weights[name].shape[2:])
        gates[:, [0, 1]] = gates[:, [1, 0]]

    return swap


def _without(name: str) -> Callable[[onnx.NodeProto, dict[str, Array]], None]:
    def remove(node: onnx.NodeProto, weights: dict[str, Array]) -> None:
        for attribute in [one for one in node.attribute if one.name == name]:
            node.attribute.remove(attribute)
        if name in weights:
            weights[name][:] = 0

    return remove


def _with(**attributes: Any) -> Callable[[onnx.NodeProto, dict[str, Array]], None]:
    def change(node: onnx.NodeProto, weights: dict[str, Array]) -> None:
        for name, value in attributes.items():
            _without(name)(node, {})
            node.attribute.append(helper.make_attribute(name, value))

    return change


WRONG: Mapping[str, tuple[str, Mapping[str, Any], Callable[[onnx.NodeProto, dict[str, Array]], None]]] = {
    "gates of a GRU swapped": ("GRU", {}, _swapped("r")),
    "gates of an LSTM swapped": ("LSTM", {}, _swapped("w")),
    "biases of gates swapped": ("LSTM", {}, _swapped("b")),
    "no bias": ("RNN", {}, _without("b")),
    "no clip": ("LSTM", {"clip": 0.5}, _without("clip")),
    "the other direction": ("GRU", {"direction": "reverse"}, _with(direction="forward")),
    "reset before": ("GRU", {"linear_before_reset": 1}, _without("linear_before_reset")),
    "another alpha": ("RNN", {"activations": ["HardSigmoid"]}, _with(activation_alpha=[0.25])),
    "another function": ("RNN", {"activations": ["Softsign"]}, _with(activations=["Tanh"])),
    "the last step is lost": ("RNN", {}, lambda node, weights: node.input.extend(["lens"])),
}
SCALES = (1.0, *(pytest.param(scale, marks=pytest.mark.slow) for scale in (0.1, 4.0, 30.0)))


def changed(model: onnx.ModelProto, change: Callable[[onnx.NodeProto, dict[str, Array]], None]) -> onnx.ModelProto:
    wrong = copy.deepcopy(model)
    weights = {one.name: np.array(numpy_helper.to_array(one)) for one in wrong.graph.initializer}
    change(wrong.graph.node[0], weights)
    weights["lens"] = np.array([6], np.int32)
    del wrong.graph.initializer[:]
    wrong.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    return wrong


def last_rows(model: onnx.ModelProto) -> Array:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    x = np.random.default_rng(1).normal(size=(7, 1, FEATURES)).astype(np.float32)
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("fault", WRONG)
def test_a_faulty_layer_is_different_whatever_its_weights(fault: str, scale: float) -> None:
    operator, attributes, change = WRONG[fault]
    original = layer(operator, scale, 7, **attributes)
    wrong = changed(original, change)
    assert np.abs(last_rows(original) - last_rows(wrong)).max() > 1e-3, "the fault does not show"
    assert opshift.verify(original, wrong).verdict is Verdict.DIFFERENT


def test_an_inner_perturbation_keeps_infinities_and_types() -> None:
    given = np.array([np.inf, -np.inf, np.nan, 0.0, 2.0], np.float32)
    with np.errstate(invalid="ignore"):
        moved = InnerRounding(2.0**-20, (0, 0)).moved(given, 1.0)
    assert moved.dtype == np.float32
    assert np.array_equal(moved[:3], given[:3], equal_nan=True)
    assert np.abs(moved[3:] - given[3:]).tolist() == [2.0**-20, 2.0**-19]


def test_a_perturbed_oracle_moves_each_state_by_a_unit_of_one() -> None:
    x, w, r = (np.zeros(shape) for shape in ((3, 1, 1), (1, 1, 1), (1, 1, 1)))
    y, _ = rnn.oracle(rnn.RNN(), x, w, r, rounding=InnerRounding(2.0**-23, (1, 0)))
    assert np.abs(y).ravel().tolist() == [2.0**-23] * 3


@pytest.mark.parametrize(("largest", "suspect"), [(1.0, True), (3e38, False)])
def test_an_oracle_is_not_suspect_where_sums_overflow_inside(largest: float, suspect: bool) -> None:
    node = WideNode.of(helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=1), {"": 17})
    plain = {name: np.ones((1, 1, 1), np.float32) for name in ("w", "r")}
    plain |= {"x": np.full((2, 1, 1), largest, np.float32), "y": np.ones((2, 1, 1, 1), np.float32)}
    results = {"y": -np.ones((2, 1, 1, 1))}
    assert is_suspect(node, plain, results, lambda read, rounding: results) is suspect


def test_an_output_beside_a_recurrence_has_its_own_bound() -> None:
    """One tie of Round moves an element by a whole step, and no other output reads the recurrence."""
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[9,1,2] x, float[1,4,2] w, float[1,4,4] r, float[50] a)
        => (float[9,1,1,4] h, float[50] b) <float s = {{0.1}}, float t = {{{0}}}> {{
        h = RNN <hidden_size = 4> (x, w, r)
        q = Div (a, s) n = Round (q) m = Mul (n, s) b = Mul (m, t)
    }}"""
    right, wrong = (onnx.parser.parse_model(text.format(factor)) for factor in ("1.0", "1.3"))
    assert opshift.verify(right, right).whole.verdict is Verdict.EQUAL
    assert opshift.verify(right, wrong).whole.verdict is Verdict.DIFFERENT
