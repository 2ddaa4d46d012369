"""A node of the source model, with its context in the graph."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.operator import Node
from opshift.passes.analysis.scopes import Scope, Values, view


@dataclass(frozen=True, eq=False)
class NodeContext:
    """A node and its context.

    Attributes:
        node: the model's node.
        where: the path of its graph, and its name.
        opset: the opset of its graph.
        scope: the facts about the values of its graph.
        bound: the enclosing function's parameters for one kind of call; None leaves them unbound.
        imported: the model's opset imports.
    """

    node: onnx.NodeProto
    where: str
    opset: int
    scope: Values
    bound: Mapping[str, Any] | None
    imported: Mapping[str, int]

    @functools.cached_property
    def typed_node(self) -> Node:
        """The node as operators see it: its attributes, and the facts about its inputs."""
        return bind(view(self.node, self.scope, self.opset, self.imported), self.node, self.bound)

    @property
    def operator(self) -> str:
        """The operator, with its domain unless that is the default one: com.microsoft::Gelu."""
        return f"{self.typed_node.domain}::{self.typed_node.name}" if self.typed_node.domain else self.typed_node.name

    @property
    def label(self) -> str:
        """The operator with its version: Hardmax-13."""
        return f"{self.operator}-{self.typed_node.since_version}"

    @property
    def in_function(self) -> bool:
        """Whether the node is in a model-local function."""
        return self.where.startswith("function ")

    @property
    def open_parameters(self) -> list[str]:
        """The attributes that refer to unbound parameters of the function."""
        return [] if self.bound is not None else [item.name for item in self.node.attribute if item.ref_attr_name]


def bind(typed_node: Node, node: onnx.NodeProto, bound: Mapping[str, Any] | None) -> Node:
    """Replace attribute references by the function's parameters; one without a value is omitted."""
    references = {item.name: item.ref_attr_name for item in node.attribute if item.ref_attr_name}
    if not references or not bound:
        return typed_node
    values = {name: bound[parameter] for name, parameter in references.items() if bound.get(parameter) is not None}
    return dataclasses.replace(typed_node, attributes={**typed_node.attributes, **values})


class LazyScope:
    """The scope of a subgraph, created when a value is first requested, because most are never needed."""

    def __init__(self, outer: Callable[[], Values], node: onnx.NodeProto, attribute: str) -> None:
        """Store the outer scope and the node with the subgraph as an attribute."""
        self._of = outer, node, attribute
        self._found: Scope | None = None

    def _scope(self) -> Scope:
        if self._found is None:
            outer, node, attribute = self._of
            self._found = outer().enter(node, attribute)
        return self._found

    def __getitem__(self, name: str) -> Facts | None:
        """Return the facts about a value."""
        return self._scope()[name]

    def enter(self, node: onnx.NodeProto, attribute: str) -> Scope:
        """Return the scope of an inner subgraph."""
        return self._scope().enter(node, attribute)

    def note(self, name: str, facts: Facts) -> None:
        """Record additional facts about a value."""
        self._scope().note(name, facts)
