"""Whatever rank, axis, element type, ties and shapes: a converted node computes what the oracle of the text says."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import oracles
import pytest
import running
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from onnx import helper
from running import differences

from operators.harness import F16, F32, F64, INF, Array, converted, ran

pytestmark = pytest.mark.slow

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=60)
NEWEST = 26
FLOATS = (F16, F32, F64)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
TIES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, INF, -INF])
"""Few values, so that they tie."""
SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


@st.composite
def tensors(draw: st.DrawFn, dtypes: tuple[Any, ...]) -> Array:
    """An array of few values, the ends of the type among them."""
    dtype, shape = np.dtype(draw(st.sampled_from(dtypes))), draw(SHAPES)
    if dtype.kind == "f":
        return draw(arrays(dtype, shape, elements=TIES.map(dtype.type)))
    info = np.iinfo(dtype)
    near = (0, 1, info.min, info.max, info.max - 1, info.max // 2 + 1, 2**31 % info.max, 2**32 % info.max)
    return draw(arrays(dtype, shape, elements=st.sampled_from(near)))


@st.composite
def requests(draw: st.DrawFn, operator: str) -> dict[str, Any]:
    """Another opset, operators to decompose, or both."""
    request: dict[str, Any] = {}
    if draw(st.booleans()):
        request["opset"] = draw(st.integers(7, NEWEST))
    others = sorted({"Hardmax", "ArgMax", "OneHot", "TopK", "Where"} - {operator})
    if not request or draw(st.booleans()):
        request["decompose"] = [operator, *draw(st.lists(st.sampled_from(others), unique=True, max_size=2))]
    return request


def model(
    node: onnx.NodeProto,
    opset: int,
    inputs: dict[str, Array],
    output: Array,
    *,
    symbolic: bool,
    known: tuple[str, ...] = (),
) -> onnx.ModelProto:
    """A model of one node; with symbolic shapes no dimension is known."""

    def info(name: str, array: Array) -> onnx.ValueInfoProto:
        shape = [f"{name}{axis}" if symbolic else size for axis, size in enumerate(array.shape)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    graph = helper.make_graph(
        [node],
        "one",
        [info(name, array) for name, array in inputs.items() if name not in known],
        [info("y", output)],
        [onnx.numpy_helper.from_array(inputs[name], name) for name in known],
    )
    domains = [("", opset)] + ([(node.domain, 1)] if node.domain else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*item) for item in domains], ir_version=8)


def check(source: onnx.ModelProto, request: dict[str, Any], inputs: dict[str, Array], expected: Array) -> None:
    result = converted(source, **request)
    gone = set(request.get("decompose", ())) | {"HardmaxAxes"}
    assert not gone & {node.op_type for node in running.nodes_of(result)}
    for outputs in ran(result, inputs):
        assert not differences([[expected]], [outputs])
    again = {**request, "opset": request.get("opset", running.opset_of(source))}
    assert converted(result, **again).SerializeToString() == result.SerializeToString()


def axes_of(rank: int, opset: int) -> st.SearchStrategy[int]:
    """A legal axis; below 11 no negative one is defined."""
    return st.integers(-rank if opset >= 11 else 0, rank - 1)


@given(st.data(), tensors(FLOATS), st.integers(7, NEWEST), requests("Hardmax"), st.booleans())
@EXAMPLES
def test_hardmax(data: st.DataObject, x: Array, opset: int, request: dict[str, Any], symbolic: bool) -> None:
    axis = data.draw(axes_of(x.ndim, opset))
    expected = oracles.hardmax_13(x, axis) if opset >= 13 else oracles.hardmax_1(x, axis)
    must_run(x, request, "Hardmax")
    node = helper.make_node("Hardmax", ["x"], ["y"], axis=axis)
    check(model(node, opset, {"x": x}, expected, symbolic=symbolic), request, {"x": x}, expected)


def must_run(x: Array, request: dict[str, Any], operator: str) -> None:
    """Leave out nodes that stay as they are where onnxruntime has no kernel for them."""
    kept = operator not in request.get("decompose", ())
    assume(not (kept and x.dtype == F64))


@given(st.data(), tensors(FLOATS), st.integers(7, NEWEST), requests("Hardmax"), st.booleans())
@EXAMPLES
def test_hardmax_axes(data: st.DataObject, x: Array, opset: int, request: dict[str, Any], symbolic: bool) -> None:
    axes = data.draw(st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, max_size=3))
    expected = oracles.hardmax_axes(x, axes)
    node = helper.make_node("HardmaxAxes", ["x"], ["y"], domain="opshift", axes=axes)
    check(model(node, opset, {"x": x}, expected, symbolic=symbolic), {"opset": opset, **request}, {"x": x}, expected)


@given(st.data(), tensors((*FLOATS, *INTEGERS)), st.integers(7, NEWEST), requests("ArgMax"), st.booleans())
@EXAMPLES
def test_argmax(data: st.DataObject, x: Array, opset: int, request: dict[str, Any], symbolic: bool) -> None:
    axis, keepdims = data.draw(axes_of(x.ndim, opset)), data.draw(st.integers(0, 1))
    last = data.draw(st.integers(0, 1)) if opset >= 12 else 0
    assume(x.shape[axis] > 0)
    kernels = (F16, F32, F64, np.int8, np.uint8, np.int32, np.int64)
    assume("ArgMax" in request.get("decompose", ()) or (x.dtype in kernels and x.dtype != F16))
    expected = oracles.argmax(x, axis, keepdims, last)
    attributes: dict[str, Any] = {"axis": axis, "keepdims": keepdims} | (
        {"select_last_index": last} if opset >= 12 else {}
    )
    node = helper.make_node("ArgMax", ["x"], ["y"], **attributes)
    check(model(node, opset, {"x": x}, expected, symbolic=symbolic), request, {"x": x}, expected)


VALUES = (F32, np.int64, np.int32, np.bool_, np.uint8, F64)


@given(st.data(), st.integers(9, NEWEST), requests("OneHot"), st.booleans())
@EXAMPLES
def test_onehot(data: st.DataObject, opset: int, request: dict[str, Any], symbolic: bool) -> None:
    draw = data.draw
    shape, depth = draw(SHAPES), draw(st.integers(1, 6))
    dtype = np.dtype(draw(st.sampled_from((np.int64, np.int32, np.uint8, F32))))
    low = 0 if dtype.kind == "u" else -depth - 2
    part = 4 if dtype == F32 else 1
    whole = st.integers(low * part, (depth + 2) * part)
    indices = draw(arrays(dtype, shape, elements=whole.map(lambda number: dtype.type(number / part))))
    values: Array = np.array(draw(st.sampled_from([(0, 1), (1, 0), (2, 5)])), draw(st.sampled_from(VALUES)))
    kernels = {(np.int64, F32), (np.int64, np.int64), (F32, np.int64), (np.int64, np.int32)}
    assume("OneHot" in request.get("decompose", ()) or (dtype.type, values.dtype.type) in kernels - {(F32, np.int64)})
    rank = len(shape) + 1
    axis = draw(st.integers(-rank, rank - 1)) if opset >= 11 else draw(st.integers(-1, rank - 1))
    inputs = {"indices": indices, "depth": np.array(depth), "values": values}
    if np.int64 == dtype and values.dtype == np.int32:
        inputs["depth"] = np.array(depth, F32)
    expected = oracles.one_hot(indices, inputs["depth"], values, axis)
    node = helper.make_node("OneHot", list(inputs), ["y"], axis=axis)
    known = tuple(draw(st.lists(st.sampled_from(["depth", "values"]), unique=True)))
    source = model(node, opset, inputs, expected, symbolic=symbolic, known=known)
    if request.get("opset", opset) < 9:
        assume(values.dtype.kind != "O")
    check(source, request, inputs, expected)
