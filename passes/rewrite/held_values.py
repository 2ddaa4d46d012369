"""Track the known values in sequences and optionals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
from onnx.helper import make_tensor_value_info

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.structural import IDENTITY, OPTIONAL, SEQUENCE_CONSTRUCT, SEQUENCE_EMPTY
from opshift.passes.analysis.splicing import named_node
from opshift.passes.graph.names import Names

Items = tuple[str, ...]
"""The names of the values in a sequence."""


@dataclass(frozen=True)
class Maybe:
    """The name of the value in an optional, a tensor or a sequence; empty if there is none."""

    value: str = ""


Held = Items | Maybe


def names_in(held: Held) -> Items:
    """Return the names of all values in a sequence or an optional."""
    return held if isinstance(held, tuple) else (held.value,) if held.value else ()


def renamed_in(held: Held, names: Mapping[str, str]) -> Held:
    """Return a sequence or an optional with some of its values renamed."""
    if isinstance(held, tuple):
        return tuple(names.get(name, name) for name in held)
    return Maybe(names.get(held.value, held.value))


def container(name: str, held: Held, dtype: int, names: Names) -> onnx.NodeProto:
    """Return a node that creates a sequence or an optional of values with this element type."""
    if isinstance(held, Maybe):
        typed = {} if held.value else {"type": onnx.helper.make_tensor_type_proto(dtype, None)}
        return named_node(names.new(f"{name}/Optional"), OPTIONAL, list(names_in(held)), name, **typed)
    if held:
        return named_node(names.new(f"{name}/SequenceConstruct"), SEQUENCE_CONSTRUCT, list(held), name)
    return named_node(names.new(f"{name}/SequenceEmpty"), SEQUENCE_EMPTY, [], name, dtype=dtype)


def return_held(graph: onnx.GraphProto, changes: Mapping[int, tuple[int, Held]], names: Names) -> None:
    """Make the graph of an If or a Loop return the values in a sequence or an optional instead of it.

    `changes` has, by output index, the element type and the values in the output.
    """
    returned = list(graph.output)
    del graph.output[:]
    for place, value in enumerate(returned):
        if place not in changes:
            graph.output.append(value)
            continue
        dtype, held = changes[place]
        for number, name in enumerate(names_in(held)):
            # A graph must compute its outputs itself, each under a unique name.
            new = names.new(f"{value.name}/{number}")
            graph.node.append(named_node(new, IDENTITY, [name], new))
            graph.output.append(make_tensor_value_info(new, dtype, None))


def element_type(type_proto: onnx.TypeProto) -> int:
    """Return the element type of the tensors in a sequence, or of the tensor in an optional; 0 for other types."""
    if type_proto.HasField("sequence_type"):
        return type_proto.sequence_type.elem_type.tensor_type.elem_type
    return type_proto.optional_type.elem_type.tensor_type.elem_type if type_proto.HasField("optional_type") else 0


def is_tensor(facts: Facts | None) -> bool:
    """Return whether a value is known to be a tensor."""
    return facts is not None and bool(facts.dtype) and not facts.container


def is_sequence(facts: Facts | None) -> bool:
    """Return whether a value is known to be a sequence or an optional."""
    return facts is not None and bool(facts.container)
