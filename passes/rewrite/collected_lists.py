"""Make a Loop that only appends to a sequence return rows, for targets with Loop and without sequences.

The number of iterations may be unknown: a Loop stacks the rows of all iterations along a new first axis, so that an
element is a row, and the concatenation of all elements is a Reshape of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx
from onnx.helper import get_attribute_value, make_tensor_value_info

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.schema import default_domain, version_read_at
from opshift.opsets.registry.structural import (
    IDENTITY,
    JOIN,
    LOOP,
    SEQUENCE_AT,
    SEQUENCE_EMPTY,
    SEQUENCE_INSERT,
    SEQUENCE_LENGTH,
)
from opshift.passes.analysis.known_values import is_static
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.analysis.splicing import Spliced, named_node
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph.editing import replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import named_subgraphs, nested_nodes, node_name, subgraph, subgraphs

_FIRST = 2
"""The number of inputs of a Loop, and of its body, before the loop-carried values: trip count and condition."""


@dataclass(frozen=True)
class _List:
    """A loop-carried sequence that starts empty and gets one element in each iteration.

    Attributes:
        place: its index among the loop-carried values.
        name: the output of the Loop.
        element: the appended value in the body.
        facts: the facts about the element in all iterations.
    """

    place: int
    name: str
    element: str
    facts: Facts


def collect(model: onnx.ModelProto, values: Scope) -> tuple[Step, ...]:
    """Replace, in place, the first sequence that a Loop only appends to, and return the Loop's steps.

    `values` are the facts about the model's values.
    """
    names, opset = Names(model), default_opset(model.opset_import) or 1
    empty = {node.output[0] for node in nested_nodes(model.graph) if node.op_type == SEQUENCE_EMPTY}
    for graph, node, scope, where in _loops(model.graph, values, "main"):
        for found in _lists(node, scope, empty):
            readers = [one for one in nested_nodes(graph) if found.name in one.input]
            returned = any(value.name == found.name for inner in _all(graph) for value in inner.output)
            if not returned and all(_is_replaced(one, found, scope) for one in readers):
                _stack(graph, node, found, names, opset, is_read=bool(readers))
                since = version_read_at("", LOOP, opset)
                return (Step(Action.LOWER, where, LOOP, since, "its sequence is read as rows", ("rows",), (LOOP,)),)
    return ()


def _loops(
    graph: onnx.GraphProto, scope: Scope, path: str
) -> Iterator[tuple[onnx.GraphProto, onnx.NodeProto, Scope, str]]:
    """Yield each Loop with its graph, the graph's scope, and its path."""
    for index, node in enumerate(graph.node):
        where = f"{path}/{node_name(node, index)}"
        if node.op_type == LOOP and not default_domain(node.domain):
            yield graph, node, scope, where
        for name, inner in named_subgraphs(node):
            yield from _loops(inner, scope.enter(node, name), f"{where}.{name}")


def _all(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and all its subgraphs."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _all(inner)


def _lists(node: onnx.NodeProto, scope: Scope, empty: set[str]) -> Iterator[_List]:
    """Yield the sequences of a Loop that it only appends to."""
    body = subgraph(node, "body")
    inside = scope.enter(node, "body")
    returned = [value.name for value in body.output]
    if len(body.input) != len(node.input) or len(returned) != len(node.output) + 1:
        return
    reads = [name for one in nested_nodes(body) for name in one.input]
    for place, start in enumerate(node.input[_FIRST:]):
        before, after = body.input[_FIRST + place].name, returned[1 + place]
        added = next((one for one in body.node if after in one.output), None)
        if start not in empty or added is None or added.op_type != SEQUENCE_INSERT or default_domain(added.domain):
            continue
        if added.input[0] != before:
            continue
        at_end = len(added.input) < 3 or not added.input[2]
        alone = reads.count(before) == 1 and reads.count(after) == 0
        if at_end and alone and returned.count(after) == 1 and before not in returned and node.output[place]:
            yield _List(place, node.output[place], added.input[1], inside[added.input[1]] or Facts())


def _is_replaced(node: onnx.NodeProto, rows: _List, scope: Scope) -> bool:
    """Return whether a node that reads a sequence can read rows instead."""
    if default_domain(node.domain) or node.input[0] != rows.name or list(node.input).count(rows.name) != 1:
        return False
    if node.op_type == SEQUENCE_LENGTH:
        return True
    if node.op_type == SEQUENCE_AT:  # Gather keeps the axes of an index, which is a scalar by the specification
        place = scope[node.input[1]]
        return is_static(rows.facts) and place is not None and place.rank == 0
    if node.op_type != JOIN:
        return False
    axis, new = _join(node)
    if new:  # elements of different shapes cannot be stacked
        return axis == 0 or rows.facts.rank is not None
    shape = rows.facts.shape or ()
    return is_static(rows.facts) and 0 not in shape and bool(shape)


def _join(node: onnx.NodeProto) -> tuple[int, bool]:
    """Return the axis of a ConcatFromSequence, and whether it is a new axis."""
    attributes: dict[str, Any] = {one.name: get_attribute_value(one) for one in node.attribute}
    return attributes["axis"], bool(attributes.get("new_axis", 0))


def _stack(
    graph: onnx.GraphProto, node: onnx.NodeProto, found: _List, names: Names, opset: int, *, is_read: bool
) -> None:
    """Make a Loop return rows in place of a sequence, and its consumers read the rows."""
    if not is_read:
        _drop(node, found.place)
        return
    body, rows = subgraph(node, "body"), names.new(f"{found.name}/rows")
    element = found.element
    made = {name for one in body.node for name in one.output}
    if element not in made or any(value.name == element for value in body.output):
        element = names.new(f"{found.name}/row")
        body.node.append(named_node(element, IDENTITY, [found.element], element))
    shape = found.facts.shape
    dims = None if shape is None else [dim if isinstance(dim, int) else None for dim in shape]
    dtype = found.facts.dtype or body.output[1 + found.place].type.sequence_type.elem_type.tensor_type.elem_type
    _drop(node, found.place)
    body.output.append(make_tensor_value_info(element, dtype, dims))
    node.output.append(rows)
    for inner in _all(graph):
        if not any(found.name in one.input for one in inner.node):
            continue
        nodes: list[onnx.NodeProto] = []
        for one in inner.node:
            if found.name not in one.input:
                nodes.append(one)
                continue
            written = Spliced()
            _read_rows(one, rows, found.facts, written, names, opset)
            nodes += written.nodes
            inner.initializer.extend(written.initializers)
        replace_nodes(inner, nodes)


def _drop(node: onnx.NodeProto, place: int) -> None:
    """Remove a loop-carried value."""
    body = subgraph(node, "body")
    del node.input[_FIRST + place], body.input[_FIRST + place], body.output[1 + place], node.output[place]


def _read_rows(node: onnx.NodeProto, rows: str, facts: Facts, written: Spliced, names: Names, opset: int) -> None:
    """Replace a consumer of a sequence by nodes that read the rows of its elements."""
    (output,), base = node.output, node.name or node.output[0]
    if node.op_type == SEQUENCE_AT:
        written.element(rows, node.input[1], output)
    elif node.op_type == SEQUENCE_LENGTH:
        written.length(rows, 0, output, lambda what: names.new(f"{base}/{what}"))
    else:
        axis, new = _join(node)
        _join_rows(output, base, axis, new, rows, facts, written, names)


def _join_rows(
    output: str, base: str, axis: int, new: bool, rows: str, facts: Facts, written: Spliced, names: Names
) -> None:
    """Replace the concatenation of all elements: move the rows' axis before the joined axis, and reshape."""
    rank = facts.rank or 0
    axis = axis % (rank + new) if axis < 0 else axis
    if axis:
        order = (*range(1, axis + 1), 0, *range(axis + 1, rank + 1))
        label = base if new else names.new(f"{base}/Transpose")
        moved = output if new else label
        written.nodes.append(named_node(label, "Transpose", [rows], moved, perm=order))
        rows = moved
    if not new:
        shape = facts.shape or ()
        sizes = written.constant(names.new(f"{base}/shape"), [*shape[:axis], -1, *shape[axis + 1 :]])
        written.nodes.append(named_node(base, "Reshape", [rows, sizes], output))
    elif not axis:
        written.nodes.append(named_node(base, IDENTITY, [rows], output))
