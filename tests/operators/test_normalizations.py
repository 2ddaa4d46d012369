"""GroupNormalization, LayerNormalization, and the roots and reciprocals that they are computed with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper
from running import run

import opshift
from operators.harness import F32, F64, Array, Case, Table
from opshift.opsets.operators import layernormalization, reciprocal, sqrt
from opshift.opsets.operators.layernormalization import LayerNormalization

RNG = np.random.default_rng(9)
IMAGE = RNG.normal(2, 3, size=(3, 4, 2, 5)).astype(F32)


def numbers(*shape: int, dtype: Any = F32) -> Array:
    return np.asarray(RNG.normal(size=shape)).astype(dtype)


def grouped(x: Array, scale: Array, bias: Array, groups: int, epsilon: float) -> Array:
    """GroupNormalization-21: "y = scale * (x - mean) / sqrt(variance + epsilon) + bias", within each group."""
    wide = x.astype(F64).reshape(x.shape[0], groups, -1)
    spread = np.sqrt(wide.var(axis=2, keepdims=True) + epsilon)
    normal = ((wide - wide.mean(axis=2, keepdims=True)) / spread).reshape(x.shape)
    along = (-1, *[1] * (x.ndim - 2))
    return np.asarray(normal * scale.reshape(along) + bias.reshape(along))


@pytest.mark.parametrize("opset", [20, 13, 7])
@pytest.mark.parametrize(
    ("x", "groups", "attributes"),
    [
        *((IMAGE, groups, {}) for groups in (1, 2, 4)),
        (IMAGE, 2, {"epsilon": 0.5}),
        (IMAGE[:, :, 0], 2, {}),
        (IMAGE[:, :, 0, 0], 2, {}),
        (IMAGE[:, :, None], 2, {}),
        (IMAGE.astype(F64), 2, {}),
        (IMAGE.astype(F64), 2, {"stash_type": 11}),
    ],
    ids=["1", "2", "4", "epsilon", "sequence", "matrix", "volume", "double in float", "double"],
)
def test_group_normalization_goes_by_its_body(x: Array, groups: int, attributes: Mapping[str, Any], opset: int) -> None:
    feeds = {"x": x, "scale": numbers(x.shape[1], dtype=x.dtype), "bias": numbers(x.shape[1], dtype=x.dtype)}
    node = helper.make_node("GroupNormalization", list(feeds), ["y"], num_groups=groups, **attributes)
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs = [helper.make_tensor_value_info(name, dtype, value.shape) for name, value in feeds.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", dtype, x.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)
    rewritten = opshift.convert(model, opset=opset).rewritten
    ((found,),) = run(rewritten, [feeds])
    wanted = grouped(feeds["x"], feeds["scale"], feeds["bias"], groups, attributes.get("epsilon", 1e-5))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def layered(name: str, x: Array, what: Any, *shape: int, bias: bool = True) -> Case:
    scale = numbers(*shape, dtype=x.dtype)
    return Case(name, [x, scale, numbers(*shape, dtype=x.dtype) if bias else None], what)


class TestLayerNormalization(Table):
    operator = layernormalization.OPERATOR
    tolerance = 2e-6
    cases = (
        *(
            layered(f"axis {axis}, bias {bias}", IMAGE, LayerNormalization(axis), *IMAGE.shape[axis:], bias=bias)
            for axis in (-1, -2, 0, 1, 3)
            for bias in (True, False)
        ),
        layered("epsilon", IMAGE, LayerNormalization(-1, 0.5), 5),
        layered("one scale", IMAGE, LayerNormalization(-2), 1),
        layered("vector", IMAGE[0, 0, 0], LayerNormalization(), 5),
    )


class TestSqrt(Table):
    operator = sqrt.OPERATOR
    cases = (
        Case("float", [np.array([0, 1, 4, np.inf, -1, np.nan], F32)]),
        Case("double", [np.array([[0.25, 2**40]], F64)]),
        Case("empty", [np.zeros((0, 2), F32)]),
    )


class TestReciprocal(Table):
    operator = reciprocal.OPERATOR
    cases = (
        Case("float", [np.array([0, 1, 4, np.inf, -0.5, np.nan], F32)]),
        Case("double", [np.array([[0.25, 2**40]], F64)]),
        Case("empty", [np.zeros((0, 2), F32)]),
    )
