"""AffineGrid, GridSample and DFT: their versions say the same in other words, over arithmetic within a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.parser import parse_model
from running import run, same

from operators.harness import F64, Array, Case, Code, Refused, Table, converted
from opshift.opsets.operators import affinegrid, dft, gridpixels, gridsample, melweightmatrix, stft
from opshift.opsets.operators.affinegrid import AffineGrid
from opshift.opsets.operators.dft import DFT
from opshift.opsets.operators.gridpixels import GridPixels
from opshift.opsets.operators.gridsample import GridSample
from opshift.opsets.operators.melweightmatrix import MelWeightMatrix
from opshift.opsets.operators.stft import STFT

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
            Case(f"{mode} {padding} {corners}", image(3, 4), GridSample(mode, padding, corners))
            for mode in MODES
            for padding in PADDINGS
            for corners in (0, 1)
        ),
        Case("one pixel", image(1, 1), GridSample("nearest", "border", 0)),
        Case("volume", image(2, 3, 4), GridSample()),
        Case("volume, nearest", image(2, 3, 4), GridSample("nearest", "border", 1)),
        Case("one pixel, reflected", image(1, 2), GridSample("linear", "reflection", 1)),
        Case("far out", [image(3, 4)[0], 40 * image(3, 4)[1]], GridSample("cubic", "reflection", 0)),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float[] x, float[] g) => (float[] y) { y = GridSample (x, g) }',
            Code.MISSING_FACT,
            "rank 4 only",
            {"opset": 16},
        ),
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float[] x, float[] g) => (float[] y) { y = GridSample (x, g) }',
            Code.MISSING_FACT,
            "the rank is unknown",
            {"opset": 15},
        ),
    )


def places(*sizes: int, dtype: Any = np.float32) -> list[Array]:
    """Whole places in and around an image, and its sizes."""
    return [RNG.integers(-4, 9, (5, 7, len(sizes))).astype(dtype), np.array(sizes)]


class TestGridPixels(Table):
    operator = gridpixels.OPERATOR
    cases = (
        *(
            Case(f"{padding} {corners}, {sizes}", places(*sizes), GridPixels(2, padding, corners))
            for padding in PADDINGS
            for corners in (0, 1)
            for sizes in ((4, 3), (1, 5, 2))
        ),
        *(
            Case(f"{'known' if known else 'double'}, {one}", places(3, 4, dtype=dtype), GridPixels(2, one), known=known)
            for one in PADDINGS
            for dtype, known in ((F64, ()), (np.float32, (1,)))
        ),
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", PADDINGS)
def test_images_that_are_sampled_may_have_any_size(mode: str, padding: str) -> None:
    model = parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[n,c,h,w] x, float[n,p,q,2] g) => (float[n,c,p,q] y) '
        f'{{ y = GridSample <mode = "{mode}", padding_mode = "{padding}"> (x, g) }}'
    )
    result = converted(model, opset=13)
    for sizes in ((3, 4), (1, 1), (7, 2)):
        pixels, grid = image(*sizes)
        feeds = [{"x": pixels, "g": grid}]
        (expected,), (found,) = run(model, feeds)[0], run(result, feeds)[0]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def signal(*shape: int, dtype: Any = np.float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


LENGTH = "onnxruntime 1.32.0 fails without a window and a length"


def axis(number: int) -> Array:
    return np.array(number, np.int64)


class TestDFT(Table):
    operator = dft.OPERATOR
    tolerance = 1e-4
    cases = (
        Case("real", [signal(1, 8, 1), None, axis(1)], known=(2,)),
        Case("complex", [signal(2, 5, 2), None, axis(1)], known=(2,)),
        Case("last axis", [signal(2, 4, 5, 1), None, axis(-2)], known=(2,)),
        Case("no axis given", [signal(2, 4, 5, 1), None, None]),
        Case("inverse", [signal(2, 8, 2), None, axis(1)], DFT(inverse=1), known=(2,)),
        Case("one side", [signal(2, 8, 1), None, axis(1)], DFT(onesided=1), known=(2,)),
        Case("padded", [signal(2, 5, 1), axis(8), axis(1)], known=(1, 2)),
        Case("cut", [signal(2, 5, 1), axis(4), axis(1)], known=(1, 2)),
        Case("length at run time", [signal(2, 5, 1), axis(4), axis(1)], known=(2,)),
        Case("one side, odd", [signal(2, 7, 3, 1), None, axis(1)], DFT(onesided=1), known=(2,)),
        Case("inverse, padded", [signal(2, 3, 2), axis(5), axis(1)], DFT(inverse=1), known=(1, 2)),
        Case("double", [signal(1, 6, 1, dtype=F64), None, axis(1)], known=(2,)),
        Case("axis at run time", [signal(1, 6, 3, 1), None, axis(1)]),
        Case("axis at run time, from behind", [signal(2, 3, 4, 2), None, axis(-3)]),
        Case("last axis at run time, one side", [signal(2, 3, 4, 1), None, axis(2)], DFT(onesided=1)),
        Case("half at run time", [signal(1, 6, 3, 2), None, axis(1)], DFT(1, 1)),
        Case("half", [signal(1, 6, 3, 2), None, axis(1)], DFT(1, 1), known=(2,)),
        *(
            Case(f"long, {how}", [signal(1, *shape), None, axis(1)], how, known=(2,), static=True)
            for shape, how in (((1024, 1), DFT()), ((1024, 2), DFT(inverse=1)), ((1024, 2, 1), DFT(onesided=1)))
        ),
        Case("long, padded", [signal(1, 700, 1), axis(1024), axis(1)], known=(1, 2), static=True),
        Case("half of none at run time", [signal(2, 1, 3, 2), None, axis(1)], DFT(1, 1)),
        Case("half of an odd number", [signal(1, 6, 3, 2), axis(11), axis(1)], DFT(1, 1), known=(1, 2), symbolic=17),
        Case("half of an even number", [signal(2, 5, 2), axis(8), axis(1)], DFT(1, 1), known=(1, 2), symbolic=17),
        Case("one side, length at run time", [signal(2, 5, 1), axis(7), axis(1)], DFT(onesided=1), known=(2,)),
        Case("inverse, length at run time", [signal(2, 5, 2), axis(3), axis(1)], DFT(1), known=(2,)),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float16[1,4,1] x) => (float16[1,4,2] y) { y = DFT (x) }',
            Code.ABSENT_OPERATOR,
            "neither of float nor of double",
            {"opset": 16},
        ),
        Refused(
            '<ir_version: 9, opset_import: ["": 20]> g (float[1,4,2] x, int64 n) => (float[1,n,1] y) '
            "{ y = DFT <inverse = 1, onesided = 1> (x, n) }",
            Code.MISSING_FACT,
            "the length of the signal is unknown",
            {"opset": 16},
        ),
    )


@pytest.mark.parametrize("request_", [{"decompose": ["DFT"]}, {"opset": 13}], ids=str)
@pytest.mark.parametrize(
    ("count", "how"), [(1000, DFT()), (1001, DFT(onesided=1)), (768, DFT(inverse=1)), (5120, DFT())]
)
def test_a_long_transform_is_that_of_its_factors(count: int, how: DFT, request_: dict[str, Any]) -> None:
    """onnxruntime 1.32.0 adds up rounded angles unless the length is a power of two: the oracle tells."""
    x = signal(2, count, 2 if how.inverse else 1)
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[2,{count},{x.shape[2]}] x) => (float[a,b,c] y) '
        f"{{ y = DFT <inverse = {how.inverse}, onesided = {how.onesided}> (x) }}"
    )
    result = converted(model, **request_)
    assert "DFT" not in {node.op_type for node in result.graph.node}
    ((found,),) = run(result, [{"x": x}])
    wanted = dft.oracle(how, x, None, axis(1))
    # A sum of n terms is off by n units of the sum of their sizes at most: those of rows, of products with a root, each
    # of which is rounded too, and of columns, all of them of a real and an imaginary part.
    rows = next(one for one in range(int(count**0.5), 0, -1) if count % one == 0)
    terms = 2 * (rows + count // rows) + 8
    sizes = np.abs(x).sum(axis=(1, 2)).max() / (count if how.inverse else 1)
    assert np.abs(found - wanted).max() <= terms * 2.0**-24 * sizes


class TestSTFT(Table):
    operator = stft.OPERATOR
    tolerance = 1e-4
    cases = (
        Case("window", [signal(2, 10, 1), axis(3), signal(4), axis(4)], known=(1, 3)),
        Case("window, both sides", [signal(2, 11, 1), axis(2), signal(5), axis(5)], STFT(0), known=(1, 3)),
        Case("length of the window", [signal(1, 9, 1), axis(2), signal(4), None], known=(1,)),
        Case("no window", [signal(2, 10, 1), axis(4), None, axis(3)], known=(1, 3)),
        Case("length of the signal", [signal(2, 6, 1), axis(4), None, None], known=(1,), departs=LENGTH),
        Case("complex", [signal(2, 10, 2), axis(3), signal(4), axis(4)], STFT(0), known=(1, 3)),
        Case("complex, one side", [signal(2, 10, 2), axis(3), None, axis(5)], known=(1, 3)),
        Case("no parts", [signal(2, 10), axis(3), signal(4), None], known=(1,)),
        Case("all at run time", [signal(2, 10, 1), axis(3), signal(4), axis(4)]),
        Case("step of 32 bits", [signal(1, 7, 1), np.array(2, np.int32), None, np.array(3, np.int32)], STFT(0)),
        Case("double", [signal(1, 9, 1, dtype=F64), axis(2), signal(4, dtype=F64), None], known=(1,)),
        Case("one frame", [signal(1, 4, 1), axis(9), signal(4), None], known=(1, 2)),
        Case("known window, both sides", [signal(2, 11, 1), axis(2), signal(5), axis(5)], STFT(0), known=(1, 2)),
        Case("known window, no parts", [signal(2, 10), axis(3), signal(4), None], known=(1, 2)),
        Case("no window, no parts", [signal(2, 10), axis(3), None, axis(5)], STFT(0), known=(1, 3)),
        Case("long frames", [signal(1, 200), axis(50), signal(128), axis(128)], known=(1, 2, 3)),
        Case("known window, empty batch", [signal(0, 9, 1), axis(2), signal(4), None], known=(1, 2)),
        Case("empty batch", [signal(0, 9, 1), axis(2), signal(4), None], known=(1,)),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 17]> g (float16[1,8,1] x, float16[4] w) => (float16[a,b,c,d] y) '
            "<int64 s = {2}> { y = STFT (x, s, w) }",
            Code.ABSENT_OPERATOR,
            "neither of float nor of double",
            {"opset": 16},
        ),
    )


def bands(count: int, length: int, rate: int, lower: float, upper: float) -> list[Array | None]:
    """Return the operands of a MelWeightMatrix."""
    numbers, edges = (np.array(one, np.int64) for one in (count, length, rate)), (lower, upper)
    return [*numbers, *(np.array(edge, np.float32) for edge in edges)]


EVERY = (0, 1, 2, 3, 4)


class TestMelWeightMatrix(Table):
    operator = melweightmatrix.OPERATOR
    cases = (
        Case("plain", bands(8, 64, 8000, 0, 4000), known=EVERY),
        Case("narrow bands", bands(40, 32, 16000, 20, 7600), known=EVERY),
        Case("odd length", bands(5, 65, 16000, 60, 7000), known=EVERY),
        Case("double", bands(6, 50, 22050, 0, 11025), MelWeightMatrix(11), known=EVERY),
        Case("one band", bands(1, 16, 8000, 100, 3000), known=EVERY),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 17]> g (int64 n, int64 l, int64 r, float a, float b) => (float[i,j] y) '
            "{ y = MelWeightMatrix (n, l, r, a, b) }",
            Code.MISSING_FACT,
            "bands, length, rate or edges are computed at run time",
            {"opset": 16},
        ),
    )


def test_axis_that_version_17_leaves_out_is_1() -> None:
    model = parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (float[1,6,5,2] x) => (float[1,6,5,2] y) { y = DFT (x) }'
    )
    feed = {"x": signal(1, 6, 5, 2)}
    wanted = dft.oracle(DFT(), feed["x"], None, axis(1))
    for opset in (13, 17, 20):
        assert same(wanted, run(converted(model, opset=opset), [feed])[0][0], 1e-4)


@pytest.mark.parametrize("rank", [3, 4])
def test_axis_that_version_20_leaves_out_is_the_last_of_the_signal(rank: int) -> None:
    sizes = (1, 6, 5, 2)[-rank:]
    model = parse_model(
        '<ir_version: 9, opset_import: ["": 20]> '
        f"g (float[{','.join(map(str, sizes))}] x) => (float[{','.join(map(str, sizes))}] y) {{ y = DFT (x) }}"
    )
    feed = {"x": signal(*sizes)}
    wanted = dft.oracle(DFT(), feed["x"], None, axis(rank - 2))
    for opset in (13, 17, 20):
        assert same(wanted, run(converted(model, opset=opset), [feed])[0][0], 1e-4)


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
