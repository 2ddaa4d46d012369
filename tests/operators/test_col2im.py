"""Col2Im: blocks that overlap and such that do not, in one to three dimensions."""

from __future__ import annotations

import numpy as np

from operators.harness import F32, Array, Case, Table
from opshift.opsets.operators import col2im
from opshift.opsets.operators.col2im import Col2Im


def drawn(batch: int, channels: int, image: tuple[int, ...], block: tuple[int, ...], count: int) -> list[Array]:
    """Return small whole numbers, which add up exactly in any order; of each block, as many as fit."""
    rng = np.random.default_rng(0)
    data = rng.integers(-9, 10, (batch, channels * int(np.prod(block)), count)).astype(F32)
    return [data, np.array(image), np.array(block)]


class TestCol2Im(Table):
    operator = col2im.OPERATOR
    cases = tuple(
        Case(name, arrays, meaning, known=(1, 2), symbolic=18)
        for name, arrays, meaning in (
            ("apart", drawn(1, 2, (4, 6), (2, 3), 4), Col2Im(strides=(2, 3))),
            ("overlapping", drawn(2, 1, (4, 5), (2, 3), 9), Col2Im()),
            ("strides", drawn(1, 1, (5, 5), (3, 3), 4), Col2Im(strides=(2, 2))),
            ("pads", drawn(1, 2, (4, 4), (3, 2), 16), Col2Im(pads=(1, 0, 1, 1))),
            ("uneven pads", drawn(1, 1, (3, 4), (2, 2), 15), Col2Im(pads=(1, 0, 0, 2), strides=(1, 1))),
            ("dilations", drawn(1, 1, (5, 6), (2, 2), 9), Col2Im(dilations=(2, 3))),
            ("all", drawn(2, 3, (6, 5), (2, 3), 6), Col2Im((2, 1), (1, 0, 0, 1), (2, 2))),
            ("one axis", drawn(1, 2, (5,), (2,), 4), Col2Im()),
            ("three axes", drawn(1, 1, (3, 2, 4), (2, 2, 2), 6), Col2Im()),
            ("pixels that nothing reaches", drawn(1, 1, (5, 5), (1, 1), 9), Col2Im(strides=(2, 2))),
            ("empty batch", drawn(0, 1, (3, 3), (2, 2), 4), Col2Im()),
        )
    )
