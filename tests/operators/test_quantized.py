"""QuantizeLinear, DequantizeLinear and Round: bit for bit, at halves, ends and beyond them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from operators.harness import BF16, F16, F32, F64, INF, NAN, Array, Case, Code, Refused, Table, arr, converted
from opshift.opsets.operators import dequantizelinear, dynamicquantizelinear, quantizelinear
from opshift.opsets.operators import round as round_
from opshift.opsets.operators.dequantizelinear import DequantizeLinear
from opshift.opsets.operators.quantizelinear import QuantizeLinear

HALVES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 0.3, -0.3, 0.7, 7, INF, -INF, NAN, 1023.5, -1024.5]
X = arr([[0, 0.5, 1.5, -0.5], [254.7, 300, -300, 1e9], [-1e9, INF, -INF, 2.5]])
PER_AXIS = arr([0.5, 1, 2, 3])
BLOCKS = arr([[0.5, 2], [1, 3], [0.25, 7]])
BYTES = np.array([[0, 1, 56, 57, 120], [130, 193, 200, 250, 64]], np.uint8)
DYNAMIC: dict[str, Any] = {
    "zeros": [0, -0.0],
    "one zero": 0,
    "above zero": [[1, 2.5], [3, 255]],
    "below zero": [-1, -2.5, -1e-3],
    "both": [-1, 0, 0.5, 2, 254],
    "halves": [-127.5, 127.5, 0.5, 1.5],
    "large": [-1e38, 1e38, 3e37],
    "small": [1e-36, -1e-37],
}


def zero(values: Any, dtype: Any) -> Array:
    return np.array(values, dtype)


class TestRound(Table):
    operator = round_.OPERATOR
    cases = (
        *(Case(np.dtype(one).name, [arr(HALVES, one)]) for one in (F16, F32, F64)),
        Case("bfloat16", [arr(HALVES, BF16)], least=13),
        Case("large", [arr([2.0**23 + 1, 2.0**24 + 2, 3e38, -(2.0**22) - 0.5])]),
        Case("empty", [np.zeros((0, 2), F32)]),
    )


class TestDynamicQuantizeLinear(Table):
    operator = dynamicquantizelinear.OPERATOR
    cases = tuple(Case(name, [np.array(x, F32)]) for name, x in DYNAMIC.items())


class TestQuantizeLinear(Table):
    operator = quantizelinear.OPERATOR
    cases = (
        Case("uint8", [X, arr(2), zero(128, np.uint8)]),
        Case("int8", [X, arr(0.1), zero(-3, np.int8)]),
        Case("no zero point", [X, arr(2), None]),
        Case("int8 by output_dtype", [X, arr(2), None], QuantizeLinear(output_dtype=3)),
        Case("uint16", [X, arr(0.01), zero(500, np.uint16)]),
        Case("int16", [X, arr(0.01), zero(-500, np.int16)]),
        Case("along an axis", [X, PER_AXIS, zero([1, 2, 3, 4], np.uint8)], QuantizeLinear(axis=-1)),
        Case("along the first", [X, arr([1, 2, 3]), zero([1, -2, 3], np.int8)], QuantizeLinear(axis=0)),
        Case(
            "blocks",
            [X, BLOCKS, zero([[1, 2], [3, 4], [5, 6]], np.int8)],
            QuantizeLinear(block_size=2),
            symbolic=21,
        ),
        Case("blocks from zero", [X, BLOCKS, None], QuantizeLinear(block_size=2), symbolic=21),
        Case("float16", [X[:1].astype(F16), arr(2, F16), zero(1, np.int8)], least=19),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 21]> g (float[2,4] x, float s, int4 z) => (int4[2,4] y) '
            "{ y = QuantizeLinear (x, s, z) }",
            Code.NO_LOWERING,
            "8 and 16 bits",
            {"opset": 19},
        ),
    )


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
@pytest.mark.parametrize("start", ["", ", z"])
def test_constants_of_float8_are_dequantized(name: str, start: str) -> None:
    """All 256 of them: onnxruntime's values stand where the node was."""
    every = np.arange(256, dtype=np.uint8).view(name)
    model = parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g () => (float[256] y) <float s = {0.25}>'
        f"{{ y = DequantizeLinear (x, s{start}) }}"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(every, "x"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((), name), "z"))
    there = converted(model, decompose=["DequantizeLinear"])
    assert "DequantizeLinear" not in {node.op_type for node in there.graph.node}
    found, expected = run(there, [{}])[0][0], run(model, [{}])[0][0]
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(found, every.astype(np.float32) / 4, equal_nan=True)


_IN_BLOCKS = {
    "output_dtype": "float16 s, int8 z, int8 x, float y, DequantizeLinear <{}, output_dtype = 1> (x, s, z)",
    "output_dtype, int32": "float16 s, int32 z, int32 x, float y, DequantizeLinear <{}, output_dtype = 1> (x, s, z)",
    "narrower": "float s, int8 z, int8 x, float16 y, DequantizeLinear <{}, output_dtype = 10> (x, s, z)",
    "precision": "float s, int8 z, float x, int8 y, QuantizeLinear <{}, precision = 10> (x, s, z)",
    "saturate": "float s, float8e5m2 z, float x, float8e5m2 y, QuantizeLinear <{}, saturate = 0> (x, s, z)",
}
"""Attributes of nodes that scale in blocks, beside these: operands without shapes, the result, and the node."""


@pytest.mark.parametrize("name", _IN_BLOCKS)
@pytest.mark.parametrize("request_", [{"opset": 21}, {"opset": 19}, {"decompose": ["blocks"]}], ids=str)
def test_what_scales_each_element_keeps_all_attributes(name: str, request_: dict[str, Any]) -> None:
    """A model is the same in value and type, or refused."""
    *operands, node = _IN_BLOCKS[name].split(", ", 4)
    s, z, x, y = (one.split()[0] for one in operands)
    text = node.format("axis = 0, block_size = 2")
    model = parse_model(
        f'<ir_version: 10, opset_import: ["": 23]> g ({s}[1,3] s, {z}[1,3] z, {x}[2,3] x) => ({y}[2,3] y) '
        f"{{y = {text}}}"
    )
    if "decompose" in request_:
        request_ = {"decompose": [node.split()[0]]}
    try:
        result = opshift.convert(model, verify=False, **request_).model
    except opshift.UnsupportedError:
        assert name in ("narrower", "precision", "saturate")
        return
    assert isinstance(result, onnx.ModelProto)
    onnx.checker.check_model(result, full_check=True)
    if name == "saturate":  # onnxruntime's Python interface takes no float8
        assert {one.name: one.i for one in result.graph.node[-1].attribute}["saturate"] == 0
        return
    kinds = {
        one.name: onnx.helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type) for one in model.graph.input
    }
    feed = {"s": arr([[0.3, 7, 0.01]]), "z": np.zeros((1, 3)), "x": arr([[1, 100, -2], [3, 50, 127]])}
    feed = {one: array.astype(kinds[one]) for one, array in feed.items()}
    assert np.array_equal(run(result, [feed])[0][0], run(model, [feed])[0][0])


class TestDequantizeLinear(Table):
    operator = dequantizelinear.OPERATOR
    cases = (
        Case("uint8", [zero([[0, 1, 255]], np.uint8), arr(0.3), zero(128, np.uint8)]),
        Case("int8", [zero([[-128, 1, 127]], np.int8), arr(0.3), zero(127, np.int8)]),
        Case("no zero point", [zero([[0, 1, 255]], np.uint8), arr(0.3), None]),
        Case("int32", [zero([[0, 2**31 - 1, -5]], np.int32), arr(0.3), None]),
        Case("uint16", [zero([[0, 65535]], np.uint16), arr(0.3), zero(65535, np.uint16)]),
        Case(
            "along an axis",
            [zero([[0, 1, 255], [3, 4, 5]], np.uint8), arr([0.3, 7]), zero([1, 2], np.uint8)],
            DequantizeLinear(axis=0),
        ),
        Case(
            "blocks",
            [zero([[0, 1, 255, 9], [3, 4, 5, 9]], np.uint8), arr([[0.3, 7], [1, 2]]), zero([[1, 2], [3, 4]], np.uint8)],
            DequantizeLinear(block_size=2),
            symbolic=21,
        ),
        Case(
            "blocks from zero",
            [zero([[0, 1, 255]], np.uint8), arr([[0.3, 7]]), None],
            DequantizeLinear(block_size=2),
            symbolic=21,
        ),
        Case("float16", [zero([[0, 1, 255]], np.uint8), arr(0.5, F16), zero(1, np.uint8)], least=19),
        Case(
            "float16 to float",
            [zero([[0, 1, 255]], np.uint8), arr(0.3, F16), zero(1, np.uint8)],
            DequantizeLinear(output_dtype=1),
        ),
        Case(
            "blocks of float16 to float",
            [zero([[0, 1, 255]], np.uint8), arr([[0.3, 7]], F16), zero([[1, 2]], np.uint8)],
            DequantizeLinear(block_size=2, output_dtype=1),
            symbolic=21,
        ),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 21]> g (uint8[2,4] x, float16 s, uint8 z) => (float16[2,4] y) '
            "{ y = DequantizeLinear (x, s, z) }",
            Code.NO_LOWERING,
            "in float only",
            {"opset": 13},
        ),
    )


NARROW = ["int2", "uint2", "int4", "uint4", "int8", "uint16", *(f"float8_{name}" for name in ("e4m3fn", "e5m2"))]


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("source", [F16, F32])
@pytest.mark.parametrize("name", NARROW)
def test_the_oracle_quantizes_to_every_type_as_onnxruntime_does(name: str, source: Any, saturate: int) -> None:
    dtype = np.dtype(name) if hasattr(np, name) else np.dtype(getattr(ml_dtypes, name))
    to = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    is_float = name.startswith("float")
    x = np.arange(-40, 41).astype(source) / 4 * (8 if name == "float8_e4m3fn" else 1)
    factors = np.array(0.5, source)
    start = np.array(0 if is_float or name.startswith("u") else -1).astype(dtype)
    node = onnx.helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], saturate=saturate)
    values = {"x": x, "s": factors}
    inputs = [
        onnx.helper.make_tensor_value_info(k, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in values.items()
    ]
    read = onnx.helper.make_node("Cast", ["y"], ["w"], to=1)
    graph = onnx.helper.make_graph(
        [node, read],
        "g",
        inputs,
        [onnx.helper.make_tensor_value_info("w", 1, x.shape)],
        [onnx.numpy_helper.from_array(start, "z")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 25)], ir_version=11)
    found = run(model, [values])[0][0]
    expected = quantizelinear.oracle(QuantizeLinear(saturate=saturate), x, factors, start)
    assert onnx.helper.np_dtype_to_tensor_dtype(expected.dtype) == to
    assert np.array_equal(found, expected.astype(F32), equal_nan=True)


def test_the_oracle_quantizes_to_float4_by_the_nearest_even_and_the_ends() -> None:
    """QuantizeLinear-25 saturates; float4e2m1 has 0, 0.5, 1, 1.5, 2, 3, 4 and 6 (onnxruntime 1.32.0 has no kernel)."""
    x = arr([0.5, 1.5, 1.4, 5, 10, 14, -18])
    found = quantizelinear.oracle(QuantizeLinear(output_dtype=onnx.TensorProto.FLOAT4E2M1), x, arr(2))
    assert found.astype(F32).tolist() == [0, 1, 0.5, 2, 4, 6, -6]


@pytest.mark.parametrize(
    ("axis", "block_size", "scale", "start", "fits"),
    [
        (1, 0, (), (), True),
        (1, 0, (1,), (1,), True),
        (1, 0, (1,), (), True),
        (1, 0, (3,), (3,), True),
        (-2, 0, (3,), None, True),
        (0, 0, (2,), (2,), True),
        (1, 0, (4,), (4,), False),
        (0, 0, (1,), (2,), False),
        (1, 0, (3,), (), False),
        (1, 0, (3, 1), (3, 1), False),
        (1, 2, (2, 2, 4), (2, 2, 4), True),
        (2, 3, (2, 3, 2), None, True),
        (1, 1, (2, 3, 4), (2, 3, 4), True),
        (1, 2, (2, 2, 4), (2, 3, 4), False),
        (1, 2, (2, 3, 4), (2, 3, 4), False),
        (1, 1, (2, 3, 3), None, False),
        (1, 1, (1, 3, 4), None, False),
        (1, 2, (2,), None, False),
    ],
)
def test_oracles_reject_scales_and_zero_points_that_do_not_fit(
    axis: int, block_size: int, scale: tuple[int, ...], start: tuple[int, ...] | None, fits: bool
) -> None:
    factors, begun = np.ones(scale, F32), None if start is None else np.zeros(start, np.uint8)
    operators = (dequantizelinear.OPERATOR, np.uint8), (quantizelinear.OPERATOR, F32)
    for operator, dtype in operators:
        data, meaning = np.ones((2, 3, 4), dtype), operator.meaning(axis=axis, block_size=block_size)
        if fits:
            assert operator.oracle(meaning, data, factors, begun).shape == data.shape
        else:
            with pytest.raises(ValueError, match="has shape"):
                operator.oracle(meaning, data, factors, begun)


def test_an_axis_of_one_does_not_take_more_scales() -> None:
    with pytest.raises(ValueError, match="must have"):
        dequantizelinear.oracle(DequantizeLinear(axis=0), np.ones((1, 4), np.uint8), np.ones(3, F32))


@pytest.mark.parametrize("opset", [13, 18, 21, 23, 25, 26])
@pytest.mark.parametrize(
    "call",
    [
        "y = QuantizeLinear<axis = -1>(x, s, z)",
        "q = QuantizeLinear<axis = -1>(x, s, z) y = DequantizeLinear<axis = -1>(q, s, z)",
    ],
)
def test_an_axis_counted_from_the_end_stays_as_it_is(call: str, opset: int) -> None:
    kind = "float" if "Deq" in call else "uint8"
    text = f"g (float[2,3] x, float[3] s, uint8[3] z) => ({kind}[2,3] y) {{ {call} }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 19]> {text}')
    result = converted(model, opset=opset)
    found = [attribute.i for node in result.graph.node for attribute in node.attribute]
    assert found == [-1] * len(model.graph.node)
