"""One entry that is large, infinite or missing hides nothing of the others: a wrong result beside it is different."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import opshift
from opshift.passes.base.report import Verdict

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
W, R = (RNG.normal(size=(1, 12, size)).astype(np.float32) for size in (2, 3))
VALUES = RNG.normal(size=(1, 5, 4)).astype(np.float32)


def with_one(array: Array, place: tuple[int, ...], value: float) -> Array:
    changed = array.copy()
    changed[place] = value
    return changed


def node_of(
    operator: str, shapes: dict[str, list[int]], constants: dict[str, Array], names: list[str], **attributes: Any
) -> onnx.ModelProto:
    """Return a model of one node, whose inputs are fed or constants."""
    domain = attributes.pop("domain", "")
    node = helper.make_node(operator, names, ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def of_cell(factor: float) -> onnx.ModelProto:
    cells = with_one(np.full((1, 2, 3), 0.25, np.float32), (0, 0, 0), 1e6)
    constants = {"w": W * np.float32(factor), "r": R, "c": cells}
    return node_of("LSTM", {"x": [4, 2, 2]}, constants, ["x", "w", "r", "", "", "", "c"], hidden_size=3)


def of_bias(factor: float) -> onnx.ModelProto:
    bias = with_one(np.zeros((1, 18), np.float32), (0, 9), 1e6)  # of another gate than the hidden one
    constants = {"w": W[:, :9] * np.float32(factor), "r": R[:, :9], "b": bias}
    return node_of("GRU", {"x": [4, 2, 2]}, constants, ["x", "w", "r", "b"], hidden_size=3, linear_before_reset=1)


def of_weight(factor: float) -> onnx.ModelProto:
    weights = with_one(np.ones((1, 2, 2, 2), np.float32), (0, 0, 0, 0), np.inf)
    weights[0, 1] *= np.float32(factor)
    return node_of("ConvTranspose", {"x": [1, 1, 3, 3]}, {"w": weights}, ["x", "w"])


def of_value(factor: float) -> onnx.ModelProto:
    values = with_one(VALUES, (0, 0, 3), 1e6)
    values[..., 0] *= np.float32(factor)
    shapes = {"q": [1, 2, 4], "k": [1, 5, 4]}
    names = ["q", "k", "v"]
    return node_of("MultiHeadAttention", shapes, {"v": values}, names, num_heads=2, domain="com.microsoft")


def of_state(factor: float) -> onnx.ModelProto:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[3,2] x) => (float[0] s, float[3,2] y) <float[0] e = {}>
        { s, y = Scan<num_scan_inputs = 1, body = g (float[0] a, float[2] b) => (float[0] c, float[2] d)
        <float f = {FACTOR}> { c = Identity(a) d = Mul(b, f) }>(e, x) }"""
    return onnx.parser.parse_model(text.replace("FACTOR", str(factor)))


@pytest.mark.parametrize("made", [of_cell, of_bias, of_weight, of_value, of_state])
def test_a_wrong_result_beside_it_is_different(made: Any) -> None:
    assert opshift.verify(made(1.0), made(1.02)).verdict is Verdict.DIFFERENT
