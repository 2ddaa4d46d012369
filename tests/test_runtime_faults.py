"""Runtimes compute nodes wrongly, or do not run them, that their profiles limit; what is left runs right.

They need the extra `runtimes`, as tests/test_runtimes.py does.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.parser import parse_graph
from runtimes import Runtime, version

import opshift
from opshift.passes.measurement.isolated import Array, RefusedError, alike

pytestmark = pytest.mark.slow


@functools.cache
def runtime(name: str) -> Runtime:
    """Return a runtime that is installed."""
    if version(name) is None:
        if os.environ.get("OPSHIFT_RUNTIMES") == "1":
            pytest.fail(f"not installed: {name}")
        pytest.skip(f"not installed: {name}")
    return Runtime(name)


@pytest.fixture(scope="module", autouse=True)
def _ended() -> Any:
    yield
    for name in ("mnn", "openvino", "opencv-4", "ncnn", "tract", "onnxruntime"):
        if version(name):
            runtime(name).close()


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(
    operator: str,
    opset: int,
    *,
    lengths: bool = False,
    dynamic: bool = False,
    peepholes: bool = False,
    made: tuple[str, ...] = (),
    states: str = "",
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return one recurrent node over five tokens of two sequences, and inputs."""
    rng = np.random.default_rng(0)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    gates = 4 * GATES[operator]
    weights = [
        numpy_helper.from_array(rng.uniform(-0.5, 0.5, (directions, *shape)).astype(np.float32), name)
        for name, shape in (("w", (gates, 3)), ("r", (gates, 4)), ("b", (2 * gates,)))
    ]
    feeds: dict[str, Array] = {"x": rng.normal(size=(5, 2, 3)).astype(np.float32)}
    inputs = [helper.make_tensor_value_info("x", 1, ["t", "n", 3] if dynamic else [5, 2, 3])]
    if lengths:
        feeds["lengths"] = np.array([5, 2], np.int32)
        inputs.append(helper.make_tensor_value_info("lengths", 6, ["n"] if dynamic else [2]))
    names = ["x", "w", "r", "b", *(["lengths"] if lengths else [])]
    if peepholes:
        weights.append(numpy_helper.from_array(rng.uniform(-0.5, 0.5, (directions, 12)).astype(np.float32), "p"))
        names += ["", "", "", "p"]
    if states:  # of the initial h and c: - none, k a constant, x an input
        names += ["", *("" if kind == "-" else f"initial_{kind}{place}" for place, kind in enumerate(states))]
        for place, kind in enumerate(states):
            state = rng.uniform(-0.5, 0.5, (directions, 2, 4)).astype(np.float32)
            if kind == "k":
                weights.append(numpy_helper.from_array(state, f"initial_k{place}"))
            elif kind == "x":
                feeds[f"initial_x{place}"] = state
                inputs.append(helper.make_tensor_value_info(f"initial_x{place}", 1, [directions, 2, 4]))
    made = made or (("y", "h", "c") if operator == "LSTM" else ("y", "h"))
    node = helper.make_node(operator, names, made, hidden_size=4, **attributes)
    token: list[str | int | None] = ["t", directions, "n", 4] if dynamic else [5, directions, 2, 4]
    last: list[str | int | None] = [directions, *token[2:]]
    outputs = [helper.make_tensor_value_info(one, 1, token if one == "y" else last) for one in made if one]
    graph = helper.make_graph([node], "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), feeds


def outcome(name: str, model: onnx.ModelProto, feeds: Mapping[str, Array]) -> str:
    """Return whether a runtime gives the numbers of onnxruntime, other numbers, or none."""
    wanted = runtime("onnxruntime").run(model, feeds)
    try:
        found = runtime(name).run(model, feeds)
    except RefusedError:
        return "refused"
    return "right" if all(alike(found[one], wanted[one]) for one in wanted) else "wrong"


FORMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "GRU that resets first": ("mnn", "GRU", {"linear_before_reset": 0}),
    "GRU of lengths": ("mnn", "GRU", {"linear_before_reset": 1, "lengths": True}),
    "reverse GRU": ("mnn", "GRU", {"linear_before_reset": 1, "direction": "reverse"}),
    "reverse LSTM": ("mnn", "LSTM", {"direction": "reverse"}),
    "clipped LSTM": ("mnn", "LSTM", {"clip": 0.3}),
    "LSTM of lengths": ("mnn", "LSTM", {"lengths": True}),
    "reverse RNN": ("mnn", "RNN", {"direction": "reverse"}),
    "RNN of Relu": ("mnn", "RNN", {"activations": ["Relu"]}),
    "RNN of lengths": ("mnn", "RNN", {"lengths": True}),
    "GRU of lengths, dynamic": ("openvino", "GRU", {"lengths": True, "dynamic": True}),
    "LSTM of lengths, dynamic": ("openvino", "LSTM", {"lengths": True, "dynamic": True}),
    "RNN of lengths, dynamic": ("openvino", "RNN", {"lengths": True, "dynamic": True}),
    "reverse LSTM in OpenCV": ("opencv-4", "LSTM", {"direction": "reverse"}),
    "clipped LSTM in OpenCV": ("opencv-4", "LSTM", {"clip": 0.3}),
    "GRU of Softsign": ("mnn", "GRU", {"linear_before_reset": 1, "activations": ["Sigmoid", "Softsign"]}),
    "RNN of Sigmoid": ("mnn", "RNN", {"activations": ["Sigmoid"]}),
    "LSTM of peepholes in OpenCV": ("opencv-4", "LSTM", {"peepholes": True}),
    **{
        f"{operator}, last state": ("mnn", operator, {"made": ("", "h"), **more})
        for operator, more in (("RNN", {}), ("GRU", {"linear_before_reset": 1}))
    },
    "LSTM of both directions, last states": ("mnn", "LSTM", {"made": ("", "h", "c"), "direction": "bidirectional"}),
    "LSTM, last cell state in OpenCV": ("opencv-4", "LSTM", {"made": ("", "", "c")}),
    **{f"reverse {operator} in tract": ("tract", operator, {"direction": "reverse"}) for operator in ("RNN", "GRU")},
    **{f"clipped {operator} in tract": ("tract", operator, {"clip": 0.3}) for operator in ("RNN", "GRU")},
    "RNN of Relu in tract": ("tract", "RNN", {"activations": ["Relu"]}),
    "GRU of Softsign in tract": ("tract", "GRU", {"activations": ["Sigmoid", "Softsign"]}),
    "LSTM of two states that couples gates in tract": ("tract", "LSTM", {"states": "kk", "input_forget": 1}),
}
NOT_LOADED: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{
        f"LSTM of initial states {states} in OpenCV": ("opencv-4", "LSTM", {"states": states})
        for states in ("x-", "-x", "xk", "kx")
    },
    **{
        f"LSTM that returns {', '.join(made)}": ("mnn", "LSTM", {"made": made})
        for made in (("y",), ("", "h"), ("y", "h"))
    },
    "LSTM of Elu": ("mnn", "LSTM", {"activations": ["Sigmoid", "Elu", "Tanh"]}),
    "LSTM of Relu in OpenCV": ("opencv-4", "LSTM", {"activations": ["Sigmoid", "Tanh", "Relu"]}),
    "LSTM of both directions, with activations, in OpenCV": (
        "opencv-4",
        "LSTM",
        {"direction": "bidirectional", "activations": ["Sigmoid", "Tanh", "Tanh"] * 2},
    ),
    "LSTM of both directions and peepholes in OpenCV": (
        "opencv-4",
        "LSTM",
        {"direction": "bidirectional", "peepholes": True},
    ),
    "GRU of Elu": ("openvino", "GRU", {"activations": ["Sigmoid", "Elu"]}),
    **{
        f"{operator} of lengths in tract": ("tract", operator, {"lengths": True}) for operator in ("RNN", "GRU", "LSTM")
    },
    "LSTM that returns all states in tract": ("tract", "LSTM", {}),
    "RNN of Softsign": ("openvino", "RNN", {"activations": ["Softsign"]}),
}


@pytest.mark.parametrize(("name", "operator", "form"), NOT_LOADED.values(), ids=list(NOT_LOADED))
def test_a_recurrence_that_is_not_loaded_is_replaced(name: str, operator: str, form: dict[str, Any]) -> None:
    model, feeds = recurrent(operator, 13, **form)
    assert outcome(name, model, feeds) == "refused"
    result = opshift.convert(model, target=name, verify=False).rewritten
    assert outcome(name, result, feeds) == "right"


@pytest.mark.parametrize(("name", "operator", "form"), FORMS.values(), ids=list(FORMS))
def test_a_wrong_recurrence_is_replaced(name: str, operator: str, form: dict[str, Any]) -> None:
    model, feeds = recurrent(operator, 13, **form)
    assert outcome(name, model, feeds) == "wrong"
    result = opshift.convert(model, target=name, verify=False).rewritten
    assert all(node.op_type != operator for node in result.graph.node)
    assert outcome(name, result, feeds) == "right"


RIGHT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "GRU": ("mnn", "GRU", {"linear_before_reset": 1}),
    "LSTM": ("mnn", "LSTM", {}),
    "LSTM of both directions": ("mnn", "LSTM", {"direction": "bidirectional"}),
    "RNN of Tanh": ("mnn", "RNN", {"activations": ["Tanh"]}),
    "GRU of lengths, static": ("openvino", "GRU", {"lengths": True}),
    "LSTM of lengths, static": ("openvino", "LSTM", {"lengths": True}),
    "GRU, dynamic": ("openvino", "GRU", {"dynamic": True}),
    "LSTM in OpenCV": ("opencv-4", "LSTM", {}),
    "LSTM of two initial states in OpenCV": ("opencv-4", "LSTM", {"states": "xx"}),
    "LSTM of two constant initial states in OpenCV": ("opencv-4", "LSTM", {"states": "kk"}),
    "LSTM of a constant initial state in OpenCV": ("opencv-4", "LSTM", {"states": "k-"}),
    "LSTM, last state in OpenCV": ("opencv-4", "LSTM", {"made": ("", "h")}),
    "LSTM, rows and last cell state": ("mnn", "LSTM", {"made": ("y", "", "c")}),
    "GRU, rows": ("mnn", "GRU", {"linear_before_reset": 1, "made": ("y",)}),
    "RNN of Relu in OpenVINO": ("openvino", "RNN", {"activations": ["Relu"]}),
    "RNN in tract": ("tract", "RNN", {}),
    "GRU of an initial state in tract": ("tract", "GRU", {"states": "x", "linear_before_reset": 1}),
    "GRU of both directions in tract": (
        "tract",
        "GRU",
        {"direction": "bidirectional", "activations": ["Sigmoid", "Tanh"] * 2},
    ),
    "LSTM of initial states in tract": ("tract", "LSTM", {"states": "xk"}),
    "LSTM of both directions in tract": ("tract", "LSTM", {"direction": "bidirectional"}),
    "LSTM, last state in tract": ("tract", "LSTM", {"made": ("y", "h")}),
    "LSTM of peepholes in tract": ("tract", "LSTM", {"peepholes": True, "made": ("y",)}),
}


@pytest.mark.parametrize(("name", "operator", "form"), RIGHT.values(), ids=list(RIGHT))
def test_a_right_recurrence_is_kept(name: str, operator: str, form: dict[str, Any]) -> None:
    model, feeds = recurrent(operator, 13, **form)
    assert opshift.plan(model, target=name).nothing_to_do
    assert outcome(name, model, feeds) == "right"


SHAPES = {
    "a dimension": ("d = Gather (s, i) e = Unsqueeze (d, z) k = Concat <axis = 0> (e, m) y = Reshape (x, k)", "right"),
    "a fed shape": ("y = Reshape (x, fed)", "refused"),
    "as many ones": ("o = ConstantOfShape <value = float[1] {1.0}> (s) y = Add (x, o)", "right"),
    "a slice to a dimension": ("k = Slice (s, z, f) y = Slice (x, z, k, z)", "right"),
    "a slice to a fed end": ("k = Slice (fed, z, f) y = Slice (x, z, k, z)", "refused"),
}


@pytest.mark.parametrize(("body", "wanted"), SHAPES.values(), ids=list(SHAPES))
def test_tract_reads_shapes_that_follow_from_dimensions(body: str, wanted: str) -> None:
    graph = parse_graph(
        f"""g (float[n,6] x, int64[2] fed) => (float[?,?] y) <int64 i = {{0}}, int64[1] z = {{0}}, int64[1] f = {{1}},
        int64[1] m = {{-1}}> {{ s = Shape (x) {body} u = Identity (fed) }}"""
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds: dict[str, Any] = {"x": np.arange(12, dtype=np.float32).reshape(2, 6), "fed": np.array([2, 6], np.int64)}
    assert outcome("tract", model, feeds) == wanted
    plan = opshift.plan(model, target="tract", input_shapes={"x": (2, 6)})
    assert plan.possible == (body != SHAPES["a fed shape"][0])
    assert bool(plan.lowered) == (plan.possible and wanted == "refused")
    if plan.possible:
        result = opshift.convert(model, target="tract", input_shapes={"x": (2, 6)}).rewritten
        assert outcome("tract", result, feeds) == "right"


def test_opencv_reflects_two_axes_once_they_are_looked_up() -> None:
    pads = numpy_helper.from_array(np.array([0, 0, 0, 3]), "pads")
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect")
    infos = [helper.make_tensor_value_info(name, 1, [2, size]) for name, size in (("x", 6), ("y", 9))]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:], [pads])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(2, 6)}
    assert outcome("opencv-4", model, feeds) == "refused"
    assert outcome("opencv-4", opshift.convert(model, target="opencv-4").rewritten, feeds) == "right"


@pytest.mark.parametrize("operator", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum"])
def test_mnn_broadcasts_a_constant_of_few_axes_over_a_convolution(operator: str) -> None:
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=(8, 8, 1)).astype(np.float32), "w"),
        numpy_helper.from_array(np.full((1, 1, 1), 1.5, np.float32), "k"),
    ]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node(operator, ["k", "c"], ["y"])]
    infos = [helper.make_tensor_value_info(name, 1, [1, 8, 6]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feeds = {"x": rng.normal(size=(1, 8, 6)).astype(np.float32)}
    assert outcome("mnn", model, feeds) == "wrong"
    assert outcome("mnn", opshift.convert(model, target="mnn").rewritten, feeds) == "right"


# runtime, operator, opset, shapes of the inputs (the second and the third are constants), attributes
OTHERS: dict[str, tuple[str, str, int, list[tuple[int, ...]], dict[str, Any]]] = {
    "ConvTranspose, SAME_LOWER": (
        "mnn",
        "ConvTranspose",
        13,
        [(1, 2, 5, 6), (2, 3, 3, 3)],
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ),
    "MaxPool, SAME_LOWER": (
        "mnn",
        "MaxPool",
        13,
        [(1, 2, 6, 6)],
        {"auto_pad": "SAME_LOWER", "kernel_shape": [3, 3], "strides": [2, 2]},
    ),
    "Gemm, transposed A": ("mnn", "Gemm", 13, [(4, 3), (4, 5)], {"transA": 1}),
    "Gemm, both transposed": ("mnn", "Gemm", 13, [(4, 3), (5, 4)], {"transA": 1, "transB": 1}),
    "Max of three": ("mnn", "Max", 13, [(2, 3), (3,), (1,)], {}),
    "AveragePool that counts the padding": (
        "openvino",
        "AveragePool",
        13,
        [(1, 2, 6, 6)],
        {"ceil_mode": 1, "count_include_pad": 1, "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    "LpPool up to the end": (
        "openvino",
        "LpPool",
        18,
        [(1, 2, 6, 6)],
        {"ceil_mode": 1, "kernel_shape": [3, 3], "strides": [2, 2]},
    ),
    "Sum of three": ("mnn", "Sum", 13, [(2, 3), (3,), (1,)], {}),
}


@pytest.mark.parametrize(("name", "operator", "opset", "shapes", "attributes"), OTHERS.values(), ids=list(OTHERS))
def test_what_a_runtime_computes_wrongly_is_replaced(
    name: str, operator: str, opset: int, shapes: list[tuple[int, ...]], attributes: dict[str, Any]
) -> None:
    rng = np.random.default_rng(0)
    names = [f"x{index}" for index in range(len(shapes))]
    arrays = {one: rng.normal(size=shape).astype(np.float32) for one, shape in zip(names, shapes, strict=True)}
    weights = [numpy_helper.from_array(arrays[one], one) for one in names[1:]]
    node = helper.make_node(operator, names, ["y"], **attributes)
    inputs = [helper.make_tensor_value_info("x0", 1, list(shapes[0]))]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    assert outcome(name, model, {"x0": arrays["x0"]}) == "wrong"
    result = opshift.convert(model, target=name)
    assert outcome(name, result.rewritten, {"x0": arrays["x0"]}) == "right"


# --- nodes of several inputs, some of them constant -------------------------------------------------------------------

PLACES = np.array([[0, -1], [1, 2]], np.int64)
CUBE = np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.linspace(-3, 3, 40, dtype=np.float32).reshape(1, 2, 4, 5)[:, :, ::-1].copy()
VOLUME = np.random.default_rng(0).normal(size=(2, 3, 4, 5, 2)).astype(np.float32)
ONE = np.array([[[[1.5]]]], np.float32)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


# runtime, nodes as text, inputs, constants, and what the runtime makes of the original
REPAIRED: dict[str, tuple[str, str, dict[str, Array], dict[str, Array], str]] = {
    "negative indices of GatherElements": (
        "mnn",
        "y = GatherElements <axis = 1> (x, k)",
        {"x": CUBE},
        {"k": ints(-1, 0, 1, 2).reshape(1, 1, 4)},
        "wrong",
    ),
    "computed indices of GatherElements": (
        "mnn",
        "y = GatherElements <axis = 1> (x, k)",
        {"x": CUBE, "k": ints(-1, 0, 1, 2).reshape(1, 1, 4)},
        {},
        "wrong",
    ),
    "negative indices of GatherND": ("mnn", "y = GatherND (x, k)", {"x": CUBE}, {"k": PLACES}, "wrong"),
    "negative indices of ScatterElements": (
        "mnn",
        "y = ScatterElements <axis = 1> (x, k, u)",
        {"x": CUBE},
        {"k": ints(-1, 0, 1, 2).reshape(1, 1, 4), "u": CUBE[:1, :1] * 10},
        "wrong",
    ),
    "negative indices of ScatterND": (
        "mnn",
        "y = ScatterND (x, k, u)",
        {"x": CUBE, "u": CUBE[0, :2] * 10},
        {"k": PLACES},
        "wrong",
    ),
    "several indices of ScatterND": (
        "mnn",
        "y = ScatterND (x, k, u)",
        {"x": CUBE},
        {"k": abs(PLACES), "u": CUBE[0, :2] * 10},
        "wrong",
    ),
    "Slice from before the axis": (
        "mnn",
        "y = Slice (x, s, e, a)",
        {"x": CUBE},
        {"s": ints(-100), "e": ints(100), "a": ints(1)},
        "wrong",
    ),
    "negative pads": (
        "mnn",
        "y = Pad (x, p)",
        {"x": CUBE[0]},
        {"p": ints(-1, 1, 0, -1)},
        "wrong",
    ),
    "Resize up to the next": (
        "mnn",
        'y = Resize <mode = "nearest", nearest_mode = "ceil"> (x, , s)',
        {"x": IMAGE},
        {"s": np.array([1, 1, 2, 3], np.float32)},
        "wrong",
    ),
    "Resize without a mode": (
        "mnn",
        'y = Resize <coordinate_transformation_mode = "asymmetric"> (x, , s)',
        {"x": IMAGE},
        {"s": np.array([1, 1, 2, 3], np.float32)},
        "wrong",
    ),
    "maxima of volumes": ("mnn", "y = GlobalMaxPool (x)", {"x": VOLUME}, {}, "wrong"),
    "averages of volumes": ("mnn", "y = GlobalAveragePool (x)", {"x": VOLUME}, {}, "wrong"),
    "MaxPool without strides": ("mnn", "y = MaxPool <kernel_shape = [2, 2]> (x)", {"x": IMAGE}, {}, "refused"),
    "AveragePool without strides": ("mnn", "y = AveragePool <kernel_shape = [2, 2]> (x)", {"x": IMAGE}, {}, "refused"),
    # It ends the process, or not.
    "LogSoftmax without an axis": ("mnn", "y = LogSoftmax (x)", {"x": CUBE}, {}, "refused or wrong"),
    "indices of maxima, by columns": (
        "mnn",
        "m, y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], storage_order = 1> (x)",
        {"x": IMAGE},
        {},
        "wrong",
    ),
    "dilated ConvTranspose": (
        "opencv-4",
        "y = ConvTranspose <dilations = [2, 2]> (x, w)",
        {"x": IMAGE},
        {"w": np.ones((2, 1, 3, 3), np.float32)},
        "wrong",
    ),
    **{
        f"{operator} of a constant with more axes than a Conv": (
            "mnn",
            f"c = Conv (x, w) y = {operator} (c, k)",
            {"x": IMAGE[:, :, 0]},
            {"w": np.eye(2, dtype=np.float32)[:, :, None], "k": ONE},
            "wrong",
        )
        for operator in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")
    },
    "padding that is counted at one end": (
        "mnn",
        "y = AveragePool <kernel_shape = [3, 3], strides = [2, 3], pads = [1, 0, 2, 1], count_include_pad = 1> (x)",
        {"x": IMAGE},
        {},
        "wrong",
    ),
    "Softplus of large numbers": ("mnn", "y = Softplus (x)", {"x": np.array([-100, 1, 100], np.float32)}, {}, "wrong"),
    "trace by Einsum": ("mnn", 'y = Einsum <equation = "ii->"> (x)', {"x": CUBE[0, :, :3].copy()}, {}, "wrong"),
    "AveragePool that counts the padding": (
        "opencv-4",
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1> (x)",
        {"x": IMAGE},
        {},
        "wrong",
    ),
    "Gemm that adds a computed row": (
        "opencv-4",
        "y = Gemm (x, w, c)",
        {"x": CUBE[0], "c": CUBE[0, :1]},
        {"w": np.eye(4, dtype=np.float32)},
        "wrong",
    ),
    "Unsqueeze of two axes": ("opencv-4", "y = Unsqueeze (x, a)", {"x": CUBE}, {"a": ints(0, 4)}, "refused"),
    "edges of a matrix": (
        "opencv-4",
        'y = Pad <mode = "edge"> (x, p)',
        {"x": CUBE[0]},
        {"p": ints(1, 1, 0, 2)},
        "refused",
    ),
    "Slice backward": (
        "opencv-4",
        "y = Slice (x, s, e, a, t)",
        {"x": CUBE},
        {"s": ints(-1), "e": ints(-100), "a": ints(1), "t": ints(-1)},
        "refused",
    ),
    "sums of squares of one": (
        "opencv-4",
        "y = ReduceSumSquare <axes = [1]> (x)",
        {"x": CUBE[:, :1].copy()},
        {},
        "wrong",
    ),
    "Softplus of large numbers in OpenCV": (
        "opencv-4",
        "y = Softplus (x)",
        {"x": np.array([[-100, 1, 100]], np.float32)},
        {},
        "wrong",
    ),
}


def written(text: str, inputs: Mapping[str, Array], constants: Mapping[str, Array]) -> onnx.ModelProto:
    """Return a model at opset 13 of nodes that are written as text."""
    graph = parse_graph(f"g () => (float y) {{ {text} }}")
    graph.input.extend(
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    )
    graph.output[0].type.ClearField("tensor_type")  # onnx infers it
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.mark.parametrize(("name", "text", "inputs", "constants", "before"), REPAIRED.values(), ids=list(REPAIRED))
def test_what_a_runtime_does_not_run_right_is_replaced(
    name: str, text: str, inputs: dict[str, Array], constants: dict[str, Array], before: str
) -> None:
    model = written(text, inputs, constants)
    assert outcome(name, model, inputs) in before.split(" or ")
    (fit,) = opshift.where(model, [name]).fits
    assert str(fit.outcome) == "converts"
    assert outcome(name, opshift.convert(model, target=name).rewritten, inputs) == "right"


UNTOUCHED: dict[str, tuple[str, str, dict[str, Array], dict[str, Array]]] = {
    "GatherElements": ("mnn", "y = GatherElements (x, k)", {"x": CUBE}, {"k": ints(1, 0, 1, 1).reshape(1, 1, 4)}),
    "the last elements": (
        "mnn",
        "y = Slice (x, s, e, a)",
        {"x": CUBE},
        {"s": ints(-2), "e": ints(2**62), "a": ints(2)},
    ),
    "Slice to behind the axis": (
        "mnn",
        "y = Slice (x, s, e, a)",
        {"x": CUBE},
        {"s": ints(1), "e": ints(100), "a": ints(1)},
    ),
    "nearest": (
        "mnn",
        'y = Resize <mode = "nearest", nearest_mode = "floor"> (x, , s)',
        {"x": IMAGE},
        {"s": np.array([1, 1, 2, 3], np.float32)},
    ),
    "a constant by channel": (
        "mnn",
        "c = Conv (x, w) y = Add (c, k)",
        {"x": IMAGE[:, :, 0]},
        {"w": np.eye(2, dtype=np.float32)[:, :, None], "k": ONE.reshape(1, 1)},
    ),
    "Unsqueeze": ("opencv-4", "y = Unsqueeze (x, a)", {"x": CUBE}, {"a": ints(0)}),
    "a row that is added": ("opencv-4", "y = Add (x, k)", {"x": CUBE[0]}, {"k": CUBE[0, 0]}),
    "two vectors": ("opencv-4", "y = Add (x, k)", {"x": CUBE[0, 0], "k": CUBE[0, 1]}, {}),
    "AveragePool": (
        "opencv-4",
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
        {"x": IMAGE},
        {},
    ),
    "windows with dilations of one": (
        "opencv-4",
        "y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], dilations = [1, 1]> (x)",
        {"x": IMAGE},
        {},
    ),
}


@pytest.mark.parametrize(("name", "text", "inputs", "constants"), UNTOUCHED.values(), ids=list(UNTOUCHED))
def test_what_a_runtime_runs_right_is_kept(
    name: str, text: str, inputs: dict[str, Array], constants: dict[str, Array]
) -> None:
    model = written(text, inputs, constants)
    assert str(opshift.where(model, [name]).fits[0].outcome) == "runs"
    assert outcome(name, model, inputs) == "right"


REFUSED: dict[str, tuple[str, str, dict[str, Array], dict[str, Array], str]] = {
    "a vector beside a constant one": (
        "opencv-4",
        "y = Max (x, k)",
        {"x": CUBE[0, 0]},
        {"k": CUBE[0, 1]},
        "it takes no computed input of one axis beside others than scalars",
    ),
}


@pytest.mark.parametrize(("name", "text", "inputs", "constants", "words"), REFUSED.values(), ids=list(REFUSED))
def test_what_a_runtime_computes_wrongly_and_nothing_replaces_is_refused(
    name: str, text: str, inputs: dict[str, Array], constants: dict[str, Array], words: str
) -> None:
    model = written(text, inputs, constants)
    assert outcome(name, model, inputs) == "wrong"
    (fit,) = opshift.where(model, [name]).fits
    assert words in fit.refusals[0].reason


def of_ncnn(text: str, inputs: Mapping[str, Array], constants: Mapping[str, Array], opset: int = 12) -> onnx.ModelProto:
    """Return a model of nodes that are written as text, at an opset of the profile of ncnn."""
    model = written(text, inputs, constants)
    model.opset_import[0].version = opset
    model.graph.output[0].type.ClearField("tensor_type")
    return onnx.shape_inference.infer_shapes(model)


SIGNED = np.array([[-2, 3, -1, 0.5], [1, -3, 2, -0.25]], np.float32)
SQUARES = np.linspace(-2, 2, 2 * 8 * 8, dtype=np.float32).reshape(1, 2, 8, 8)[..., ::-1].copy()
SPREAD = np.array([[-200, 50, 89, 3]], np.float32)

NCNN: dict[str, tuple[str, dict[str, Array], dict[str, Array], str, str]] = {
    # The model, what ncnn makes of it, and what opshift makes of it.
    "powers of negative numbers": (
        "y = Pow (x, k)",
        {"x": SIGNED},
        {"k": np.array(3, np.float32)},
        "wrong",
        "converts",
    ),
    "squares": ("y = Pow (x, k)", {"x": SIGNED}, {"k": np.array(2, np.float32)}, "right", "runs"),
    "Softplus": ("y = Softplus (x)", {"x": SPREAD}, {}, "wrong", "converts"),
    "LogSoftmax": ("y = LogSoftmax (x)", {"x": SPREAD}, {}, "wrong", "converts"),
    "Softmax over several axes": ("y = Softmax <axis = 1> (x)", {"x": CUBE}, {}, "wrong", "converts"),
    "Softmax": ("y = Softmax <axis = 2> (x)", {"x": CUBE}, {}, "right", "runs"),
    "alpha without C": ("y = Gemm <alpha = 0.5> (x, w)", {"x": SIGNED}, {"w": SIGNED.T}, "wrong", "converts"),
    "C of two axes": (
        "y = Gemm (x, w, c)",
        {"x": SIGNED},
        {"w": SIGNED.T, "c": ONE.reshape(1, 1)},
        "refused",
        "converts",
    ),
    "a window at the begin": (
        "y = MaxPool <kernel_shape = [4, 4], pads = [1, 1, 0, 0]> (x)",
        {"x": SQUARES},
        {},
        "wrong",
        "refused",
    ),
    "a window at the end": (
        "y = MaxPool <kernel_shape = [4, 4], pads = [0, 0, 1, 1]> (x)",
        {"x": SQUARES},
        {},
        "right",
        "runs",
    ),
    "an average at the begin": (
        "y = AveragePool <kernel_shape = [4, 4], pads = [1, 1, 0, 0]> (x)",
        {"x": SQUARES},
        {},
        "refused",
        "converts",
    ),
    "a reversed Transpose": ("y = Transpose (x)", {"x": CUBE}, {}, "refused", "refused"),
    "integers": ("y = Abs (x)", {"x": SIGNED.astype(np.int32)}, {}, "wrong", "refused"),
    "a start before the axis": (
        "z = Neg (x) y = Slice (z, s, e, a)",
        {"x": SIGNED},
        {"s": ints(-9), "e": ints(3), "a": ints(1)},
        "wrong",
        "converts",
    ),
    "steps": (
        "y = Slice (x, s, e, a, d)",
        {"x": SIGNED},
        {"s": ints(0), "e": ints(4), "a": ints(1), "d": ints(2)},
        "refused",
        "refused",
    ),
}


@pytest.mark.parametrize(("text", "inputs", "constants", "before", "claim"), NCNN.values(), ids=list(NCNN))
def test_claims_of_ncnn(
    text: str, inputs: dict[str, Array], constants: dict[str, Array], before: str, claim: str
) -> None:
    model = of_ncnn(text, inputs, constants)
    assert outcome("ncnn", model, inputs) == before
    (fit,) = opshift.where(model, ["ncnn"]).fits
    assert str(fit.outcome) == claim
    if claim == "converts":
        assert outcome("ncnn", opshift.convert(model, target="ncnn", verify=False).rewritten, inputs) == "right"


OPENCV: dict[str, tuple[str, dict[str, Array], dict[str, Array], str, str]] = {
    "Cast of fractions": (
        "i = Cast <to = 7> (x) y = Cast <to = 1> (i)",
        {"x": SIGNED},
        {},
        "wrong",
        "refused",
    ),
    "edges of channels": (
        'y = Pad <mode = "edge"> (x, p)',
        {"x": SQUARES},
        {"p": ints(0, 1, 0, 0, 0, 0, 0, 0)},
        "refused",
        "converts",
    ),
    "edges of images": (
        'y = Pad <mode = "edge"> (x, p)',
        {"x": SQUARES},
        {"p": ints(0, 0, 1, 0, 0, 0, 0, 2)},
        "right",
        "runs",
    ),
    "fewer indices": (
        "y = GatherElements <axis = 1> (x, i)",
        {"x": SIGNED},
        {"i": ints(0, 2, 3, 1).reshape(1, 4)},
        "refused",
        "converts",
    ),
}


@pytest.mark.parametrize(("text", "inputs", "constants", "before", "claim"), OPENCV.values(), ids=list(OPENCV))
def test_claims_of_opencv(
    text: str, inputs: dict[str, Array], constants: dict[str, Array], before: str, claim: str
) -> None:
    model = written(text, inputs, constants)
    assert outcome("opencv-4", model, inputs) == before
    (fit,) = opshift.where(model, ["opencv-4"]).fits
    assert str(fit.outcome) == claim
    if claim == "converts":
        assert outcome("opencv-4", opshift.convert(model, target="opencv-4", verify=False).rewritten, inputs) == "right"
