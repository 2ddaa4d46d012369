"""A detector for images of any size runs in OpenCV once its shapes are fixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_folding import run

import opshift
from opshift.passes.base.errors import UnsupportedError


def detector() -> onnx.ModelProto:
    """Two scales of features, joined by a Resize to computed sizes, and anchors counted by Range, as YOLO has them."""
    rng = np.random.default_rng(0)
    kind = helper.make_tensor_value_info
    floats = {
        "w1": rng.standard_normal((4, 3, 3, 3)) / 5,
        "w2": rng.standard_normal((4, 4, 3, 3)) / 6,
        "w3": rng.standard_normal((6, 8, 1, 1)) / 3,
        "half": np.array(0.5),
    }
    integers = {
        "i0": 0, "i1": 1, "i2": 2, "i3": 3, "v0": [0], "v2": [2], "v4": [4], "six": [6], "free": [-1], "twice": [2, 2],
        "one": [1],
    }  # fmt: skip
    held = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in floats.items()]
    held += [numpy_helper.from_array(np.asarray(array, np.int64), name) for name, array in integers.items()]
    node = helper.make_node
    resized = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    nodes = [
        node("Conv", ["images", "w1"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Shape", ["c"], ["s"]),
        node("Slice", ["s", "v0", "v2", "v0"], ["front"]),
        node("Slice", ["s", "v2", "v4", "v0"], ["size"]),
        node("Mul", ["size", "twice"], ["large"]),
        node("Concat", ["front", "large"], ["sizes"], axis=0),
        node("Resize", ["c", "", "", "sizes"], ["d"], **resized),
        node("Concat", ["b", "d"], ["e"], axis=1),
        node("Conv", ["e", "w3"], ["f"]),
        node("Shape", ["f"], ["t"]),
        node("Gather", ["t", "i0"], ["n"]),
        node("Unsqueeze", ["n", "v0"], ["n1"]),
        node("Concat", ["n1", "six", "free"], ["flat"], axis=0),
        node("Reshape", ["f", "flat"], ["g"]),
        node("Gather", ["t", "i2"], ["rows"]),
        node("Gather", ["t", "i3"], ["columns"]),
        node("Mul", ["rows", "columns"], ["count"]),
        node("Range", ["i0", "count", "i1"], ["places"]),
        node("Mod", ["places", "columns"], ["xs"]),
        node("Cast", ["xs"], ["xf"], to=TensorProto.FLOAT),
        node("Add", ["xf", "half"], ["anchors"]),
        node("Unsqueeze", ["anchors", "v0"], ["anchors2"]),
        node("Add", ["g", "anchors2"], ["boxes"]),
    ]
    inputs = [kind("images", TensorProto.FLOAT, ["batch", 3, "height", "width"])]
    outputs = [kind("boxes", TensorProto.FLOAT, ["batch", 6, None])]
    graph = helper.make_graph(nodes, "detector", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def test_a_detector_with_fixed_shapes_runs_in_opencv(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    model = detector()
    with pytest.raises(UnsupportedError) as caught:
        opshift.convert(model, target="opencv-4")
    assert all("--input-shape images:1,3," in refusal.hint for refusal in caught.value.refusals)
    result = opshift.convert(model, target="opencv-4", input_shapes={"images": (1, 3, 32, 48)})
    assert not {node.op_type for node in result.rewritten.graph.node} & {"Shape", "Range", "Gather", "Mod"}
    path = tmp_path / "static.onnx"
    result.save(path)
    net = cv2.dnn.readNetFromONNX(str(path))
    x = np.random.default_rng(1).standard_normal((1, 3, 32, 48)).astype(np.float32)
    net.setInput(x, "images")
    (expected,) = run(model, {"images": x})
    np.testing.assert_allclose(net.forward("boxes"), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "size"), [(0, 4), (1, 6), (-1, 6)])
def test_a_vector_of_computed_indices_runs_in_opencv(axis: int, size: int) -> None:
    """OpenCV gathers by matrices of indices; a vector, as of `index_select`, becomes one."""
    cv2 = pytest.importorskip("cv2")
    shape = [4, 6]
    shape[axis] = 3
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 13]>
    g (float[4,6] x, int64[3,2] pairs) => (float[{shape[0]},{shape[1]}] y) <int64 zero = {{0}}> {{
        places = Gather <axis = 1> (pairs, zero)
        y = Gather <axis = {axis}> (x, places)
    }}""")
    result = opshift.convert(model, target="opencv-4", require_proof=True)
    assert isinstance(result.model, onnx.ModelProto)
    rng = np.random.default_rng(0)
    feeds: dict[str, np.ndarray[Any, Any]] = {
        "x": rng.standard_normal((4, 6)).astype(np.float32),
        "pairs": rng.integers(0, size, (3, 2)),
    }
    net = cv2.dnn.readNetFromONNX(np.frombuffer(result.model.SerializeToString(), np.uint8))
    for name, value in feeds.items():
        net.setInput(value, name)
    assert np.array_equal(net.forward("y"), np.take(feeds["x"], feeds["pairs"][:, 0], axis=axis))
