"""Relate the shapes of a node's inputs: hints for the search of shapes that a model accepts.

Rules for one operator are in its file; this module has the rules for several operators, and for operators without a
file.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from opshift.opsets.registry.facts import Dim

Shape = tuple[Dim, ...]
Pairs = Iterator[tuple[Dim, Dim]]
_Hint = TypeVar("_Hint")


@dataclass(frozen=True)
class NodeShapes:
    """A node in the form for rules.

    Attributes:
        inputs: the shape of each input, None for an unknown rank.
        output: the shape of the first output.
        attributes: the node's attributes.
        opset: the opset of the default domain.
        constant: the elements of an input by its index, as a vector, if they are a few constants.
    """

    inputs: tuple[Shape | None, ...]
    output: Shape | None
    attributes: Mapping[str, Any]
    opset: int
    constant: Callable[[int], np.ndarray[Any, Any] | None]


EqualDims = Callable[[NodeShapes], Pairs]
"""Yields pairs of input dims that are equal, or that broadcast against each other."""


def hints_of(rule: Callable[[NodeShapes], Iterable[_Hint]], node: NodeShapes) -> list[_Hint]:
    """Return a rule's hints for a node; none if the node is invalid, or refers to a function's parameter."""
    with contextlib.suppress(ArithmeticError, IndexError, TypeError, ValueError):
        return list(rule(node))
    return []


def of_two(rule: Callable[[NodeShapes, Shape, Shape], Pairs]) -> EqualDims:
    """Return a rule for the shapes of the first two inputs, if they are known and not scalars."""

    def guarded(node: NodeShapes) -> Pairs:
        first, second = (*node.inputs, None)[:2]
        if first and second:
            yield from rule(node, first, second)

    return guarded


def all_but(axis: int, one: Shape, other: Shape) -> Pairs:
    """Yield the dims of two shapes of one rank, except those of an axis."""
    return (pair for at, pair in enumerate(zip(one, other, strict=True)) if at != axis)


def broadcast(node: NodeShapes) -> Pairs:
    """Yield the input dims that broadcast, aligned at the end, or from `axis` on below opset 7."""
    axis = node.attributes.get("axis")
    if node.opset < 7 and isinstance(axis, int) and len(node.inputs) == 2 and None not in node.inputs:
        yield from zip((node.inputs[0] or ())[axis:], node.inputs[1] or (), strict=False)
        return
    for one, other in itertools.pairwise(dims for dims in node.inputs if dims is not None):
        yield from zip(reversed(one), reversed(other), strict=False)


@of_two
def channels(node: NodeShapes, first: Shape, second: Shape) -> Pairs:
    """Yield the channels, for which the second input has one number each."""
    if len(first) > 1:
        yield first[1], second[0]


@of_two
def convolved(node: NodeShapes, image: Shape, weight: Shape) -> Pairs:
    """Yield the channels of an image, in groups, and of the weights."""
    if len(image) > 1 and len(weight) > 1:
        yield image[1], times(weight[1], node.attributes.get("group", 1))


def times(dim: Dim, count: int) -> Dim:
    """Return a known dim multiplied by a number, and any other dim unchanged."""
    return dim * count if isinstance(dim, int) else dim


@of_two
def matrices(node: NodeShapes, first: Shape, second: Shape) -> Pairs:
    """Yield the dims that a matrix product sums over, and those of stacked matrices."""
    yield first[-1], second[-2] if len(second) > 1 else second[-1]
    yield from zip(reversed(first[:-2]), reversed(second[:-2]), strict=False)


@of_two
def one_shape(node: NodeShapes, first: Shape, second: Shape) -> Pairs:
    """Yield the dims of two inputs of one shape."""
    return zip(first, second, strict=False)


@of_two
def boxes_and_scores(node: NodeShapes, boxes: Shape, scores: Shape) -> Pairs:
    """Yield batches and boxes of NonMaxSuppression: [batches, boxes, 4] and [batches, classes, boxes]."""
    if len(boxes) == len(scores) == 3:
        yield from ((boxes[0], scores[0]), (boxes[1], scores[2]), (boxes[2], 4))


# --- lengths --------------------------------------------------------------------------------------------------------


def parts(node: NodeShapes) -> Iterable[int]:
    """Return the length of an axis that is split into parts of given lengths."""
    lengths = node.constant(1) if len(node.inputs) > 1 else node.attributes.get("split")
    return [] if lengths is None or not np.ndim(lengths) else [int(np.sum(lengths))]


def blocks(dimensions: int) -> Callable[[NodeShapes], Iterable[int]]:
    """Return a function that returns lengths divisible by blocks of one or two dimensions."""

    def lengths(node: NodeShapes) -> Iterable[int]:
        block = math.prod([node.attributes.get("blocksize", 1)] * dimensions)
        return block, 2 * block

    return lengths
