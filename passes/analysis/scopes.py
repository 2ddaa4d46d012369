"""Provide the facts about a model's values by graph: types, shapes and small constants."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy.typing as npt
import onnx
from onnx import AttributeProto, TensorProto

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import INTEGERS, Facts, facts_of_tensor, facts_of_type, freeze
from opshift.opsets.registry.inference_gaps import FIXED_RANK
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Node, Outputs, operator_for
from opshift.opsets.registry.schema import Schema, attribute_value, default_domain, schema_read_at
from opshift.opsets.registry.structural import CONSTANT, IDENTITY
from opshift.opsets.registry.traits import Flow
from opshift.passes.analysis.inference import infer
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.graph.traversal import graphs, named_subgraphs, subgraphs

INLINED = 200_000
"""The maximum number of nodes after inlining: a larger model is described without its functions."""


class Values(Protocol):
    """The facts about the values that one graph can see."""

    def __getitem__(self, name: str) -> Facts | None:
        """Return the facts about a value, which may be empty; None for an input that a call omits."""

    def note(self, name: str, facts: Facts) -> None:
        """Record facts about a value of this graph."""

    def enter(self, node: onnx.NodeProto, attribute: str) -> Scope:
        """Return the scope of a subgraph."""


@dataclass(frozen=True)
class Scope:
    """The facts about the values that one graph can see; `outer` has those of the outer graphs."""

    own: dict[str, Facts | None]
    outer: Scope | None = None
    inner: Mapping[tuple[str, str], Scope] = field(default_factory=dict)
    fails: bool = False
    """Whether a node of the graph rejects the shapes of its inputs, so that the graph never completes."""

    def __getitem__(self, name: str) -> Facts | None:
        """Return the facts about a value, which may be empty; None for an input that a call omits."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.own:
                return scope.own[name]
            scope = scope.outer
        return Facts()

    def note(self, name: str, facts: Facts) -> None:
        """Record facts about a value of this graph."""
        self.own[name] = facts

    def enter(self, node: onnx.NodeProto, attribute: str) -> Scope:
        """Return the scope of a subgraph."""
        return self.inner.get((owner(node), attribute)) or Scope({}, self)


NOTHING = Scope({})


def dtypes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[int]:
    """Yield the declared element types of a graph's values and initializers, with repetitions."""
    if isinstance(graph, onnx.GraphProto):
        yield from (tensor.data_type for tensor in graph.initializer)
        yield from (tensor.values.data_type for tensor in graph.sparse_initializer)
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.type.tensor_type.elem_type or _inner_dtype(value.type)


def _inner_dtype(type_proto: onnx.TypeProto) -> int:
    """Return the element type of the tensors in a sequence, an optional, a map or a sparse tensor; 0 if unknown."""
    which = type_proto.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return _inner_dtype(getattr(type_proto, which).elem_type)
    if which == "map_type":
        return _inner_dtype(type_proto.map_type.value_type)
    return getattr(type_proto, which).elem_type if which in ("tensor_type", "sparse_tensor_type") else 0


def default_opset(imports: Sequence[onnx.OperatorSetIdProto]) -> int | None:
    """Return the opset of the default domain, under either of its names."""
    return next((item.version for item in imports if not default_domain(item.domain)), None)


def describe(model: onnx.ModelProto, absent: Collection[str] = (), summary: onnx.ModelProto | None = None) -> Scope:
    """Infer types and shapes of all graphs of a model, through its functions; weights are not read.

    `absent` are inputs of the main graph without a value: a function's inputs that a call omits. `summary` is the model
    with types inferred without its functions, if `load` needed them.
    """
    inferred = summary if summary is not None and _is_complete(summary, model) else _inferred(model)
    constants: dict[str, Facts | None] = {**initializers(model)}
    constants.update(dict.fromkeys(absent))
    return _scope(inferred.graph, None, constants, {**versions(model), "": default_opset(model.opset_import) or 1})


def initializers(model: onnx.ModelProto) -> dict[str, Facts]:
    """Return the facts about the main graph's initializers."""
    constants = {tensor.name: facts_of_tensor(tensor) for tensor in model.graph.initializer}
    if model.ir_version >= 4:
        # From ir_version 4 on, an initializer that is also an input is a default, which a caller may override with any
        # value of the input's type.
        for value in model.graph.input:
            if value.name in constants:
                constants[value.name] = Facts(constants[value.name].dtype, facts_of_type(value.type).shape)
    return constants


def _is_complete(summary: onnx.ModelProto, model: onnx.ModelProto) -> bool:
    """Return whether a summary has every node, and the model has neither functions nor overridable inputs."""
    inputs = {value.name for value in model.graph.input}
    overridable = any(tensor.name in inputs for tensor in model.graph.initializer)
    return not model.functions and not overridable and len(summary.graph.node) == len(model.graph.node)


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    light = without_weights(model)
    try:
        if light.functions:
            if expanded(light) > INLINED:
                del light.functions[:]
            else:
                light = inlined(light)
        return infer_model(light)
    except Exception:  # InferenceError, OnnxDiedError, or any C++ exception for unexpected contents
        return light


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with inlined functions; the model itself if it has none."""
    if not model.functions:
        return model
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    functions = {(one.domain, one.name, one.overload): one for one in copied.functions}
    for function in copied.functions:
        _separate_outputs(function)
    for node in (node for graph in graphs(copied) for node in graph.node):
        called = functions.get((node.domain, node.op_type, node.overload))
        attributes = {attribute.name for attribute in node.attribute}
        # onnx 1.23.2's inliner ignores the defaults of a function's attributes.
        node.attribute.extend(one for one in (called.attribute_proto if called else ()) if one.name not in attributes)
    return onnx_process.inline(copied)


def _separate_outputs(function: onnx.FunctionProto) -> None:
    """Return each input that is an output through an Identity: onnx 1.23.2's inliner renames it in one place only."""
    for place, name in enumerate(function.output):
        if name in function.input:
            function.output[place] = f"{name}/output {place}"
            function.node.add(op_type=IDENTITY, input=[name], output=[function.output[place]])


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with typed inputs in place of the main graph's large initializers."""
    light = onnx.ModelProto(ir_version=max(model.ir_version, 4))
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name in inputs and model.ir_version >= 4:
            continue  # a default, which a caller may override
        if facts_of_tensor(tensor).value is not None:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return light


def expanded(model: onnx.ModelProto) -> int:
    """Return the number of nodes after inlining all functions, without inlining them."""
    functions = {(item.domain, item.name, item.overload): item for item in model.functions}
    sizes: dict[tuple[str, str, str], int] = {}

    def size(nodes: Sequence[onnx.NodeProto]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            if key in functions and key not in sizes:
                sizes[key] = INLINED + 1  # a recursive function never ends
                sizes[key] = size(functions[key].node)
            total += 1 + sizes.get(key, 0) + sum(size(graph.node) for graph in subgraphs(node))
        return total

    return size(model.graph.node)


def _scope(
    graph: onnx.GraphProto, outer: Scope | None, constants: Mapping[str, Facts | None], imported: Mapping[str, int]
) -> Scope:
    own: dict[str, Facts | None] = {}
    known: dict[bytes, Facts] = {}  # a large model has few types
    for values in (graph.value_info, graph.output, graph.input):
        for value in values:
            serialized = value.type.SerializeToString()
            if serialized not in known:
                known[serialized] = facts_of_type(value.type)
            own[value.name] = known[serialized]
    own.update(constants)
    inner: dict[tuple[str, str], Scope] = {}
    scope = Scope(own, outer, inner)
    for node in _informative(graph, scope):
        if node.op_type == CONSTANT and not default_domain(node.domain):
            found = infer(view(node, scope, imported[""], imported))
            if not isinstance(found, Reason):
                own[node.output[0]] = found[0]
        for name, subgraph in named_subgraphs(node):
            local: dict[str, Facts | None] = {tensor.name: facts_of_tensor(tensor) for tensor in subgraph.initializer}
            inner[owner(node), name] = _scope(subgraph, scope, local, imported)
        own.update(_found_out(node, scope, imported))
    for name, facts in own.items():
        # Partly known elements have already determined shapes; the verification of a single node does without them.
        if facts is not None and facts.value is not None and facts.known is None:
            own[name] = Facts(facts.dtype, facts.shape)
    return scope


def _informative(graph: onnx.GraphProto, scope: Scope) -> Iterator[onnx.NodeProto]:
    """Yield the nodes with possibly more facts: an unknown rank, elements of the first input, or subgraphs.

    Most nodes of a large model add no facts, and are skipped quickly.
    """
    own = scope.own
    ranked = {"", *(name for name, facts in own.items() if facts is not None and facts.shape is not None)}
    for node in graph.node:
        # A slice is a list, which protobuf creates at once; iterating over a sequence takes longer.
        if ranked.issuperset(node.output[:]) and traits(node.op_type).flow is not Flow.DROPPED:
            inputs = node.input[:1]
            first = own.get(inputs[0]) if inputs else None
            if first is not None and first.value is None and (not node.attribute or not any(subgraphs(node))):
                continue
        yield node


def _found_out(node: onnx.NodeProto, scope: Scope, imported: Mapping[str, int]) -> Iterator[tuple[str, Facts]]:
    """Yield facts about a node's outputs that onnx does not infer: ranks that follow from constants, and integers.

    onnx does not use constants of outer graphs, nor shapes that are computed below Reshape-14.
    """
    domain = default_domain(node.domain)
    if not node.input or any(one.ref_attr_name for one in node.attribute):
        return  # the outputs depend on an unbound parameter
    known = {name: scope[name] or Facts() for name in node.output if name}
    inputs = [scope[name] or Facts() for name in node.input if name]
    if domain and operator_for(domain, node.op_type) is None:
        return
    open_ranks = any(facts.shape is None for facts in known.values()) and (
        any(one.shape is not None for one in inputs) or (not domain and node.op_type in FIXED_RANK)
    )
    counts = traits(node.op_type).flow is Flow.DROPPED or (
        bool(inputs) and all(one.value is not None for one in inputs)
    )
    if not open_ranks and not counts:
        return
    found = infer(view(node, scope, imported[""], imported))
    if isinstance(found, Reason):
        return
    for name, facts in zip(node.output, found, strict=False):
        if not name:
            continue
        one = known[name]
        shape = facts.shape if one.shape is None else one.shape
        # Floats are left to kernels, whose rounding varies, unless they are only moved.
        operator = operator_for(domain, node.op_type)
        exact = facts.dtype in (*INTEGERS, TensorProto.BOOL) or (operator is not None and operator.moves_data)
        value = facts.value if exact else None
        if shape is not one.shape or value is not None or (facts.dtype and not one.type):
            yield name, Facts(one.dtype or facts.dtype, shape, value, computed=value is not None)


def _typed_by_outputs(
    node: onnx.NodeProto, schema: Schema, inputs: Sequence[Facts | None], scope: Values
) -> tuple[Facts | None, ...]:
    """Add types of inputs that share a type variable with outputs of declared type."""
    bound = {
        formal.type_variable: facts.dtype
        for formal, name in zip(schema.outputs, node.output, strict=False)
        if name and not formal.variadic and (facts := scope[name]) is not None and facts.dtype
    }
    filled = []
    for index, facts in enumerate(inputs):
        formal_input = schema.input(index)
        if facts is not None and not facts.type and formal_input is not None and not formal_input.variadic:
            facts = dataclasses.replace(facts, dtype=bound.get(formal_input.type_variable))
        filled.append(facts)
    return tuple(filled)


def owner(node: onnx.NodeProto) -> str:
    """Return a node's identifier, by an output, because its index changes when functions are inlined."""
    return next((name for name in node.output if name), "")


def view(node: onnx.NodeProto, scope: Values, opset: int, imported: Mapping[str, int] | None = None) -> Node:
    """Return a node detached from its graph, with its opset and the `imported` versions of other domains.

    A subgraph is represented by the facts about its outputs; an attribute that refers to a parameter is omitted.
    """
    domain = default_domain(node.domain)
    schema = schema_read_at(domain, node.op_type, (imported or {}).get(domain, 1) if domain else opset)
    attributes = {
        attribute.name: freeze(attribute_value(attribute))
        for attribute in node.attribute
        if not attribute.ref_attr_name and attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS)
    }
    for attribute, graph in named_subgraphs(node):
        inside = scope.enter(node, attribute)
        attributes[attribute] = Outputs(inside[value.name] or Facts() for value in graph.output)
    inputs = tuple(scope[name] if name else None for name in node.input)
    if schema is not None and any(facts is not None and facts.dtype is None for facts in inputs):
        inputs = _typed_by_outputs(node, schema, inputs, scope)
    since = schema.since_version if schema else 1
    return Node(domain, node.op_type, since, attributes, inputs, tuple(bool(name) for name in node.output))


Array = npt.NDArray[Any]


Shape = tuple[int, ...]


def graph_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that have no initializer, in order."""
    initializers = {tensor.name for tensor in graph.initializer}
    initializers |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in initializers]


def unnamed(name: str, axis: int) -> str:
    """Return the symbol of a dim without a name."""
    return f"{name}:{axis}"


def versions(model: onnx.ModelProto) -> dict[str, int]:
    """Return the imported version of each domain; the default domain is ''."""
    found = {entry.domain: entry.version for entry in model.opset_import}
    return {**found, "": default_opset(model.opset_import) or 0}
