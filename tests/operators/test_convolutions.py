"""Conv, QLinearConv, MatMul and Det: sums of products, in whatever order they are added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import F32, F64, INF, NAN, Array, Case, Table, arr
from opshift.opsets.operators import conv, det, matmul, qlinearconv
from opshift.opsets.operators.conv import Conv
from opshift.opsets.operators.qlinearconv import QLinearConv

I8, U8 = np.int8, np.uint8


def whole(*shape: int, dtype: Any = F32, seed: int = 0) -> Array:
    """Return small whole numbers, whose sums and products are exact."""
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


IMAGE, KERNELS = whole(2, 4, 5, 6), whole(6, 4, 3, 2, seed=1)
BIAS = whole(6, seed=2)
SAME = ("SAME_UPPER", "SAME_LOWER")


class TestConv(Table):
    operator = conv.OPERATOR
    cases = (
        Case("plain", [IMAGE, KERNELS]),
        Case("bias", [IMAGE, KERNELS, BIAS]),
        Case("padded, with strides", [IMAGE, KERNELS, BIAS], Conv(pads=(1, 0, 2, 3), strides=(2, 1))),
        Case("dilated", [IMAGE, KERNELS], Conv(dilations=(2, 3), kernel_shape=(3, 2))),
        Case("groups", [IMAGE, whole(6, 2, 2, 2), BIAS], Conv(group=2)),
        Case("each channel", [IMAGE, whole(4, 1, 2, 3)], Conv(group=4, pads=(1, 1, 0, 0))),
        Case("one pixel", [IMAGE, whole(6, 4, 1, 1)]),
        Case("one pixel and bias", [IMAGE, whole(6, 4, 1, 1), BIAS]),
        Case("one pixel with strides", [IMAGE, whole(6, 4, 1, 1)], Conv(strides=(2, 3))),
        Case("one axis", [whole(2, 3, 7), whole(4, 3, 3)], Conv(pads=(1, 1))),
        Case("one axis, one pixel", [whole(2, 3, 7), whole(4, 3, 1)]),
        Case("three axes", [whole(1, 2, 3, 4, 3), whole(3, 2, 2, 2, 2)], Conv(strides=(1, 2, 1))),
        Case("no batch", [np.zeros((0, 4, 5, 6), F32), KERNELS]),
        Case("no batch, one pixel", [np.zeros((0, 4, 5, 6), F32), whole(6, 4, 1, 1)]),
        Case("infinite", [arr([[[1, INF, 2, NAN, 3, -INF, 4]]]), arr([[[1, 2]]])]),
        Case("doubles", [IMAGE.astype(F64), KERNELS.astype(F64)], runs=99),
        *(
            Case(f"{auto} with strides {strides}", [IMAGE, KERNELS], Conv(auto_pad=auto, strides=strides))
            for auto in SAME
            for strides in (None, (1, 1), (2, 2), (3, 1))
        ),
        Case("VALID", [IMAGE, KERNELS], Conv(auto_pad="VALID", strides=(2, 1))),
    )


def step(*values: float) -> Array:
    return np.array(values if len(values) > 1 else values[0], F32)


PIXELS = whole(1, 2, 4, 5, seed=3).astype(I8)
QKERNELS = whole(3, 2, 2, 2, seed=4).astype(I8)
SUMS = np.array([100, -2000, 3000], np.int32)


def quantized(pixels: Array, kernels: Array, scales: Array, zeros: Array, to: Any, bias: Array | None) -> list[Any]:
    """Return the operands of QLinearConv."""
    zero = np.array(3, pixels.dtype)
    return [pixels, step(0.5), zero, kernels, scales, zeros, step(3.0), np.array(7, to), bias]


SIGNED = quantized(PIXELS, QKERNELS, step(0.25), np.array(1, I8), I8, None)
UNSIGNED = quantized((PIXELS + 9).astype(U8), (QKERNELS + 9).astype(U8), step(0.25), np.array(9, U8), U8, SUMS)
BY_KERNEL = quantized((PIXELS + 9).astype(U8), QKERNELS, step(0.25, 0.5, 2), np.array([0, 0, 0], I8), U8, SUMS)


class TestQLinearConv(Table):
    operator = qlinearconv.OPERATOR
    cases = (
        Case("signed", SIGNED),
        Case("unsigned, with bias", UNSIGNED),
        Case("by kernel", BY_KERNEL, QLinearConv(pads=(1, 0, 0, 1), strides=(1, 2)), known=(5,), symbolic=10),
        Case("automatic padding", SIGNED, QLinearConv(auto_pad="SAME_LOWER", strides=(2, 2))),
    )


class TestMatMul(Table):
    operator = matmul.OPERATOR
    cases = (
        Case("matrices", [whole(3, 4), whole(4, 5)]),
        Case("doubles", [whole(3, 4, dtype=F64), whole(4, 5, dtype=F64)]),
        Case("a vector and a matrix", [whole(4), whole(4, 5)]),
        Case("a matrix and a vector", [whole(3, 4), whole(4)]),
        Case("vectors", [whole(4), whole(4)]),
        Case("stacks", [whole(2, 3, 4), whole(2, 4, 5)]),
        Case("a stack and a matrix", [whole(2, 1, 3, 4), whole(4, 5)]),
        Case("stacks that are spread", [whole(2, 1, 3, 4), whole(3, 4, 5)]),
        Case("nothing to sum", [whole(3, 0), whole(0, 5)]),
        Case("infinite", [arr([[1, INF], [NAN, 2], [3, 4]]), arr([[1], [2]])]),
        Case("int32", [whole(3, 4, dtype=np.int32), whole(4, 5, dtype=np.int32)], least=9, symbolic=9),
        Case("int64", [whole(3, 4, dtype=np.int64), whole(4, dtype=np.int64)], least=9, symbolic=9),
    )


def square(size: int, *stack: int) -> Array:
    return whole(*stack, size, size, seed=size)


class TestDet(Table):
    operator = det.OPERATOR
    cases = (
        *(Case(f"{size} rows", [square(size)], symbolic=11) for size in (1, 2, 3, 4)),
        *(Case(f"a stack of {size} rows", [square(size, 2, 3)], symbolic=11) for size in (2, 3)),
        Case("five rows", [square(5)], least=11),
        Case("no matrices", [np.zeros((0, 2, 2), F32)], symbolic=11),
    )
    tolerance = 1e-6


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_determinants_of_nearly_singular_matrices_are_verified_equal(dtype: str, size: int) -> None:
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g ({dtype}[2,{size},{size}] x) => ({dtype}[2] y) {{ y = Det(x) }}'
    )
    rng = np.random.default_rng(size)
    for scale in (1e-3, 1.0, 1e3):
        x = scale * rng.standard_normal((2, size, 1)) @ rng.standard_normal((2, 1, size))
        given = x.astype(F32 if dtype == "float" else F64)
        report = opshift.convert(model, decompose=["Det"], inputs={"x": given}).report
        assert report is not None
        assert report.verdict == "equal"


def test_determinant_is_exact_where_its_logarithm_would_be_rounded() -> None:
    tiny = np.array([[2.5e-308, 0], [0, 1]])
    assert det.oracle(tiny) == 2.5e-308
    assert det.oracle(np.zeros((2, 3, 0, 0))).tolist() == [[1, 1, 1]] * 2
