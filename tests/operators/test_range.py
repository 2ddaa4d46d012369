"""Range: any count, also none, also past a block of the folded form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from operators.harness import F32, F64, Case, Table
from opshift.opsets.operators import range as range_


def case(start: float, limit: float, delta: float, dtype: Any, known: Sequence[int] = (), least: int = 7) -> Case:
    name = f"{start} to {limit} by {delta}, {np.dtype(dtype).name}, known {known}"
    return Case(name, [np.array(item, dtype) for item in (start, limit, delta)], known=tuple(known), least=least)


class TestRange(Table):
    operator = range_.OPERATOR
    cases = (
        *(case(0, limit, 1, np.int64, (0, 2)) for limit in (0, 1, 2, 5, 4095, 4096, 4097, 8192, 10000, -3)),
        *(case(*numbers, np.int64, (2,)) for numbers in ((3, 9, 2), (3, 10, 2), (9, 3, -2), (9, 2, -2), (3, 3, 1))),
        *(case(*numbers, np.int32, (2,)) for numbers in ((-3, 9, 4), (5, -5, -3), (1, 0, 1), (0, 7, 1))),
        case(3, 9, 2, np.int64, (0, 1, 2)),
        case(3, 9, 2, np.int64, least=11),
        case(0.5, 3, 0.25, F32, least=11),
        case(0.5, 3, 0.25, F64, least=11),
        case(-3, 9, 4, np.int16, (2,), least=11),
    )
