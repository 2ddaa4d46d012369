"""Gather and ScatterElements: indices from both ends, along every axis."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
from onnx.parser import parse_model
from running import run

import opshift
from operators.harness import F32, Array, Case, Table, arr, text
from opshift.opsets.operators import gather, scatterelements, scatternd
from opshift.opsets.operators.gather import Gather
from opshift.opsets.operators.scatterelements import ScatterElements
from opshift.opsets.operators.scatternd import ScatterND

CUBE = np.arange(24, dtype=F32).reshape(2, 3, 4)
MIXED = np.array([[0, -1], [1, -2]], np.int64)


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
        Case("elements", [CUBE[0, 0], pairs([1], [-1]), arr([5, 6])], least=9, symbolic=11),
        Case("slices", [CUBE[0], pairs([1], [-2]), CUBE[1, :2] * 10], least=9, symbolic=11),
        Case("whole places", [CUBE[0], pairs([1, 0], [-1, -1]), arr([5, 6])], least=9, symbolic=11),
        Case("a table of places", [CUBE, pairs([[1, 0]], [[0, 1]]), CUBE[:, :1] * 10], least=9, symbolic=11),
        Case("int64", [np.arange(4), pairs([2]), np.array([-9])], least=9, symbolic=11),
        *(
            Case(f"{how} into one place", [CUBE[0, 0], pairs([1], [1]), arr([3, 0.5])], ScatterND(how), least=since)
            for how, since in {"add": 16, "mul": 16, "max": 18, "min": 18}.items()
        ),
    )


class TestScatterElements(Table):
    operator = scatterelements.OPERATOR
    cases = (
        *(
            Case(
                f"axis {axis}",
                [CUBE[0], np.array([[1, 0]], np.int64), arr([[-5, -6]])],
                ScatterElements(axis),
                least=9,
            )
            for axis in (0, 1, -1)
        ),
        *(
            Case(
                f"{reduction} into one place",
                [CUBE[0, 0], np.array([1, 1, 0], np.int64), arr([2, 3, 0.5])],
                ScatterElements(0, reduction),
                least=since,
            )
            for reduction, since in {"add": 16, "mul": 16, "max": 18, "min": 18}.items()
        ),
    )


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
