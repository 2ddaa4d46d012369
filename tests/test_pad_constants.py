"""Pad of every element type, with a value and without, to versions that have the value as a float and as an input."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

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
