"""Write the iterations of a Loop or a Scan one after the other, where they can be counted."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.facts import Facts, constant
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.structural import LOOP
from opshift.passes.analysis.known_values import Propagation, is_static
from opshift.passes.analysis.scopes import Scope
from opshift.passes.analysis.splicing import Spliced, accepts
from opshift.passes.graph.traversal import names_read, nested_nodes, subgraphs
from opshift.passes.rewrite.apply import Names

UNROLLED = 4096
"""Nodes: a Loop or a Scan that would become more is not unrolled."""


@dataclass(frozen=True)
class _Counted:
    """The iterations of a node.

    Attributes:
        length: how many there are.
        carried: the values that the first one is given.
        turns: the names in the body of the number of the iteration and of the condition, if it has these.
        conditions: how many of the body's outputs are conditions.
        axes: the axis along which each list of results is put together.
        backwards: whether a list is in the reverse order.
        scanned: the inputs that are cut into slices, each with its axis and whether it is gone through backwards.
    """

    length: int
    carried: tuple[str, ...]
    turns: tuple[str, ...]
    conditions: int
    axes: tuple[int, ...]
    backwards: tuple[bool, ...]
    scanned: tuple[tuple[str, int, bool], ...] = ()


def unrolled(
    node: onnx.NodeProto, scope: Scope, propagation: Propagation, names: Names, opset: int
) -> Spliced | Reason:
    """Return the iterations of a Loop or a Scan; or why they cannot be counted or written."""
    body = next(subgraphs(node))
    inside = scope.enter(node, "body")
    counted = _loop(node, body, scope, propagation) if node.op_type == LOOP else _scan(node, body, scope, inside, opset)
    if isinstance(counted, Reason):
        return counted
    if (count := counted.length * _nodes(body)) > UNROLLED:
        return Reason(
            f"its {counted.length} iterations would be {count} nodes, of which {UNROLLED} are unrolled at most"
        )
    results = [inside[value.name] or Facts() for value in body.output[counted.conditions + len(counted.carried) :]]
    if not counted.length and not all(is_static(facts) and facts.dtype for facts in results):
        return Reason("it has no iteration, and what it returns has no known shape")
    if not all(accepts(operator, facts, opset) for facts in results for operator in ("Unsqueeze", "Concat")):
        return Reason(f"Unsqueeze or Concat of opset {opset} does not accept the element type of what it returns")
    if not all(accepts("Gather", scope[name], opset) for name, _, _ in counted.scanned):
        return Reason(f"Gather of opset {opset} does not accept the element type of what it scans")
    return _written(node, body, counted, results, names, opset)


def _loop(node: onnx.NodeProto, body: onnx.GraphProto, scope: Scope, propagation: Propagation) -> _Counted | Reason:
    """Count the iterations of a Loop: its body is gone through until the condition is false."""
    given = [scope[name] if name else None for name in node.input]
    most = None if given[0] is None else _number(given[0])
    again = True if len(given) < 2 or given[1] is None else _number(given[1])
    if most is None and given[0] is not None:
        return Reason("the number of its iterations is computed at run time", missing=True)
    if again is None:
        return Reason("whether it begins is computed at run time", missing=True)
    carried, length = given[2:], 0
    names = [value.name for value in body.input]
    while again and (most is None or length < most):
        if (length + 1) * _nodes(body) > UNROLLED:
            return Reason(f"its iterations would be more than {UNROLLED} nodes, which are unrolled at most")
        turn = [constant(np.array(length, np.int64)), constant(np.array(True))]
        inside = propagation.graph(body, scope, dict(zip(names, [*turn, *carried], strict=False)))
        found = [inside[value.name] or Facts() for value in body.output]
        again, length = _number(found[0]), length + 1
        if again is None and length != most:
            return Reason("the condition that ends it is computed at run time", missing=True)
        carried = list(found[1 : len(given) - 1])
    results = len(body.output) - 1 - len(carried)
    turns = (body.input[0].name, body.input[1].name)
    return _Counted(length, tuple(node.input[2:]), turns, 1, (0,) * results, (False,) * results)


def _number(facts: Facts) -> int | None:
    """Return the one element of a constant."""
    return None if facts.known is None or facts.known.size != 1 else int(facts.known.item())


def _scan(node: onnx.NodeProto, body: onnx.GraphProto, scope: Scope, inside: Scope, opset: int) -> _Counted | Reason:
    """Count the iterations of a Scan; those of Scan-8 have a batch around them."""
    if opset < 9:
        return Reason("Scan-8 has a batch, and is not unrolled")
    given: Mapping[str, Any] = {
        one.name: onnx.helper.get_attribute_value(one) for one in node.attribute if one.name != "body"
    }
    count = given["num_scan_inputs"]
    states = len(node.input) - count
    inputs = list(node.input[states:])
    axes = _from_front(given.get("scan_input_axes") or [0] * count, [scope[name] for name in inputs], 0)
    results = [inside[value.name] for value in body.output[states:]]
    places = _from_front(given.get("scan_output_axes") or [0] * len(results), results, 1)
    first = scope[inputs[0]]
    if axes is None or places is None or first is None or not isinstance(length := first.dim(axes[0]), int):
        return Reason("the length of what it scans is unknown")
    backwards = map(bool, given.get("scan_input_directions") or [0] * count)
    reverse = tuple(map(bool, given.get("scan_output_directions") or [0] * len(results)))
    scanned = tuple(zip(inputs, axes, backwards, strict=True))
    return _Counted(length, tuple(node.input[:states]), (), 0, places, reverse, scanned)


def _from_front(axes: Sequence[int], values: Sequence[Facts | None], more: int) -> tuple[int, ...] | None:
    """Return axes counted from the front; `more` axes are added to the values."""
    found = []
    for axis, facts in zip(axes, values, strict=True):
        if axis < 0 and (facts is None or facts.rank is None):
            return None
        found.append(axis if axis >= 0 else axis + (facts.rank or 0 if facts else 0) + more)
    return tuple(found)


def _written(
    node: onnx.NodeProto,
    body: onnx.GraphProto,
    counted: _Counted,
    results: Sequence[Facts],
    names: Names,
    opset: int,
) -> Spliced:
    base = node.name or node.output[0]
    found = Spliced()
    carried, states = list(counted.carried), [value.name for value in body.input]
    lists: list[list[str]] = [[] for _ in counted.axes]
    read = {name for one in body.node for name in names_read(one)} | {value.name for value in body.output}
    shared = {tensor.name: names.new(f"{base}/{tensor.name}") for tensor in body.initializer}
    for tensor in body.initializer:
        found.initializers.append(onnx.TensorProto.FromString(tensor.SerializeToString()))
        found.initializers[-1].name = shared[tensor.name]
    for turn in range(counted.length):
        given: list[str] = []
        for place, name in enumerate(counted.turns):
            value, dtype = (np.int64(turn), 7) if place == 0 else (np.bool_(True), 9)
            label = names.new(f"{base}/{('iteration', 'condition')[place]}/{turn}") if name in read else ""
            given.append(found.constant(label, value, dtype) if label else "")
        given += carried
        for name, axis, backwards in counted.scanned:
            at = counted.length - 1 - turn if backwards else turn
            index = found.constant(names.new(f"{base}/index/{turn}"), np.int64(at))
            given.append(found.element(name, index, names.new(f"{base}/{name}/{turn}"), axis))
        inputs = {**shared, **dict(zip(states, given, strict=False))}
        numbered = functools.partial(_numbered, names, turn)
        made = found.add(body, inputs, numbered, numbered)[counted.conditions :]
        carried = made[: len(carried)]
        for one, name in zip(lists, made[len(carried) :], strict=True):
            one.append(name)
    found.outputs = list(carried)
    for place, parts in enumerate(lists):
        whole = names.new(f"{base}/{body.output[counted.conditions + len(carried) + place].name}")
        axis = counted.axes[place]
        found.outputs.append(_list(found, parts, whole, axis, counted.backwards[place], results[place], names, opset))
    return found


def _numbered(names: Names, turn: int, name: str) -> str:
    """Return the name of a value of one iteration."""
    return names.new(f"{name}/{turn}")


def _list(
    found: Spliced,
    parts: Sequence[str],
    whole: str,
    axis: int,
    backwards: bool,
    facts: Facts,
    names: Names,
    opset: int,
) -> str:
    """Put the results of all iterations together along a new axis."""
    if not parts:
        shape = [dim for dim in facts.shape or () if isinstance(dim, int)]
        array = np.zeros([*shape[:axis], 0, *shape[axis:]], onnx.helper.tensor_dtype_to_np_dtype(facts.dtype or 1))
        return found.constant(whole, array, facts.dtype or 1)
    rows = [
        found.with_axis("Unsqueeze", part, axis, names.new(f"{whole}/row/{turn}"), opset)
        for turn, part in enumerate(parts)
    ]
    return found.node("Concat", rows[::-1] if backwards else rows, whole, axis=axis)


def _nodes(graph: onnx.GraphProto) -> int:
    """Count the nodes of a graph and of the graphs in it."""
    return sum(1 for _ in nested_nodes(graph))
