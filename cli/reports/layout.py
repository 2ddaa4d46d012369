"""Compute a layered layout of a small acyclic graph, from the top down (after Sugiyama, Tagawa and Toda, 1981).

Each box is at least one layer above its first consumer, inputs as near to it as possible. Lines that span layers pass
through separate points. Medians of neighbours reduce crossings, and positions minimize squared distances.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

GAP = 18.0
"""The gap between the boxes of a layer."""
LAYERS = 26.0
"""The gap between layers."""
LABEL = 18.0
"""The height of the labels below a box."""
SWEEPS = 12

Point = tuple[float, float]


@dataclass
class Item:
    """A box, or a point where a line crosses a layer (without size); `x` is its middle, `y` its top."""

    width: float
    height: float
    label_widths: list[float] = field(default_factory=list)
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Edge:
    """A line from a box down to another; `label_width` is the width of its label."""

    upper: int
    lower: int
    label_width: float = 0.0


@dataclass(frozen=True)
class Layout:
    """The upper left corner and the size of each box, the corners of each line, and the position of its label."""

    width: float
    height: float
    boxes: tuple[tuple[float, float, float, float], ...]
    lines: tuple[tuple[Point, ...], ...]
    labels: tuple[Point, ...]


def layout(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge], margin: float) -> Layout:
    """Lay out boxes of these sizes. Edges lead from a box to a later one; the result is deterministic."""
    items = [Item(width, height) for width, height in sizes]
    for edge in edges:
        if edge.label_width:
            items[edge.upper].label_widths.append(edge.label_width)
    for item in items:  # labels of one box are placed side by side below it
        item.width = max(item.width, sum(item.label_widths) + GAP * len(item.label_widths))
    _layers(items, edges)
    chains = [_chain(items, edge) for edge in edges]
    for one, other in itertools.chain.from_iterable(map(itertools.pairwise, chains)):
        items[one].below.append(other)
        items[other].above.append(one)
    layers: list[list[int]] = [[] for _ in range(1 + max((item.layer for item in items), default=-1))]
    for index, item in enumerate(items):
        layers[item.layer].append(index)
    _order(items, layers)
    _place(items, layers)
    height = _heights(items, layers, margin)
    left = min((item.x - item.width / 2 for item in items), default=0.0) - margin
    for item in items:
        item.x -= left
    width = max((item.x + item.width / 2 for item in items), default=0.0) + margin
    lines, labels = _lines(items, layers, chains)
    boxes = tuple(
        (round(item.x - item.width / 2, 1), round(item.y, 1), round(item.width, 1), item.height)
        for item in items[: len(sizes)]
    )
    return Layout(round(width, 1), round(height, 1), boxes, lines, labels)


def _layers(items: Sequence[Item], edges: Sequence[Edge]) -> None:
    """Set each box's layer to its longest path; a box without inputs is moved down to its first consumer."""
    fed = set()
    for edge in sorted(edges, key=lambda edge: edge.lower):
        fed.add(edge.lower)
        items[edge.lower].layer = max(items[edge.lower].layer, items[edge.upper].layer + 1)
    for index, item in enumerate(items):
        consumers = [items[edge.lower].layer for edge in edges if edge.upper == index]
        if index not in fed and consumers:
            item.layer = min(consumers) - 1


def _chain(items: list[Item], edge: Edge) -> list[int]:
    """Return the items along a line, with a new one for each layer between its ends."""
    first, last = items[edge.upper].layer, items[edge.lower].layer
    new = range(len(items), len(items) + max(0, last - first - 1))
    items.extend(Item(0.0, 0.0, layer=layer) for layer in range(first + 1, last))
    return [edge.upper, *new, edge.lower]


def _order(items: Sequence[Item], layers: Sequence[list[int]]) -> None:
    """Sort each layer by the median position of its neighbours, down and up in turn; keep the fewest crossings."""
    best, least = [list(layer) for layer in layers], _crossings(items, layers)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            place = {index: count for other in layers for count, index in enumerate(other)}

            def key(index: int, place: dict[int, int] = place, down: bool = down) -> float:
                found = sorted(place[near] for near in (items[index].above if down else items[index].below))
                middle = len(found) // 2
                return (found[middle] + found[-middle - 1]) / 2 if found else float(place[index])

            layer.sort(key=key)
        if (count := _crossings(items, layers)) < least:
            best, least = [list(layer) for layer in layers], count
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order


def _crossings(items: Sequence[Item], layers: Sequence[Sequence[int]]) -> int:
    found = 0
    for upper, lower in itertools.pairwise(layers):
        place = {index: count for count, index in enumerate(lower)}
        ends = [sorted(place[below] for below in items[index].below) for index in upper]
        for one, other in itertools.combinations(ends, 2):
            found += sum(left > right for left in one for right in other)
    return found


def _place(items: Sequence[Item], layers: Sequence[Sequence[int]]) -> None:
    """Move each item towards the mean of its neighbours, as far as the order and the gaps of its layer permit."""
    for layer in layers:
        _spread(items, layer, [0.0] * len(layer))
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            near = [[items[other].x for other in (*items[index].above, *items[index].below)] for index in layer]
            wanted = [sum(xs) / len(xs) if xs else items[index].x for index, xs in zip(layer, near, strict=True)]
            _spread(items, layer, wanted)


def _spread(items: Sequence[Item], layer: Sequence[int], wanted: Sequence[float]) -> None:
    """Place a layer at the least-squares positions, with gaps: neighbours that would overlap are pooled."""
    offsets = [0.0]
    for one, other in itertools.pairwise(layer):
        offsets.append(offsets[-1] + (items[one].width + items[other].width) / 2 + GAP)
    pools: list[tuple[float, int]] = []
    for lower, offset in zip(wanted, offsets, strict=False):
        pools.append((lower - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (mean, count), (before, many) = pools.pop(), pools.pop()
            pools.append(((mean * count + before * many) / (count + many), count + many))
    means = itertools.chain.from_iterable([mean] * count for mean, count in pools)
    for index, mean, offset in zip(layer, means, offsets, strict=False):
        items[index].x = mean + offset


def _heights(items: Sequence[Item], layers: Sequence[Sequence[int]], margin: float) -> float:
    """Place the layers below each other; all boxes of a layer start at its top, and points end at its bottom."""
    top = margin
    for layer in layers:
        tallest = max(items[index].height for index in layer)
        for index in layer:
            items[index].y = top
        top += tallest + LAYERS + (LABEL if any(items[index].label_widths for index in layer) else 0.0)
    return top - LAYERS + margin


def _lines(
    items: Sequence[Item], layers: Sequence[Sequence[int]], chains: Sequence[Sequence[int]]
) -> tuple[tuple[tuple[Point, ...], ...], tuple[Point, ...]]:
    """Return each line: down from its box to the end of the layer, straight to the next layer, and so on."""
    bottoms = [
        max(items[index].y + items[index].height for index in layer)
        + (LABEL if any(items[index].label_widths for index in layer) else 0.0)
        for layer in layers
    ]
    starts = _ports(items, chains, 0)
    ends = _ports(items, chains, -1)
    lines, labels = [], []
    for number, chain in enumerate(chains):
        first, last = items[chain[0]], items[chain[-1]]
        points = [(starts[number], first.y + first.height), (starts[number], bottoms[first.layer])]
        for index in chain[1:-1]:
            points += [(items[index].x, items[index].y), (items[index].x, bottoms[items[index].layer])]
        points.append((ends[number], last.y))
        lines.append(tuple(dict.fromkeys((round(x, 1), round(y, 1)) for x, y in points)))
        labels.append((round(starts[number], 1), round(first.y + first.height + LABEL / 2, 1)))
    return tuple(lines), tuple(labels)


def _ports(items: Sequence[Item], chains: Sequence[Sequence[int]], end: int) -> dict[int, float]:
    """Return the positions where lines leave or enter their boxes: side by side, in the order of their targets."""
    at: dict[int, list[int]] = {}
    for number, chain in enumerate(chains):
        at.setdefault(chain[end], []).append(number)
    found: dict[int, float] = {}
    for index, numbers in at.items():
        item = items[index]
        numbers.sort(key=lambda number: items[chains[number][1 if end == 0 else -2]].x)
        step = item.width / (len(numbers) + 1)
        for count, number in enumerate(numbers, 1):
            found[number] = item.x - item.width / 2 + step * count
    return found
