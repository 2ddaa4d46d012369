"""Sparse constants in every kind of graph, converted to what has none: the numbers are those of the dense model."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper
from onnx.parser import parse_model

import opshift

DENSE = np.array([[0, 1.5, 0], [2.5, 0, 0]], np.float32)
IF = "y = If (c) <then_branch = t () => (float[2,3] o) { o = Add (x, s) }, else_branch = e () => (float[2,3] o) "
MODELS = {
    "an initializer": "(float[2,3] x) => (float[2,3] y) { y = Add (x, s) }",
    "what Hardmax reads": "(float[2,3] x) => (float[2,3] y) { h = Hardmax <axis = 1> (s) y = Add (x, h) }",
    "a branch": f"(float[2,3] x, bool c) => (float[2,3] y) {{ {IF} {{ o = Sub (x, s) }}> }}",
    "a taken branch": f"(float[2,3] x) => (float[2,3] y) <bool c = {{1}}> {{ {IF} {{ o = Sub (x, s) }}> }}",
    "a loop": "(float[2,3] x) => (float[2,3] y) <int64 n = {3}> { y = Loop (n, , x) <body = b (int64 k, bool d, "
    "float[2,3] a) => (bool o, float[2,3] z) { o = Identity (d) z = Add (a, s) }> }",
    "a scan": "(float[2,3] x) => (float[2,3] y) { y, q = Scan <num_scan_inputs = 1, body = b (float[2,3] a, "
    "float[3] r) => (float[2,3] z, float[3] e) { z = Add (a, s) e = Identity (r) }> (x, x) }",
    "a map of a sequence": "(float[2,3] x) => (float[2,3] y) <int64 one = {1}> { q = SequenceConstruct (x, x) "
    "r = SequenceMap <body = b (float[2,3] a) => (float[2,3] z) { z = Add (a, s) }> (q) y = SequenceAt (r, one) }",
    "an output": "(float[2,3] x) => (float[2,3] y, float[2,3] s) { y = Identity (x) }",
}
REQUESTS: dict[str, dict[str, Any]] = {
    "opset 11": {"opset": 11},
    "opset 8": {"opset": 8},
    "opset 21": {"opset": 21},
    "Add": {"decompose": ["Add"]},
    "If": {"decompose": ["If"]},
    "Loop and Scan": {"decompose": ["Loop", "Scan"]},
    "Hardmax": {"decompose": ["Hardmax"]},
    "folded": {"fold": True},
    "double": {"types": {"float": "double"}},
    "tensorrt-8": {"target": "tensorrt-8"},
}


def sparse(*, flat: bool) -> onnx.SparseTensorProto:
    """Return the constant with its indices as places in the flat tensor, or as a place on each axis."""
    places = np.argwhere(DENSE)
    indices = np.asarray(np.ravel_multi_index(tuple(places.T), DENSE.shape) if flat else places)
    values = numpy_helper.from_array(DENSE[DENSE != 0], "s")
    return onnx.helper.make_sparse_tensor(values, numpy_helper.from_array(indices.astype(np.int64), "i"), DENSE.shape)


def made(text: str, *, is_sparse: bool) -> onnx.ModelProto:
    """Return a model with the constant in each graph that reads it by itself."""
    model = parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')

    def add(graph: onnx.GraphProto) -> None:
        inner = [one.g for node in graph.node for one in node.attribute if one.HasField("g")]
        for one in inner:
            add(one)
        reads = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
        if "s" in reads and is_sparse:
            graph.sparse_initializer.append(sparse(flat=len(reads) % 2 == 0))
        elif "s" in reads:
            graph.initializer.append(numpy_helper.from_array(DENSE, "s"))

    add(model.graph)
    onnx.checker.check_model(model)
    return model


def run(model: onnx.ModelProto) -> list[np.ndarray[Any, Any]]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    fed = {"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2, "c": np.array(False)}
    found: list[np.ndarray[Any, Any]] = session.run(None, {one.name: fed[one.name] for one in session.get_inputs()})
    return found


@pytest.mark.parametrize(("where", "request_"), list(itertools.product(MODELS, REQUESTS)))
def test_a_sparse_constant_is_converted_as_a_dense_one(where: str, request_: str) -> None:
    model, dense = (made(MODELS[where], is_sparse=one) for one in (True, False))
    expected = run(dense)
    refused = {one.operator for one in opshift.plan(dense, **REQUESTS[request_]).refusals}
    assert {one.operator for one in opshift.plan(model, **REQUESTS[request_]).refusals} == refused
    if not refused:
        result = opshift.convert(model, **REQUESTS[request_], verify=False)
        for one, other in zip(run(result.rewritten), expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert any("sparse constant" in note for note in result.repairs)


@pytest.mark.parametrize("opset", [11, 13, 21])
def test_a_sparse_value_of_a_constant_node_is_written_out(opset: int) -> None:
    text = "(float[2,3] x) => (float[2,3] y) { s = Constant <value_int = 0> () y = Add (x, s) }"
    model = parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {text}')
    model.graph.node[0].attribute[0].CopyFrom(onnx.helper.make_attribute("sparse_value", sparse(flat=False)))
    result = opshift.convert(model, opset=opset)
    np.testing.assert_array_equal(run(result.rewritten)[0], np.arange(6, dtype=np.float32).reshape(2, 3) - 2 + DENSE)


@pytest.mark.parametrize("dtype", [TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.BOOL])
def test_elements_of_all_types_are_written_out(dtype: int) -> None:
    ends: Any = [b"a", b"b"] if dtype == TensorProto.STRING else [1, 1]
    values = onnx.helper.make_tensor("s", dtype, [2], ends)
    one = onnx.helper.make_sparse_tensor(values, onnx.helper.make_tensor("i", TensorProto.INT64, [2], [0, 2]), [3])
    node, output = onnx.helper.make_node("Identity", ["s"], ["y"]), onnx.helper.make_tensor_value_info("y", dtype, [3])
    graph = onnx.helper.make_graph([node], "g", [], [output], sparse_initializer=[one])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    (written,) = opshift.convert(model, opset=22, verify=False).rewritten.graph.initializer
    full: Any = [ends[0], type(ends[0])(), ends[1]]
    whole = onnx.helper.make_tensor("s", dtype, [3], full)
    assert written.data_type == dtype
    assert numpy_helper.to_array(written).tolist() == numpy_helper.to_array(whole).tolist()


def test_what_nothing_reads_and_what_is_large_stays_sparse() -> None:
    unread = parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }')
    unread.graph.sparse_initializer.append(sparse(flat=True))
    large = made(MODELS["an initializer"], is_sparse=True)
    large.graph.sparse_initializer[0].dims[:] = [2**21, 3]
    for model in (unread, large):
        result = opshift.convert(model, opset=18, verify=False)
        assert result.rewritten.graph.sparse_initializer == model.graph.sparse_initializer
        assert not result.repairs
