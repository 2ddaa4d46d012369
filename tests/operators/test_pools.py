"""AveragePool: pads, ceil_mode and dilations, alone and together."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import Array, Case, Code, Refused, Table
from opshift.opsets.operators import averagepool
from opshift.opsets.operators.averagepool import AveragePool

RNG = np.random.default_rng(0)


def pixels(*shape: int, dtype: Any = np.float32) -> list[Array]:
    return [RNG.standard_normal(shape).astype(dtype)]


class TestAveragePool(Table):
    operator = averagepool.OPERATOR
    tolerance = 1e-5
    cases = (
        Case("plain", pixels(1, 2, 5, 6), AveragePool((2, 3))),
        Case("one axis", pixels(2, 3, 7), AveragePool((3,), strides=(2,), pads=(1, 1))),
        Case("padding counts", pixels(1, 2, 5, 5), AveragePool((3, 3), pads=(1, 0, 2, 1), count_include_pad=1)),
        Case("ceil", pixels(1, 1, 4, 4), AveragePool((3, 3), strides=(2, 2), ceil_mode=1), symbolic=22),
        Case(
            "ceil, padding counts",
            pixels(1, 1, 6, 7),
            AveragePool((3, 2), strides=(2, 2), pads=(1, 1, 0, 0), ceil_mode=1, count_include_pad=1),
            symbolic=22,
        ),
        Case(
            "late window",
            pixels(1, 3, 2, 2),
            AveragePool((3, 3), strides=(3, 3), pads=(1, 1, 1, 1), ceil_mode=1, count_include_pad=1),
            symbolic=22,
        ),
        Case("same, upper", pixels(1, 2, 5, 8), AveragePool((3, 2), strides=(2, 3), auto_pad="SAME_UPPER")),
        Case("same, lower", pixels(1, 2, 5, 8), AveragePool((2, 4), strides=(1, 2), auto_pad="SAME_LOWER")),
        Case("valid", pixels(1, 2, 5, 8), AveragePool((2, 4), auto_pad="VALID")),
        Case("dilated", pixels(2, 2, 7, 7), AveragePool((2, 2), dilations=(2, 3)), symbolic=19),
        Case(
            "dilated, ceil, padding counts",
            pixels(1, 2, 6, 6),
            AveragePool((2, 2), (2, 2), (1, 1, 1, 1), (2, 2), ceil_mode=1, count_include_pad=1),
            symbolic=22,
        ),
        Case(
            "dilated, ceil",
            pixels(1, 2, 6, 7, 5),
            AveragePool((2, 2, 3), (2, 3, 1), (1, 0, 1, 0, 1, 1), (2, 2, 2), ceil_mode=1),
            symbolic=22,
        ),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 19]> g (float[1,1,h,w] x) => (float[1,1,i,j] y) '
            "{ y = AveragePool <kernel_shape = [2, 2], dilations = [2, 2]> (x) }",
            Code.MISSING_FACT,
            "it has no dilations",
            {"opset": 18},
        ),
        Refused(
            '<ir_version: 9, opset_import: ["": 22]> g (float[1,1,6,6] x) => (float[1,1,i,j] y) '
            '{ y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = "VALID", ceil_mode = 1> (x) }',
            Code.NO_LOWERING,
            "it has auto_pad",
            {"opset": 9},
        ),
    )
