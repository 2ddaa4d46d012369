"""Group the rewrites of a plan by similar nodes, each group with its diagram."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from opshift.opsets.registry.facts import array_of, facts_of_type, type_name
from opshift.opsets.registry.schema import default_domain, schema_at
from opshift.passes.analysis.scopes import default_opset
from opshift.passes.base.plan import Action, DrawnNode, Plan, RewriteGroup, Step, Subgraph, Value
from opshift.passes.rewrite.edits import Planned, Replace
from opshift.passes.rewrite.node_models import alone

FEW = 8
"""The maximum number of elements of a constant in a diagram; of a longer one, the first are shown."""

LONG = 60
"""The maximum number of characters of a text in a diagram."""


def rewrite_groups(planned: Planned) -> tuple[RewriteGroup, ...]:
    """Return the rewrite groups of a plan, in order of first appearance.

    A group has nodes with the same rewrite, the same reason, and the same facts about their inputs.
    """
    plan = planned.plan
    alike: dict[Hashable, _Alike] = {}
    waiting = _changes(planned)
    for step in plan.steps:
        found = waiting.get((step.node, step.operator), []) if step.action is Action.LOWER else []
        change = found.pop(0) if found else None
        # Shared decisions share these objects, so that each diagram is created once.
        shared = (id(change.typed_node), id(change.fragment), change.cast) if change else None
        alike.setdefault((_apart_from_place(step), shared), _Alike(step, change, [])).nodes.append(step.node)
    merged: dict[RewriteGroup, list[str]] = {}
    for one in alike.values():
        merged.setdefault(_kind(one, plan), []).extend(one.nodes)
    return tuple(dataclasses.replace(kind, nodes=tuple(nodes)) for kind, nodes in merged.items())


class _Alike(NamedTuple):
    """The nodes of one decision."""

    step: Step
    change: Replace | None
    nodes: list[str]


def replacements(planned: Planned) -> Iterator[Replace]:
    """Yield every node that is lowered, in all graphs and functions."""
    for graph in (*planned.graphs, *(plan.graph for plan in planned.functions)):
        for part in graph.all():
            yield from (change for change in part.changes.values() if isinstance(change, Replace))


def _changes(planned: Planned) -> dict[tuple[str, str], list[Replace]]:
    """Return the changes of lowered nodes by path; nodes of one graph may have the same name."""
    found: dict[tuple[str, str], list[Replace]] = defaultdict(list)
    for change in replacements(planned):
        found[change.where, change.typed_node.name].append(change)
    return found


def _apart_from_place(step: Step) -> Hashable:
    return step.action, step.operator, step.since_version, step.why, step.lowerings, step.becomes, step.assumes


def _kind(alike: _Alike, plan: Plan) -> RewriteGroup:
    step, change = alike.step, alike.change
    ways = change.fragment.ways if change else ()
    ways = tuple(way if way.cost is None else dataclasses.replace(way, cost=round(way.cost, 3)) for way in ways)
    if change:
        original, rewritten = alone(change, plan.source_opset, plan.target_opset)
        before, after = subgraph(original), subgraph(rewritten)
    else:
        before, after = _itself(step.operator, plan.source_opset), _itself(step.operator, plan.target_opset)
    return RewriteGroup(
        step.action,
        step.operator,
        step.since_version,
        step.why,
        step.lowerings,
        step.becomes,
        step.assumes,
        ways,
        before,
        after,
        (),
    )


def _itself(operator: str, opset: int) -> Subgraph:
    """Return an operator without facts, for a version bump."""
    schema = schema_at("", operator, opset)
    return Subgraph(opset, (), (), (DrawnNode(operator, schema.since_version if schema else None, (), (), ()),), ())


def subgraph(model: onnx.ModelProto) -> Subgraph:
    """Return the diagram of a small model."""
    graph, opset = model.graph, default_opset(model.opset_import) or 1
    return Subgraph(
        opset,
        tuple(Value(value.name, _type(value.type)) for value in graph.input),
        tuple(_constant(tensor) for tensor in graph.initializer),
        tuple(_drawn(node, opset) for node in graph.node),
        tuple(value.name for value in graph.output),
    )


def _drawn(node: onnx.NodeProto, opset: int) -> DrawnNode:
    domain = default_domain(node.domain)
    schema = schema_at(domain, node.op_type, opset)
    return DrawnNode(
        f"{domain}::{node.op_type}" if domain else node.op_type,
        schema.since_version if schema else None,
        tuple(f"{attribute.name}={_attribute(attribute)}" for attribute in node.attribute),
        tuple(node.input),
        tuple(node.output),
    )


def _type(proto: onnx.TypeProto) -> str:
    facts = facts_of_type(proto)
    if facts.dtype is None:
        return ""
    return _written_type(facts.dtype, facts.shape)


def _written_type(dtype: int, shape: Sequence[int | str | None] | None) -> str:
    """Return a type in ONNX's text format: `float[2,n,?]`, `float[]` for a scalar, `float` for an unknown rank."""
    if shape is None:
        return type_name(dtype)
    return f"{type_name(dtype)}[{','.join('?' if dim is None else str(dim) for dim in shape)}]"


def _constant(tensor: TensorProto) -> Value:
    written = _written_type(tensor.data_type, tuple(tensor.dims))
    if tensor.data_location == TensorProto.EXTERNAL:
        return Value(tensor.name, written)
    return Value(tensor.name, written, _elements(array_of(tensor)))


def _elements(array: np.ndarray[Any, Any]) -> str:
    first = [_element(item) for item in array.ravel()[:FEW].tolist()]
    text = ", ".join(first) + (", ..." if array.size > FEW else "")
    return _cut(text) if array.ndim == 0 else f"{{{_cut(text)}}}"


def _attribute(attribute: AttributeProto) -> str:
    """Return an attribute on one line."""
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    if attribute.type == AttributeProto.TENSOR:
        return _constant(attribute.t).elements
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return "a graph"
    if attribute.name in ("to", "dtype"):
        return type_name(attribute.i)
    value = onnx.helper.get_attribute_value(attribute)
    if not isinstance(value, list):
        return _cut(_element(value))
    return f"[{_cut(', '.join(map(_element, value)))}]"


def _element(item: Any) -> str:
    if isinstance(item, bytes):
        return item.decode("utf-8", "backslashreplace")
    return f"{item:g}" if isinstance(item, float) else str(item)


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 3]}..."
