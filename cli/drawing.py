"""Where the boxes and lines of a drawing go: a subgraph laid out in layers by graphlay, from the top down."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import graphlay

from opshift.cli.output import plain
from opshift.passes.outcome import Drawn, Subgraph, Value

CHARACTER = 7.3
"""The width of a character, in a monospaced font of 12 px."""
LINE = 17.0
PADDING = 10.0
MARGIN = 6.0
LONGEST = 34
"""Characters of a line; what is longer is cut off."""

SPACING = {"layer_gap": 30.0, "node_gap": 18.0, "dummy_gap": 14.0, "stub": 9.0, "port_gap": 12.0}


@dataclass(frozen=True)
class Box:
    """A value or a node: its corner, its size, and the lines in it; `role` is input, constant, node or output."""

    role: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]

    def line_at(self, index: int) -> float:
        """Return where the baseline of a line is."""
        return round(self.y + PADDING + LINE * index + 10, 1)

    @property
    def middle(self) -> float:
        """Where its lines are centred."""
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True)
class Arrow:
    """A line from a box down to another, as corners; `label` tells which output is read, of several."""

    points: tuple[tuple[float, float], ...]
    label: str
    at: tuple[float, float]

    @property
    def path(self) -> str:
        """What SVG calls a path."""
        return "M" + " L".join(f"{x:g} {y:g}" for x, y in self.points)

    @property
    def head(self) -> str:
        """The corners of the arrow's head, which points down or from wherever the line comes."""
        (x0, y0), (x, y) = self.points[-2:]
        if abs(x - x0) > abs(y - y0):
            back = x - 6 if x > x0 else x + 6
            return f"{x:g},{y:g} {back:g},{y - 3.5:g} {back:g},{y + 3.5:g}"
        back = y - 6 if y > y0 else y + 6
        return f"{x:g},{y:g} {x - 3.5:g},{back:g} {x + 3.5:g},{back:g}"


@dataclass(frozen=True)
class Drawing:
    """A subgraph as it is drawn; `text` says the same for those who do not see it."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    text: tuple[str, ...]


def drawing(subgraph: Subgraph) -> Drawing:
    """Lay a subgraph out. The same subgraph gives the same drawing."""
    graph = graphlay.Graph()
    contents: list[tuple[str, tuple[str, ...]]] = []

    def add(role: str, lines: Sequence[str]) -> int:
        shown = tuple(_cut(plain(line)) for line in lines if line)
        contents.append((role, shown))
        width = max(map(_cells, shown), default=1) * CHARACTER + 2 * PADDING
        return graph.node(width=round(width, 1), height=LINE * len(shown) + 2 * PADDING - 4)

    made: dict[str, tuple[int, str]] = {
        value.name: (add("input", (value.name, value.type)), "") for value in subgraph.inputs
    }
    for value in _read(subgraph):
        made[value.name] = add("constant", (value.elements or value.name, value.type)), ""
    for node in subgraph.nodes:
        place = add("node", (title(node), *node.attributes))
        for name in node.inputs:
            if name in made:
                _join(graph, made[name], place)
        several = sum(map(bool, node.outputs)) > 1
        for index, name in enumerate(node.outputs):
            if name:
                made[name] = place, f"output {index}" if several else ""
    for name in subgraph.outputs:
        if name in made:
            _join(graph, made[name], add("output", (name,)))
    return _laid_out(graph, contents, text(subgraph))


def boxes(subgraph: Subgraph) -> int:
    """Return how many boxes a drawing would have, without laying it out."""
    constants = sum(1 for _ in _read(subgraph))
    return len(subgraph.inputs) + constants + len(subgraph.nodes) + len(subgraph.outputs)


def _read(subgraph: Subgraph) -> Iterator[Value]:
    """Yield the constants that a node reads, or that are an output."""
    names = {name for node in subgraph.nodes for name in node.inputs} | set(subgraph.outputs)
    yield from (value for value in subgraph.constants if value.name in names)


def _join(graph: graphlay.Graph, source: tuple[int, str], target: int) -> None:
    place, label = source
    size = {"width": _cells(label) * CHARACTER, "height": LINE} if label else None
    graph.edge(place, target, key=label, label_size=size)


def _laid_out(graph: graphlay.Graph, contents: Sequence[tuple[str, tuple[str, ...]]], said: tuple[str, ...]) -> Drawing:
    placed = graphlay.layout(graph, options={"direction": "topbottom", "spacing": SPACING})
    least, most = placed.bounds["min"], placed.bounds["max"]

    def at(point: Mapping[str, Any]) -> tuple[float, float]:
        return round(point["x"] - least["x"] + MARGIN, 1), round(point["y"] - least["y"] + MARGIN, 1)

    boxes = []
    for (role, lines), node in zip(contents, placed.nodes, strict=True):
        (x, y), size = at(node["center"]), node["size"]
        left, top = round(x - size["width"] / 2, 1), round(y - size["height"] / 2, 1)
        boxes.append(Box(role, left, top, size["width"], size["height"], lines))
    arrows = []
    for edge, asked in zip(placed.edges, graph.edges, strict=True):
        anchor = edge["label_anchor"] or edge["points"][0]
        arrows.append(Arrow(tuple(map(at, edge["points"])), asked["key"], at(anchor)))
    width = round(most["x"] - least["x"] + 2 * MARGIN, 1)
    height = round(most["y"] - least["y"] + 2 * MARGIN, 1)
    return Drawing(width, height, tuple(boxes), tuple(arrows), said)


def title(node: Drawn) -> str:
    """Return an operator with its version: `Hardmax-13`."""
    return node.operator if node.since_version is None else f"{node.operator}-{node.since_version}"


def text(subgraph: Subgraph) -> tuple[str, ...]:
    """Return a subgraph as lines: `y0 = Hardmax-13 <axis=1> (input)`."""
    constants = {value.name: value.elements for value in subgraph.constants if value.elements}

    def line(node: Drawn) -> str:
        attributes = f" <{', '.join(node.attributes)}>" if node.attributes else ""
        inputs = ", ".join(constants.get(name, name) for name in node.inputs)
        outputs = ", ".join(node.outputs)
        return f"{outputs} = {title(node)}{attributes} ({inputs})" if outputs else title(node)

    return tuple(line(node) for node in subgraph.nodes)


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}\u2026"


def _cells(line: str) -> int:
    """Return how many columns a text takes; those of East Asia are two wide."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)
