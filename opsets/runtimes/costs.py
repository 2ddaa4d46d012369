"""The cost of a node: 1, or its time in onnxruntime relative to one Identity node.

The times are in a table that `benchmarks/kernels.py` writes, and decide under `--optimize` only: times of onnxruntime's
kernels on tensors of several sizes, the first of which is hardly an element;
between two sizes the time for one element is interpolated. What it does not hold costs as much as a product does.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import json
import math
from collections.abc import Mapping, Sequence

from opshift.opsets.registry.facts import Dim, Facts, type_name
from opshift.opsets.registry.operator import Node

NOMINAL = 64
"""The length of a dimension that is not known: where several are not, tensors are taken for large ones."""

LAST = 1024
"""The length of the last axis that is not known: there are words and classes, of which there are many."""

PART = 32
"""The length of a dimension that a lowering computes at run time, and that has no name: a part of one that has."""

PAGE = 1024
"""Elements of a row that are a multiple of this many apart share a place in the cache, and are slow to go through."""

FREE = frozenset({"Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"})
"""Operators that move no elements."""

ROWS = frozenset({"ArgMax", "Hardmax", "ReduceMax", "ReduceMin", "ReduceSum", "TopK"})
"""Operators that go through rows, whose cost depends on how long these are and on what is behind them."""

BROADCAST = frozenset(
    {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Or"}
    | {"PRelu", "Pow", "Sub", "Where", "Xor"}
)
"""Operators that go through runs of elements, along which each input either goes on or stands still."""

LIKE = {"Greater": "Less", "GreaterOrEqual": "Less", "LessOrEqual": "Less"}
"""Operators that cost as much as another."""

LENGTHS = (4, 12, 32, 128, 1024)
"""The lengths of rows that are measured; onnxruntime's loops of short rows differ, and so does what the cache holds."""

Points = Sequence[tuple[float, float]]
"""Elements, and what they cost."""

SPARSE = 16
"""Elements for each index, in the measurement of a ScatterElements that is not along the last axis."""


@functools.cache
def table() -> Mapping[str, Points]:
    """Return what was measured, by `key`: elements, and the time as multiple of what a node takes for nothing."""
    text = importlib.resources.files("opshift.opsets").joinpath("data", "costs.json").read_text(encoding="utf-8")
    document = json.loads(text)
    idle = document["measured"]["node"]
    return {key: tuple((count, time / idle) for count, time in points) for key, points in document["times"].items()}


def key(name: str, dtype: str, place: str = "", length: int = 0) -> str:
    """Return what a time is listed under: operator, element type, and for rows where they are and their length."""
    return " ".join(part for part in (name, dtype, place, str(length) if length else "") if part)


def simplicity(node: Node, outputs: Sequence[Facts]) -> float:
    """Return 1 for a node, and a small share of 1 for going through data: few nodes come first, then few passes."""
    moved = [] if node.name in FREE else [facts for facts in (*node.inputs, *outputs) if facts is not None]
    return 1 + math.log2(1 + max(map(_count, moved), default=0.0)) / 2**14


def cost(node: Node, outputs: Sequence[Facts], weight: float) -> float:
    """Return what a node costs; `weight` is what it costs on small tensors."""
    if node.name in FREE or not outputs or any(facts.size == 0 for facts in outputs):
        return weight
    count = _count(outputs[0])
    data = next((facts for facts in node.inputs if facts is not None), Facts())
    listed = outputs[0] if node.name == "Where" else data
    dtype = type_name(listed.dtype) if listed.dtype else "float"
    if node.name in ROWS:
        count = _count(data)
        behind, length = _rows(node, data)
        points = _of_rows(
            "ArgMaxLast" if node.attributes.get("select_last_index") else node.name, dtype, behind, length
        )
    else:
        place = key(LIKE.get(node.name, node.name), dtype)
        if node.name == "ScatterElements" and node.inputs[1] is not None:
            place = key(node.name, dtype if dtype in ("float", "double") else "float", _along(node, outputs[0]))
            count = max(count, SPARSE * _count(node.inputs[1]))
        if node.name in ("GatherElements", "OneHot"):
            place = key(node.name, _along(node, outputs[0]))
        if node.name == "Gather" and node.inputs[1] is not None and node.inputs[1].size == outputs[0].size:
            place = key(node.name, dtype, "single")
        large = [facts is not None and _count(facts) == count > 1 for facts in node.inputs]
        if (node.name == "Equal" and any(large)) or (node.name == "Where" and all(large)):
            place = key(node.name, dtype, "whole")
        if node.name == "Cast" and outputs[0].dtype:
            place = key(node.name, f"{dtype} {type_name(outputs[0].dtype)}")
        points = table().get(place) or table().get(node.name, ())
    points = points or table()["others"]
    # A part of a tensor comes from as far away as the whole does.
    whole = max(_count(data), count) if node.name in ("GatherElements", "Slice") else count
    if not whole:
        return weight
    elements = _time(points, whole) * (count / whole)
    return weight + points[0][1] + elements + _time(table()["Equal runs"], _runs(node, outputs[0]))


def _runs(node: Node, output: Facts) -> float:
    """Return how many runs of elements a node goes through, each of which takes time of its own."""
    shapes = [facts.shape for facts in node.inputs if facts is not None and facts.shape is not None]
    if output.shape is None or not shapes:
        return 0.0
    if node.name == "Slice":
        pairs = enumerate(zip(shapes[0], output.shape, strict=False))
        # What is in front of the last axis along which only a part is taken.
        return _product(output.shape[: max((axis for axis, (dim, taken) in pairs if dim != taken), default=0)])
    if node.name not in BROADCAST or len(set(shapes)) == 1:
        return 0.0
    # Along a run each input goes on, or stands still: where that changes from one axis to the next, a run ends.
    rank = len(output.shape)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    # An axis that all inputs have with length 1 ends no run; one that an input does not have does (onnxruntime 1.31.1).
    short = {axis for axis in range(rank) if all(len(shape) == rank and shape[axis] == 1 for shape in shapes)}
    axes = [axis for axis in range(rank) if axis not in short]
    stands = {axis: tuple(shape[axis] == 1 for shape in padded) for axis in axes}
    axis = next((axis for axis in reversed(axes) if stands[axis] != stands[axes[-1]]), -1)
    return _product(output.shape[: axis + 1])


def _product(dims: Sequence[Dim]) -> float:
    return 0.0 if not dims else float(min(math.prod(_length(dim, NOMINAL) for dim in dims), 2**60))


def _along(node: Node, output: Facts) -> str:
    """Return whether a node goes along the last axis or another."""
    axis = node.attributes.get("axis", -1 if node.name == "OneHot" else 0)
    return "last" if axis in (-1, len(output.shape or ()) - 1) else "inner"


def _count(facts: Facts) -> float:
    if facts.shape is None:
        return NOMINAL
    dims = [_length(dim, NOMINAL) for dim in facts.shape]
    if len(dims) > 1:
        dims[-1] = _length(facts.shape[-1], LAST)
    return float(min(math.prod(dims), 2**60))


def _length(dim: Dim, nominal: int) -> int:
    """Return a dimension, or how long it is taken to be."""
    return dim if isinstance(dim, int) else PART if dim is None else nominal


@functools.lru_cache(4096)
def _of_rows(name: str, dtype: str, behind: str, length: int) -> Points:
    """Return what rows of a length cost, interpolated between the two lengths that were measured next to it."""
    listed = dtype if key(name, dtype, behind, LENGTHS[0]) in table() else "float"
    at = min(max(length, LENGTHS[0]), LENGTHS[-1])
    short, long = max(one for one in LENGTHS if one <= at), min(one for one in LENGTHS if one >= at)
    share = math.log(at / short) / math.log(long / short) if short < long else 0.0
    pairs = zip(*(table().get(key(name, listed, behind, one), ()) for one in (short, long)), strict=True)
    return tuple((count, less + (more - less) * share) for (count, less), (_, more) in pairs)


def _rows(node: Node, data: Facts) -> tuple[str, int]:
    """Return whether anything is behind the axis of a row, and how long the row is."""
    axis = node.attributes.get("axis")
    if axis is None:
        axes = node.inputs[1].known if len(node.inputs) > 1 and node.inputs[1] is not None else None
        given = axes.tolist() if axes is not None else node.attributes.get("axes", (-1,))
        axis = given[-1] if given else -1
    dims = data.shape or (None,)
    axis = axis if -len(dims) <= axis < len(dims) else -1
    rest = dims[axis:][1:]
    dim = dims[axis]
    last = all(other == 1 for other in rest)
    length = _length(dim, LAST if last else NOMINAL)
    if last:
        return "last", length
    if all(other == 1 for other in dims[:axis]):
        return "first", length
    behind = math.prod(other if isinstance(other, int) else 1 for other in rest)
    return "inner" if behind % PAGE else "aligned", length


def _time(points: Points, count: float) -> float:
    """Return what elements take beyond a node; the time for one is interpolated between the sizes measured."""
    (_, start), *sizes = points
    per = [(math.log(size), (time - start) / size) for size, time in sizes]
    at = math.log(max(count, 1.0))
    if at <= per[0][0]:
        return per[0][1] * count
    for (low, slow), (high, fast) in itertools.pairwise(per):
        if at <= high:
            share = (at - low) / (high - low)
            return (slow + (fast - slow) * share) * count
    return per[-1][1] * count
