"""AffineGrid, GridSample and DFT: their versions say the same in other words, over arithmetic within a bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import F64, Array, Case, Code, Refused, Table
from opshift.opsets.operators import affinegrid, dft, gridsample
from opshift.opsets.operators.affinegrid import AffineGrid
from opshift.opsets.operators.dft import DFT
from opshift.opsets.operators.gridsample import GridSample

RNG = np.random.default_rng(0)
MODES = ("linear", "cubic", "nearest")
PADDINGS = ("zeros", "border", "reflection")


def image(*sizes: int, dtype: Any = np.float32) -> list[Array]:
    """Pixels, and places in and around them."""
    pixels = RNG.standard_normal((2, 3, *sizes)).astype(dtype)
    grid = RNG.uniform(-1.4, 1.4, (2, *(size + 1 for size in sizes), len(sizes)))
    return [pixels, grid.astype(dtype)]


class TestGridSample(Table):
    operator = gridsample.OPERATOR
    tolerance = 1e-4
    cases = (
        *(
            Case(f"{mode} {padding} {corners}", image(3, 4), GridSample(mode, padding, corners), symbolic=16)
            for mode in MODES
            for padding in PADDINGS
            for corners in (0, 1)
        ),
        Case("one pixel", image(1, 1), GridSample("nearest", "border", 0), symbolic=16),
        Case("volume", image(2, 3, 4), GridSample(), symbolic=20),
        Case("volume, nearest", image(2, 3, 4), GridSample("nearest", "border", 1), symbolic=20),
        Case("one pixel, reflected", image(1, 2), GridSample("linear", "reflection", 1), symbolic=16),
        Case("far out", [image(3, 4)[0], 40 * image(3, 4)[1]], GridSample("cubic", "reflection", 0), symbolic=16),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float[1,1,d,h,w] x, float[1,2,2,2,3] g) '
            "=> (float[1,1,2,2,2] y) { y = GridSample (x, g) }",
            Code.MISSING_FACT,
            "rank 4 only",
            {"opset": 16},
        ),
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float[1,1,h,w] x, float[1,2,2,2] g) '
            "=> (float[1,1,2,2] y) { y = GridSample (x, g) }",
            Code.MISSING_FACT,
            "the size of the image is unknown",
            {"opset": 15},
        ),
    )


def signal(*shape: int, dtype: Any = np.float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def axis(number: int) -> Array:
    return np.array(number, np.int64)


class TestDFT(Table):
    operator = dft.OPERATOR
    tolerance = 1e-4
    cases = (
        Case("real", [signal(1, 8, 1), None, axis(1)], known=(2,), symbolic=17),
        Case("complex", [signal(2, 5, 2), None, axis(1)], known=(2,), symbolic=17),
        Case("last axis", [signal(2, 4, 5, 1), None, axis(-2)], known=(2,), symbolic=17),
        Case("no axis given", [signal(2, 4, 5, 1), None, None], symbolic=17),
        Case("inverse", [signal(2, 8, 2), None, axis(1)], DFT(inverse=1), known=(2,), symbolic=17),
        Case("one side", [signal(2, 8, 1), None, axis(1)], DFT(onesided=1), known=(2,), symbolic=17),
        Case("padded", [signal(2, 5, 1), axis(8), axis(1)], known=(1, 2), symbolic=17),
        Case("cut", [signal(2, 5, 1), axis(4), axis(1)], known=(1, 2), symbolic=17),
        Case("length at run time", [signal(2, 5, 1), axis(4), axis(1)], known=(2,), least=17),
        Case("one side, odd", [signal(2, 7, 3, 1), None, axis(1)], DFT(onesided=1), known=(2,), symbolic=17),
        Case("inverse, padded", [signal(2, 3, 2), axis(5), axis(1)], DFT(inverse=1), known=(1, 2), symbolic=17),
        Case("double", [signal(1, 6, 1, dtype=F64), None, axis(1)], known=(2,), symbolic=17),
        Case("axis at run time", [signal(1, 6, 1), None, axis(1)], least=20),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float[1,4,1] x, int64 a) => (float[1,4,2] y) '
            "{ y = DFT (x, , a) }",
            Code.MISSING_FACT,
            "computed at run time",
            {"opset": 17},
        ),
    )


def affine(*size: int, dtype: Any = np.float32) -> list[Array]:
    rank = len(size) - 2
    return [RNG.standard_normal((size[0], rank, rank + 1)).astype(dtype), np.array(size, np.int64)]


class TestAffineGrid(Table):
    operator = affinegrid.OPERATOR
    tolerance = 1e-5
    cases = (
        Case("image", affine(2, 3, 4, 5), symbolic=20),
        Case("image, corners", affine(2, 3, 4, 5), AffineGrid(1), symbolic=20),
        Case("one row, corners", affine(1, 1, 1, 3), AffineGrid(1), symbolic=20),
        Case("size known", affine(2, 1, 3, 2), known=(1,)),
        Case("volume", affine(1, 3, 4, 5, 2), symbolic=20),
        Case("volume, corners", affine(2, 3, 4, 5, 2), AffineGrid(1), symbolic=20),
        Case("double", affine(2, 1, 3, 3, dtype=F64), symbolic=20),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float[n,a,b] t, int64[k] s) => (float[n,h,w,a] y) '
            "{ y = AffineGrid (t, s) }",
            Code.MISSING_FACT,
            "two or of three dimensions is unknown",
            {"opset": 16},
        ),
    )
