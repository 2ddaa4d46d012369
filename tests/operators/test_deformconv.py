"""DeformConv: places in the image, between its pixels and outside; groups of channels and of places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from operators.harness import F32, F64, Array, Case, Code, Refused, Table
from opshift.opsets.operators import deformconv
from opshift.opsets.operators.deformconv import DeformConv

RNG = np.random.default_rng(0)


def drawn(
    x: Sequence[int],
    weights: Sequence[int],
    out: Sequence[int],
    *,
    groups: int = 1,
    bias: bool = False,
    mask: bool = False,
    dtype: Any = F32,
) -> list[Array | None]:
    """An image, weights, and an offset for each of the kernel's elements."""
    elements = groups * int(np.prod(weights[2:]))
    arrays = [
        RNG.standard_normal(x),
        RNG.standard_normal(weights),
        1.5 * RNG.standard_normal((x[0], elements * len(out), *out)),
        RNG.standard_normal(weights[0]) if bias else None,
        RNG.standard_normal((x[0], elements, *out)) if mask else None,
    ]
    return [None if array is None else array.astype(dtype) for array in arrays]


class TestDeformConv(Table):
    operator = deformconv.OPERATOR
    tolerance = 1e-5
    cases = (
        Case("plain", drawn((1, 1, 3, 3), (1, 1, 2, 2), (2, 2)), symbolic=19),
        Case("padded", drawn((2, 2, 3, 4), (3, 2, 2, 2), (4, 5)), DeformConv(pads=(1, 1, 1, 1)), symbolic=19),
        Case("bias, mask", drawn((2, 1, 3, 3), (2, 1, 2, 2), (2, 2), bias=True, mask=True), symbolic=19),
        Case("mask", drawn((1, 2, 3, 3), (1, 2, 2, 2), (2, 2), mask=True), symbolic=19),
        Case(
            "places by group",
            drawn((2, 4, 3, 3), (2, 4, 2, 2), (2, 2), groups=2),
            DeformConv(offset_group=2),
            symbolic=19,
        ),
        Case("groups", drawn((1, 4, 3, 3), (2, 2, 2, 2), (2, 2)), DeformConv(group=2), symbolic=19),
        Case(
            "both",
            drawn((2, 4, 4, 3), (4, 2, 2, 1), (3, 3), groups=4),
            DeformConv(group=2, offset_group=4),
            symbolic=19,
        ),
        Case("strides", drawn((1, 1, 5, 6), (1, 1, 2, 2), (2, 3)), DeformConv(strides=(3, 2)), symbolic=19),
        Case("dilations", drawn((1, 1, 5, 6), (1, 1, 2, 2), (3, 5)), DeformConv(dilations=(2, 1)), symbolic=19),
        Case(
            "uneven pads", drawn((1, 1, 3, 3), (1, 1, 2, 2), (3, 4)), DeformConv((2, 2), pads=(1, 0, 0, 2)), symbolic=19
        ),
        Case("double", drawn((1, 1, 3, 3), (1, 1, 2, 2), (2, 2), dtype=F64), symbolic=19),
        Case("one pixel", drawn((1, 1, 1, 1), (1, 1, 1, 1), (1, 1)), symbolic=19),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 19]> g (float[1,1,h,w] x, float[1,1,2,2] k, float[1,8,a,b] o) '
            "=> (float[1,1,a,b] y) { y = DeformConv (x, k, o) }",
            Code.MISSING_FACT,
            "shapes are unknown, but for the batch",
            {"opset": 18},
        ),
    )
