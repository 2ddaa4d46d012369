"""Where: exact for every element type, whatever stands where it is not chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import BF16, F16, F32, F64, INF, NAN, Case, Table, arr, text
from opshift.opsets.operators import where

MASK = np.array([[True, False, True], [False, False, True]])
LOW, HIGH = np.array([[0, 1, 0], [1, 0, 1]]), np.array([[1, 0, 1], [0, 1, 1]])
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def extremes(dtype: Any) -> list[np.ndarray[Any, Any]]:
    """Two tensors of the least and the largest integers of a type."""
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.max], dtype)
    return [ends[LOW], ends[HIGH]]


class TestWhere(Table):
    operator = where.OPERATOR
    cases = (
        *(Case(np.dtype(dtype).name, [MASK, *extremes(dtype)]) for dtype in INTEGERS),
        Case("bool", [MASK, LOW.astype(bool), HIGH.astype(bool)]),
        *(
            Case(np.dtype(dtype).name, [MASK, arr([[1, 2, INF]], dtype), arr([[INF], [NAN]], dtype)])
            for dtype in (F16, F32, F64)
        ),
        Case("bfloat16", [MASK, arr([[1, 2, INF]], BF16), arr([[INF], [NAN]], BF16)], least=13),
        Case("string", [MASK, text("a", "b", "c"), text("x", "y", "z")]),
        Case("-0.0", [MASK, arr([[-0.0] * 3] * 2), arr([[1.0] * 3] * 2)], departs="it adds 0.0 to what is chosen"),
        Case("known", [MASK, arr([[1, 2, 3]]), arr([[4]])], known=(1, 2)),
        Case("scalars", [np.array(True), arr(1), arr(2)]),
        Case("condition broadcast", [np.array([True, False, True]), arr([[1, 2, 3], [4, 5, 6]]), arr(0)]),
        Case("values broadcast", [MASK, arr(1), arr(0)]),
        *(
            Case(f"{x} and {y}: {np.dtype(dtype).name}", [MASK, arr(x, dtype), arr([y], dtype)], known=(1, 2))
            for x, y in ((1, 0), (0, 1))
            for dtype in (np.float32, np.int64, np.int8)
        ),
        Case("one and negative zero", [MASK, arr(1.0), arr(-0.0)], known=(1, 2)),
        Case("empty", [np.zeros((0, 3), bool), arr([[1, 2, 3]]), arr(0)]),
    )
