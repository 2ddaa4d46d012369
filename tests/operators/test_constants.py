"""Cast, CastLike, Constant and ConstantOfShape: element types and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from operators.harness import BF16, F16, F32, F64, INF, NAN, Case, Table, arr
from opshift.opsets.facts import Tensor
from opshift.opsets.operators import cast, castlike, constant, constantofshape
from opshift.opsets.operators.cast import Cast
from opshift.opsets.operators.constant import Constant
from opshift.opsets.operators.constantofshape import ConstantOfShape

NUMBERS = (F16, F32, F64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_)
WHOLE = [0, 1, 2, 100]


def code(dtype: Any) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class TestCast(Table):
    operator = cast.OPERATOR
    cases = (
        *(Case(f"float to {np.dtype(to).name}", [arr(WHOLE)], Cast(code(to))) for to in NUMBERS),
        *(
            Case(f"{np.dtype(of).name} to double", [np.array(WHOLE, of)], Cast(code(F64)))
            for of in NUMBERS
            if of != F32
        ),
        Case("float to int64 drops the fraction", [arr([0.9, -0.9, 2.5, -2.5])], Cast(code(np.int64))),
        Case("double to float rounds", [np.array([0.1, 1e300, -1e300, NAN])], Cast(code(F32))),
        Case("all but zero is true", [arr([0.0, -0.0, 0.5, INF])], Cast(code(np.bool_))),
        Case("int64 to uint64 by its bits", [np.array([-1, 5], np.int64)], Cast(code(np.uint64))),
        Case("uint64 to int64 by its bits", [np.array([2**64 - 1, 5], np.uint64)], Cast(code(np.int64))),
        Case("bfloat16 to float", [arr([1, 3.25], BF16)], Cast(code(F32)), least=13),
        Case("float to bfloat16", [arr([1, 3.25])], Cast(code(BF16)), least=13),
    )


class TestCastLike(Table):
    operator = castlike.OPERATOR
    cases = (
        *(Case(f"float to {np.dtype(to).name}", [arr(WHOLE), np.array([1], to)]) for to in NUMBERS),
        Case("bfloat16", [arr([1, 3.25]), arr([1], BF16)], least=13),
        Case("known", [arr(WHOLE), np.array([1], np.int64)], known=(0,)),
    )


class TestConstant(Table):
    operator = constant.OPERATOR
    cases = (
        *(Case(np.dtype(dtype).name, [], Constant(Tensor(np.array(WHOLE, dtype)))) for dtype in NUMBERS),
        Case("scalar", [], Constant(Tensor(arr(3)))),
        Case("empty", [], Constant(Tensor(np.zeros((0, 2), np.int64)))),
        Case("string", [], Constant(Tensor(np.array(["a", "b"], object)))),
    )


class TestConstantOfShape(Table):
    operator = constantofshape.OPERATOR
    cases = (
        *(
            Case(
                f"{value and value.array.dtype} {dims} {'known' if known else 'computed'}",
                [np.array(dims, np.int64)],
                ConstantOfShape(value),
                known,
                symbolic=7 if known else 8,
            )
            for value in (None, Tensor(np.array([3], np.int64)), Tensor(np.array([True])))
            for dims in ((2, 3), (0,), (4,))
            for known in ((), (0,))
        ),
        Case("scalar", [np.zeros((0,), np.int64)], known=(0,)),
    )
