"""Sign and IsInf: each element type, the ends of each, both zeros, subnormals, infinities and NaN."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto
from onnx.parser import parse_model
from running import run

from operators.harness import BF16, F16, F32, F64, INF, NAN, Array, Case, Table, arr, converted
from opshift.opsets.operators import isinf, sign
from opshift.opsets.operators.isinf import IsInf

FLOATS = (F16, F32, F64)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def ends(dtype: type) -> Array:
    """Return what a float type has at its ends, and around zero and one."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return arr(
        [
            NAN,
            INF,
            -INF,
            0.0,
            -0.0,
            1,
            -1,
            info.max,
            info.min,
            info.tiny,
            info.smallest_subnormal,
            -info.smallest_subnormal,
        ],
        dtype,
    )


class TestSign(Table):
    operator = sign.OPERATOR
    cases = (
        *(Case(np.dtype(dtype).name, [ends(dtype)]) for dtype in FLOATS),
        *(Case(f"{np.dtype(dtype).name}, finite", [ends(dtype)[3:]]) for dtype in FLOATS),
        Case("bfloat16", [ends(BF16)], least=13),
        *(
            Case(np.dtype(dtype).name, [np.array([info.min, info.max, 0, 1, info.max // 2 + 1, info.min // 2], dtype)])
            for dtype in INTEGERS
            for info in [np.iinfo(dtype)]
        ),
        Case("int64, one half zero", [np.array([[2**32, -(2**32), 2**31, -(2**31)], [2**62, -1, 1, 0]])]),
        Case("empty", [np.zeros((0, 3), F32)]),
        Case("scalar", [arr(-0.5)]),
    )


class TestIsInf(Table):
    operator = isinf.OPERATOR
    cases = (
        *(
            Case(
                f"{np.dtype(dtype).name}, {negative}, {positive}",
                [ends(dtype)],
                IsInf(negative, positive),
                least=13 if dtype is BF16 else 7,
            )
            for negative, positive, dtype in itertools.product((0, 1), (0, 1), (*FLOATS, BF16))
        ),
        Case("empty", [np.zeros((0, 3), F32)]),
        Case("scalar", [arr(-INF)]),
    )


@pytest.mark.parametrize("dtype", ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"])
def test_isinf_of_float8_goes_through_float_below_20(dtype: str) -> None:
    cast = f"z = Cast <to = {TensorProto.DataType.Value(dtype)}, saturate = 0> (x)"
    model = parse_model(
        f'<ir_version: 9, opset_import: ["": 20]> g (float[6] x) => (bool[6] y) {{ {cast} y = IsInf (z) }}'
    )
    feed = {"x": arr([INF, -INF, NAN, 0, 448, 57344])}
    assert (run(converted(model, opset=19), [feed])[0][0] == run(model, [feed])[0][0]).all()
