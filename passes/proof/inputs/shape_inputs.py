"""Find the inputs that are target shapes of a Reshape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from opshift.opsets.registry.node_traits import traits_of
from opshift.passes.analysis.model_summary import ModelSummary
from opshift.passes.proof.inputs.input_usage import (
    Length,
    length_of,
)


@dataclass(frozen=True)
class ShapeInput:
    """A graph input that is the target shape of a Reshape, or the part of it besides known sizes.

    `elements` are the axis lengths of the reshaped value, and `others` is the product of the known sizes.
    """

    input: str
    elements: tuple[Length, ...]
    others: int


def shape_inputs(view: ModelSummary) -> tuple[ShapeInput, ...]:
    """Return the main graph's inputs whose product must equal the number of elements of a value."""
    makers = {name: node for node in view.graph.node for name in node.output}
    found = []
    for node in view.graph.node:
        if not traits_of(node).reshapes or len(node.input) < 2 or (dims := view.shapes.get(node.input[0])) is None:
            continue
        elements = tuple(length_of(view, node.input[0], axis) for axis in range(len(dims)))
        parts = list(_parts(view, makers, node.input[1]))
        sizes = [part for part in parts if not isinstance(part, str)]
        named = [part for part in parts if isinstance(part, str)]
        if len(named) == 1 and named[0] and None not in elements and all(one > 0 for one in sizes):
            found.append(ShapeInput(named[0], elements, math.prod(sizes)))
    return tuple(found)


def _parts(view: ModelSummary, makers: Mapping[str, onnx.NodeProto], name: str) -> Iterator[int | str]:
    """Yield the parts of a shape: sizes, names of graph inputs, and an empty name for other parts."""
    known = view.constant(name)
    origin = view.origin(name)
    if known is not None and known.dtype.kind in "iu":
        yield from known.reshape(-1).tolist()
    elif origin in view.inputs:
        yield origin
    elif origin in makers and traits_of(makers[origin]).joins:
        for part in makers[origin].input:
            yield from _parts(view, makers, part)
    else:
        yield ""
