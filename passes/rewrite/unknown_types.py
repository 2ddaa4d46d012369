"""Find the possible types of untyped values, and check that the target's version accepts all of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import onnx

from opshift.opsets.registry.facts import RARE, type_name
from opshift.opsets.registry.operator import Node, Outputs
from opshift.opsets.registry.schema import NEWEST, Parameter, Schema, default_domain, schema_at
from opshift.passes.analysis.scopes import dtypes
from opshift.passes.graph.traversal import GraphView, GraphWalk, walk


class UnknownTypes:
    """The possible types of untyped values in one model."""

    def __init__(self, model: onnx.ModelProto, walked: Sequence[GraphView | GraphWalk]) -> None:
        """Store a model, and its graphs if already traversed."""
        self._model = model
        self._given = walked
        self.ignored = False
        """Whether untyped values are ignored: an uncalled function stays valid for the accepted types."""

    def forget(self) -> None:
        """Release the graphs."""
        self._given = ()

    def not_taken(self, typed_node: Node, before: Schema, after: Schema) -> str:
        """Return the name of an untyped input with a possible type that the target's version rejects, or ""."""
        if self.ignored:
            return ""
        for index, facts in enumerate(typed_node.inputs):
            old, new = before.input(index), after.input(index)
            if facts is not None and not facts.type and old and new and self._lost(old, new):
                return (
                    f"the type of {old.name} is unknown, and {typed_node.name}-{after.since_version} does not take all."
                )
        returned = (value for value in typed_node.attributes.values() if isinstance(value, Outputs))
        open_types = any(not facts.type for facts in itertools.chain.from_iterable(returned))
        if open_types and self._lost(before.outputs[-1], after.outputs[-1]):
            name = f"{typed_node.name}-{after.since_version}"
            return f"the type of a value that a graph of it returns is unknown, and {name} does not return all."
        return ""

    def _lost(self, before: Parameter, after: Parameter) -> bool:
        """Return whether an untyped value could have a type that the target's version does not have."""
        lost = before.types - after.types - self._undeclared_rare_types
        return any(type_text.startswith("tensor(") for type_text in lost) if self._only_tensors else bool(lost)

    @property
    def _walked(self) -> Sequence[GraphView | GraphWalk]:
        return self._given or tuple(walk(self._model))

    @functools.cached_property
    def _undeclared_rare_types(self) -> frozenset[str]:
        """The rare element types that the model never declares: untyped values are assumed not to have them."""
        found = {*itertools.chain.from_iterable((*dtypes(one.graph), *one.dtypes) for one in self._walked)}
        declared = {f"tensor({type_name(dtype)})" for dtype in found}
        return frozenset(f"tensor({type_name(dtype)})" for dtype in RARE) - declared

    @functools.cached_property
    def _only_tensors(self) -> bool:
        """Whether no input is a sequence or an optional, and no default-domain node creates one."""
        walked = self._walked
        names = {name for one in walked for domain, name, _ in one.by_op_key if not default_domain(domain)}
        return not any(map(_makes_containers, names)) and not any(_takes_containers(one.graph) for one in walked)


def gives_fewer(before: Schema, after: Schema) -> bool:
    """Return whether an output, whose type no input determines, has fewer possible types afterwards."""
    bound = {parameter.type_variable for parameter in before.inputs}
    later = {parameter.name: parameter.types for parameter in after.outputs}
    return any(
        parameter.type_variable not in bound and bool(parameter.types - later.get(parameter.name, parameter.types))
        for parameter in before.outputs
    )


@functools.cache
def _makes_containers(name: str) -> bool:
    """Return whether a default-domain operator returns only sequences or optionals."""
    schema = schema_at("", name, NEWEST)
    outputs = () if schema is None else schema.outputs
    return any(not any(type_text.startswith("tensor(") for type_text in one.types) for one in outputs)


def _takes_containers(graph: onnx.GraphProto | onnx.FunctionProto) -> bool:
    """Return whether a graph declares an input as a sequence or an optional."""
    return isinstance(graph, onnx.GraphProto) and any(not value.type.HasField("tensor_type") for value in graph.input)
