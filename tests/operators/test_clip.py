"""Clip: bounds given, computed and left out, of floats and integers, infinities, NaN and both zeros."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from operators.harness import BF16, F16, F64, INF, NAN, Array, Case, Table, arr
from opshift.opsets.operators import clip
from opshift.opsets.registry.operator import Lifted

HOSTILE = arr([[-INF, -5, -1, -0.0], [0.0, 1, 5, INF]])
WIDE = np.array([-(2**63), -(2**33), -1, 0, 2**31, 2**33 + 2**31, 2**53 + 1, 2**63 - 1], np.int64)


def case(
    data: Array, low: float | None, high: float | None, *, known: bool = True, name: str = "", **more: Any
) -> Case:
    bounds = [None if bound is None else np.array(bound, data.dtype) for bound in (low, high)]
    how = "known" if known else "computed"
    return Case(f"{name or data.dtype} {low} to {high}, {how}", [data, *bounds], known=(1, 2) * known, **more)


class TestClip(Table):
    operator = clip.OPERATOR
    tolerance = 2**-60
    """Less than a unit of any type: nothing may differ but the sign of a zero, which no text tells apart."""
    cases = (
        *(
            case(HOSTILE, low, high, known=known)
            for (low, high), known in itertools.product(
                ((-1, 1), (0, 6), (-0.0, 0.0), (0.0, -0.0), (None, 1), (-1, None), (None, None), (1, -1)), (True, False)
            )
        ),
        case(arr([NAN, 1, NAN, -9]), -1, 1, name="NaN"),
        case(arr([NAN, 1, NAN, -9]), -1, 1, known=False, name="NaN"),
        case(arr([NAN, 1, -9]), NAN, 1, name="from NaN"),
        case(arr(-INF), -1, 1, name="scalar"),
        case(HOSTILE[:0], -1, 1, known=False, name="empty"),
        *(case(HOSTILE.astype(F16), low, 3, known=known) for low in (-1, None) for known in (True, False)),
        *(case(HOSTILE.astype(F64), low, high) for low, high in ((-1, 1), (-0.1, 0.1), (None, 1), (None, None))),
        case(HOSTILE.astype(BF16), -1, 1, least=13, departs="its body, which has Where, has no kernel"),
        *(
            case(np.array([0, 1, 7, 100, 127], dtype), 1, high, known=known)
            for dtype in (np.int8, np.uint8, np.int32, np.uint32)
            for high in (90, None)
            for known in (True, False)
        ),
        *(case(np.array([0, 1, 7, 127], dtype), 1, 90) for dtype in (np.int16, np.uint16)),
        *(case(np.array([0, 1, 2**64 - 1], np.uint64), 1, high, known=False, least=9) for high in (90, None)),
        *(
            case(np.array([-(2**63), -5, 0, 7, 2**33, 2**63 - 1]), 0, 100, known=known, name="narrow")
            for known in (True, False)
        ),
        case(WIDE, 5, -5),
        *(
            case(WIDE, low, high, known=known)
            for low, high in ((0, 100), (-(2**32), 2**53), (None, 5), (2**31, 2**53))
            for known in (True, False)
        ),
    )

    def lifts_to(self, back: Lifted, whole: Lifted) -> bool:
        # Clip-6 has the bounds as floats: their own type comes from the input.
        data = whole.operands[0]
        if data is not None and data.dtype is None:
            return True
        return super().lifts_to(back, whole)
