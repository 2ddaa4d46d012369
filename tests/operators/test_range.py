"""Range: any count, also none, also past a block of the folded form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from operators.harness import BF16, F16, F32, F64, Case, Code, Refused, Table
from opshift.opsets.operators import range as range_


def case(start: float, limit: float, delta: float, dtype: Any, known: Sequence[int] = (), least: int = 7) -> Case:
    name = f"{start} to {limit} by {delta}, {np.dtype(dtype).name}, known {known}"
    return Case(name, [np.array(item, dtype) for item in (start, limit, delta)], known=tuple(known), least=least)


class TestRange(Table):
    operator = range_.OPERATOR
    tolerance = 1e-6  # onnxruntime 1.31.1 adds the step again and again, where the text multiplies it
    cases = (
        *(case(0, limit, 1, np.int64, (0, 2)) for limit in (0, 1, 2, 5, 4095, 4096, 4097, 8192, 10000, -3)),
        *(case(*numbers, np.int64, (2,)) for numbers in ((3, 9, 2), (3, 10, 2), (9, 3, -2), (9, 2, -2), (3, 3, 1))),
        *(case(*numbers, np.int32, (2,)) for numbers in ((-3, 9, 4), (5, -5, -3), (1, 0, 1), (0, 7, 1))),
        case(3, 9, 2, np.int64, (0, 1, 2)),
        *(
            case(*numbers, dtype)
            for numbers in ((3, 9, 2), (9, 2, -2), (2, 9, -2), (3, 3, 1), (-3, 9, 4))
            for dtype in (np.int16, np.int32, np.int64, F32, F64)
        ),
        case(-(2**31), 2**31 - 1, 2**30, np.int32, (0, 1, 2)),
        *(case(0.5, 3, 0.25, dtype) for dtype in (F32, F64, F16)),
        *(case(3, -0.5, -0.5, dtype) for dtype in (F32, F64, F16)),
        case(0.1, 2, 0.3, F32),
        case(2, 0.1, -0.7, F32),
        case(0.5, 3, 0.25, BF16, least=13),
        case(0, 300, 1, BF16, least=13),
    )
    refusals = (
        Refused(
            '<ir_version: 13, opset_import: ["": 27]> g (float16 a, float16 b, float16 c) => (float16[n] y) '
            "{ y = Range <stash_type = 10> (a, b, c) }",
            Code.MISSING_FACT,
            "Range-11 has no stash_type=10",
            {"opset": 26},
        ),
    )
