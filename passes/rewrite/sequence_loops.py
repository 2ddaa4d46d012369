"""Make a Loop carry the elements of a sequence instead of it, if each iteration keeps their number."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx
from onnx.helper import make_tensor_value_info

from opshift.passes.analysis.splicing import Spliced
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import subgraph
from opshift.passes.rewrite.held_values import Held, Items, container, element_type, return_held

_FIRST = 2
"""The number of inputs of a Loop, and of its body, before the loop-carried values: trip count and condition."""


def carry_elements(
    node: onnx.NodeProto,
    held: Mapping[str, Held],
    inside: Callable[[onnx.GraphProto, Mapping[str, Held]], Mapping[str, Held]],
    found: Spliced,
    names: Names,
) -> dict[str, Held]:
    """Emit a Loop that carries elements, with nodes that collect them, and return the values in each output.

    `held` has the values in sequences before the Loop. `inside` replaces the consumers of sequences in a body, in
    place, and returns the values in its sequences.
    """
    lists = _lists(node, held)
    while lists:
        whole = onnx.NodeProto.FromString(node.SerializeToString())
        body = subgraph(whole, "body")
        elements = {place: _named(body.input[_FIRST + place].name, len(items), names) for place, items in lists.items()}
        inputs, outputs = [*body.input], [value.name for value in body.output]
        del body.input[:]
        body.input.extend(value for at, value in enumerate(inputs) if at - _FIRST not in lists)
        after = inside(body, {inputs[_FIRST + place].name: items for place, items in elements.items()})
        left = {place: after.get(outputs[1 + place]) for place in lists}
        same = {
            place: items
            for place, items in left.items()
            if isinstance(items, tuple) and len(items) == len(lists[place])
        }
        if len(same) == len(lists):
            return _written(node, whole, lists, elements, same, inputs, found, names)
        lists = {place: lists[place] for place in same}
    return {}


def _lists(node: onnx.NodeProto, held: Mapping[str, Held]) -> dict[int, Items]:
    """Return the values in each initial sequence of a Loop, by the index among its loop-carried values."""
    body = subgraph(node, "body")
    initial = ((place, held.get(name)) for place, name in enumerate(node.input[_FIRST:]))
    return {
        place: items
        for place, items in initial
        if isinstance(items, tuple) and items and element_type(body.input[_FIRST + place].type)
    }


def _named(name: str, count: int, names: Names) -> Items:
    return tuple(names.new(f"{name}/{number}") for number in range(count))


def _written(
    node: onnx.NodeProto,
    whole: onnx.NodeProto,
    lists: Mapping[int, Items],
    carried: Mapping[int, Items],
    left: Mapping[int, Items],
    inputs: list[onnx.ValueInfoProto],
    found: Spliced,
    names: Names,
) -> dict[str, Held]:
    """Add elements as inputs and outputs to a Loop whose body reads them."""
    body = subgraph(whole, "body")
    dtypes = {place: element_type(inputs[_FIRST + place].type) for place in lists}
    made = {
        place: _named(node.output[place] or inputs[_FIRST + place].name, len(lists[place]), names) for place in lists
    }
    del whole.input[:], whole.output[:], body.input[:]
    for at, name in enumerate(node.input):
        whole.input.extend(lists.get(at - _FIRST, (name,)))
    for at, name in enumerate(node.output):
        whole.output.extend(made.get(at, (name,)))
    for at, value in enumerate(inputs):
        items = carried.get(at - _FIRST)
        body.input.extend(
            [value] if items is None else [make_tensor_value_info(one, dtypes[at - _FIRST], None) for one in items]
        )
    return_held(body, {1 + place: (dtypes[place], items) for place, items in left.items()}, names)
    found.nodes.append(whole)
    found.outputs = list(node.output)
    held: dict[str, Held] = {node.output[place]: made[place] for place in lists if node.output[place]}
    # These are unused if all consumers read the elements.
    found.nodes += [
        container(node.output[place], made[place], dtypes[place], names) for place in lists if node.output[place]
    ]
    return held
