"""Pad of every element type, with a value and without, to versions that have the value as a float and as an input."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model
from running import run

import opshift

TYPES = ("complex64", "complex128", "string", "bool", "int64", "uint8", "bfloat16", "float16", "double")


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", TYPES)
def test_pad_is_converted_or_refused_with_any_type(name: str, value: bool) -> None:
    dtype = TensorProto.DataType.Value(name.upper())
    initializers = [numpy_helper.from_array(np.array([1, 1]), "pads")]
    if value:
        element: Any = "a" if name == "string" else 1
        initializers.append(helper.make_tensor("v", dtype, [], [element]))
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads", *["v"] * value], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", dtype, [2])],
        [helper.make_tensor_value_info("y", dtype, [4])],
        initializers,
    )
    for source in (11, 13, 25) if name != "bfloat16" else (21, 25):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", source)], ir_version=8)
        for target in (7, 8, 10, 11, 18, 26):
            try:
                result = opshift.convert(model, opset=target, verify=False).model
            except (opshift.UnsupportedError, opshift.InvalidModelError):
                refused = True
            else:
                refused = False
                assert isinstance(result, onnx.ModelProto)
                onnx.checker.check_model(result)
            assert not refused or source == 11 or target < 13  # Pad-11 takes numbers only


PLACES = {
    "initializer": ("int32[1] a = {-1}", "", "a"),
    "Constant": ("", "a = Constant <value = int32[1] {-1}> ()", "a"),
    "Identity": ("int32[1] c = {-1}", "a = Identity (c)", "a"),
    "Cast": ("int64[1] c = {-1}", "a = Cast <to = 6> (c)", "a"),
    "int64": ("int64[1] a = {-1}", "", "a"),
}
"""Where the axes of a Pad come from: an initializer, the node that makes them, and their name."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("pads", ["known", "fed"])
@pytest.mark.parametrize(
    "request_",
    [
        *({"opset": opset} for opset in (17, 18, 19, 21, 23, 25)),
        *({"decompose": [name]} for name in ("Identity", "Cast")),
        {"target": "rknn"},
    ],
    ids=str,
)
def test_constant_axes_of_int32_become_int64(place: str, pads: str, request_: dict[str, Any]) -> None:
    """Pad-18 accepts both types; onnx 1.23.2 and onnxruntime 1.32.0 read constant ones as int64 alone."""
    held, made, name = PLACES[place]
    constants = ", ".join(filter(None, ("int64[2] k = {1,2}", held)))
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 21]> g (float[2,3] x, int64[2] p) => (float[n,m] y) <{constants}>
        {{ {made} y = Pad <mode = "reflect"> (x, {"k" if pads == "known" else "p"}, "", {name}) }}"""
    )
    try:
        result = opshift.convert(model, verify=False, **request_).model
    except opshift.UnsupportedError:
        assert pads == "fed"
        assert "target" in request_
        return
    assert isinstance(result, onnx.ModelProto)
    onnx.checker.check_model(result, full_check=True)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = run(result, [{"x": x, "p": np.array([1, 2])}])[0][0]
    assert found.tolist() == np.pad(x, [(0, 0), (1, 2)], mode="reflect").tolist()
    types = {one.name: one.data_type for one in result.graph.initializer}
    read = [node.input[3] for node in result.graph.node if node.op_type == "Pad" and len(node.input) > 3]
    assert {types.get(name, onnx.TensorProto.INT64) for name in read} <= {onnx.TensorProto.INT64}


@pytest.mark.parametrize("place", PLACES)
def test_what_was_written_of_axes_is_planned_no_more(place: str) -> None:
    held, made, name = PLACES[place]
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 21]> g (float[2,3] x, int64[2] p) => (float[n,m] y)
        {f"<{held}>" if held else ""} {{ {made} y = Pad <mode = "reflect"> (x, p, "", {name}) }}"""
    )
    result = opshift.convert(model, opset=19, verify=False).model
    assert not opshift.plan(result, opset=19).steps
    assert bool(opshift.plan(model, opset=21).steps) is (place != "int64")
