"""Resize by weighted sums: infinities and NaN stay where onnxruntime has them, and reach no other element."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from running import run

import opshift

# scales by rank: images, images with the channels last, volumes, and axes that do not change.
LINEAR = ([2.0, 2], [1, 2.5], [1, 2, 2], [1, 1, 2, 2], [1, 1, 1, 3], [1, 1, 0.5, 0.6], [1, 2, 3, 1], [1, 1, 2, 1, 1.5])
CUBIC = ([2.0, 2], [1, 2.5], [1, 1, 2, 2], [1, 1, 1, 3], [1, 1, 0.5, 0.6])
COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


def resize(
    scales: Sequence[float], dtype: int, attributes: Mapping[str, Any], *, sizes: bool
) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    shape = tuple(1 if len(scales) > 3 and axis == 0 else 4 for axis in range(len(scales)))
    if sizes:
        name, values = "sizes", np.array([int(dim * one) for dim, one in zip(shape, scales, strict=True)])
    else:
        name, values = "scales", np.array(scales, np.float32)
    node = helper.make_node("Resize", ["x", "", "", name] if sizes else ["x", "", name], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, [None] * len(shape))],
        [numpy_helper.from_array(values, name)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), shape


CASES = [
    *itertools.product(["linear"], COORDINATES, LINEAR, [TensorProto.FLOAT], [False, True], [{}]),
    *itertools.product(["cubic"], COORDINATES, CUBIC, [TensorProto.FLOAT], [False, True], [{}]),
    *itertools.product(["cubic"], COORDINATES, CUBIC, [TensorProto.FLOAT], [False], [{"exclude_outside": 1}]),
    *itertools.product(["cubic"], COORDINATES[:1], CUBIC, [TensorProto.FLOAT], [False], [{"cubic_coeff_a": -0.5}]),
]


@pytest.mark.parametrize(("mode", "coordinates", "scales", "dtype", "sizes", "more"), CASES, ids=str)
def test_infinities_and_nan_stay_where_they_are(
    mode: str, coordinates: str, scales: Sequence[float], dtype: int, sizes: bool, more: Mapping[str, Any]
) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, **more}
    source, shape = resize(scales, dtype, attributes, sizes=sizes)
    result = opshift.convert(source, opset=10, verify=False)
    assert isinstance(result.model, onnx.ModelProto)
    rng = np.random.default_rng(0)
    feeds = []
    for value, _ in itertools.product((0.0, np.inf, -np.inf, np.nan), range(4)):
        x = rng.normal(size=shape).astype(helper.tensor_dtype_to_np_dtype(dtype))
        x.reshape(-1)[rng.integers(x.size)] = value
        feeds.append({"x": x})
    for one, other in zip(run(source, feeds), run(result.model, feeds), strict=True):
        # Each result is a sum of at most 4^2 or 2^3 products of numbers below 4, in another order: 16 roundings.
        np.testing.assert_allclose(one[0], other[0], rtol=0, atol=16 * 4 * 2.0**-22)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_a_long_axis_takes_few_constants(mode: str) -> None:
    """A matrix of weights would have 4 million elements."""
    source, _ = resize([1, 1, 1, 256], TensorProto.FLOAT, {"mode": mode}, sizes=False)
    result = opshift.convert(source, opset=10, verify=False).model
    assert isinstance(result, onnx.ModelProto)
    assert result.ByteSize() < 64 * 1024
