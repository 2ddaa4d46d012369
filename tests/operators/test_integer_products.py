"""MatMulInteger, QLinearMatMul and ConvInteger: zero points of every form, ends of the types, sums that overflow."""

from __future__ import annotations

import itertools

import numpy as np

from operators.harness import Array, Case, Table, arr
from opshift.opsets.operators import convinteger, matmulinteger, qlinearmatmul
from opshift.opsets.operators.convinteger import ConvInteger
from opshift.opsets.runtimes.kernels import cuts_sums_of_bytes

U8, I8 = np.uint8, np.int8
LEFT = np.array([[0, 255, 128, 3], [7, 255, 255, 255], [1, 2, 3, 4]], U8)
RIGHT = np.array([[-128, 127], [127, -1], [5, 0], [-128, -128]], I8)


def zero(value: int | list[int], dtype: type) -> Array:
    return np.array(value, dtype)


class TestMatMulInteger(Table):
    operator = matmulinteger.OPERATOR
    cases = (
        *(
            Case(
                f"{np.dtype(one).name} by {np.dtype(two).name}",
                [LEFT.astype(one), RIGHT.astype(two), zero(9, one), zero(4, two)],
            )
            for one, two in itertools.product((U8, I8), repeat=2)
        ),
        Case("no zero points", [LEFT, RIGHT]),
        Case("no first zero point", [LEFT, RIGHT, None, zero(-7, I8)]),
        Case("zero points of columns", [LEFT, RIGHT, zero(9, U8), zero([1, -128], I8)]),
        Case(
            "zero points of rows",
            [LEFT, RIGHT, zero([9, 255, 0], U8), zero(4, I8)],
            departs="onnxruntime 1.32.0 runs one zero point of A only",
        ),
        Case("batches", [np.stack([LEFT, LEFT[::-1]]), RIGHT, zero(255, U8), zero(-128, I8)]),
        Case(
            "long",
            [np.full((1, 300), 255, U8), np.full((300, 1), -128, I8), zero(0, U8), zero(127, I8)],
            departs="sums of two products are cut to 16 bits" if cuts_sums_of_bytes() else "",
        ),
        Case("empty", [np.zeros((0, 4), U8), RIGHT, zero(9, U8), zero(4, I8)]),
    )


class TestQLinearMatMul(Table):
    operator = qlinearmatmul.OPERATOR
    cases = tuple(
        Case(
            f"{np.dtype(one).name} by {np.dtype(two).name}",
            [
                LEFT.astype(one),
                arr(0.5),
                zero(9, one),
                RIGHT.astype(two),
                arr(0.25),
                zero(4, two),
                arr(3),
                zero(100, one),
            ],
        )
        for one, two in ((U8, U8), (U8, I8), (I8, I8))
    )


PIXELS = np.arange(36).reshape(1, 2, 3, 6).astype(U8) * 7
KERNELS = np.arange(-12, 12).reshape(3, 2, 2, 2).astype(I8)


class TestConvInteger(Table):
    operator = convinteger.OPERATOR
    cases = (
        Case("plain", [PIXELS, KERNELS, zero(9, U8), zero(1, I8)], symbolic=10),
        Case("no zero points", [PIXELS, KERNELS], symbolic=10),
        Case(
            "padded",
            [PIXELS, KERNELS, zero(0, U8), zero(0, I8)],
            ConvInteger(pads=(1, 0, 1, 2), strides=(1, 2)),
            symbolic=10,
        ),
    )
