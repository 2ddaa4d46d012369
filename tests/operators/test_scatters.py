"""TensorScatter: updates of caches, in line and in a circle."""

from __future__ import annotations

import numpy as np

from operators.harness import F16, F32, Case, Table, text
from opshift.opsets.operators import tensorscatter
from opshift.opsets.operators.tensorscatter import TensorScatter

CACHE = np.arange(24, dtype=F32).reshape(2, 4, 3)
UPDATE = 100 + np.arange(12, dtype=F32).reshape(2, 2, 3)
CIRCLE = TensorScatter(mode="circular")


class TestTensorScatter(Table):
    operator = tensorscatter.OPERATOR
    cases = (
        Case("from the start", [CACHE, UPDATE, None]),
        Case("from the start, in a circle", [CACHE, UPDATE, None], CIRCLE),
        Case("from places", [CACHE, UPDATE, np.array([2, 0])]),
        Case("from known places", [CACHE, UPDATE, np.array([1, 2])], known=(2,)),
        Case("in a circle", [CACHE, UPDATE, np.array([3, 1])], CIRCLE),
        Case(
            "in a circle, once around and before",
            [CACHE, UPDATE, np.array([7, -1])],
            CIRCLE,
            departs="it takes places within the cache only",
        ),
        Case("a whole cache", [CACHE, CACHE + 50, np.array([3, 0])], CIRCLE),
        Case(
            "last axis", [CACHE, UPDATE.swapaxes(1, 2)[..., :1].repeat(2, 1)[:, :4], np.array([2, 1])], TensorScatter(2)
        ),
        Case("first of several axes", [CACHE[..., None], UPDATE[..., None], np.array([2, 0])], TensorScatter(1)),
        Case("float16", [CACHE.astype(F16), UPDATE.astype(F16), np.array([2, 0])]),
        Case("int64", [CACHE.astype(np.int64), UPDATE.astype(np.int64), np.array([2, 0])]),
        Case("bool", [CACHE > 4, UPDATE > 105, np.array([2, 0])]),
        Case("strings", [text("a", "b", "c", "d").reshape(1, 4, 1), text("x").reshape(1, 1, 1), np.array([2])]),
        Case("nothing", [CACHE, UPDATE[:, :0], np.array([2, 0])]),
        Case("no samples", [CACHE[:0], UPDATE[:0], np.array([], np.int64)]),
    )
