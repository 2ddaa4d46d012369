"""Casts to strings, which ONNX says little of, as onnxruntime writes them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from running import run

import opshift
from opshift.opsets.operators import castlike
from opshift.opsets.operators.cast import Cast, oracle
from opshift.opsets.operators.castlike import CastLike

TYPES = ("float16", "float32", "float64", "bfloat16", "int8", "uint8", "int32", "int64", "uint64", "bool")


def drawn(name: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    dtype = np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    if dtype.kind not in "fV":
        return rng.integers(0, 100, 50).astype(dtype)
    exponents = rng.integers(-4, 4, 500) if name == "float16" else rng.integers(-30, 30, 500)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, 100, 1e4]
    return np.concatenate([rng.normal(size=500) * 10.0**exponents, special]).astype(dtype)


def cast(array: np.ndarray[Any, Any]) -> onnx.ModelProto:
    output = helper.make_tensor_value_info("y", TensorProto.STRING, array.shape)
    constant = numpy_helper.from_array(array, "c")
    graph = helper.make_graph(
        [helper.make_node("Cast", ["c"], ["y"], to=TensorProto.STRING)], "g", [], [output], [constant]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("name", TYPES)
def test_numbers_become_the_strings_of_onnxruntime(name: str) -> None:
    array = drawn(name)
    (expected,) = run(cast(array), [{}])[0]
    assert oracle(Cast(TensorProto.STRING), array).tolist() == list(expected)


@pytest.mark.parametrize("name", TYPES)
def test_folded_strings_are_those_that_were_computed(name: str) -> None:
    model = cast(drawn(name)[:20])
    folded = opshift.convert(model, fold=True).model
    assert isinstance(folded, onnx.ModelProto)
    assert [node.op_type for node in folded.graph.node] != ["Cast"]
    assert list(run(folded, [{}])[0][0]) == list(run(model, [{}])[0][0])


NARROW = [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ]


@pytest.mark.parametrize("opset", [21, 25])
@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("to", NARROW)
def test_folded_casts_to_float8_saturate(to: int, saturate: int, opset: int) -> None:
    """Without saturation E5M2 has infinity for what is too large, where onnxruntime 1.32.0 has NaN at times."""
    values = np.array([3, 448, 460, 500, -500, 1e-9, 5e4, 1e6, -1e6, np.inf, -np.inf, np.nan], np.float32)
    nodes = [
        helper.make_node("Cast", ["c"], ["narrow"], to=to, saturate=saturate),
        helper.make_node("Cast", ["narrow"], ["y"], to=TensorProto.FLOAT),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, values.shape)
    graph = helper.make_graph(nodes, "g", [], [output], [numpy_helper.from_array(values, "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    folded = opshift.convert(model, fold=True, verify=False).model
    assert isinstance(folded, onnx.ModelProto)
    assert [node.op_type for node in folded.graph.node] == ["Constant"]
    found, expected = run(folded, [{}])[0][0], run(model, [{}])[0][0]
    if opset < 24 and saturate and "FNUZ" in TensorProto.DataType.Name(to):
        expected = np.where(
            np.isinf(values), np.float32(np.nan), expected
        )  # Cast-19's table; onnxruntime has Cast-24's
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_casts_to_powers_of_two_are_those_of_onnxruntime(mode: str, saturate: int) -> None:
    values = np.array([0, 1, 1.2, 1.5, 2.9999, 3, 1e-39, 6e-39, 2.0**-126.4, 1.7e38, 2e38, np.inf, np.nan], np.float32)
    nodes = [
        helper.make_node("Cast", ["c"], ["powers"], to=TensorProto.FLOAT8E8M0, saturate=saturate, round_mode=mode),
        helper.make_node("Cast", ["powers"], ["y"], to=TensorProto.FLOAT),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, values.shape)
    graph = helper.make_graph(nodes, "g", [], [output], [numpy_helper.from_array(values, "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=12)
    expected = run(model, [{}])[0][0]
    np.testing.assert_array_equal(
        oracle(Cast(TensorProto.FLOAT8E8M0, saturate, mode), values).astype(np.float32), expected
    )
    folded = opshift.convert(model, fold=True, verify=False).model
    assert isinstance(folded, onnx.ModelProto)
    assert [node.op_type for node in folded.graph.node] == ["Constant"]
    np.testing.assert_array_equal(run(folded, [{}])[0][0], expected)
    for negative in (-1, -0.0):
        with pytest.raises(ValueError, match="negative"):
            oracle(Cast(TensorProto.FLOAT8E8M0), np.array([negative], np.float32))


@pytest.mark.parametrize(("source", "to"), [("int4", TensorProto.UINT4), ("uint4", TensorProto.INT4)])
def test_casts_between_narrow_integers_drop_higher_bits(source: str, to: int) -> None:
    """Cast-21: "when OOR, discard higher bits and reinterpret"."""
    array = np.arange(-8 if source == "int4" else 0, 8 if source == "int4" else 16).astype(getattr(ml_dtypes, source))
    found = oracle(Cast(to), array).astype(np.int64)
    assert ((found - array.astype(np.int64)) % 16 == 0).all()


@pytest.mark.parametrize("kind", ["uint64", "int64", "int8", "float", "float16", "bfloat16", "float8e4m3fn", "int4"])
@pytest.mark.parametrize("cast", ["CastLike (c, like)", "Cast <to = TO> (c)"])
def test_a_string_that_is_no_number_is_not_folded(cast: str, kind: str) -> None:
    to = TensorProto.DataType.Value(kind.upper())
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> g ({kind}[1] like) => ({kind}[3] y) '
        f'{{ c = Constant <value = string[3] {{"-0.5", "x", "2.5"}}> () y = {cast.replace("TO", str(to))} }}'
    )
    for request in ({"decompose": ["CastLike"]}, {"target": "opencv-4"}, {"opset": 23}):
        try:
            converted = opshift.convert(model, verify=False, **request).model
        except opshift.UnsupportedError:
            continue
        assert isinstance(converted, onnx.ModelProto)
        assert converted.graph.node[-1].op_type in ("Cast", "CastLike")


ORDINARY = [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.BOOL]


@pytest.mark.parametrize("operator", ["Cast", "CastLike"])
@pytest.mark.parametrize("to", ORDINARY)
@pytest.mark.parametrize("request_", [{"opset": 13}, {"decompose": ["CastLike"]}, {"opset": 28}])
def test_saturate_counts_for_float8_alone(operator: str, to: int, request_: dict[str, Any]) -> None:
    """Cast-19 on saturate: "It only applies for float 8 conversion"; onnxruntime 1.32.0 refuses it elsewhere."""
    kind = TensorProto.DataType.Name(to).lower()
    call = f"Cast <to = {to}, saturate = 0> (x)" if operator == "Cast" else "CastLike <saturate = 0> (x, like)"
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 19]> g (float[3] x, {kind}[1] like) => ({kind}[3] y) {{y = {call}}}'
    )
    converted = opshift.convert(model, **request_).model
    assert isinstance(converted, onnx.ModelProto)
    if operator == "CastLike" and request_ != {"opset": 28}:
        values = np.array([1.5, -2, 100], np.float32)
        like = np.zeros(1, helper.tensor_dtype_to_np_dtype(to))
        found = run(converted, [{"x": values, "like": like}])[0][0]
        np.testing.assert_array_equal(found, values.astype(like.dtype))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("to", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2])
def test_castlike_to_float8_saturates_as_cast_does(to: int, saturate: int) -> None:
    kind = TensorProto.DataType.Name(to).lower()
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 19]> g (float[4] x, {kind}[1] like) => (float[4] y) '
        f"{{n = CastLike <saturate = {saturate}> (x, like) y = Cast <to = 1> (n)}}"
    )
    converted = opshift.convert(model, decompose=["CastLike"]).model
    assert isinstance(converted, onnx.ModelProto)
    assert [node.op_type for node in converted.graph.node] == ["Cast", "Cast"]
    assert [one.i for one in converted.graph.node[0].attribute if one.name == "saturate"] == [0] * (not saturate)
    values = np.array([3, 500, -1e6, 1e-9], np.float32)
    like = np.zeros(1, helper.tensor_dtype_to_np_dtype(to))
    expected = castlike.oracle(CastLike(saturate), values, like).astype(np.float32)
    assert np.isfinite(expected).all() == bool(saturate)
    constant = opshift.convert(_with_constants(model, {"x": values}, to), fold=True, verify=False).model
    assert isinstance(constant, onnx.ModelProto)
    assert np.array_equal(run(constant, [{}])[0][0], expected, equal_nan=True)


def _with_constants(model: onnx.ModelProto, values: dict[str, np.ndarray[Any, Any]], to: int) -> onnx.ModelProto:
    """Return a model with these inputs as constants, and the other one as a constant of a type."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in model.graph.input:
        array = values.get(value.name, np.zeros(1, helper.tensor_dtype_to_np_dtype(to)))
        fixed.graph.initializer.append(numpy_helper.from_array(array, value.name))
    del fixed.graph.input[:]
    return fixed
