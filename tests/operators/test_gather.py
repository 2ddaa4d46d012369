"""Gather and ScatterElements: indices from both ends, along every axis."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from operators.harness import F16, F32, F64, Array, Case, Table, arr, converted, text
from opshift.opsets.operators import gather, scatterelements, scatternd
from opshift.opsets.operators.gather import Gather
from opshift.opsets.operators.scatterelements import ScatterElements
from opshift.opsets.operators.scatternd import ScatterND

CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
MIXED = np.array([[0, -1], [1, -2]], np.int64)
PLACES = np.array([[[0, 1, -1], [1, 1, 0]]], np.int64)
REDUCTIONS = {"add": 16, "mul": 16, "max": 18, "min": 18}


class TestGather(Table):
    operator = gather.OPERATOR
    cases = (
        *(
            Case(f"axis {axis}, {what}", [CUBE, MIXED], Gather(axis), known=known)
            for axis, (what, known) in itertools.product((0, 1, 2, -1, -2), {"known": (1,), "computed": ()}.items())
        ),
        *(Case(f"axis {axis}, int32", [CUBE, MIXED.astype(np.int32)], Gather(axis)) for axis in (0, 2)),
        Case("from the front", [CUBE, np.array([1, 0], np.int64)], Gather(1), known=(1,)),
        Case("a scalar index", [CUBE, np.array(-1, np.int64)], Gather(0)),
        Case("a known scalar index", [CUBE, np.array(-1, np.int64)], Gather(2), known=(1,)),
        Case("a known scalar index from the front", [CUBE, np.array(1, np.int64)], Gather(1), known=(1,)),
        *(
            Case(f"{what}, axis {axis}", [CUBE, np.array(places, np.int64)], Gather(axis), known=(1,))
            for axis in (0, 2, -1)
            for what, places in {
                "one place": [1],
                "evenly spaced places": [0, 1],
                "evenly spaced places from the end": [-2, -1],
                "places that decrease": [1, 0],
                "one place twice": [1, 1],
            }.items()
        ),
        Case("every second place", [CUBE, np.array([1, 3], np.int64)], Gather(2), known=(1,)),
        Case("strings", [text("a", "b", "c"), np.array([-1, 0], np.int64)]),
        Case("bool", [CUBE > 5, MIXED], Gather(1)),
        Case("no indices", [CUBE, np.zeros((0,), np.int64)], Gather(1)),
        Case("empty slices", [np.zeros((3, 0), F32), MIXED], Gather(0)),
    )


def pairs(*values: Any) -> Array:
    return np.array(values, np.int64)


class TestScatterND(Table):
    operator = scatternd.OPERATOR
    cases = (
        Case("elements", [CUBE[0, 0], pairs([1], [-1]), arr([5, 6])], least=7, symbolic=11),
        Case("slices", [CUBE[0], pairs([1], [-2]), CUBE[1, :2] * 10], least=7, symbolic=11),
        Case("whole places", [CUBE[0], pairs([1, 0], [-1, -1]), arr([5, 6])], least=7, symbolic=11),
        Case("a table of places", [CUBE, pairs([[1, 0]], [[0, 1]]), CUBE[:, :1] * 10], least=7, symbolic=11),
        Case("int64", [np.arange(4), pairs([2]), np.array([-9])], least=7, symbolic=11),
        Case("known slices", [CUBE, pairs([1, 2], [-2, -1]), CUBE[0, :2] * 10], known=(1,), least=9, symbolic=9),
        Case("known places", [CUBE[0], pairs([1, 0], [-1, -1]), arr([5, 6])], known=(1,), least=9, symbolic=11),
        *(
            Case(f"known, {what}", [CUBE, pairs(*places), updates], known=(1,), least=7, symbolic=7)
            for what, places, updates in (
                ("a row", [[-1]], CUBE[:1] * 10),
                ("rows in another order", [[1], [0]], CUBE * 10),
                ("one row twice", [[1], [1]], CUBE[:1] * np.array([10, 10], F32).reshape(2, 1, 1)),
                ("a table of rows", [[[1], [0]]], CUBE[None] * 10),
                ("places of the middle axis", [[[0, 2], [0, 0]], [[1, 2], [1, 0]]], CUBE[:, :2] * 10),
                ("elements of the last axis", [[a, b, 3] for a in (0, 1) for b in range(3)], np.arange(6, dtype=F32)),
                ("a block", [[1, b, c] for b in (0, -1) for c in (1, 2)], arr([5, 6, 7, 8])),
                ("places apart", [[0, 1], [1, 2], [1, -3]], CUBE[0] * 10),
                ("elements apart", [[0, 1, 3], [1, 2, 0]], arr([5, 6])),
                ("every element", [list(place) for place in np.ndindex(2, 3, 4)], np.arange(24, dtype=F32)),
            )
        ),
        Case("known, bool", [CUBE > 5, pairs([1]), CUBE[:1] > 15], known=(1,), least=7, symbolic=9),
        Case("known, strings", [text("a", "b", "c"), pairs([1]), text("x")], known=(1,), least=9, symbolic=11),
        Case("one row twice", [CUBE, pairs([1], [1]), CUBE[[0, 0]]], least=7, symbolic=11),
        *(
            Case(
                f"{how} into one place",
                [CUBE[0, 0], pairs([1], [1]), arr([3, 0.5])],
                ScatterND(how),
                least=7,
                symbolic=since,
            )
            for how, since in REDUCTIONS.items()
        ),
        *(
            Case(
                f"{how}, slices",
                [CUBE, pairs([1], [-1], [0]), 1 - CUBE[[0, 0, 1]]],
                ScatterND(how),
                least=7,
                symbolic=since,
            )
            for how, since in REDUCTIONS.items()
        ),
        *(
            Case(
                f"{how}, places",
                [CUBE, pairs([1, 2], [-1, -1], [0, 1]), CUBE[0] + 1],
                ScatterND(how),
                least=7,
                symbolic=since,
            )
            for how, since in REDUCTIONS.items()
        ),
        Case(
            "add, a table of places",
            [CUBE, pairs([[1, 0]], [[0, 1]]), CUBE[:, :1] * 10],
            ScatterND("add"),
            least=7,
            symbolic=16,
        ),
        Case(
            "add, int64", [np.arange(4), pairs([2], [2]), np.array([-9, 2**40])], ScatterND("add"), least=7, symbolic=16
        ),
        Case("max, nothing", [CUBE, np.zeros((0, 1), np.int64), CUBE[:0]], ScatterND("max"), least=7, symbolic=18),
    )


class TestScatterElements(Table):
    operator = scatterelements.OPERATOR
    cases = (
        *(
            Case(
                f"of {dtype.__name__}",
                [CUBE.astype(dtype), PLACES % 2 - 1, PLACES.astype(dtype)],
                ScatterElements(1),
                symbolic=9,
            )
            for dtype in (np.bool_, np.int8, F16, np.uint64)
        ),
        Case("some rows only", [CUBE, PLACES[:1, :, :3] % 2, -arr(PLACES[:1, :, :3])], ScatterElements(-2), symbolic=9),
        Case("into one place", [CUBE[0, 0], np.array([1, -3, 0], np.int64), arr([2, -0.0, 0.5])], symbolic=9),
        Case("nothing", [CUBE, PLACES[:, :0], arr(PLACES)[:, :0]], ScatterElements(1), least=9),
        Case("over zeros", [-CUBE * 0, PLACES % 2, arr(PLACES)], ScatterElements(1), symbolic=9),
        *(
            Case(
                f"axis {axis}",
                [CUBE[0], np.array([[1, 0]], np.int64), arr([[-5, -6]])],
                ScatterElements(axis),
                least=7,
                symbolic=9,
            )
            for axis in (0, 1, -1)
        ),
        *(
            Case(
                f"{reduction} into one place",
                [CUBE[0, 0], np.array([1, 1, 0], np.int64), arr([2, 3, 0.5])],
                ScatterElements(0, reduction),
                least=7,
            )
            for reduction in REDUCTIONS
        ),
        *(
            Case(
                f"{reduction} along {axis} of {dtype.__name__}",
                [CUBE.astype(dtype), PLACES % 2, (PLACES * 3).astype(dtype)],
                ScatterElements(axis, reduction),
                least=16 if (dtype, reduction) == (np.int64, "mul") else 7,  # products of int64 lose digits below
            )
            for axis, dtype in ((0, F32), (1, np.int32), (2, np.int64), (-1, F64))
            for reduction in (("add", "mul") if dtype is F64 else REDUCTIONS)
        ),
        *(
            Case(
                f"known, {what}",
                [CUBE[0], pairs(*places), updates],
                ScatterElements(axis),
                known=(1,),
                least=7,
                symbolic=9,
            )
            for what, axis, places, updates in (
                ("columns", 1, [[-1, 0]] * 3, CUBE[1, :, :2]),
                ("rows", 0, [[2] * 4, [0] * 4], CUBE[1, :2]),
                ("one row twice", -2, [[1] * 4, [1] * 4], CUBE[1, [0, 0]]),
                ("places of each row", 1, [[3, 1], [0, -1]], CUBE[1, :2, :2]),
                ("some columns", 1, [[2], [2]], CUBE[1, :2, :1]),
            )
        ),
        Case(
            "int32 places",
            [CUBE[0], np.array([[3, -4]], np.int32), arr([[5, 6]])],
            ScatterElements(1),
            least=7,
            symbolic=9,
        ),
        Case("known, bool", [CUBE[0] > 5, pairs([1]), CUBE[0, :1, :1] > 9], ScatterElements(1), (1,), 7, 9),
        Case("mul, nothing", [CUBE, PLACES[:, :0], arr(PLACES)[:, :0]], ScatterElements(1, "mul"), least=7),
    )


@pytest.mark.parametrize("opset", [9, 10, 15])
def test_updates_of_no_columns_are_joined(opset: int) -> None:
    """Below 11, a Pad of the edge cut what had been added to an axis without elements: onnxruntime refuses that."""
    model = parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[n,m] x, int64[k,m] i, float[k,m] u) => (float[n,m] y) '
        '{ y = ScatterElements <reduction = "max"> (x, i, u) }'
    )
    result = converted(model, opset=opset)
    for columns in (0, 2):
        x = np.ones((2, columns), F32)
        feeds: dict[str, Array] = {"x": x, "i": np.zeros(x.shape, np.int64), "u": x * 3}
        assert np.array_equal(run(model, [feeds])[0][0], run(result, [feeds])[0][0])


def test_scatter_is_lowered_as_scatterelements() -> None:
    model = parse_model(
        '<ir_version: 7, opset_import: ["": 10]> g (float[3,4] x, int64[2,4] i, float[2,4] u) => (float[3,4] y) '
        "{ y = Scatter <axis = 0> (x, i, u) }"
    )
    feeds = {
        "x": np.zeros((3, 4), F32),
        "i": np.array([[0, 1, 2, 0], [2, 2, 0, 1]]),
        "u": np.arange(1, 9, dtype=F32).reshape(2, 4),
    }
    for opset in (11, 13, 18):
        there = opshift.convert(model, opset=opset).model
        assert isinstance(there, onnx.ModelProto)
        assert [node.op_type for node in there.graph.node] == ["ScatterElements"]
        assert (run(there, [feeds])[0][0] == run(model, [feeds])[0][0]).all()
