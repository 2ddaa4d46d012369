"""Shape, Size, Squeeze, Unsqueeze, Transpose, Expand, Tile, Concat, Slice, Pad, Identity: what moves elements about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from operators.harness import BF16, F32, F64, INF, Array, Case, Table, arr, text
from opshift.opsets.operators import (
    concat,
    expand,
    identity,
    pad,
    shape,
    size,
    squeeze,
    tile,
    transpose,
    unsqueeze,
)
from opshift.opsets.operators import (
    slice as slice_,
)
from opshift.opsets.operators.concat import Concat
from opshift.opsets.operators.pad import Pad
from opshift.opsets.operators.shape import Shape
from opshift.opsets.operators.transpose import Transpose
from opshift.opsets.registry.operator import Lifted

CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
ONES = np.arange(6, dtype=F32).reshape(1, 2, 1, 3)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


class TestShape(Table):
    operator = shape.OPERATOR
    cases = (
        Case("all", [CUBE]),
        *(
            Case(f"{start} to {end}", [CUBE], Shape(start, end))
            for start, end in ((1, None), (0, 2), (-1, None), (-2, -1), (1, 2), (2, 1), (0, 9), (-9, 2))
        ),
        Case("scalar", [np.array(1, F32)]),
        Case("empty", [np.zeros((0, 3), np.int64)]),
    )


class TestSize(Table):
    operator = size.OPERATOR
    cases = (Case("cube", [CUBE]), Case("scalar", [arr(1)]), Case("empty", [np.zeros((0, 3), np.int64)]))


class TestSqueeze(Table):
    operator = squeeze.OPERATOR
    cases = (
        *(Case(f"axes {axes}", [ONES, ints(*axes)], known=(1,)) for axes in ((0,), (2,), (0, 2), (-2,), (-4, 2))),
        Case("all", [ONES, None]),
        *(Case(f"computed {axes}", [ONES, ints(*axes)], least=9, symbolic=13) for axes in ((0,), (-2, 0), (2,))),
        Case("computed, none", [ONES, ints()], least=13, departs="it takes none for all"),
        Case("all of a scalar", [arr(1), None]),
        Case("all, some empty", [ONES[:, :0], None]),
        Case("all of several elements", [CUBE, None]),
        Case("computed of empty", [ONES[:, :0], ints(0, -2)], least=9, symbolic=13),
        Case("many of several", [np.arange(6).reshape(2, 1, 3, 1, 1), ints(1, -1)], known=(1,)),
        *(Case(f"axis {axis} of 3", [CUBE[:, :1], ints(axis)], known=(1,)) for axis in (1, -2)),
        Case("last", [CUBE[:, :, :1], ints(-1)], known=(1,)),
        Case("empty", [np.zeros((1, 0), F32), ints(0)], known=(1,)),
    )


class TestUnsqueeze(Table):
    operator = unsqueeze.OPERATOR
    cases = (
        *(
            Case(f"axes {axes}", [CUBE, ints(*axes)], known=(1,))
            for axes in ((0,), (3,), (0, 4), (-1,), (-4,), (-1, 0))
        ),
        *(Case(f"computed {axes}", [CUBE, ints(*axes)]) for axes in ((0,), (-2, 0), (4, 1), (-1,), ())),
        Case("computed of empty", [CUBE[:, :0], ints(1, -1)]),
        Case("computed of a scalar", [arr(1), ints(-1, 0)]),
        Case("scalar", [arr(1), ints(0)], known=(1,)),
        Case("empty", [np.zeros((2, 0), F32), ints(-2)], known=(1,)),
    )


class TestTranspose(Table):
    operator = transpose.OPERATOR
    cases = (
        Case("reversed", [CUBE]),
        Case("permuted", [CUBE], Transpose((1, 0, 2))),
        Case("int64", [CUBE.astype(np.int64)], Transpose((2, 0, 1))),
        Case("bfloat16", [CUBE.astype(BF16)], Transpose((2, 0, 1)), least=13),
    )


class TestExpand(Table):
    operator = expand.OPERATOR
    cases = (
        *(
            Case(f"one element to {dims}, {known}", [arr([3]), ints(*dims)], known=known, symbolic=7 if known else 8)
            for dims in ((4,), (2, 3), (0, 2), (1,))
            for known in ((), (1,), (0, 1))
        ),
        Case("scalar", [np.array(True), ints(2, 2)], known=(1,)),
        Case("one element, more axes", [arr([[[3]]]), ints(2)], symbolic=8),
        *(
            Case(f"broadcast, {known}", [arr([[1], [2]]), ints(2, 3)], known=known, symbolic=7 if known else 8)
            for known in ((), (1,), (0, 1))
        ),
        Case("to more axes", [arr([[1], [2]]), ints(3, 2, 4)], symbolic=8),
        Case("to nothing", [arr([[1], [2]]), ints(2, 0)], symbolic=8),
        Case("of nothing", [CUBE[:, :0, :1], ints(1, 5)], symbolic=8),
        Case("into what is larger", [CUBE, ints(1, 1)], known=(1,)),
    )


class TestTile(Table):
    operator = tile.OPERATOR
    cases = (
        Case("twice", [CUBE, ints(1, 2, 1)]),
        Case("known", [CUBE, ints(2, 1, 3)], known=(1,)),
        Case("none", [CUBE, ints(1, 0, 1)]),
        Case("int64", [CUBE.astype(np.int64), ints(2, 1, 1)]),
        Case("vector", [np.array([1, 2, 3], F32), ints(2)]),
        Case("empty", [CUBE[:, :0], ints(2, 3, 1)]),
        Case("scalar", [np.array(1, F32), ints()]),
        *(
            Case(f"along axis {axis}", [CUBE, np.array(2, np.int64), np.array(axis, np.int64)], known=(2,))
            for axis in (0, 1, -1)
        ),
    )


class TestConcat(Table):
    operator = concat.OPERATOR
    cases = (
        *(Case(f"axis {axis}", [CUBE, CUBE + 100], Concat(axis)) for axis in (0, 1, 2, -1, -3)),
        Case("one", [CUBE], Concat(0)),
        Case("three of int64", [ints(1), ints(), ints(2, 3)], Concat(0)),
        Case("strings", [text("a"), text("b")], Concat(0)),
    )


class TestSlice(Table):
    operator = slice_.OPERATOR
    cases = (
        *(
            Case(f"{start}:{end} of axis {axis}", [CUBE, ints(start), ints(end), ints(axis), None], known=(1, 2, 3))
            for start, end, axis in ((0, 1, 0), (1, 3, 1), (-2, -1, 2), (0, 2**31 - 1, -1), (2, 1, 1), (-9, 9, 1))
        ),
        Case("no axes", [CUBE, ints(0, 1), ints(1, 3), None, None], known=(1, 2)),
        Case("steps of 1", [CUBE, ints(1), ints(9), ints(2), ints(1)], known=(1, 2, 3, 4)),
        Case("steps", [CUBE, ints(0, 3), ints(9, -9), ints(0, 2), ints(2, -2)], known=(1, 2, 3, 4)),
        *(
            Case(
                f"{start}:{end}:{step} of axis {axis}, {known}",
                [CUBE, *map(ints, (start, end, axis, step))],
                known=known,
            )
            for start, end, axis, step in (
                (0, 4, 2, 2),
                (-1, -9, 2, -1),
                (2**63 - 1, -(2**63), -1, -3),
                (1, 2**63 - 1, 1, 1),
                (-(2**63), 2**31 + 7, 0, 1),
                (2, 0, 1, -1),
                (-9, -9, 1, -1),
                (0, 2, 2, -1),
                (3, 1, 2, 1),
                (-3, -1, -2, 1),
            )
            for known in ((1, 2, 3, 4), (3, 4))
        ),
        Case("of nothing, backwards", [CUBE[:0], ints(-1), ints(-9), ints(0), ints(-1)], known=(3, 4)),
        Case("int32", [CUBE, *(np.array(one, np.int32) for one in ([0, 3], [9, -9], [0, 2], [2, -2]))], known=(3, 4)),
        Case("computed", [CUBE, ints(1), ints(3), ints(1), None], known=(3,)),
        Case("computed, no axes", [CUBE, ints(0, 1), ints(1, 3), None, None]),
        Case("computed axes", [CUBE, ints(1), ints(3), ints(1), None], least=10),
        Case("computed steps", [CUBE, ints(0), ints(3), ints(1), ints(2)], known=(3,), least=10),
        Case("int64", [ints(3, 1, 4), ints(1), ints(2), ints(0), None], known=(1, 2, 3)),
    )


def padded(
    name: str, data: Array, pads: Sequence[int], value: Array | None = None, mode: str = "constant", **more: Any
) -> Case:
    known = more.pop("known", (1,) if value is None else (1, 2))
    return Case(name, [data, ints(*pads), value, None], Pad(mode), known=known, **more)


class TestPad(Table):
    operator = pad.OPERATOR
    cases = (
        padded("zeros", CUBE[0], (0, 1, 2, 0)),
        padded("a value", CUBE[0], (0, 1, 2, 0), arr(7)),
        padded("-inf in double", CUBE[0].astype(F64), (0, 1, 2, 0), np.array(-INF)),
        padded("0.1 in double", CUBE[0].astype(F64), (0, 1, 2, 0), np.array(0.1)),
        padded("cut", CUBE[0], (-1, 1, 0, -1)),
        padded("computed", CUBE[0], (0, 1, 2, 0), known=()),
        padded("computed, a value", CUBE[0], (2, -1, -1, 3), arr(7), known=()),
        padded("computed, cut", CUBE[0], (-1, 1, 0, -1), known=()),
        *(padded(f"computed, {mode}", CUBE[0], (1, 2, 2, 1), mode=mode, known=()) for mode in ("reflect", "edge")),
        padded("computed, wrap", CUBE[0], (1, 2, 5, 7), mode="wrap", known=()),
        padded("computed, of strings", text("a", "b"), (2, 1), mode="edge", known=()),
        padded("one element, mirrored", CUBE[0, :1], (0, 2, 0, 1), mode="reflect", known=()),
        *(
            padded(
                f"{value.dtype}, {'a' if value.any() else 'no'} value",
                data,
                (0, 1, 2, 0),
                value if value.any() else None,
            )
            for data, value in (
                (CUBE[0].astype(np.int64) * 2**54 + 1, np.array(3, np.int64)),
                (CUBE[0].astype(np.int64) * 2**54 + 1, np.array(0, np.int64)),
                (CUBE[0].astype(np.int32) + 2**30, np.array(3, np.int32)),
                (CUBE[0].astype(np.int32) + 2**30, np.array(0, np.int32)),
                (CUBE[0].astype(np.int8), np.array(-3, np.int8)),
                (CUBE[0] > 2, np.array(True)),
                (CUBE[0] > 2, np.array(False)),
            )
        ),
        padded("a computed value", CUBE[0].astype(np.int64), (0, 1, 2, 0), np.array(3, np.int64), known=(1,)),
        padded("int64 at the edge", CUBE[0].astype(np.int64), (0, 1, 2, 0), mode="edge"),
        padded("int64, nothing", CUBE[0].astype(np.int64), (0, 0, 0, 0)),
        padded("int64 of no rows", CUBE[0, :0].astype(np.int64), (0, 1, 2, 0)),
        *(padded(mode, CUBE[0], (1, 1, 0, 2), mode=mode) for mode in ("reflect", "edge")),
        padded("wrap", CUBE[0], (1, 1, 0, 2), mode="wrap"),
        *(
            Case(f"axes {axes}, {known}", [CUBE, ints(*pads), None, ints(*axes)], Pad(mode), known=known)
            for axes, pads in (((-1,), (1, 2)), ((2, 0), (1, 2, 3, 4)))
            for known, mode in (((1, 3), "edge"), ((3,), "constant"), ((1,), "constant"), ((), "edge"))
        ),
    )

    def lifts_to(self, back: Lifted, whole: Lifted) -> bool:
        # Pad-2 has the value as a float: its own type comes from the data.
        data = whole.operands[0]
        if data is not None and data.dtype is None:
            return bool(back.meaning == whole.meaning)
        return super().lifts_to(back, whole)


@pytest.mark.parametrize(
    ("pads", "axes"),
    [((1, 1), (3,)), ((1, 1), (-4,)), ((1, 1, 1, 1), (0, -3)), ((1, 1, 1), (0,)), ((1, 1), (0, 1)), ((1, 1), None)],
)
def test_the_oracle_of_pad_rejects_axes_that_the_data_does_not_have(
    pads: tuple[int, ...], axes: tuple[int, ...] | None
) -> None:
    with pytest.raises(ValueError, match=r"axes|out of range"):
        pad.oracle(Pad(), CUBE, ints(*pads), None, None if axes is None else ints(*axes))


def test_axes_of_pad_are_drawn_in_range_unless_they_are_constant() -> None:
    rng = np.random.default_rng(0)
    feeds = {"data": CUBE, "pads": ints(0, 0, 0, 0), "axes": np.array([9, 9], np.int32)}
    drawn = [pad.adversarial(rng, feeds)["axes"] for _ in range(50)]
    assert {int(axis) for axes in drawn for axis in axes} == set(range(-3, 3))
    assert all(axes.dtype == np.int32 and axes[0] % 3 != axes[1] % 3 for axes in drawn)
    feeds["axes"].flags.writeable = False
    assert pad.adversarial(rng, feeds)["axes"] is feeds["axes"]


class TestIdentity(Table):
    operator = identity.OPERATOR
    cases = (Case("float", [CUBE]), Case("string", [text("a")]), Case("empty", [np.zeros((0, 1), bool)]))
