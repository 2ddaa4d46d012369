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
from opshift.opsets.operators.cast import Cast, oracle

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
    folded = opshift.convert(model, target="opencv-4").model
    assert isinstance(folded, onnx.ModelProto)
    assert [node.op_type for node in folded.graph.node] != ["Cast"]
    assert list(run(folded, [{}])[0][0]) == list(run(model, [{}])[0][0])
