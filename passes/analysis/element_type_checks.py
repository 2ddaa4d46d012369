"""Check the element types of all values against the schemas, as onnxruntime does when it opens a model."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import type_name
from opshift.opsets.registry.schema import Schema, default_domain, is_dialect, schema_read_at
from opshift.passes.base.errors import InvalidModelError, printable
from opshift.passes.graph.traversal import GraphView, node_name

DType = int | None
"""The element type of a tensor; None if it is unknown, or if the value is no tensor."""


def check_element_types(model: onnx.ModelProto, found: Sequence[GraphView]) -> None:
    """Check that each node of the default domain accepts the element types of its inputs; `found` are all graphs.

    Types follow from declarations, constants and schemas alone, node by node; a node of unknown types passes. A body of
    a function is checked for the types of each call.

    Raises:
        InvalidModelError: a node does not accept its inputs, or a value is declared with a type that it does not have.
    """
    _Check(model, found).run()


@dataclass(frozen=True)
class _Rule:
    """A version of an operator, and its numbers of inputs and outputs if they are fixed."""

    schema: Schema
    inputs: int | None
    outputs: int | None
    names: bool
    """Whether an attribute names the type of the output, or holds it."""

    def fault(self, dtypes: Sequence[DType]) -> str | None:
        """Return the reason why it does not accept inputs of these types."""
        for index, dtype in enumerate(dtypes):
            parameter = self.schema.input(index)
            if dtype and parameter is not None and f"tensor({type_name(dtype)})" not in parameter.types:
                label = f"{self.schema.name}-{self.schema.since_version}"
                return f"its input {parameter.name!r} is a tensor({type_name(dtype)}), which {label} does not accept"
        return self.schema.unlike(dtypes)

    def returned(self, dtypes: Sequence[DType], count: int) -> tuple[DType, ...]:
        """Return the types of this number of outputs."""
        bound = {
            parameter.type_variable: dtype
            for index, dtype in enumerate(dtypes)
            if dtype and (parameter := self.schema.input(index)) is not None and parameter.homogeneous
        }
        formal = self.schema.outputs
        outputs = (formal[min(index, len(formal) - 1)] for index in range(count if formal else 0))
        return tuple(
            _only(one.types) if len(one.types) == 1 else bound.get(one.type_variable) if one.homogeneous else None
            for one in outputs
        )


@functools.cache
def _rule(name: str, opset: int) -> _Rule | None:
    """Return the rule for an operator of the default domain; None if onnx has none."""
    schema = schema_read_at("", name, opset)
    if schema is None or is_dialect(schema):
        return None
    raw = schema.raw
    inputs = raw.min_input if raw.min_input == raw.max_input else None
    outputs = raw.min_output if raw.min_output == raw.max_output else None
    given = {parameter.type_variable for parameter in schema.inputs}
    free = any(parameter.type_variable not in given and len(parameter.types) > 1 for parameter in schema.outputs)
    return _Rule(schema, inputs, outputs, free and not schema.attributes.keys().isdisjoint(_NAMES))


_NAMES: Mapping[str, int] = {
    "to": 0,
    "value": 0,
    "value_float": TensorProto.FLOAT,
    "value_floats": TensorProto.FLOAT,
    "value_int": TensorProto.INT64,
    "value_ints": TensorProto.INT64,
    "value_string": TensorProto.STRING,
    "value_strings": TensorProto.STRING,
}
"""Attributes that decide the type of an output, with the type; 0: it is in the value."""


def _named(attribute: onnx.AttributeProto) -> DType:
    """Return the type of an output that an attribute decides."""
    found = _NAMES.get(attribute.name)
    if found == 0:
        found = attribute.i if attribute.name == "to" else attribute.t.data_type
    return found if found in _dtypes().values() else None


@functools.cache
def _dtypes() -> Mapping[str, int]:
    return {f"tensor({type_name(number)})": number for number in TensorProto.DataType.values() if number}


def _only(types: frozenset[str]) -> DType:
    return _dtypes().get(next(iter(types)))


class _Check:
    """One check of a model."""

    def __init__(self, model: onnx.ModelProto, found: Sequence[GraphView]) -> None:
        self._found = found
        self._opset = _opset(model.opset_import)
        self._functions = {
            (view.graph.domain, view.graph.name, view.graph.overload): view
            for view in found
            if isinstance(view.graph, onnx.FunctionProto)
        }
        self._scopes: dict[int, dict[str, DType]] = {}
        self._seen: dict[Hashable, tuple[DType, ...]] = {}
        self._calls: dict[Hashable, tuple[DType, ...]] = {}

    def run(self) -> None:
        """Check all graphs: an outer graph comes before those inside of it; those in functions have no types."""
        for view in self._found:
            if isinstance(view.graph, onnx.GraphProto) and isinstance(_root(view).graph, onnx.GraphProto):
                outer = self._scopes.get(id(view.outer), {}) if view.outer else {}
                self._scopes[id(view)] = self._graph(view, view.graph, outer)

    def _graph(self, view: GraphView, graph: onnx.GraphProto, outer: Mapping[str, DType]) -> dict[str, DType]:
        """Check a graph, and return the types of the values that it can see."""
        declared = {value.name: _declared(value) for values in (graph.value_info, graph.output) for value in values}
        own = {value.name: _declared(value) for value in graph.input}
        own.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
        own.update((tensor.values.name, tensor.values.data_type) for tensor in graph.sparse_initializer)
        known = {**outer, **own}
        self._nodes(view, self._opset, known, declared)
        return known

    def _nodes(self, view: GraphView, opset: int, known: dict[str, DType], declared: Mapping[str, DType]) -> None:
        """Check the nodes of a graph or a function in order; the types of their outputs are added to `known`."""
        for index, domain, name, given, made in _in_order(view, opset):
            key = domain, name, opset, tuple(map(known.get, given)), len(made)
            found = self._seen.get(key)
            if found is None:
                found = self._returned(view, index, key)
            for value, dtype in zip(made, found, strict=False):
                stated = declared.get(value)
                if dtype and stated and dtype != stated:
                    what = f"its output {printable(value)} is declared as tensor({type_name(stated)}), and it returns "
                    raise _invalid(view, index, name, f"{what}tensor({type_name(dtype)})")
                known[value] = dtype or stated
            for value in made[len(found) :]:
                known[value] = declared.get(value)

    def _returned(
        self, view: GraphView, index: int, key: tuple[str, str, int, tuple[DType, ...], int]
    ) -> tuple[DType, ...]:
        """Return the types of the outputs of a node, which the key describes but for its attributes."""
        domain, name, opset, dtypes, count = key
        node = view.graph.node[index]
        if (call := (node.domain, node.op_type, node.overload)) in self._functions:
            return self._called(self._functions[call], dtypes)
        rule = None if domain else _rule(name, opset)
        if rule is None:
            return ()
        if fault := rule.fault(dtypes):
            raise _invalid(view, index, f"{name}-{rule.schema.since_version}", fault)
        if rule.names and (named := [dtype for one in node.attribute if (dtype := _named(one))]):
            return (named[0],)
        found = rule.returned(dtypes, count)
        if not rule.names:
            self._seen[key] = found
        return found

    def _called(self, view: GraphView, dtypes: tuple[DType, ...]) -> tuple[DType, ...]:
        """Check the body of a function for a call with inputs of these types, and return those of its outputs."""
        function, key = view.graph, (id(view), dtypes)
        assert isinstance(function, onnx.FunctionProto)
        if key not in self._calls:
            self._calls[key] = ()  # a function that calls itself is invalid, and another check refuses it
            known: dict[str, DType] = dict.fromkeys(function.input)
            known.update(zip(function.input, dtypes, strict=False))
            self._nodes(view, _opset(function.opset_import), known, {})
            self._calls[key] = tuple(map(known.get, function.output))
        return self._calls[key]


def _in_order(view: GraphView, opset: int) -> Iterator[tuple[int, str, str, Sequence[str], Sequence[str]]]:
    """Yield the index, the domain, the operator, the inputs and the outputs of each node.

    Most operators have fixed numbers of both, so that the node itself is not read.
    """
    keys: list[tuple[str, str, _Rule | None]] = [("", "", None)] * len(view.names)
    for (domain, name, _), places in view.by_op_key.items():
        rule = None if default_domain(domain) else _rule(name, opset)
        for place in places:
            keys[place] = default_domain(domain), name, rule
    first_input = first_output = 0
    for index, (domain, name, rule) in enumerate(keys):
        fixed = rule is not None and rule.inputs is not None and rule.outputs is not None
        node = None if fixed else view.graph.node[index]
        inputs = rule.inputs if rule is not None and node is None else len(node.input) if node else 0
        outputs = rule.outputs if rule is not None and node is None else len(node.output) if node else 0
        last_input, last_output = first_input + (inputs or 0), first_output + (outputs or 0)
        yield index, domain, name, view.inputs[first_input:last_input], view.outputs[first_output:last_output]
        first_input, first_output = last_input, last_output


def _root(view: GraphView) -> GraphView:
    while view.outer is not None:
        view = view.outer
    return view


def _opset(imports: Sequence[onnx.OperatorSetIdProto]) -> int:
    return max((entry.version for entry in imports if not default_domain(entry.domain)), default=1)


def _declared(value: onnx.ValueInfoProto) -> DType:
    return value.type.tensor_type.elem_type or None


def _invalid(view: GraphView, index: int, label: str, fault: str) -> InvalidModelError:
    where = printable(f"{view.path}/{node_name(view.graph.node[index], index)}")
    return InvalidModelError(f"{label} at {where}: {fault}. Export the model again, or repair it.")
