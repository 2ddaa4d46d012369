"""AveragePool and MaxPool: pads, ceil_mode and dilations, alone and together; global pools."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from refused import line
from running import run, same

import opshift
from operators.harness import F16, INF, Array, Case, Code, Refused, Table, arr, converted
from opshift.opsets.operators import (
    averagepool,
    globalaveragepool,
    globallppool,
    globalmaxpool,
    lppool,
    maxpool,
    maxunpool,
    windowed,
)
from opshift.opsets.operators.averagepool import AveragePool
from opshift.opsets.operators.globallppool import GlobalLpPool
from opshift.opsets.operators.lppool import LpPool
from opshift.opsets.operators.maxpool import MaxPool
from opshift.opsets.operators.maxunpool import MaxUnpool
from opshift.opsets.operators.windowed import Windowed

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
        Case("ceil", pixels(1, 1, 4, 4), AveragePool((3, 3), strides=(2, 2), ceil_mode=1)),
        Case(
            "ceil, padding counts",
            pixels(1, 1, 6, 7),
            AveragePool((3, 2), strides=(2, 2), pads=(1, 1, 0, 0), ceil_mode=1, count_include_pad=1),
        ),
        Case(
            "late window",
            pixels(1, 3, 2, 2),
            AveragePool((3, 3), strides=(3, 3), pads=(1, 1, 1, 1), ceil_mode=1, count_include_pad=1),
            symbolic=22,
        ),
        Case("same, upper", pixels(1, 2, 5, 8), AveragePool((3, 3), strides=(2, 3), auto_pad="SAME_UPPER")),
        Case("same, lower", pixels(1, 2, 5, 8), AveragePool((2, 4), strides=(1, 2), auto_pad="SAME_LOWER")),
        *(
            Case(f"{side}, ceil", pixels(1, 2, 5, 6), AveragePool((3, 2), strides=(2, 2), auto_pad=side, ceil_mode=1))
            for side in ("SAME_UPPER", "SAME_LOWER")
        ),
        Case("valid", pixels(1, 2, 5, 8), AveragePool((2, 4), auto_pad="VALID")),
        Case(
            "valid, ceil",
            pixels(1, 2, 6, 8),
            AveragePool((3, 2), strides=(2, 3), auto_pad="VALID", ceil_mode=1, count_include_pad=1),
            symbolic=22,
        ),
        Case("dilated", pixels(2, 2, 7, 7), AveragePool((2, 2), dilations=(2, 3))),
        Case(
            "dilated, ceil, padding counts",
            pixels(1, 2, 6, 6),
            AveragePool((2, 2), (2, 2), (1, 1, 1, 1), (2, 2), ceil_mode=1, count_include_pad=1),
            symbolic=22,
        ),
        Case("dilated, one by one", pixels(1, 2, 4, 3), AveragePool((1, 1), (2, 1), dilations=(2, 3))),
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
            "{ y = AveragePool <kernel_shape = [2, 2], dilations = [2, 2], pads = [0, 0, 2, 2], strides = [2, 2], "
            "ceil_mode = 1> (x) }",
            Code.MISSING_FACT,
            "windows may start behind the input, whose size is unknown",
            {"opset": 18},
        ),
    )


POOLS = (
    Case("plain", pixels(2, 2, 5, 6), MaxPool((2, 3))),
    Case("one axis", pixels(2, 3, 7), MaxPool((3,), strides=(2,), pads=(1, 1))),
    Case("volume", pixels(1, 2, 4, 5, 3), MaxPool((2, 2, 2), strides=(2, 1, 1))),
    Case("columns first", pixels(2, 2, 5, 6), MaxPool((2, 3), storage_order=1)),
    Case("ceil", pixels(1, 2, 4, 4), MaxPool((3, 3), strides=(2, 2), ceil_mode=1)),
    Case(
        "ceil, pads",
        pixels(1, 2, 6, 7),
        MaxPool((3, 2), strides=(2, 2), pads=(1, 1, 0, 0), ceil_mode=1),
    ),
    Case(
        "late window",
        pixels(1, 2, 2, 2),
        MaxPool((3, 3), strides=(3, 3), pads=(1, 1, 1, 1), ceil_mode=1),
    ),
    Case("same, upper", pixels(1, 2, 5, 8), MaxPool((3, 2), strides=(2, 3), auto_pad="SAME_UPPER")),
    Case("same, lower", pixels(1, 2, 5, 8), MaxPool((2, 4), strides=(1, 2), auto_pad="SAME_LOWER")),
    Case("valid", pixels(1, 2, 5, 8), MaxPool((2, 4), auto_pad="VALID")),
    Case(
        "valid, ceil",
        pixels(1, 2, 6, 7),
        MaxPool((3, 2), strides=(2, 3), auto_pad="VALID", ceil_mode=1),
    ),
    Case("dilated", pixels(2, 2, 7, 7), MaxPool((2, 2), dilations=(2, 3))),
    Case(
        "dilated, ceil",
        pixels(1, 2, 6, 7, 5),
        MaxPool((2, 2, 3), (2, 3, 1), (1, 0, 1, 0, 1, 1), (2, 2, 2), ceil_mode=1),
        symbolic=22,
    ),
    Case("same, stride longer than the window", pixels(1, 2, 7), MaxPool((1,), strides=(2,), auto_pad="SAME_LOWER")),
    Case("one by one", pixels(2, 2, 3, 4), MaxPool((1, 1))),
    Case("one by one, dilated", pixels(2, 2, 3, 4), MaxPool((1, 1), (2, 1), dilations=(2, 3))),
    Case("halves, pads", pixels(1, 2, 5, 5, dtype=F16), MaxPool((3, 3), pads=(2, 1, 1, 2))),
    Case("double", pixels(2, 1, 6, dtype=np.float64), MaxPool((2,), strides=(3,))),
    Case("equal elements", [RNG.integers(0, 2, (2, 2, 4, 4)).astype(np.float32)], MaxPool((3, 2), pads=(1, 1, 1, 0))),
    Case("empty batch", pixels(0, 2, 5, 6), MaxPool((2, 3), pads=(1, 0, 0, 1))),
    Case("bytes, pads", [RNG.integers(0, 256, (1, 2, 5)).astype(np.uint8)], MaxPool((2,), pads=(1, 1))),
    Case("bytes", [RNG.integers(-128, 128, (1, 2, 5, 5)).astype(np.int8)], MaxPool((2, 2))),
)
"""Cases of MaxPool without indices."""


class TestMaxPool(Table):
    operator = maxpool.OPERATOR
    cases = (
        *POOLS,
        *(
            dataclasses.replace(
                case,
                name=f"{case.name}, indices",
                meaning=dataclasses.replace(case.meaning, indices=True),
            )
            for case in POOLS
        ),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 12]> g (float[1,1,h,w] x) => (float[1,1,i,j] y) '
            "{ y = MaxPool <kernel_shape = [2, 2], dilations = [2, 2], pads = [0, 0, 2, 2], strides = [2, 2], "
            "ceil_mode = 1> (x) }",
            Code.MISSING_FACT,
            "windows may start behind the input, whose size is unknown",
            {"opset": 9},
        ),
        Refused(
            '<ir_version: 9, opset_import: ["": 22]> g (float[1,1,2,2] x) => (float[1,1,i,j] y) '
            "{ y = MaxPool <kernel_shape = [2, 2], dilations = [3, 3], pads = [1, 1, 1, 1]> (x) }",
            Code.NO_LOWERING,
            "a window is in the padding only",
            {"decompose": ["MaxPool"]},
        ),
    )


def taken(shape: tuple[int, ...], most: int, dtype: Any = np.float32) -> list[Array]:
    """Return elements, and for each a place of its own below a number."""
    size = int(np.prod(shape))
    return [RNG.standard_normal(shape).astype(dtype), RNG.permutation(most)[:size].reshape(shape)]


def filled(sizes: tuple[int, ...], kernels: tuple[int, ...], dilations: tuple[int, ...]) -> int:
    """Whether a window fits along each axis."""
    axes = zip(sizes, kernels, dilations, strict=True)
    return int(all(size > step * (kernel - 1) for size, kernel, step in axes))


class TestWindowed(Table):
    operator = windowed.OPERATOR
    tolerance = 1e-6
    cases = tuple(
        Case(
            f"{kernels} of {sizes} by {strides}, {dilations} apart, largest {largest}",
            pixels(2, 3, *sizes),
            Windowed(kernels, strides, dilations, largest, filled(sizes, kernels, dilations)),
        )
        for sizes, kernels, strides, dilations in (
            ((7,), (3,), (1,), (1,)),
            ((6,), (4,), (1,), (1,)),
            ((5, 6), (3, 2), (1, 1), (1, 2)),
            ((9,), (5,), (2,), (2,)),
            ((8, 7), (2, 4), (1, 3), (2, 1)),
            ((2, 5), (3, 1), (1, 2), (1, 1)),
            ((6, 1), (7, 2), (2, 2), (1, 3)),
            ((4, 5, 6), (2, 3, 1), (1, 1, 2), (1, 2, 1)),
        )
        for largest in (0, 1)
    )


class TestMaxUnpool(Table):
    operator = maxunpool.OPERATOR
    cases = (
        Case("plain", taken((2, 1, 2, 3), 18), MaxUnpool((2, 1)), least=7, symbolic=9),
        Case("strides", taken((1, 2, 2, 2), 32), MaxUnpool((2, 2), strides=(2, 2)), least=7, symbolic=9),
        Case("one axis, pads", taken((1, 1, 3), 5), MaxUnpool((3,), strides=(2,), pads=(1, 1)), least=7),
        Case(
            "volume",
            taken((1, 1, 2, 1, 2), 6),
            MaxUnpool((2, 2, 2), strides=(2, 1, 1), pads=(0, 0, 1, 1, 0, 1)),
            least=7,
            symbolic=9,
        ),
        Case(
            "output_shape, known",
            [*taken((1, 1, 2, 2), 25), np.array([1, 1, 5, 5])],
            MaxUnpool((2, 2), strides=(2, 2)),
            known=(2,),
            least=7,
            symbolic=9,
        ),
        Case("output_shape", [*taken((1, 1, 2), 6), np.array([1, 1, 6])], MaxUnpool((2,), strides=(2,)), least=7),
        Case("halves", taken((1, 2, 2, 2), 32, F16), MaxUnpool((2, 2), strides=(2, 2)), least=7, symbolic=9, runs=22),
        Case("empty batch", taken((0, 2, 2), 1), MaxUnpool((2,)), least=7, symbolic=9),
    )


class TestLpPool(Table):
    operator = lppool.OPERATOR
    tolerance = 1e-5
    cases = (
        *(Case(f"p {p}", pixels(2, 2, 5, 6), LpPool((2, 3), p=p)) for p in (1, 2, 3, 4)),
        *(
            Case(f"p {p}, pads and strides", pixels(1, 2, 5, 7), LpPool((3, 2), strides=(2, 3), pads=(1, 0, 2, 1), p=p))
            for p in (1, 2, 3)
        ),
        Case("one axis", pixels(2, 3, 7), LpPool((3,), strides=(2,), pads=(1, 1))),
        Case("three axes", pixels(1, 2, 3, 4, 3), LpPool((2, 2, 2), p=3)),
        Case("ceil", pixels(1, 1, 4, 4), LpPool((3, 3), strides=(2, 2), ceil_mode=1), symbolic=22),
        Case("ceil, nothing behind", pixels(1, 2, 4), LpPool((1,), strides=(2,), ceil_mode=1, p=3), symbolic=22),
        Case(
            "late window",
            pixels(1, 3, 2, 2),
            LpPool((3, 3), strides=(3, 3), pads=(1, 1, 1, 1), ceil_mode=1, p=1),
            symbolic=22,
        ),
        Case("same, upper", pixels(1, 2, 5, 8), LpPool((3, 3), strides=(2, 3), auto_pad="SAME_UPPER")),
        Case("same, lower", pixels(1, 2, 5, 8), LpPool((2, 4), strides=(1, 2), auto_pad="SAME_LOWER", p=1)),
        Case("same, ceil", pixels(1, 2, 5, 8), LpPool((2, 3), strides=(2, 2), auto_pad="SAME_UPPER", ceil_mode=1)),
        Case("valid", pixels(1, 2, 5, 8), LpPool((2, 4), auto_pad="VALID", p=3)),
        *(
            Case(f"dilated, p {p}", pixels(2, 2, 7, 7), LpPool((2, 2), dilations=(2, 3), p=p), symbolic=18)
            for p in (1, 2, 3)
        ),
        Case("empty batch", pixels(0, 2, 5, 6), LpPool((2, 3))),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 18]> g (float[1,1,n] x) => (float[1,1,m] y) '
            "{ y = LpPool <kernel_shape = [2], strides = [2], ceil_mode = 1> (x) }",
            Code.MISSING_FACT,
            "it has no ceil_mode",
            {"opset": 11},
        ),
    )


class TestGlobalLpPool(Table):
    operator = globallppool.OPERATOR
    unrun: ClassVar[Mapping[int, str]] = {22: "no kernel in onnxruntime 1.32.0"}
    tolerance = 1e-5
    cases = (
        *(Case(f"p {p}", pixels(2, 3, 4, 5), GlobalLpPool(p)) for p in (1, 2, 3, 4)),
        *(Case(f"p {p} of double", pixels(2, 3, 7, dtype=np.float64), GlobalLpPool(p)) for p in (1, 2, 5)),
        Case("p 3 of large halves", [pixels(1, 2, 3, 3, 2, dtype=np.float16)[0] * np.float16(64)], GlobalLpPool(3)),
        Case("empty batch", pixels(0, 2, 4), GlobalLpPool(2)),
    )
    refusals = (
        Refused(
            '<ir_version: 9, opset_import: ["": 18]> g (float[2,3] x) => (float[i,j] y) { y = GlobalLpPool(x) }',
            Code.NO_LOWERING,
            "by_l1: there is no axis behind the first two",
            {"decompose": ["GlobalLpPool"]},
        ),
    )


GLOBAL = (
    *(Case(f"rank {len(shape)}", pixels(*shape)) for shape in ((2, 3, 7), (2, 3, 4, 5), (1, 2, 3, 2, 4))),
    Case("halves", pixels(2, 3, 4, 5, dtype=F16)),
    Case("large halves", [np.full((1, 2, 9), 60000, F16)]),
    Case("double", pixels(2, 3, 7, dtype=np.float64)),
    Case("infinities", [arr([[[INF, 1], [-INF, 2]]])]),
    Case("empty batch", pixels(0, 2, 4)),
)


def without_axes(operator: str) -> Refused:
    return Refused(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[2,3] x) => (float[i,j] y) {{ y = {operator}(x) }}',
        Code.NO_LOWERING,
        "there is no axis behind the first two",
        {"decompose": [operator]},
    )


class TestGlobalAveragePool(Table):
    operator = globalaveragepool.OPERATOR
    tolerance = 1e-5
    cases = GLOBAL
    refusals = (without_axes("GlobalAveragePool"),)


class TestGlobalMaxPool(Table):
    operator = globalmaxpool.OPERATOR
    cases = GLOBAL
    refusals = (without_axes("GlobalMaxPool"),)


@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
@pytest.mark.parametrize("size", ["2", "n"])
def test_late_windows_go_up_as_they_run(operator: str, size: str) -> None:
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 21]> g (float[1,1,{size}] x) => (float[1,1,m] y) '
        f"{{ y = {operator} <kernel_shape = [3], strides = [3], pads = [1, 1], ceil_mode = 1> (x) }}"
    )
    feeds = {"x": arr([[[3, 5]]])}
    there = converted(model, opset=22)
    assert [node.op_type for node in there.graph.node] == [operator]
    assert run(model, [feeds])[0][0].shape == (1, 1, 1)
    assert same(run(model, [feeds])[0][0], run(there, [feeds])[0][0])
    below = 18 if operator == "LpPool" else 11  # which first has ceil_mode
    assert converted(converted(model, opset=below), opset=21).graph.node[0].attribute == model.graph.node[0].attribute
    (refusal,) = opshift.plan(model, opset=22, semantics="spec").refusals
    assert line(refusal).endswith(f" at main/{operator}_0")


@pytest.mark.parametrize("target", [7, 9, 10, 11, 18, 21, 25])
@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (2, 2), (3, 2), (2, 3), (2, 5)])
def test_automatic_padding_of_unknown_sizes(kernel: int, stride: int, padding: str, target: int) -> None:
    text = '<ir_version: 7, opset_import: ["": {}]> g (float[1,1,N] x) => (float[1,1,M] y) {{ y = {} }}'
    pool = f'AveragePool<kernel_shape=[{kernel}], strides=[{stride}], auto_pad="{padding}">(x)'
    feeds = [{"x": np.arange(size, dtype=np.float32).reshape(1, 1, size)} for size in range(1, 9)]
    original = parse_model(text.format(19, pool))
    try:
        result = opshift.convert(original, opset=target, verify=False).model
    except opshift.UnsupportedError:
        # Below 19 onnxruntime does not run a stride longer than the window for all sizes.
        assert kernel < stride
        assert (kernel, stride) != (1, 2)
        assert target < 19
    else:
        assert isinstance(result, onnx.ModelProto)
        for one, other in zip(run(original, feeds), run(result, feeds), strict=True):
            assert same(np.asarray(one), np.asarray(other))
    # A version below 19 ran only for some sizes, and does so still.
    assert opshift.convert(parse_model(text.format(10, pool)), opset=11, verify=False).model


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 2), (1, 3), (2, 3), (1, 5), (2, 5)])
def test_automatic_padding_that_is_negative(kernel: int, stride: int, padding: str, size: int) -> None:
    pool = f'AveragePool<kernel_shape=[{kernel}], strides=[{stride}], auto_pad="{padding}">(x)'
    original = parse_model(
        f'<ir_version: 7, opset_import: ["": 19]> g (float[1,1,{size}] x) => (float[1,1,M] y) {{ y = {pool} }}'
    )
    feed = {"x": np.arange(size, dtype=np.float32).reshape(1, 1, size)}
    expected = run(original, [feed])
    what = AveragePool((kernel,), strides=(stride,), auto_pad=padding)
    assert same(expected[0][0], averagepool.oracle(what, feed["x"]))
    for target in (11, 22):
        try:
            result = opshift.convert(original, opset=target, verify=False).model
        except opshift.UnsupportedError:
            missing = (-(-size // stride) - 1) * stride + kernel - size
            assert missing < -1
            assert target < 19
        else:
            assert isinstance(result, onnx.ModelProto)
            assert same(expected[0][0], run(result, [feed])[0][0])


@pytest.mark.parametrize("target", [8, 11, 12, 21])
@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 2), (1, 3), (2, 4), (2, 3)])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "double"])
@pytest.mark.parametrize("place", ["", "function"])
def test_a_maximum_with_negative_padding_stays_out_of_floats(
    dtype: str, kernel: int, stride: int, padding: str, target: int, place: str
) -> None:
    """onnxruntime 1.32.0: MaxPool of floats fails with "padding values must be non-negative", that of others runs."""
    head = f'<ir_version: 8, opset_import: ["": 22, "local": 1]> g ({dtype}[1,1,N] x) => ({dtype}[1,1,M] y)'
    pool = f"y = MaxPool<kernel_shape: ints = {{}}, strides = [{stride}], auto_pad: string = {{}}>(x)"
    if place:
        body = pool.format("@k", "@p")
        text = f"""{head} {{ y = local.F <k = [{kernel}], p = "{padding}"> (x) }}
            <domain: "local", opset_import: ["": 22]> F <k, p> (x) => (y) {{ {body} }}"""
    else:
        text = f"{head} {{ {pool.format([kernel], repr(padding).replace(chr(39), chr(34)))} }}"
    original = parse_model(text)
    result = opshift.convert(original, opset=target, verify=False).rewritten
    feeds = [{"x": np.arange(size).reshape(1, 1, size).astype(dtype)} for size in range(1, 9)]
    for one, other in zip(run(original, feeds), run(result, feeds), strict=True):
        assert same(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize(("kernel", "stride", "pads"), [(5, 2, (0, 0)), (5, 2, (1, 1)), (3, 2, (0, 0)), (2, 3, (0, 0))])
def test_images_that_are_smaller_than_the_window(
    kernel: int, stride: int, pads: tuple[int, int], ceil_mode: int
) -> None:
    """The number of windows is that of onnxruntime 1.32.0, none included, where sizes are known at run time."""
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g (float[a,b,n] x) => (float[a,b,k] y) { y = MaxPool <kernel_shape = '
        f"[{kernel}], strides = [{stride}], pads = [{pads[0]}, {pads[1]}], ceil_mode = {ceil_mode}> (x) }}"
    )
    result = converted(model, decompose=["MaxPool"])
    assert "MaxPool" not in {node.op_type for node in result.graph.node}
    for size in range(max(kernel - stride - sum(pads) + 1, 1), 8):
        feeds = {"x": np.random.default_rng(size).normal(size=(1, 2, size)).astype(np.float32)}
        np.testing.assert_array_equal(run(result, [feeds])[0][0], run(model, [feeds])[0][0])


@pytest.mark.parametrize("opset", [8, 13, 18])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("outputs", ["y", "y, i"])
@pytest.mark.parametrize("sizes", [(2, 2), (9, 2), (2, 9), (9, 7)])
def test_images_without_a_window_along_one_axis(sizes: tuple[int, int], opset: int, outputs: str, known: bool) -> None:
    declared = ",".join(map(str, sizes)) if known else "h,w"
    indices = ", int64[a,b,k,d] i" if "i" in outputs else ""
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g (float[n,c,{declared}] x) => (float[a,b,k,d] y{indices}) '
        f"{{ {outputs} = MaxPool <kernel_shape = [5, 5], strides = [2, 2]> (x) }}"
    )
    result = converted(model, decompose=["MaxPool"])
    assert "MaxPool" not in {node.op_type for node in result.graph.node}
    feeds = {"x": np.random.default_rng(0).normal(size=(1, 2, *sizes)).astype(np.float32)}
    for found, expected in zip(run(result, [feeds])[0], run(model, [feeds])[0], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.fast(20)
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (0, 1)])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (5, 2), (5, 3)])
@pytest.mark.parametrize(
    ("operator", "opset"), [("MaxPool", 13), ("MaxPool", 22), ("AveragePool", 13), ("AveragePool", 22)]
)
def test_pools_of_unknown_size_are_right_for_small_images_or_refused(
    operator: str, opset: int, kernel: int, stride: int, pads: tuple[int, int], ceil_mode: int
) -> None:
    """From opset 22 on with dilated windows, which may be in the padding only, or around a small image."""
    dilations = "" if opset < 22 else ", dilations = [2]"
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g (float[a,b,n] x) => (float[a,b,k] y) {{ y = {operator} '
        f"<kernel_shape = [{kernel}], strides = [{stride}], pads = [{pads[0]}, {pads[1]}], "
        f"ceil_mode = {ceil_mode}{dilations}> (x) }}"
    )
    if refusals := opshift.plan(model, decompose=[operator]).refusals:
        assert {one.code for one in refusals} == {Code.MISSING_FACT}
        return
    result = opshift.convert(model, decompose=[operator], verify=False).rewritten
    feeds = [{"x": np.random.default_rng(size).normal(size=(1, 2, size)).astype(np.float32)} for size in range(1, 10)]
    span = (kernel - 1) * (2 if dilations else 1) + 1
    feeds = [one for one in feeds if one["x"].shape[2] + sum(pads) + stride > span]  # no smaller image has a window
    for one, other in zip(run(model, feeds), run(result, feeds), strict=True):
        np.testing.assert_allclose(other[0], one[0], rtol=1e-6, atol=1e-6)
