"""Track the values of a graph during a change of element types, and the values at a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.operators import constant as constants
from opshift.opsets.registry.facts import Facts, array_of, tensor_of
from opshift.opsets.registry.node_traits import attributes_of
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import Parameter, Schema
from opshift.passes.analysis.scopes import Scope
from opshift.passes.analysis.value_ranges import Ranges


@dataclass
class RetypedGraph:
    """The state of one graph's values; `outer` is the enclosing graph."""

    proto: onnx.GraphProto
    scope: Scope
    ranges: Ranges = field(default_factory=lambda: Ranges({}))
    outer: RetypedGraph | None = None
    stored: dict[str, int] = field(default_factory=dict)
    """The element types of values that differ from the declared ones."""
    copies: dict[tuple[str, int], str] = field(default_factory=dict)
    """The names of copies of values in other types."""
    constants: dict[str, TensorProto] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    """Values that are rewired to others: the outputs of removed Casts."""
    casts: dict[str, str] = field(default_factory=dict)
    """The inputs of lossless Casts, by their outputs."""
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def around(self) -> Iterator[RetypedGraph]:
        """Yield this graph and its enclosing graphs."""
        graph: RetypedGraph | None = self
        while graph is not None:
            yield graph
            graph = graph.outer

    def current_name(self, name: str) -> str:
        """Return the value to which a value is rewired."""
        for graph in self.around():
            name = graph.renamed.get(name, name)
        return name

    def dtype(self, name: str) -> int | None:
        """Return the current element type of a value."""
        name = self.current_name(name)
        for graph in self.around():
            if name in graph.stored:
                return graph.stored[name]
            if name in graph.scope.own or name in graph.constants:
                break
        facts = self.scope[name]
        return None if facts is None else facts.dtype

    def constant(self, name: str) -> tuple[RetypedGraph, TensorProto] | None:
        """Return the constant of this name, and its graph."""
        name = self.current_name(name)
        for graph in self.around():
            if name in graph.constants:
                return graph, graph.constants[name]
            if name in graph.scope.own:
                return None
        return None

    def copy(self, name: str, dtype: int) -> str | None:
        """Return the name of a value in another type, if it exists."""
        return next((graph.copies[name, dtype] for graph in self.around() if (name, dtype) in graph.copies), None)


@dataclass(frozen=True)
class Place:
    """A value at one input or output of a node."""

    index: int
    name: str
    parameter: Parameter
    facts: Facts
    is_output: bool


@dataclass(frozen=True)
class Visit:
    """A node with its schema, its path, and its values in the model.

    `types` are the new element types of its inputs that are decided so far, by input index.
    """

    node: onnx.NodeProto
    schema: Schema
    where: str
    typed_node: Node
    types: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphTypes:
    """The element types of a subgraph's inputs, and the required types of its outputs; None: unchanged."""

    inputs: Sequence[int | None] = ()
    outputs: Sequence[int | None] = ()


def values_made(graph: RetypedGraph) -> set[str]:
    """Return the values that nodes of a graph compute."""
    return {name for node in graph.nodes for name in node.output}


def retype_values(graph: RetypedGraph) -> None:
    """Declare the current types of values."""
    for value in graph.proto.value_info:
        if value.name in graph.stored and value.type.HasField("tensor_type"):
            value.type.tensor_type.elem_type = graph.stored[value.name]


def held_tensor(node: onnx.NodeProto) -> TensorProto | None:
    """Return the tensor of a Constant, even if it holds a number or a list of numbers."""
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.HasField("t"):
            held: TensorProto = attribute.t
            return held
    found = constants.tensor(attributes_of(node))
    if found is None or found.array.dtype == object:
        return None
    return tensor_of(found.array, onnx.helper.np_dtype_to_tensor_dtype(found.array.dtype), "")


def converted(tensor: TensorProto, dtype: int, name: str) -> TensorProto:
    """Return a tensor in another type: floats are rounded to the nearest, ties to even, as in numpy."""
    array = np.asarray(array_of(tensor))
    return tensor_of(array.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype)), dtype, name)


def holds_sequences(node: onnx.NodeProto, schema: Schema, scope: Scope) -> bool:
    """Return whether a node has a value that is, or may be, a sequence or an optional."""
    values = [facts for name in (*node.input, *node.output) if name and (facts := scope[name]) is not None]
    parameters = (*schema.inputs, *schema.outputs)
    may = any(not one.startswith("tensor(") for parameter in parameters for one in parameter.types)
    return any(facts.container or (may and not facts.dtype) for facts in values)


def places(graph: RetypedGraph, node: onnx.NodeProto) -> Iterator[Place]:
    """Yield the values of a node without a schema."""
    anything = Parameter("", "", frozenset(), False, False)
    for names, is_output in ((node.input, False), (node.output, True)):
        for index, name in enumerate(names):
            facts = graph.scope[name] if name else None
            if facts is not None:
                yield Place(index, name, anything, facts, is_output)


def groups(node: onnx.NodeProto, schema: Schema, graph: RetypedGraph) -> list[list[Place]]:
    """Return the values of a node in groups with one element type each."""
    found: dict[tuple[str, int], list[Place]] = {}
    for names, parameters, is_output in ((node.input, schema.inputs, False), (node.output, schema.outputs, True)):
        for index, name in enumerate(names):
            facts = graph.scope[name] if name else None
            if facts is None or not parameters:
                continue
            parameter = parameters[min(index, len(parameters) - 1)]
            key = parameter.type_variable, -1 if parameter.homogeneous else index
            found.setdefault(key, []).append(Place(index, name, parameter, facts, is_output))
    return list(found.values())
