"""Drawings of random graphs: boxes apart, lines clear of boxes, labels clear of each other, few crossings."""

from __future__ import annotations

import itertools
import random

import pytest

from opshift.cli.reports.layout import GAP, Edge, Layout, layout

MARGIN = 6.0


def drawn(seed: int) -> tuple[list[tuple[float, float]], list[Edge], Layout]:
    draw = random.Random(seed)
    sizes = [(draw.uniform(20, 250), draw.choice([33.0, 50.0, 84.0])) for _ in range(draw.randint(1, 25))]
    edges = [
        Edge(draw.randrange(max(0, lower - draw.choice([1, 3, 25])), lower), lower, draw.choice([0.0, 0.0, 60.0]))
        for lower in range(1, len(sizes))
        for _ in range(draw.randint(0, 3))
    ]
    return sizes, edges, layout(sizes, edges, MARGIN)


def clear(one: tuple[float, ...], other: tuple[float, ...], gap: float = 0.0) -> bool:
    (x, y, width, height), (left, top, wide, high) = one, other
    return x + width + gap <= left or left + wide + gap <= x or y + height <= top or top + high <= y


def samples(line: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    return [
        (x0 + (x1 - x0) * part / 20, y0 + (y1 - y0) * part / 20)
        for (x0, y0), (x1, y1) in itertools.pairwise(line)
        for part in range(21)
    ]


@pytest.mark.parametrize("seed", range(60))
def test_nothing_covers_anything_else(seed: int) -> None:
    sizes, edges, made = drawn(seed)
    assert made == layout(sizes, edges, MARGIN), "the same each time"
    for (x, y, width, height), (wide, high) in zip(made.boxes, sizes, strict=True):
        assert width >= round(wide, 1)
        assert height == high
        assert x >= MARGIN - 0.2
        assert y >= MARGIN
        assert x + width <= made.width - MARGIN + 0.2
        assert y + height <= made.height - MARGIN
    assert all(clear(one, other, GAP - 0.2) for one, other in itertools.combinations(made.boxes, 2))
    for line in made.lines:
        assert all(y0 < y1 for (_, y0), (_, y1) in itertools.pairwise(line)), "lines lead down"
        for x, y in samples(line):
            assert not any(
                left + 0.2 < x < left + wide - 0.2 and top + 0.2 < y < top + high - 0.2
                for left, top, wide, high in made.boxes
            )
    room = [
        (x - edge.label_width / 2, y - 8, edge.label_width, 16)
        for edge, (x, y) in zip(edges, made.labels, strict=True)
        if edge.label_width
    ]
    assert all(clear(one, box) for one in room for box in made.boxes)
    for (one, label), (other, label_other) in itertools.combinations(
        zip((edge for edge in edges if edge.label_width), room, strict=True), 2
    ):
        assert one.upper == other.upper or clear(label, label_other)


@pytest.mark.parametrize("seed", range(60))
def test_every_line_joins_its_boxes(seed: int) -> None:
    _, edges, made = drawn(seed)
    for edge, line in zip(edges, made.lines, strict=True):
        (x, y, width, height), (left, top, wide, _) = made.boxes[edge.upper], made.boxes[edge.lower]
        assert x < line[0][0] < x + width
        assert line[0][1] == pytest.approx(y + height)
        assert left < line[-1][0] < left + wide
        assert line[-1][1] == pytest.approx(top)


def test_a_swapped_pair_is_drawn_without_a_crossing() -> None:
    edges = [Edge(0, 3), Edge(1, 2)]
    made = layout([(40.0, 33.0)] * 4, edges, MARGIN)
    (first, second), (third, fourth) = ([made.boxes[end][0] for end in pair] for pair in ((0, 1), (2, 3)))
    assert (first < second) == (fourth < third)


def test_an_input_is_drawn_beside_its_consumer() -> None:
    chain = [Edge(0, 1), Edge(1, 2), Edge(2, 4), Edge(3, 4)]
    made = layout([(40.0, 33.0)] * 5, chain, MARGIN)
    assert made.boxes[3][1] == made.boxes[2][1]


def test_an_empty_graph_has_no_size() -> None:
    assert layout([], [], MARGIN).boxes == ()
