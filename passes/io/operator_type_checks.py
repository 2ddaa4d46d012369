"""Check axes, element types and shapes of nodes, which onnx leaves unchecked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import onnx

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.node_traits import attributes_of, traits
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import default_domain, schema_read_at
from opshift.passes.analysis.lazy_inference import StaticFacts
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.analysis.operator_checks import operator_fault
from opshift.passes.base.errors import InvalidModelError, printable
from opshift.passes.graph import traversal
from opshift.passes.graph.traversal import GraphView
from opshift.passes.io.onnx_checks import copy_fields, shown_to_onnx


def check_operators(model: onnx.ModelProto) -> None:
    """Check axes, element types and shapes of Hardmax, ArgMax and OneHot, which onnx's checker leaves unchecked.

    Subgraphs are checked; function bodies, which have no types, are not.

    Raises:
        InvalidModelError: one of them violates the definition of the operator's version, as far as types are known.
    """
    found = tuple(traversal.graph_views(model))
    summary = shown_to_onnx(model, found[0])
    check_types_of_operators(model, summary, found)


def check_types_of_operators(
    model: onnx.ModelProto, summary: onnx.ModelProto, found: Sequence[GraphView]
) -> tuple[StaticFacts | None, onnx.ModelProto | None]:
    """Check the operators; return the facts and the inferred types that the check needed."""
    if not any(map(_checked_operators, found)):
        return None, None
    static = StaticFacts(model, found[0])
    # The values of subgraphs have scopes of their own.
    if len(found) == 1 and _check_operators(
        found, summary, lambda view, name: _as_tensor_type(static.find(name)), static.alike
    ):
        return static, None
    inferred = _inferred(summary)
    inside = tuple(traversal.graph_views(inferred))
    types: dict[int, Mapping[str, Facts | None]] = {}
    _check_operators(inside, summary, lambda view, name: _type(name, view, types))
    return static, inferred


def _check_operators(
    found: Sequence[GraphView],
    summary: onnx.ModelProto,
    type_of: Callable[[GraphView, str], Facts | None],
    alike: Callable[[int], Hashable] = lambda index: None,
) -> bool:
    """Check the operators by the types of their inputs; return whether all of these are known.

    `alike` returns a key that equal nodes of the main graph share, or None: only one of them is checked.
    """
    opset = max((entry.version for entry in summary.opset_import if not default_domain(entry.domain)), default=1)
    complete = True
    checked: set[Hashable] = {None}
    for view in found:
        for index in view.places(_checked_operators(view)):
            if (same := alike(index)) in checked and same is not None:
                continue
            checked.add(same)
            node = view.graph.node[index]
            schema = schema_read_at("", node.op_type, opset)
            if default_domain(node.domain) or schema is None:
                continue
            attributes = attributes_of(node)
            inputs = tuple([type_of(view, name) for name in node.input[:]])
            complete = complete and None not in inputs
            if None in attributes.values():
                continue  # a parameter of a function, whose value each call defines
            typed_node = Node("", node.op_type, schema.since_version, attributes, inputs, (True,) * len(node.output))
            if fault := operator_fault(typed_node):
                where = printable(f"{view.path}/{traversal.node_name(node, index)}")
                raise InvalidModelError(f"{node.op_type}-{schema.since_version} at {where}: {fault}.")
    return complete


def _checked_operators(view: GraphView) -> frozenset[str]:
    """Return the names of a graph's operators whose nodes onnx does not check."""
    return frozenset(name for domain, name, _ in view.by_op_key if not default_domain(domain) and traits(name).checked)


def _inferred(summary: onnx.ModelProto) -> onnx.ModelProto:
    plain = summary
    if summary.functions:  # inference through functions that call each other takes time exponential in their depth
        plain = onnx.ModelProto()
        copy_fields(plain, summary, {"functions"})
    try:
        return infer_model(plain)
    except Exception:  # even non-strict inference fails at some contradictions; declared types remain
        return plain


def _type(name: str, view: GraphView, types: dict[int, Mapping[str, Facts | None]]) -> Facts | None:
    """Return the facts about a value in a graph, which may come from an outer graph."""
    scope: GraphView | None = view
    while scope is not None:
        if id(scope) not in types:
            types[id(scope)] = _declared(scope.graph)
        if name in types[id(scope)]:
            return types[id(scope)][name]
        scope = scope.outer
    return None


def _declared(graph: onnx.GraphProto | onnx.FunctionProto) -> Mapping[str, Facts | None]:
    """Return the types of the values of a graph."""
    if isinstance(graph, onnx.FunctionProto):
        return {}
    known: dict[bytes, Facts | None] = {}  # a large model has few types
    declared: dict[str, Facts | None] = {}
    for values in (graph.output, graph.value_info, graph.input):
        for value in values:
            serialized = value.type.SerializeToString()
            if serialized not in known:
                known[serialized] = declared_type(value.type)
            declared[value.name] = known[serialized]
    return declared | {tensor.name: Facts(tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer}


def _as_tensor_type(facts: Facts | None) -> Facts | None:
    if facts is None or facts.shape is None:
        return None
    return Facts(facts.dtype, facts.shape)


def declared_type(declared: onnx.TypeProto) -> Facts | None:
    """Return element type and dims of a tensor type (None for a dim without a number); None for other types."""
    if not declared.HasField("tensor_type"):
        return None
    tensor = declared.tensor_type
    # onnxruntime treats a negative dimension as unknown.
    dims = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in tensor.shape.dim
    )
    return Facts(tensor.elem_type or None, dims if tensor.HasField("shape") else None)
