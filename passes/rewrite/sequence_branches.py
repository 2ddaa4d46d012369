"""Make an If return the elements of a sequence, or the tensor of an optional, instead of it."""

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
    """An output of an If that is a sequence or an optional: its type, and its values in each branch."""

    dtype: int
    branches: tuple[Held, ...]

    def named(self, names: Sequence[str]) -> Held:
        """Return the values of the output after the If returns them under these names."""
        return tuple(names) if isinstance(self.branches[0], tuple) else Maybe(*names)


def return_elements(
    node: onnx.NodeProto,
    inside: Mapping[str, Mapping[str, Held]],
    found: Spliced,
    names: Names,
) -> dict[str, Held]:
    """Emit an If that returns elements, with nodes that collect them, and return the values in each output.

    `inside` has the values in each branch's sequences and optionals. An output stays if the branches hold different
    numbers of values.
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
        # It is unused if all consumers read the elements.
        name = node.output[place]
        found.nodes.append(container(name, held[name], output.dtype, names))
    return held


def _output(node: onnx.NodeProto, place: int, inside: Mapping[str, Mapping[str, Held]]) -> _Output | None:
    """Return the values in one output; None if it is a tensor, or if the branches differ in number."""
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
