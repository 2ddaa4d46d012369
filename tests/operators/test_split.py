"""Split: sizes given, computed or equal, a last part that is smaller, from both ends."""

from __future__ import annotations

import dataclasses

import numpy as np

from operators.harness import BF16, F32, Array, Case, Table
from opshift.opsets.operators import split
from opshift.opsets.operators.split import Split
from opshift.opsets.registry.operator import Lifted

CUBE = np.arange(60, dtype=F32).reshape(3, 4, 5)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def sized(data: Array, axis: int, *sizes: int, known: bool = True) -> Case:
    how = "known" if known else "computed"
    return Case(
        f"{data.dtype}{data.shape} axis {axis}, {how} sizes {sizes}",
        [data, ints(*sizes)],
        Split(axis, len(sizes)),
        known=(1,) * known,
    )


def counted(data: Array, axis: int, count: int) -> Case:
    return Case(f"{data.dtype}{data.shape} axis {axis}, {count} parts", [data, None], Split(axis, count))


class TestSplit(Table):
    operator = split.OPERATOR
    cases = (
        *(sized(CUBE, axis, 1, 2) for axis in (0, -3)),
        *(sized(CUBE, axis, 2, 0, 3, known=known) for axis in (2, -1) for known in (True, False)),
        sized(CUBE, 1, 4),
        sized(CUBE, 1, 1, 1, 1, 1, known=False),
        sized(CUBE.astype(np.int64), 1, 3, 1),
        sized(np.zeros((0, 3), F32), 1, 1, 2),
        *(counted(CUBE, axis, count) for axis, count in ((0, 3), (1, 2), (-2, 4), (2, 1), (2, 5))),
        *(counted(CUBE, axis, count) for axis, count in ((0, 2), (2, 3), (-1, 2), (-1, 3))),
        counted(CUBE, 1, 3),
        counted(np.zeros((2, 0), F32), 1, 3),
        counted(CUBE.astype(bool), 2, 2),
        dataclasses.replace(counted(CUBE.astype(BF16), 2, 2), least=13),
    )

    def lifts_to(self, back: Lifted, whole: Lifted) -> bool:
        # Split-18 has one way to say that the last part is smaller and that there is none such.
        same = dataclasses.replace(back.meaning, last=whole.meaning.last) == whole.meaning
        return bool(same and back.operands == whole.operands)
