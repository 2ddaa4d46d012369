"""GatherND: index tuples of every length, batches, negative indices, every element type and lack of knowledge."""

from __future__ import annotations

import numpy as np

from operators.harness import BF16, F16, F32, F64, Array, Case, Table, arr
from opshift.opsets.operators import gathernd
from opshift.opsets.operators.gathernd import GatherND

CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
FOUR = np.arange(120, dtype=F32).reshape(2, 3, 4, 5)


def drawn(shape: tuple[int, ...], sizes: tuple[int, ...], seed: int = 1) -> Array:
    """Return index tuples in range, from both ends."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(-size, size, shape) for size in sizes], axis=-1).astype(np.int64)


class TestGatherND(Table):
    operator = gathernd.OPERATOR
    cases = (
        Case("elements", [CUBE, drawn((5,), (2, 3, 4))]),
        Case("rows", [CUBE, drawn((5,), (2, 3))]),
        Case("matrices", [CUBE, drawn((5,), (2,))]),
        Case("a table of rows", [CUBE, drawn((2, 1, 3), (2, 3))]),
        Case("one tuple", [CUBE, drawn((), (2, 3, 4))]),
        Case("one index", [CUBE, drawn((), (2,))]),
        Case("known indices", [CUBE, drawn((3,), (2, 3))], known=(1,)),
        Case("a vector", [CUBE[0, 0], drawn((3,), (4,))]),
        *(
            Case(
                f"batch {batch}, tuples of {count}",
                [FOUR, drawn((*FOUR.shape[:batch], 2), FOUR.shape[batch:][:count])],
                GatherND(batch),
            )
            for batch in (1, 2, 3)
            for count in range(1, 5 - batch)
        ),
        Case("batch alone", [FOUR, drawn((2,), (3, 4))], GatherND(1)),
        Case("no tuples", [CUBE, np.zeros((0, 2), np.int64)]),
        Case("no tuples, batch", [CUBE, np.zeros((2, 0, 1), np.int64)], GatherND(1)),
        Case("an empty batch", [np.zeros((0, 3), F32), np.zeros((0, 2, 1), np.int64)], GatherND(1)),
        Case("empty slices", [np.zeros((3, 2, 0), F32), drawn((4,), (3, 2))]),
        *(
            Case(
                f"{np.dtype(dtype).name}, tuples of {count}",
                [arr(CUBE % 2, dtype), drawn((5,), (2, 3, 4)[:count])],
                least=13 if dtype is BF16 else 7,
            )
            for dtype in (
                F16,
                F64,
                BF16,
                bool,
                np.int8,
                np.int16,
                np.int32,
                np.int64,
                np.uint8,
                np.uint16,
                np.uint32,
                np.uint64,
            )
            for count in (2, 3)
        ),
        *(
            Case(f"strings, tuples of {count}", [CUBE.astype(str).astype(object), drawn((5,), (2, 3, 4)[:count])])
            for count in (1, 2, 3)
        ),
        Case("strings, batch", [CUBE.astype(str).astype(object), drawn((2, 5), (3,))], GatherND(1)),
    )
