"""NonMaxSuppression: both formats of boxes, ties, thresholds at scores and overlaps, and boxes without area."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from refused import line
from running import nodes_of, run

import opshift
from operators.harness import F32, Array, Case, Code, Refused, Table, converted
from opshift.opsets.operators import nonmaxsuppression, selectedbox, selectedboxes
from opshift.opsets.operators.nonmaxsuppression import NonMaxSuppression
from opshift.opsets.operators.selectedboxes import SelectedBoxes

CORNERS = np.array(
    [[[0, 0, 1, 2], [0, 1, 1, 3], [1, 2, 0, 0], [0, 0, 1, 4], [2, 2, 2, 5], [1, 3, 0, 1], [0, 0, 1, 1]]], F32
)
"""Boxes that overlap by exactly 1/4, 1/3, 1/2 or wholly, some with corners the other way round, one of no area."""
SCORES = np.array([[[0.9, 0.8, 0.9, 0.95, 0.5, 0.25, 0.8], [0, 0, -1, -1, 0.5, 0.5, -np.inf]]], F32)
SIZES = np.array([[[2, 0.5, 4, 1], [1, 0.5, 2, 1], [1, 0.5, -2, 1], [2, 0.5, 2, 1], [2, 1, 2, 2]]], F32)


def numbers(*values: float | None) -> list[Array | None]:
    """The count, the share and the least score; None where it is left out."""
    count, *others = values
    return [
        None if count is None else np.array([count], np.int64),
        *(None if one is None else np.array([one], F32) for one in others),
    ]


def cases() -> Iterator[Case]:
    """Each threshold that an overlap or a score is at, and beside."""
    for share in (0, 0.25, 1 / 3, 0.5, 1):
        yield Case(f"share {share:.2f}", [CORNERS, SCORES, *numbers(9, share)], NonMaxSuppression(), least=9)
    for least in (-np.inf, 0, 0.25, 0.5, 0.8, 2):
        arrays = [CORNERS, SCORES, *numbers(9, 0.5, least)]
        yield Case(f"least {least}", arrays, NonMaxSuppression(), least=9)
    for count in (-1, 0, 1, 2, 99):
        yield Case(f"{count} boxes", [CORNERS, SCORES, *numbers(count, 0.5)], NonMaxSuppression(), least=9)
    constants = [CORNERS, SCORES, *numbers(2, 0.25, 0.25)]
    yield Case("constant numbers", constants, NonMaxSuppression(), least=9, known=(2, 3, 4))
    two = [np.concatenate([CORNERS, CORNERS[:, ::-1] * 2]), np.concatenate([SCORES, SCORES + F32(0.125)])]
    yield Case("two batches", [*two, *numbers(9, 0.5, 0)], NonMaxSuppression(), least=9)
    yield Case("no share", [CORNERS, SCORES, *numbers(9, None, 0)], NonMaxSuppression(), least=9)
    yield Case("no number", [CORNERS, SCORES, *numbers(None)], NonMaxSuppression())
    rows = SCORES[..., :5]
    for share in (0, 0.5):
        yield Case(f"centers, {share}", [SIZES, rows, *numbers(9, share, 0)], NonMaxSuppression(1), least=9)
    yield Case("no batch", [CORNERS[:0], SCORES[:0], *numbers(9, 0.5)], NonMaxSuppression(), least=9)
    yield Case("no class", [CORNERS, SCORES[:, :0], *numbers(9, 0.5)], NonMaxSuppression(), least=9)
    yield Case("no box", [CORNERS[:, :0], SCORES[..., :0], *numbers(9, 0.5)], NonMaxSuppression(), least=9)
    inclusive = NonMaxSuppression(inclusive=True)
    departs = "it selects no score at the threshold"
    arrays = [CORNERS, SCORES, *numbers(9, 0.5, 0.5)]
    yield Case("by the text", arrays, inclusive, least=9, departs=departs)


class TestNonMaxSuppression(Table):
    operator = nonmaxsuppression.OPERATOR
    cases = tuple(cases())
    refusals = (
        Refused(
            '<ir_version: 8, opset_import: ["": 11]> g (float[1,n,4] b, float[1,c,n] s, int64 m) => (int64[k,3] y) '
            "{ y = NonMaxSuppression (b, s, m) }",
            Code.ABSENT_OPERATOR,
            "no NonZero",
            {"opset": 8},
        ),
    )


def sorted_boxes(scores: Array) -> list[Array]:
    """The edges of the boxes of each class, the best first."""
    order = np.argsort(-scores, axis=2, kind="stable")
    one, other = CORNERS[..., :2], CORNERS[..., 2:]
    edges = np.concatenate([np.minimum(one, other), np.maximum(one, other)], axis=2)
    top, left, bottom, right = (
        np.take_along_axis(np.broadcast_to(edges[:, None, :, place], scores.shape), order, axis=2) for place in range(4)
    )
    places = np.arange(scores.shape[2])
    return [np.ones_like(top), places, top, left, bottom, right, (bottom - top) * (right - left), np.array([0.5], F32)]


class TestSelectedBox(Table):
    operator = selectedbox.OPERATOR
    cases = (
        Case("all are left", sorted_boxes(SCORES)),
        Case("some are left", [np.array([[[0, 0, 1, 0, 1, 0, 1], [0] * 7]], F32), *sorted_boxes(SCORES)[1:]]),
    )


class TestSelectedBoxes(Table):
    operator = selectedboxes.OPERATOR
    cases = (
        *(Case(f"{n} turns", [np.array(n), *sorted_boxes(SCORES)], SelectedBoxes()) for n in (1, 5)),
        *(Case(f"{n} turns, written", [np.array(n), *sorted_boxes(SCORES)], SelectedBoxes(n)) for n in (1, 3)),
    )


TEXT = """<ir_version: 8, opset_import: ["": 11]> g (float[1,{n},4] b, float[1,2,{n}] s) => (int64[k,3] y)
    <int64 m = {{{m}}}, float t = {{0.5}}, float l = {{0.25}}> {{ y = NonMaxSuppression (b, s, m, t, l) }}"""


@pytest.mark.parametrize(("boxes", "asked", "turns"), [("7", 3, 3), ("7", 99, 7), ("2", 2, 2)])
def test_turns_are_written_one_after_the_other_where_there_is_no_loop(boxes: str, asked: int, turns: int) -> None:
    source = parse_model(TEXT.format(n=boxes, m=asked))
    result = converted(source, decompose=["NonMaxSuppression", "Loop", "Scan"])
    onnx.checker.check_model(result, full_check=True)
    assert [node.op_type for node in nodes_of(result)].count("ArgMax") == turns - 1, "of the first one all is known"
    feeds = {"b": CORNERS[:, : int(boxes)], "s": SCORES[..., : int(boxes)]}
    np.testing.assert_array_equal(run(result, [feeds])[0][0], run(source, [feeds])[0][0])


@pytest.mark.parametrize(("boxes", "asked"), [("n", 3), ("100", 65)])
def test_without_a_loop_few_boxes_are_to_be_known(boxes: str, asked: int) -> None:
    source = parse_model(TEXT.format(n=boxes, m=asked))
    (refusal,) = opshift.plan(source, decompose=["NonMaxSuppression", "Loop", "Scan"]).refusals
    assert line(refusal) == "missing-fact: NonMaxSuppression-11 at main/NonMaxSuppression_0"


def test_how_many_boxes_are_asked_for_may_be_known_at_run_time_only() -> None:
    source = parse_model(TEXT.format(n="7", m=9).replace("s) =>", "s, int64 m) =>").replace("int64 m = {9}, ", ""))
    result = converted(source, decompose=["NonMaxSuppression"])
    for asked in (0, 1, 2, 9):
        feeds = {"b": CORNERS, "s": SCORES, "m": np.array(asked)}
        np.testing.assert_array_equal(run(result, [feeds])[0][0], run(source, [feeds])[0][0])


def test_by_the_text_a_score_at_the_threshold_is_selected() -> None:
    source = parse_model(TEXT.format(n="7", m=9).replace("{0.25}", "{0.8}"))
    feeds = {"b": CORNERS, "s": SCORES}
    found = {
        way: run(converted(source, decompose=["NonMaxSuppression"], semantics=way), [feeds])[0][0].tolist()
        for way in ("runtime", "spec")
    }
    assert [0, 0, 6] in found["spec"]
    assert found["runtime"] == run(source, [feeds])[0][0].tolist() != found["spec"]


@pytest.mark.slow
def test_boxes_drawn_at_random_are_those_of_the_kernel() -> None:
    rng = np.random.default_rng(0)
    text = """<ir_version: 8, opset_import: ["": 11]> g (float[b,n,4] x, float[b,c,n] s, int64 m, float t, float l)
        => (int64[k,3] y) {{ y = NonMaxSuppression <center_point_box = {center}> (x, s, m, t, l) }}"""
    for center in (0, 1):
        source = parse_model(text.format(center=center))
        results = [converted(source, decompose=["NonMaxSuppression"], opset=opset) for opset in (9, 11, 18)]
        for _ in range(40):
            batches, classes, boxes = rng.integers(1, 3), rng.integers(1, 4), rng.integers(1, 12)
            feeds = {
                "x": (rng.integers(0, 6, (batches, boxes, 4)) * rng.choice([0.5, 0.3, 1.7])).astype(F32),
                "s": (rng.integers(0, 5, (batches, classes, boxes)) / 4).astype(F32),
                "m": np.array(rng.integers(0, 8)),
                "t": np.array(rng.choice([0, 0.1, 0.25, 0.5, 1]), F32),
                "l": np.array(rng.choice([0, 0.25, 0.5, 1]), F32),
            }
            (expected,) = run(source, [feeds])[0]
            told = nonmaxsuppression.oracle(NonMaxSuppression(center), *feeds.values())
            np.testing.assert_array_equal(told, expected)
            for result in results:
                np.testing.assert_array_equal(run(result, [feeds])[0][0], expected)


@pytest.mark.parametrize("numbers_given", ["m", "m, t"])
def test_by_the_text_a_node_without_a_threshold_stays(numbers_given: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 10]> g (float[b,n,4] x, float[b,c,n] s, int64 m, float t)
        => (int64[k,3] y) {{ y = NonMaxSuppression (x, s, {numbers_given}) }}"""
    result = converted(parse_model(text), opset=11, semantics="spec")
    assert [node.op_type for node in result.graph.node] == ["NonMaxSuppression"]


def test_by_the_text_the_threshold_counts_where_no_share_is_given_too() -> None:
    text = """<ir_version: 8, opset_import: ["": 11]> g (float[b,n,4] x, float[b,c,n] s, int64 m, float l)
        => (int64[k,3] y) { y = NonMaxSuppression (x, s, m, "", l) }"""
    result = converted(parse_model(text), decompose=["NonMaxSuppression"], semantics="spec")
    boxes = np.array([[[0, 0, 1, 1], [2, 2, 3, 3]]], F32)
    feeds = {"x": boxes, "s": np.array([[[0.5, 0.25]]], F32), "m": np.array(9), "l": np.array(0.5, F32)}
    assert run(result, [feeds])[0][0].tolist() == [[0, 0, 0]]
