"""Lay out a diagram of a subgraph: boxes and lines in layers from the top down."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opshift.cli.reports.layout import Edge, layout
from opshift.cli.terminal import cells, plain
from opshift.passes.base.plan import DrawnNode, Subgraph, Value

CHARACTER = 7.3
"""The width of a character, in a monospaced font of 12 px."""
LINE = 17.0
PADDING = 10.0
MARGIN = 6.0
LONGEST = 34
"""The maximum number of characters of a line; longer text is cut off."""


@dataclass(frozen=True)
class Box:
    """A value or a node: its corner, its size, and its lines of text; `role` is input, constant, node or output."""

    role: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]

    def line_at(self, index: int) -> float:
        """Return the position of a line's baseline."""
        return round(self.y + PADDING + LINE * index + 10, 1)

    @property
    def middle(self) -> float:
        """The centre of its lines."""
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True)
class Arrow:
    """A line from a box down to another, as corners; `label` names the output that is read, if there are several."""

    points: tuple[tuple[float, float], ...]
    label: str
    at: tuple[float, float]

    @property
    def path(self) -> str:
        """The line as an SVG path."""
        return "M" + " L".join(f"{x:g} {y:g}" for x, y in self.points)

    @property
    def head(self) -> str:
        """The corners of the arrowhead, which points along the end of the line."""
        (x0, y0), (x, y) = self.points[-2:]
        length = math.hypot(x - x0, y - y0)
        dx, dy = (x - x0) / length, (y - y0) / length
        corners = [(x, y), *((x - 6 * dx + side * dy, y - 6 * dy - side * dx) for side in (3.5, -3.5))]
        return " ".join(f"{round(cx, 1):g},{round(cy, 1):g}" for cx, cy in corners)


@dataclass(frozen=True)
class Drawing:
    """The layout of a subgraph; `text` is its description for screen readers."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    text: tuple[str, ...]


def drawing(subgraph: Subgraph) -> Drawing:
    """Lay out a subgraph; the result is deterministic."""
    contents: list[tuple[str, tuple[str, ...]]] = []
    joined: list[tuple[int, int, str]] = []

    def add(role: str, lines: Sequence[str]) -> int:
        contents.append((role, tuple(_cut(plain(line)) for line in lines if line)))
        return len(contents) - 1

    made: dict[str, tuple[int, str]] = {
        value.name: (add("input", (value.name, value.type)), "") for value in subgraph.inputs
    }
    for value in _read(subgraph):
        made[value.name] = add("constant", (value.elements or value.name, value.type)), ""
    for node in subgraph.nodes:
        place = add("node", (title(node), *node.attributes))
        joined += [(made[name][0], place, made[name][1]) for name in node.inputs if name in made]
        several = sum(map(bool, node.outputs)) > 1
        for index, name in enumerate(node.outputs):
            if name:
                made[name] = place, f"output {index}" if several else ""
    for name in subgraph.outputs:
        if name in made:
            joined.append((made[name][0], add("output", (name,)), made[name][1]))
    return _laid_out(contents, joined, text(subgraph))


def boxes(subgraph: Subgraph) -> int:
    """Return the number of boxes in a diagram, without laying it out."""
    constants = sum(1 for _ in _read(subgraph))
    return len(subgraph.inputs) + constants + len(subgraph.nodes) + len(subgraph.outputs)


def _read(subgraph: Subgraph) -> Iterator[Value]:
    """Yield the constants that nodes read, or that are outputs."""
    names = {name for node in subgraph.nodes for name in node.inputs} | set(subgraph.outputs)
    yield from (value for value in subgraph.constants if value.name in names)


def _laid_out(
    contents: Sequence[tuple[str, tuple[str, ...]]], joined: Sequence[tuple[int, int, str]], text_lines: tuple[str, ...]
) -> Drawing:
    sizes = [
        (round(max(map(cells, lines), default=1) * CHARACTER + 2 * PADDING, 1), LINE * len(lines) + 2 * PADDING - 4)
        for _, lines in contents
    ]
    edges = [Edge(upper, lower, cells(label) * CHARACTER) for upper, lower, label in joined]
    placed = layout(sizes, edges, MARGIN)
    boxes = tuple(Box(role, *box, lines) for (role, lines), box in zip(contents, placed.boxes, strict=True))
    arrows = tuple(
        Arrow(points, label, at) for points, (_, _, label), at in zip(placed.lines, joined, placed.labels, strict=True)
    )
    return Drawing(placed.width, placed.height, boxes, arrows, text_lines)


def title(node: DrawnNode) -> str:
    """Return an operator with its version: `Hardmax-13`."""
    return node.operator if node.since_version is None else f"{node.operator}-{node.since_version}"


def text(subgraph: Subgraph) -> tuple[str, ...]:
    """Return a subgraph as lines: `y0 = Hardmax-13 <axis=1> (input)`."""
    constants = {value.name: value.elements for value in subgraph.constants if value.elements}

    def line(node: DrawnNode) -> str:
        attributes = f" <{', '.join(node.attributes)}>" if node.attributes else ""
        inputs = ", ".join(constants.get(name, name) for name in node.inputs)
        outputs = ", ".join(node.outputs)
        return f"{outputs} = {title(node)}{attributes} ({inputs})" if outputs else title(node)

    return tuple(line(node) for node in subgraph.nodes)


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}\u2026"
