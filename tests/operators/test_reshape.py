"""Reshape and Flatten: zeros that copy and zeros that are meant, empty tensors, unknown ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from operators.harness import BF16, F32, Array, Case, Table, text
from opshift.opsets.operators import flatten, reshape
from opshift.opsets.operators.flatten import Flatten
from opshift.opsets.operators.reshape import Reshape

CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
EMPTY = np.zeros((0, 3), F32)


def case(data: Array, shape: Sequence[int], allowzero: int = 0, *, known: bool = True, least: int = 7) -> Case:
    name = f"{data.dtype}{data.shape} to {shape}, allowzero {allowzero}, {'known' if known else 'computed'}"
    operands = [data, np.array(shape, np.int64)]
    return Case(name, operands, Reshape(allowzero), known=(1,) * known, least=least)


class TestReshape(Table):
    operator = reshape.OPERATOR
    cases = (
        *(
            case(CUBE, shape, known=known)
            for shape in ((6, 4), (-1,), (0, -1), (2, 0, 4), (0, 0, 0), (-1, 1, 24))
            for known in (True, False)
        ),
        *(case(CUBE, shape, 1, known=known) for shape in ((6, 4), (-1,), (2, 12)) for known in (True, False)),
        *(
            case(EMPTY, shape, 1, known=known)
            for shape in ((0,), (3, 0), (0, 0), (2, 0, 5), (0, 3))
            for known in (True, False)
        ),
        case(EMPTY, (0, 1, 3), 0),
        case(np.zeros((2, 0), F32), (2, 0), 0),
        case(np.array(5, F32), (1, 1)),
        case(np.array([5], F32), ()),
        case(CUBE.astype(np.int64), (4, 6), 1, known=False),
        case(EMPTY.astype(np.int64), (3, 0), 1, known=False),
        case(EMPTY.astype(bool), (3, 0), 1, known=False),
        case(text("a", "b"), (2, 1), 0),
        case(CUBE.astype(BF16), (4, 6), 0, least=13),
    )


class TestFlatten(Table):
    operator = flatten.OPERATOR
    cases = (
        *(Case(f"axis {axis}", [CUBE], Flatten(axis)) for axis in (0, 1, 2, 3, -1, -2, -3)),
        *(Case(f"axis {axis}, empty", [np.zeros((2, 0, 3), F32)], Flatten(axis)) for axis in (0, 1, 2, 3, -1)),
        Case("int64", [CUBE.astype(np.int64)], Flatten(1)),
        Case("bool", [CUBE.astype(bool)], Flatten(1)),
        Case("scalar", [np.array(3, F32)], Flatten(0)),
    )
