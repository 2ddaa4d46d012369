"""QuantizeLinear, DequantizeLinear and Round: bit for bit, at halves, ends and beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import run

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
        Case("along an axis", [X, PER_AXIS, zero([1, 2, 3, 4], np.uint8)], QuantizeLinear(axis=-1), symbolic=8),
        Case("along the first", [X, arr([1, 2, 3]), zero([1, -2, 3], np.int8)], QuantizeLinear(axis=0), symbolic=8),
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
