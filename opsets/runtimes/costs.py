"""Compute the cost of a node: 1, or its time in onnxruntime relative to one Identity node.

The times are in a table that `benchmarks/kernels.py` writes, and decide only under `--optimize`: times of onnxruntime's
kernels on tensors of several sizes, starting with a few elements. Between two sizes, the time for one element is
interpolated. An operator that is not in the table costs as much as a product.
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
"""The assumed length of an unknown dimension: tensors with several unknown dimensions are assumed to be large."""

LAST = 1024
"""The assumed length of an unknown last axis: words and classes are many."""

PART = 32
"""The assumed length of an unnamed dimension that a lowering computes at run time: a part of a named one."""

PAGE = 1024
"""Elements of a row at a multiple of this distance share a cache set, and are slow to access."""

FREE = frozenset({"Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"})
"""Operators that move no elements."""

ROWS = frozenset({"ArgMax", "Hardmax", "ReduceMax", "ReduceMin", "ReduceSum", "TopK"})
"""Operators that process rows: the cost depends on the rows' length and on the axes after them."""

BROADCAST = frozenset(
    {"Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Or"}
    | {"PRelu", "Pow", "Sub", "Where", "Xor"}
)
"""Operators that process runs of elements, in which each input either advances or repeats one element."""

LIKE = {"Greater": "Less", "GreaterOrEqual": "Less", "LessOrEqual": "Less"}
"""Operators with the cost of another operator."""

LENGTHS = (4, 12, 32, 128, 1024)
"""The measured row lengths; onnxruntime's loops differ for short rows, and so does the use of the cache."""

REVERSED = frozenset({"double", "float", "int32", "int64", "uint8"})
"""Element types of which a Slice backwards is measured."""

Points = Sequence[tuple[float, float]]
"""Numbers of elements, and their costs."""

SPARSE = 16
"""The number of elements per index in the measurement of a ScatterElements along another axis than the last."""


@functools.cache
def table() -> Mapping[str, Points]:
    """Return the measured times by `key`: numbers of elements, and times relative to a node without work."""
    text = importlib.resources.files("opshift.opsets").joinpath("data", "costs.json").read_text(encoding="utf-8")
    document = json.loads(text)
    idle = document["measured"]["node"]
    return {key: tuple((count, time / idle) for count, time in points) for key, points in document["times"].items()}


def key(name: str, dtype: str, place: str = "", length: int = 0) -> str:
    """Return the key of a time: operator, element type, and for rows their position and length."""
    return " ".join(part for part in (name, dtype, place, str(length) if length else "") if part)


def simplicity(node: Node, outputs: Sequence[Facts]) -> float:
    """Return 1 for a node, plus a small share of 1 for passes over the data: few nodes count first, then few passes."""
    moved = [] if node.name in FREE else [facts for facts in (*node.inputs, *outputs) if facts is not None]
    return 1 + math.log2(1 + max(map(_count, moved), default=0.0)) / 2**14


def cost(node: Node, outputs: Sequence[Facts], weight: float) -> float:
    """Return the cost of a node; `weight` is its cost on small tensors."""
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
        if node.name == "Slice" and _is_reversed(node):
            # An element takes as long, of whatever type; of a dimension of unknown length, the whole is assumed.
            place, count = key(node.name, dtype if dtype in REVERSED else "float", "reversed"), _count(data)
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
    # A part of a tensor comes from the same memory as the whole tensor.
    whole = max(_count(data), count) if node.name in ("GatherElements", "Slice") else count
    if not whole:
        return weight
    elements = _time(points, whole) * (count / whole)
    return weight + points[0][1] + elements + _time(table()["Equal runs"], _runs(node, outputs[0]))


def _runs(node: Node, output: Facts) -> float:
    """Return the number of runs of elements that a node processes, each of which takes additional time."""
    shapes = [facts.shape for facts in node.inputs if facts is not None and facts.shape is not None]
    if output.shape is None or not shapes:
        return 0.0
    if node.name == "Slice":
        pairs = enumerate(zip(shapes[0], output.shape, strict=False))
        # The dimensions before the last axis along which only a part is taken.
        return _product(output.shape[: max((axis for axis, (dim, taken) in pairs if dim != taken), default=0)])
    if node.name not in BROADCAST or len(set(shapes)) == 1:
        return 0.0
    # Along a run, each input advances or repeats; a run ends at an axis where this changes.
    rank = len(output.shape)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    # An axis of length 1 in all inputs ends no run; an axis that an input does not have ends one (onnxruntime 1.31.1).
    short = {axis for axis in range(rank) if all(len(shape) == rank and shape[axis] == 1 for shape in shapes)}
    axes = [axis for axis in range(rank) if axis not in short]
    stands = {axis: tuple(shape[axis] == 1 for shape in padded) for axis in axes}
    axis = next((axis for axis in reversed(axes) if stands[axis] != stands[axes[-1]]), -1)
    return _product(output.shape[: axis + 1])


def _product(dims: Sequence[Dim]) -> float:
    return 0.0 if not dims else float(min(math.prod(_length(dim, NOMINAL) for dim in dims), 2**60))


def _is_reversed(node: Node) -> bool:
    """Return whether a Slice goes backwards, element by element."""
    steps = node.inputs[4].known if len(node.inputs) > 4 and node.inputs[4] is not None else None
    return steps is not None and bool((steps < 0).any())


def _along(node: Node, output: Facts) -> str:
    """Return whether a node works along the last axis or another one."""
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
    """Return a dimension, or its assumed length."""
    return dim if isinstance(dim, int) else PART if dim is None else nominal


@functools.lru_cache(4096)
def _of_rows(name: str, dtype: str, behind: str, length: int) -> Points:
    """Return the costs of rows of a length, interpolated between the two nearest measured lengths."""
    listed = dtype if key(name, dtype, behind, LENGTHS[0]) in table() else "float"
    at = min(max(length, LENGTHS[0]), LENGTHS[-1])
    short, long = max(one for one in LENGTHS if one <= at), min(one for one in LENGTHS if one >= at)
    share = math.log(at / short) / math.log(long / short) if short < long else 0.0
    pairs = zip(*(table().get(key(name, listed, behind, one), ()) for one in (short, long)), strict=True)
    return tuple((count, less + (more - less) * share) for (count, less), (_, more) in pairs)


def _rows(node: Node, data: Facts) -> tuple[str, int]:
    """Return whether other axes follow the axis of a row, and the length of the row."""
    axis = node.attributes.get("axis")
    if axis is None:
        axes = node.inputs[1].known if len(node.inputs) > 1 and node.inputs[1] is not None else None
        listed = axes.tolist() if axes is not None else node.attributes.get("axes", (-1,))
        axis = listed[-1] if listed else -1
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
    """Return the time of elements in addition to a node; the time for one is interpolated between sizes."""
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
