"""A constant that Identity gives a name keeps its value on targets without Identity: every source, type and place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from running import Array, run, same

import opshift

REQUESTS: tuple[dict[str, Any], ...] = (
    {"decompose": ["Identity"]},
    {"decompose": ["Identity", "Constant"]},
    {"target": "qnn"},
    {"target": "webgpu"},
    {"target": "ncnn"},
)
VALUES: dict[str, Array] = {
    "vector": np.array([1.5, -0.0], np.float32),
    "scalar": np.array(2.5, np.float32),
    "double scalar": np.array(1e300),
    "half": np.array([[1, 2]], np.float16),
    "empty": np.zeros((0, 3), np.float32),
    "large": np.arange(40_000, dtype=np.float32),
    "int64": np.array([2**53 + 1, -1], np.int64),
    "int64 scalar": np.array(2**53 + 1, np.int64),
    "uint8 scalar": np.array(200, np.uint8),
    "bool": np.array([True, False]),
    "bool scalar": np.array(True),
    "string": np.array(["a", "ü"], object),
    "string scalar": np.array("a", object),
}
SOURCES = ("initializer", "Constant", "chain", "shape")
PLACES = ("output", "read too", "inside", "If", "outer of If", "function", "outer of function")


def constant(source: str, value: Array, name: str) -> tuple[list[NodeProto], list[TensorProto]]:
    """Return nodes and initializers that make a constant of this name."""
    tensor = numpy_helper.from_array(value, f"{name}0" if source == "chain" else name)
    if source == "initializer":
        return [], [tensor]
    if source == "shape":
        held = numpy_helper.from_array(np.zeros((2, 3), np.float32), f"{name}1")
        return [helper.make_node("Shape", [held.name], [name])], [held]
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor)]
    return nodes + [helper.make_node("Identity", [tensor.name], [name])] * (source == "chain"), []


def model(source: str, value: Array, place: str, opset: int) -> onnx.ModelProto | None:
    """Return a model whose output y is the constant, by an Identity at this place; x is a float that is passed on."""
    value = np.array([2, 3]) if source == "shape" else value
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    nodes, held = constant(source, value, "c")
    same_name = helper.make_node("Identity", ["c"], ["y"])
    typed = helper.make_tensor_value_info
    functions, outputs = [], [typed("y", kind, value.shape), typed("z", TensorProto.FLOAT, [2])]
    imports = [helper.make_opsetid("", opset)]
    passed = helper.make_node("Neg", ["x"], ["z"])
    if place == "read too":
        outputs.append(typed("again", kind, value.shape))
        nodes += [same_name, helper.make_node("Flatten" if opset >= 13 else "Unsqueeze", ["y"], ["again"])]
        dims = [value.shape[0] if value.ndim else 1, math.prod(value.shape[1:])]
        outputs[-1] = typed("again", kind, dims if opset >= 13 else (1, *value.shape))
        if opset < 13:
            nodes[-1].attribute.append(helper.make_attribute("axes", [0]))
        elif not value.ndim or value.dtype == object:
            return None
    elif place == "inside":
        nodes += [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Shape", ["d"], ["y"])]
        outputs[0] = typed("y", TensorProto.INT64, [value.ndim])
    elif place in ("If", "outer of If"):
        branches = []
        for name in ("then", "else"):
            inner = [helper.make_node("Identity", ["c"], [name])]
            kept = place == "If"
            outer = held if kept else []
            own = [NodeProto.FromString(node.SerializeToString()) for node in nodes] if kept else []
            branches.append(
                helper.make_graph([*own, *inner], name, [], [typed(name, kind, value.shape)], initializer=outer)
            )
        if place == "If":
            nodes, held = [], []
        nodes.append(helper.make_node("If", ["k"], ["y"], then_branch=branches[0], else_branch=branches[1]))
    elif place in ("function", "outer of function"):
        imports.append(helper.make_opsetid("f", 1))
        inside = place == "function"
        if inside and held:
            return None
        body = [*(nodes if inside else []), helper.make_node("Identity", ["c"], ["r"])]
        functions = [helper.make_function("f", "Fn", [] if inside else ["c"], ["r"], body, imports[:1])]
        nodes = [*([] if inside else nodes), helper.make_node("Fn", [] if inside else ["c"], ["y"], domain="f")]
    else:
        nodes.append(same_name)
    inputs = [typed("x", TensorProto.FLOAT, [2])] + [typed("k", TensorProto.BOOL, [])] * ("If" in place)
    graph = helper.make_graph([*nodes, passed], "g", inputs, outputs, initializer=held)
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)


def without_signs(array: Array) -> Array:
    """Return floats whose zeros have no sign: the Where of onnxruntime 1.32.0 makes 0.0 of -0.0, in place of an If."""
    return array + array.dtype.type(0) if array.dtype.kind == "f" else array


def cases() -> Iterator[tuple[str, str, str, int]]:
    for number, (source, kind, place) in enumerate(itertools.product(SOURCES, VALUES, PLACES)):
        if source == "shape" and kind != "vector":
            continue
        yield source, kind, place, (9, 13, 18)[number % 3]


FEEDS = [
    {"x": np.array([1, -2], np.float32), "k": np.array(True)},
    {"x": np.zeros(2, np.float32), "k": np.array(False)},
]


def outputs_of(one: onnx.ModelProto) -> Sequence[Sequence[Array]]:
    return run(one, FEEDS)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("source", SOURCES)
def test_a_named_constant_keeps_its_value(source: str, place: str) -> None:
    written = 0
    for case in cases():
        if case[0] != source or case[2] != place:
            continue
        original = model(source, VALUES[case[1]], place, case[3])
        if original is None:
            continue
        expected = outputs_of(original)
        for request in REQUESTS:
            try:
                result = opshift.convert(original, verify=False, **request).model
            except opshift.UnsupportedError:
                continue
            written += 1
            assert isinstance(result, onnx.ModelProto)
            onnx.checker.check_model(result, full_check=True)
            assert not any(node.op_type == "Identity" for node in result.graph.node), (case, request)
            chosen = any(node.op_type == "Where" for node in result.graph.node)
            for wanted, got in zip(expected, outputs_of(result), strict=True):
                sides = [map(without_signs, one) if chosen else one for one in (wanted, got)]
                assert all(map(same, *sides)), (case, request)
    assert written or (source in ("initializer", "shape") and place == "function")


@pytest.mark.parametrize("opset", [11, 12, 13])
def test_an_identity_that_names_a_sequence_is_expressed_below_the_opset_that_has_one(opset: int) -> None:
    """Identity-14 is the first that takes sequences; an output of the graph must keep its name."""
    text = """<ir_version: 12, opset_import: ["": 24]> g () => (seq(double[]) z) {
        y = SequenceEmpty <dtype = 11> ()
        z = Identity (y)
    }"""
    result = opshift.convert(onnx.parser.parse_model(text), opset=opset)
    assert result.report is not None
    assert result.report.verdict is opshift.Verdict.EQUAL
    assert [node.op_type for node in result.rewritten.graph.node] == [
        "SequenceEmpty",
        "SequenceInsert",
        "SequenceErase",
    ]
    opshift.convert(onnx.parser.parse_model(text), opset=14)
