"""Choose element types for a target: for unsupported types of a model, and for single nodes with limited types."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import FLOATS, INTEGERS, Facts, exact_types, type_name
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import Schema, default_domain, schema_at, schema_read_at
from opshift.opsets.registry.value_ranges import SIGNIFICANT_BITS, of_type
from opshift.opsets.runtimes.limits import NAMING
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.analysis.scopes import Scope, default_opset, view
from opshift.passes.base.errors import printable
from opshift.passes.base.plan import Code, Refusal
from opshift.passes.graph.traversal import named_subgraphs, node_name, walk
from opshift.passes.rewrite.op_type_decisions import named_types
from opshift.passes.rewrite.retyped_graph import Place, RetypedGraph, groups
from opshift.passes.rewrite.type_choice import NodeTypes


def types_for(target: Target, model: onnx.ModelProto) -> dict[int, int]:
    """Return replacements for a model's unsupported element types, if another type may hold the values.

    Floats become only wider ones; integers get the narrowest type that holds them all, or the widest one.
    """
    if not target.types:
        return {}
    found = named_types(walk(model), default_opset(model.opset_import) or 1)
    unsupported = sorted(found & (INTEGERS | FLOATS | {TensorProto.BOOL}) - target.dtypes)
    return {dtype: others[0] for dtype in unsupported if (others := [*_others(dtype, target.dtypes)])}


def _others(dtype: int, among: Collection[int]) -> Iterator[int]:
    """Yield element types that may replace another one, the best first."""
    exact = exact_types(dtype) & set(among)
    yield from sorted(exact & INTEGERS, key=_size)
    yield from sorted(exact & FLOATS, key=_size)
    if dtype in INTEGERS:
        others = set(among) - exact - {dtype}
        yield from sorted(others & INTEGERS, key=_size, reverse=True)
        yield from sorted(others & FLOATS, key=_size, reverse=True)


def _size(dtype: int) -> tuple[float, int]:
    return (SIGNIFICANT_BITS[dtype] if dtype in FLOATS else of_type(dtype).high), dtype


def narrowed(target: Target, model: onnx.ModelProto) -> Iterator[str]:
    """Yield notes on element types of a model that the target computes in narrower ones."""
    found = named_types(walk(model), default_opset(model.opset_import) or 1) if target.narrows else set()
    for old, new in target.narrows.items():
        if TensorProto.DataType.Value(old.upper()) in found:
            yield f"{target.name} computes {old} as {new}: --types {old}={new} shows whether that has enough digits."


def interface_refusals(target: Target, model: onnx.ModelProto) -> Iterator[Refusal]:
    """Yield the inputs and outputs of a model whose types the target does not have."""
    held = {tensor.name for tensor in model.graph.initializer}
    for role, verb, values, own in (
        ("input", "takes", model.graph.input, target.input_types),
        ("output", "returns", model.graph.output, target.output_types),
    ):
        taken = own or target.types
        for value in values:
            name, dtype = f"{role} {printable(value.name)}", value.type.tensor_type.elem_type
            if target.output_types and own and _is_sequence(value.type):
                reason = f"it is a sequence, of which {target.name} {verb} none."
                yield Refusal(Code.TYPE, name, "", reason, f"Give the model {role}s that are tensors.")
            elif taken and dtype and type_name(dtype) not in taken and value.name not in held:
                what = f"of which {target.name} {verb} no {role}s" if own else f"which {target.name} does not have"
                reason = f"its element type is {type_name(dtype)}, {what}."
                yield Refusal(Code.TYPE, name, "", reason, _change(dtype, target, taken, model))


def _is_sequence(item: onnx.TypeProto) -> bool:
    """Return whether a type is that of a sequence, or of an optional one."""
    return item.HasField("sequence_type") or (
        item.HasField("optional_type") and _is_sequence(item.optional_type.elem_type)
    )


def _change(dtype: int, target: Target, taken: Sequence[str], model: onnx.ModelProto) -> str:
    """Return the options that change an element type of inputs or outputs to a supported one."""
    if dtype == TensorProto.STRING:
        return ""
    if dtype in types_for(target, model):
        return "Change it with --io-types."
    among = {TensorProto.DataType.Value(name.upper()) for name in taken}
    narrower = sorted(among & FLOATS, key=_size, reverse=True) if dtype in FLOATS else []
    changed = dtype in INTEGERS | FLOATS | {TensorProto.BOOL}
    other = next(iter((*_others(dtype, among), *narrower)), None) if changed else None
    if other is None:
        return f"Give it another element type in the model, such as {taken[0]}."
    return f"Change it with --types {type_name(dtype)}={type_name(other)} --io-types."


def types_at(
    model: onnx.ModelProto, values: Scope, legality: Legality, refused: Collection[str]
) -> dict[str, NodeTypes]:
    """Return accepted element types for nodes with these paths, if they are refused for their types.

    The caller must check that the values fit.
    """
    return dict(_types_at(model.graph, values, legality, refused, "main", default_opset(model.opset_import) or 1))


def _types_at(
    graph: onnx.GraphProto, scope: Scope, legality: Legality, refused: Collection[str], path: str, opset: int
) -> Iterator[tuple[str, NodeTypes]]:
    for index, node in enumerate(graph.node):
        where = f"{path}/{node_name(node, index)}"
        if where in refused and not default_domain(node.domain):
            schema = schema_read_at("", node.op_type, opset)
            typed_node = view(node, scope, opset)
            why = legality.type_fault(typed_node)
            if schema is not None and why is not None and not why.missing:
                found = _accepted(node, typed_node, schema, scope, legality)
                if found is not None:
                    yield where, NodeTypes(found, str(why))
        for name, inner in named_subgraphs(node):
            if any(one.startswith(f"{where}.{name}/") for one in refused):
                yield from _types_at(inner, scope.enter(node, name), legality, refused, f"{where}.{name}", opset)


def _accepted(
    node: onnx.NodeProto, typed_node: Node, schema: Schema, scope: Scope, legality: Legality
) -> Mapping[tuple[str, int], int] | None:
    """Return new types by type variables and old types: the fewest changes and best types that the target accepts."""
    assert legality.target is not None
    among = legality.target.dtypes or FLOATS | INTEGERS
    after = schema_at("", node.op_type, legality.opset)
    found = groups(node, schema, RetypedGraph(onnx.GraphProto(), scope))
    options: list[list[int | None]] = []
    for group in found:
        dtype = _dtype(group)
        allowed = frozenset.intersection(*(place.parameter.types for place in group))
        others = [one for one in _others(dtype, among) if f"tensor({type_name(one)})" in allowed]
        options.append([None, *others])
    ways = sorted(itertools.product(*map(range, map(len, options))), key=lambda way: (sum(map(bool, way)), sum(way)))
    for way in ways[1:_WAYS]:
        chosen = [one[place] for one, place in zip(options, way, strict=True)]
        changed = _retyped(typed_node, found, chosen)
        if legality.type_fault(changed) is None and _allows(after, changed):
            return {
                (group[0].parameter.type_variable, _dtype(group)): dtype
                for group, dtype in zip(found, chosen, strict=True)
                if dtype is not None
            }
    return None


def _dtype(group: Sequence[Place]) -> int:
    return next((place.facts.dtype for place in group if place.facts.dtype), 0)


_WAYS = 1000
"""The maximum number of type combinations that are tried for one node."""


def _allows(schema: Schema | None, node: Node) -> bool:
    """Return whether a version of an operator accepts the types of a node's inputs."""
    return schema is not None and all(
        facts is None or not facts.type or (one := schema.input(index)) is None or facts.type in one.types
        for index, facts in enumerate(node.inputs)
    )


def _retyped(node: Node, found: Sequence[Sequence[Place]], chosen: Sequence[int | None]) -> Node:
    inputs: list[Facts | None] = [*node.inputs]
    attributes = dict(node.attributes)
    for group, dtype in zip(found, chosen, strict=True):
        for place in group if dtype is not None else ():
            if not place.is_output:
                inputs[place.index] = Facts(dtype, place.facts.shape, unread=place.facts.is_constant)
        old = group[0].facts.dtype
        if dtype is not None and any(place.is_output for place in group):
            attributes |= {name: dtype for name in NAMING & attributes.keys() if attributes[name] == old}
    return dataclasses.replace(node, inputs=tuple(inputs), attributes=attributes)
