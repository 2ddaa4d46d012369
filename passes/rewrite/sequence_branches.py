"""Let an If return the elements of a sequence, or the tensor of an optional, in its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from opshift.passes.analysis.splicing import Spliced
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import named_subgraphs
from opshift.passes.rewrite.held_values import Held, Items, Maybe, container, element_type, names_in, return_held


@dataclass(frozen=True)
class _Output:
    """An output of an If that holds values: their type, and what each branch puts there."""

    dtype: int
    branches: tuple[Held, ...]

    def named(self, names: Sequence[str]) -> Held:
        """Return what the If puts there, once it returns the values under these names."""
        return tuple(names) if isinstance(self.branches[0], tuple) else Maybe(*names)


def return_elements(
    node: onnx.NodeProto,
    inside: Mapping[str, Mapping[str, Held]],
    found: Spliced,
    names: Names,
) -> dict[str, Held]:
    """Write an If that returns elements, with what holds them after it, and return what each output holds.

    `inside` is what the values of each branch hold. An output stays if the branches hold different numbers of values.
    """
    outputs = {
        place: output for place, name in enumerate(node.output) if name and (output := _output(node, place, inside))
    }
    returned = sum(len(names_in(outputs[at].branches[0])) if at in outputs else 1 for at in range(len(node.output)))
    if not outputs or not returned:
        return {}
    whole = onnx.NodeProto.FromString(node.SerializeToString())
    made: dict[str, Items] = {}
    for place in outputs:
        name = node.output[place]
        count = len(names_in(outputs[place].branches[0]))
        made[name] = tuple(names.new(f"{name}/{number}") for number in range(count))
    del whole.output[:]
    whole.output.extend(one for name in node.output for one in made.get(name, (name,)))
    for index, (_, graph) in enumerate(named_subgraphs(whole)):
        return_held(graph, {place: (one.dtype, one.branches[index]) for place, one in outputs.items()}, names)
    found.nodes.append(whole)
    found.outputs = list(node.output)
    held = {node.output[place]: output.named(made[node.output[place]]) for place, output in outputs.items()}
    for place, output in outputs.items():
        # What reads the elements alone leaves it unused.
        name = node.output[place]
        found.nodes.append(container(name, held[name], output.dtype, names))
    return held


def _output(node: onnx.NodeProto, place: int, inside: Mapping[str, Mapping[str, Held]]) -> _Output | None:
    """Return what is known of one output; None if it holds no values, or not the same number in both branches."""
    found = []
    for name, graph in named_subgraphs(node):
        value = graph.output[place]
        dtype, held = element_type(value.type), inside[name].get(value.name)
        if not dtype or held is None:
            return None
        found.append((dtype, held))
    (dtype, one), (other_dtype, other) = found
    if dtype != other_dtype or type(one) is not type(other) or len(names_in(one)) != len(names_in(other)):
        return None
    return _Output(dtype, (one, other))
