"""GroupNormalization, LayerNormalization, and the roots and reciprocals that they are computed with."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import F32, F64, Array, Case, Table
from opshift.opsets.operators import groupnormalization, layernormalization, reciprocal, sqrt
from opshift.opsets.operators.groupnormalization import GroupNormalization
from opshift.opsets.operators.layernormalization import LayerNormalization

RNG = np.random.default_rng(9)
IMAGE = RNG.normal(2, 3, size=(3, 4, 2, 5)).astype(F32)


def numbers(*shape: int, dtype: Any = F32) -> Array:
    return np.asarray(RNG.normal(size=shape)).astype(dtype)


def grouped(name: str, x: Array, what: Any) -> Case:
    dtype = x.dtype
    return Case(name, [x, numbers(x.shape[1], dtype=dtype), numbers(x.shape[1], dtype=dtype)], what)


class TestGroupNormalization(Table):
    operator = groupnormalization.OPERATOR
    tolerance = 2e-6
    cases = (
        *(grouped(f"{groups} groups", IMAGE, GroupNormalization(groups)) for groups in (1, 2, 4)),
        grouped("epsilon", IMAGE, GroupNormalization(2, 0.5)),
        grouped("sequence", IMAGE[:, :, 0], GroupNormalization(2)),
        grouped("matrix", IMAGE[:, :, 0, 0], GroupNormalization(2)),
        grouped("volume", IMAGE[:, :, None], GroupNormalization(2)),
        grouped("double in float", IMAGE.astype(F64), GroupNormalization(2)),
        grouped("double", IMAGE.astype(F64), GroupNormalization(2, stash_type=11)),
    )


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
