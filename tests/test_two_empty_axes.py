"""Lowerings of inputs with two empty dimensions, where onnxruntime runs the original."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from running import Array, run, same

import opshift

CASES = {
    "GatherElements": ("float[0,0] x, int64[2,0] i", "y = GatherElements <axis: int = 0> (x, i)", "float"),
    "GatherElements, unknown": ("float[N,M] x, int64[K,M] i", "y = GatherElements <axis: int = 0> (x, i)", "float"),
    "ArgMax": ("float[0,0] x", "y = ArgMax <axis: int = 0> (x)", "int64"),
    "ArgMax, dropped": ("float[0,0] x", "y = ArgMax <axis: int = 0, keepdims: int = 0> (x)", "int64"),
    "ArgMax, last": ("float[0,0] x", "y = ArgMax <axis: int = 0, select_last_index: int = 1> (x)", "int64"),
    "ArgMin": ("float[0,0] x", "y = ArgMin <axis: int = 0> (x)", "int64"),
}
"""By name: inputs, body, and the element type of the output."""


@pytest.mark.parametrize("name", CASES)
def test_lowering_of_two_empty_axes_runs(name: str) -> None:
    inputs, body, element = CASES[name]
    dims = "A" if "dropped" in name else "A,B"
    original = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
g ({inputs}) => ({element}[{dims}] y) {{ {body} }}""")
    converted = opshift.convert(original, decompose=[name.split(",")[0]], verify=False).model
    assert isinstance(converted, onnx.ModelProto)
    feed: dict[str, Array] = {"x": np.zeros((0, 0), np.float32), "i": np.zeros((2, 0), np.int64)}
    assert same(run(original, [feed])[0][0], run(converted, [feed])[0][0])
