"""Operators that move elements, of types that onnxruntime or an older version lacks, and casts behind them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from running import Array, run, same

import opshift

MOVES: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "GatherElements": ("y = GatherElements <axis: int = 0> (v, i)", (9, 11)),
    "Gather": ("y = Gather <axis: int = 0> (v, i)", (9, 11)),
    "ScatterElements": ("y = ScatterElements <axis: int = 0> (v, i, v)", (9, 11)),
    "Max": ("y = Max (v, v)", (8, 11)),
    "Where": ("c = Equal(i, i) y = Where (c, v, v)", (8,)),
    "ReduceMax": ("y = ReduceMax <keepdims: int = 1> (v)", (10, 11)),
    "TopK": ("k = Constant <value_ints: ints = [2]> () y, n = TopK <axis: int = 0> (v, k)", (9, 10)),
}
"""By operator: a body at opset 13, and what it is converted to."""
TYPES = (TensorProto.INT16, TensorProto.UINT16, TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64,
         TensorProto.UINT64, TensorProto.FLOAT16, TensorProto.DOUBLE)  # fmt: skip
INDICES = np.array([3, 1, 0, 2], np.int64)


def values(kind: int) -> Array:
    """Return numbers of a type beyond 2^24, 2^31 and 2^53, where it has them, with all lower bits of their own."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind))
    if dtype.kind == "f":
        return (
            np.array([2.0**53 - 1, 2.0**24 + 1, -(2.0**31) - 3, 0.1]).clip(-60000, 60000).astype(dtype)
            if kind == (TensorProto.FLOAT16)
            else np.array([2.0**53 - 1, 2.0**24 + 1, -(2.0**31) - 3, 0.1], dtype)
        )
    info = np.iinfo(dtype)
    wanted = (info.max, info.max - 2, info.max // 2 + 2, info.min + 1)
    return np.array(wanted, dtype)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("operator", MOVES)
def test_elements_survive_and_casts_around_them_wrap(operator: str, kind: int) -> None:
    body, opsets = MOVES[operator]
    parameter = onnx.defs.get_schema(operator, 13).inputs[1 if operator == "Where" else 0]
    if f"tensor({str(TensorProto.DataType.Name(kind)).lower()})" not in parameter.types:
        pytest.skip("the operator does not take this type")
    element = str(TensorProto.DataType.Name(kind)).lower()
    narrow = "" if element.startswith(("float", "double")) else "b = Cast <to: int = 4> (y) w = Cast <to: int = 2> (y)"
    more = ", uint16[N] b, uint8[M] w" if narrow else ""
    original = onnx.parser.parse_model(f"""<ir_version: 7, opset_import: ["" : 13]>
g ({element}[4] v, int64[4] i) => ({element}[K] y{more}) {{ {body} {narrow} }}""")
    feed = {"v": values(kind), "i": INDICES}
    try:
        expected = run(original, [feed])[0]
    except Exception:  # onnxruntime 1.32.0 has no such kernel
        expected = None
    for request in ({"decompose": [operator]}, *({"opset": opset} for opset in opsets)):
        try:
            converted = opshift.convert(original, verify=False, **request).model  # type: ignore[arg-type]
        except opshift.UnsupportedError:
            continue
        assert isinstance(converted, onnx.ModelProto)
        onnx.checker.check_model(converted, full_check=True)
        if expected is not None:
            found = run(converted, [feed])[0]
            assert all(map(same, expected, found)), f"{request}: {expected} {found}"
