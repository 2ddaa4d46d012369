"""ArgMaxOnward: blocks begun, gone on from and ended, with either tie rule, in parts, of all element types it has."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from operators.harness import F32, F64, INF, NAN, Case, Table, outputs_of
from opshift.opsets.axes import END
from opshift.opsets.operators import argmax, argmaxonward
from opshift.opsets.operators.argmax import ArgMax
from opshift.opsets.operators.argmaxonward import ArgMaxOnward

Array = np.ndarray[Any, Any]

TIED = np.random.default_rng(8).choice([-INF, -0.0, 0.0, 1, INF], (2, 12, 6)).astype(F32)
NANS = np.random.default_rng(9).choice([-INF, 0, 1, NAN], (2, 4, 9)).astype(F32)
HALVES = np.random.default_rng(10).choice([0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, -1, -(2**31)], (1, 5, 300))
"""On both sides of where onnxruntime mistakes the order of int64."""
BROAD = np.random.default_rng(7).integers(0, 3, (2, 3, 2, 1, 20001))
"""Large enough to be looked at in parts, of the last axis, which these do not divide."""


def begun(array: Array, meaning: ArgMaxOnward) -> Case:
    return Case(f"{array.dtype}{list(array.shape)} {meaning}", (array, None, None, None, None), meaning)


def gone_on(array: Array, meaning: ArgMaxOnward) -> Case:
    """The state after the blocks before `meaning.block` is what the oracle says of them."""
    size, block = meaning.size, meaning.block
    before = dataclasses.replace(meaning, start=0, stop=END, block=0)
    number, most = argmaxonward.oracle(before, array[:, : block * size])
    row = array[:, block * size : (block + 1) * size].max(1, keepdims=True)
    wins = most <= row if meaning.select_last_index else most < row
    won = (block * wins).astype(np.uint8)
    state = tuple(np.ascontiguousarray(one[..., meaning.start : meaning.stop]) for one in (most, row, won, number))
    return Case(f"{array.dtype}{list(array.shape)} {meaning}, gone on", (array, *state), meaning)


class TestArgMaxOnward(Table):
    operator = argmaxonward.OPERATOR
    cases = (
        *(
            begun(TIED.astype(dtype), ArgMaxOnward(1, size, last, "any"))
            for dtype, size, last in itertools.product((F32, F64), (1, 2, 6), (0, 1))
        ),
        *(
            gone_on(TIED, ArgMaxOnward(1, size, last, "any", block=block))
            for (size, block), last in itertools.product([(1, 1), (1, 7), (1, 11), (3, 2), (3, 3)], (0, 1))
        ),
        *(begun(array, ArgMaxOnward(1, 1, last)) for array in (NANS, HALVES) for last in (0, 1)),
        *(gone_on(array, ArgMaxOnward(1, 1, last, block=2)) for array in (NANS, HALVES) for last in (0, 1)),
        *(gone_on(NANS, ArgMaxOnward(1, 1, last, block=3)) for last in (0, 1)),
        *(begun(TIED, ArgMaxOnward(1, 2, last, "any", 2, 5)) for last in (0, 1)),
        gone_on(TIED, ArgMaxOnward(1, 2, 0, "any", 2, 5, 2)),
        *(begun(BROAD.astype(dtype), ArgMaxOnward(1)) for dtype in (F32, F64, np.int32, np.int64)),
    )


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_the_block_is_that_of_the_maximum(size: int, last: int) -> None:
    block, most = argmaxonward.oracle(ArgMaxOnward(1, size, last), TIED)
    assert (block == argmax.oracle(ArgMax(1, 1, last), TIED) // size).all()
    assert (most == TIED.max(axis=1, keepdims=True)).all()


@pytest.mark.parametrize("last", [0, 1])
def test_what_has_been_looked_at_is_gone_on_from(last: int) -> None:
    """After three blocks, and on a part of the axis behind."""
    case = gone_on(TIED, ArgMaxOnward(1, 2, last, start=2, stop=5, block=2))
    part = outputs_of(argmaxonward.OPERATOR, case)
    for one, whole in zip(part, argmaxonward.oracle(ArgMaxOnward(1, 2, last), TIED), strict=True):
        assert (one == whole[..., 2:5]).all()


@pytest.mark.parametrize(
    ("axis", "shape", "behind"),
    [(0, (4, 5), 1), (0, (4, 2, 5), 2), (1, (4, 5, 1, 1), 2), (0, (4, 2, 3, 9), 2), (0, (4, "n", 3), 2)],
)
def test_which_axis_is_divided(axis: int, shape: tuple[Any, ...], behind: int) -> None:
    assert argmaxonward.divided(axis, shape) == behind
