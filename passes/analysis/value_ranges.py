"""Find the ranges of all values of a model: forward from its inputs, and backward from nodes that fail outside them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import FLOATS, INTEGERS, Facts, array_of
from opshift.opsets.registry.node_traits import attributes_of, traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CAST, IF
from opshift.opsets.registry.traits import AlongAxis, IterationLayout
from opshift.opsets.registry.value_ranges import (
    DIM,
    SIGNIFICANT_BITS,
    UNBOUNDED,
    RangeNode,
    ValueRange,
    chosen,
    of_array,
    of_type,
)
from opshift.passes.analysis.known_values import is_constant
from opshift.passes.analysis.scopes import Scope, owner
from opshift.passes.graph.traversal import named_subgraphs

_ROUNDS = 3
"""The maximum number of passes over a body until the ranges of its loop-carried values no longer grow."""

_ROUNDINGS = 16
"""The bound in roundings of an operator with a float result: operators with a rule round a few times."""


@dataclass(frozen=True)
class Ranges:
    """The ranges of the values that one graph can see; `outer` has those of the outer graphs."""

    own: dict[str, ValueRange]
    outer: Ranges | None = None
    inner: dict[tuple[str, str], Ranges] = field(default_factory=dict)
    wrapped: set[str] = field(default_factory=set)
    """Integers that may overflow their type: in a wider type they may have other values."""

    def __getitem__(self, name: str) -> ValueRange | None:
        """Return the range of a value, None if it is unknown."""
        ranges: Ranges | None = self
        while ranges is not None:
            if name in ranges.own:
                return ranges.own[name]
            ranges = ranges.outer
        return None

    def enter(self, node: onnx.NodeProto, attribute: str) -> Ranges:
        """Return the ranges of a subgraph."""
        return self.inner.get((owner(node), attribute)) or Ranges({}, self)


def value_ranges(graph: onnx.GraphProto, scope: Scope, inputs: Mapping[str, ValueRange]) -> Ranges:
    """Return the ranges of the values of the main graph and its subgraphs.

    `inputs` are ranges of graph inputs; other inputs may have any value of their type that makes no node fail. The
    nodes are sorted, and call no functions.
    """
    required = _required(graph, scope)
    return _graph(graph, scope, None, {**required, **inputs}, required)


def _graph(
    graph: onnx.GraphProto,
    scope: Scope,
    outer: Ranges | None,
    inputs: Mapping[str, ValueRange],
    required: Mapping[str, ValueRange],
) -> Ranges:
    ranges = Ranges({}, outer)
    for value in graph.input:
        facts = scope[value.name] or Facts()
        ranges.own[value.name] = inputs.get(value.name, of_type(facts.dtype))
    for tensor in graph.initializer:
        if tensor.name not in ranges.own or tensor.name not in inputs:
            ranges.own[tensor.name] = _of_tensor(tensor)
    for node in graph.node:
        for name, found in zip(node.output, _node(node, scope, ranges), strict=False):
            if name:
                known = required.get(name)
                ranges.own[name] = found if known is None else found & known
    return ranges


def _is_wrapped(found: ValueRange | None, facts: Facts) -> bool:
    """Return whether a value may overflow, by the range of the exact result; floats and booleans never do."""
    if facts.dtype not in INTEGERS and facts.dtype != TensorProto.BOOL:
        return False
    return _known(facts) is None and (found is None or found not in of_type(facts.dtype))


def _of_tensor(tensor: TensorProto) -> ValueRange:
    if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type not in INTEGERS | FLOATS:
        return of_type(tensor.data_type)
    return of_array(np.asarray(array_of(tensor), dtype=None)) or of_type(tensor.data_type)


def _node(node: onnx.NodeProto, scope: Scope, ranges: Ranges) -> list[ValueRange]:
    """Return the range of each output of a node."""
    outputs = [(scope.own.get(name) or Facts()) if name else Facts() for name in node.output]
    if is_constant(node):
        held = next((one.t for one in node.attribute if one.HasField("t")), None)
        return [_known(outputs[0]) or (of_type(outputs[0].dtype) if held is None else _of_tensor(held))]
    found = [*_of_graphs(node, scope, ranges)]
    if not found:
        facts = [scope[name] if name else None for name in node.input]
        inside = [ranges[name] if name else None for name in node.input]
        ranged = [_or_type(*pair) for pair in zip(inside, facts, strict=True)]
        seen = RangeNode(attributes_of(node), ranged, facts, outputs)
        found = [*_by_rule(node, seen)]
    found += [None] * (len(outputs) - len(found))
    for name, one, made in zip(node.output, found, outputs, strict=False):
        if name and _is_wrapped(one, made):
            ranges.wrapped.add(name)
    return [_stored(one, facts) for one, facts in zip(found, outputs, strict=False)]


def _or_type(found: ValueRange | None, facts: Facts | None) -> ValueRange | None:
    return None if facts is None else found or of_type(facts.dtype)


def _by_rule(node: onnx.NodeProto, seen: RangeNode) -> Iterator[ValueRange | None]:
    traits = traits_of(node)
    if default_domain(node.domain):
        return
    if traits.value_range is not None:
        yield from traits.value_range(seen)
    elif traits.moved:
        yield from chosen(*(index for index in range(len(seen.ranges)) if index in traits.moved))(seen)


def _stored(found: ValueRange | None, facts: Facts) -> ValueRange:
    """Return a range as its element type stores it: floats are rounded, and overflowing integers wrap."""
    own = of_type(facts.dtype)
    if (known := _known(facts)) is not None:
        return known
    if found is None or math.isnan(found.low) or math.isnan(found.high):
        return own
    if bits := SIGNIFICANT_BITS.get(facts.dtype or 0):
        unit = 2.0**-bits * _ROUNDINGS
        return ValueRange(found.low - abs(found.low) * unit, found.high + abs(found.high) * unit)
    return found if found in own else own


def _known(facts: Facts) -> ValueRange | None:
    if facts.value is None or facts.dtype == TensorProto.STRING or facts.dtype not in INTEGERS | FLOATS:
        return None
    return of_array(facts.value.array)


def _of_graphs(node: onnx.NodeProto, scope: Scope, ranges: Ranges) -> Iterator[ValueRange | None]:
    """Yield the output ranges of a node with subgraphs."""
    place = owner(node)
    iteration = traits_of(node).iteration
    branches = []
    for name, graph in named_subgraphs(node):
        if iteration is not None and not default_domain(node.domain):
            inside, found = _iterated(node, graph, iteration, scope.enter(node, name), ranges)
            ranges.inner[place, name] = inside
            yield from found
            return
        inside = ranges.inner[place, name] = _graph(graph, scope.enter(node, name), ranges, {}, {})
        branches.append([inside[value.name] for value in graph.output])
    if node.op_type != IF or default_domain(node.domain):
        return
    for one in zip(*branches, strict=False):
        known = [item for item in one if item is not None]
        yield functools.reduce(operator.or_, known) if len(known) == len(one) else None


def _iterated(
    node: onnx.NodeProto, body: onnx.GraphProto, iteration: IterationLayout, scope: Scope, ranges: Ranges
) -> tuple[Ranges, list[ValueRange]]:
    """Return the ranges inside a Loop or a Scan, and those of the node's outputs."""
    names = [value.name for value in body.input]
    inputs = [ranges[name] if name else None for name in node.input]
    scanned = next((one.i for one in node.attribute if one.name == iteration.scanned), 0) if iteration.scanned else 0
    carried = inputs[iteration.inputs : len(inputs) - scanned]
    slices = inputs[len(inputs) - scanned :] if scanned else []
    trips = inputs[0] if iteration.inputs and inputs else None
    # An iteration's number is below the trip count.
    turns = [ValueRange(0, max(trips.high - 1, 0)) if trips is not None else None, None][: iteration.inputs]
    for turn in range(_ROUNDS + 1):
        known = {name: one for name, one in zip(names, [*turns, *carried, *slices], strict=False) if one is not None}
        inside = _graph(body, scope, ranges, known, {})
        made = [inside[value.name] or UNBOUNDED for value in body.output[iteration.outputs :]]
        after = [None if one is None else one | other for one, other in zip(carried, made, strict=False)]
        if after == carried or all(one is None for one in carried):
            break
        carried = after if turn < _ROUNDS - 1 else [None] * len(carried)
    count = len(carried)
    last = [UNBOUNDED if one is None else one | other for one, other in zip(carried, made, strict=False)]
    return inside, [*last, *made[count:]]


# --- ranges required by nodes that would fail ------------------------------------------------------------------------


def _required(graph: onnx.GraphProto, scope: Scope) -> dict[str, ValueRange]:
    """Return ranges outside of which a node of the main graph, which always runs, fails: indices of known tables."""
    found: dict[str, ValueRange] = {}
    for node in reversed(graph.node):
        if default_domain(node.domain):
            continue
        traits = traits_of(node)
        for index, meaning in traits.indices.items():
            if index < len(node.input) and isinstance(meaning, AlongAxis) and not meaning.ignored:
                _narrow(found, node.input[index], _indices(node, meaning, scope))
        if traits.all_elements and not traits.grows and node.output[0] in found and _keeps_integers(node, scope):
            _narrow(found, node.input[0], found[node.output[0]])
    return found


def _narrow(found: dict[str, ValueRange], name: str, one: ValueRange | None) -> None:
    if name and one is not None:
        found[name] = found.get(name, UNBOUNDED) & one


def _indices(node: onnx.NodeProto, meaning: AlongAxis, scope: Scope) -> ValueRange | None:
    axis = meaning.axis
    if isinstance(axis, str):
        axis = next((one.i for one in node.attribute if one.name == axis), 0)
    data = scope[node.input[meaning.data]]
    dim = None if data is None else data.dim(axis)
    if not isinstance(dim, int) or dim == 0:
        return None if dim is None else DIM | ValueRange(-DIM.high - 1, 0)
    return ValueRange(-dim if meaning.negative else 0, dim - 1)


def _keeps_integers(node: onnx.NodeProto, scope: Scope) -> bool:
    """Return whether a node keeps the integers that it reads: a Cast to a type that holds them all, or no Cast."""
    before, after = scope[node.input[0]], scope[node.output[0]]
    if before is None or after is None or before.dtype not in INTEGERS:
        return False
    return before.dtype == after.dtype or (node.op_type == CAST and of_type(before.dtype) in of_type(after.dtype))
