"""Replace a Scan of unknown length by a Loop that selects the elements of what is scanned."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto
from onnx.helper import get_attribute_value, make_tensor_value_info

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.structural import IDENTITY, LOOP, UNBATCHED_SCAN
from opshift.passes.analysis.inference import make_node
from opshift.passes.analysis.splicing import Spliced, selects
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import subgraphs

_STEPS = 10
"""The first opset whose Slice has steps, which reverse an axis."""

_STATELESS = 11
"""The first opset whose Loop may carry no state."""


def as_loop(
    node: onnx.NodeProto, inputs: Sequence[Facts | None], made: Sequence[Facts | None], names: Names, opset: int
) -> Spliced | Reason:
    """Return a Loop with the body of a Scan, or the reason why there is none.

    `inputs` are the facts about the inputs of the Scan, and `made` those about the outputs of its body.
    """
    attributes = {one.name: get_attribute_value(one) for one in node.attribute if one.name != "body"}
    body, count = next(subgraphs(node)), attributes["num_scan_inputs"]
    states, lists = len(node.input) - count, len(body.output) - (len(node.input) - count)
    axes = attributes.get("scan_output_axes") or [0] * lists
    backwards = attributes.get("scan_output_directions") or [0] * lists
    if len(node.output) != len(body.output):
        return Reason("it has not as many outputs as its body")
    if opset < UNBATCHED_SCAN:
        return Reason("Scan-8 has a batch axis, which Loop lacks")
    if opset < _STATELESS and not states:
        return Reason(f"Loop of opset {opset} has at least one state, and this has none")
    if opset < _STEPS and any(backwards):
        return Reason(f"Slice of opset {opset} cannot reverse an axis")
    if not all(selects(facts, opset) for facts in inputs[states:]):
        return Reason(f"Gather of opset {opset} does not select slices of the element type of a scanned input")
    if any(axis and (facts is None or facts.rank is None) for axis, facts in zip(axes, made[states:], strict=True)):
        return Reason("an output stacked along another axis than the first has no known rank", missing=True)
    new = functools.partial(_named_after, names, node.name or node.output[0])
    found = Spliced()
    axis = (attributes.get("scan_input_axes") or [0])[0]
    length = found.length(node.input[states], axis, new("length"), new)
    loop = _body(node, body, attributes, length if any(attributes.get("scan_input_directions") or ()) else "", names)
    results = [name or new("state") for name in node.output[:states]]
    stacked = [new("stacked") for _ in range(lists)]
    whole = make_node(LOOP, "", [length, "", *node.input[:states]], [*results, *stacked], {"body": loop})
    whole.name = new("loop")
    found.nodes.append(whole)
    found.outputs = results
    for name, axis, reverse, facts in zip(stacked, axes, backwards, made[states:], strict=True):
        ordered = _reversed(found, name, new) if reverse else name
        rank = 1 + (facts.rank or 0 if facts else 0)
        found.outputs.append(_moved(found, ordered, axis % rank, rank, new) if axis else ordered)
    return found


def _body(
    node: onnx.NodeProto, body: onnx.GraphProto, attributes: Mapping[str, Any], length: str, names: Names
) -> onnx.GraphProto:
    """Return the body of the Loop; with `length`, some inputs are scanned backwards."""
    count = attributes["num_scan_inputs"]
    states = len(node.input) - count
    new = functools.partial(_named_after, names, f"{node.name or node.output[0]}/body")
    turn, go, inner = new("iteration"), new("condition"), Spliced()
    carried = [new(value.name) for value in body.input[:states]]
    axes = attributes.get("scan_input_axes") or [0] * count
    backwards = attributes.get("scan_input_directions") or [0] * count
    last = turn
    if length:
        left = inner.difference(length, turn, new("left"))
        last = inner.difference(left, inner.constant(new("one"), 1), new("last"))
    elements = [
        inner.element(name, last if reverse else turn, new(value.name), axis)
        for value, name, axis, reverse in zip(body.input[states:], node.input[states:], axes, backwards, strict=True)
    ]
    values = dict(zip((value.name for value in body.input), [*carried, *elements], strict=True))
    results = inner.add(body, values, names.new, names.new)
    # An output of a graph is computed in it, and once.
    outputs = [inner.node(IDENTITY, [name], new("result")) for name in (go, *results)]
    loop = onnx.GraphProto(name=new("graph"), node=inner.nodes, initializer=inner.initializers, value_info=inner.types)
    loop.input.extend([make_tensor_value_info(turn, TensorProto.INT64, [])])
    loop.input.extend([make_tensor_value_info(go, TensorProto.BOOL, [])])
    loop.input.extend(_named(value, name) for value, name in zip(body.input, carried, strict=False))
    loop.output.extend([make_tensor_value_info(outputs[0], TensorProto.BOOL, [])])
    loop.output.extend(_named(value, name) for value, name in zip(body.output, outputs[1:], strict=True))
    return loop


def _named(value: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    """Return a declaration of the same type for another name."""
    return onnx.ValueInfoProto(name=name, type=value.type)


def _reversed(found: Spliced, value: str, new: Callable[[str], str]) -> str:
    """Emit the first axis from the last element to the first."""
    bounds = [found.constant(new("bound"), [bound]) for bound in (-1, -(2**31), 0, -1)]
    return found.node("Slice", [value, *bounds], new("reversed"))


def _moved(found: Spliced, value: str, axis: int, rank: int, new: Callable[[str], str]) -> str:
    """Emit the first axis at another place."""
    order = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return found.node("Transpose", [value], new("moved"), perm=tuple(order))


def _named_after(names: Names, base: str, what: str) -> str:
    """Return an unused name below that of the Scan."""
    return names.new(f"{base}/{what}")
