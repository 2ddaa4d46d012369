"""Summarize a model: its nodes with functions inlined, small constants, and every shape that onnx infers.

Weights are not read. An unnamed dim of a graph input gets the name from its input spec.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from opshift.opsets.registry.facts import Dim, declared_dim, facts_of_tensor, facts_of_type
from opshift.opsets.registry.node_traits import traits, traits_of
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CONSTANT, IDENTITY, SEQUENCE_MAP, UNBATCHED_SCAN
from opshift.passes.analysis import scopes
from opshift.passes.analysis.model_inference import infer_model
from opshift.passes.analysis.scopes import Array, Shape, graph_inputs, unnamed, versions
from opshift.passes.graph.traversal import graphs, subgraphs

_FEW = 16
"""The maximum number of elements of a small constant: a larger one is a table."""


@dataclass(frozen=True)
class ModelSummary:
    """The summary of a model, for analyses.

    Attributes:
        graph: the main graph, with functions inlined unless it would become too large.
        inputs: the names of the graph inputs that a caller feeds.
        functions: the names of functions that are still called.
        shapes: the dims of each value whose rank is known, or declared by the body that reads it. A Reshape to a graph
            input counts as a Reshape that keeps the shape, also for the values that follow.
        constants: the constants of at most 16 elements, by name.
        weights: the shapes of all initializers of the main graph.
        same: the source of each value that has the elements of another value.
        versions: the version of each domain.
        bearers: for each symbol of a dim, the first graph input with this symbol, and its axis.
    """

    graph: onnx.GraphProto
    inputs: tuple[str, ...]
    functions: frozenset[str]
    shapes: Mapping[str, tuple[Dim, ...]]
    constants: Mapping[str, Array]
    weights: tuple[Shape, ...]
    same: Mapping[str, str]
    versions: Mapping[str, int]
    bearers: Mapping[str, tuple[str, int]]

    def origin(self, name: str) -> str:
        """Return the source of a value's elements, through operators that only move or cast them."""
        for _ in range(16):
            if name in self.constants or name not in self.same:
                break
            name = self.same[name]
        return name

    def constant(self, name: str) -> Array | None:
        """Return the elements of a small constant, whatever its shape."""
        return self.constants.get(self.origin(name)) if name else None


def summary(model: onnx.ModelProto) -> ModelSummary:
    """Return the summary of a model."""
    light = scopes.without_weights(model)
    bearers: dict[str, tuple[str, int]] = {}
    for value in light.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                dim.dim_param = str(declared_dim(dim) or unnamed(value.name, axis))
                bearers.setdefault(dim.dim_param, (value.name, axis))
    if light.functions and scopes.expanded(light) <= scopes.INLINED:
        light = scopes.inlined(light)
    # If inference fails, the declared types are still used.
    with contextlib.suppress(onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        light = infer_model(light)
    shapes = _shapes(light)
    constants: dict[str, Array] = {}
    same: dict[str, str] = {}
    for graph in graphs(light):
        if isinstance(graph, onnx.GraphProto):
            for tensor in graph.initializer:
                _keep(constants, tensor.name, tensor)
        for node in graph.node:
            if default_domain(node.domain):
                continue
            if node.op_type == CONSTANT:
                _keep(constants, node.output[0], _constant(node))
            elif node.op_type == "ConstantOfShape":
                _keep(constants, node.output[0], next((item.t for item in node.attribute), None))
            elif traits(node.op_type).all_elements and node.input:
                same[node.output[0]] = node.input[0]
            # A body may declare a rank that inference leaves unknown, such as that of a Reshape.
            for name, dims in declared_by_bodies(node, versions(light).get("", 0)):
                shapes.setdefault(name, dims)
    if (unchanged := _without_reshaping(light, shapes)) is not None:
        with contextlib.suppress(onnx.shape_inference.InferenceError, ValueError, RuntimeError):
            shapes = _shapes(infer_model(unchanged)) | shapes
    return ModelSummary(
        graph=light.graph,
        inputs=tuple(value.name for value in graph_inputs(model.graph)),
        functions=frozenset(function.name for function in light.functions),
        shapes=shapes,
        constants=constants,
        weights=tuple(tuple(tensor.dims) for tensor in model.graph.initializer),
        same=same,
        versions=versions(light),
        bearers=bearers,
    )


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[Dim, ...]]:
    """Return the dims of each value whose rank is known."""
    shapes: dict[str, tuple[Dim, ...]] = {}
    for graph in graphs(model):
        if isinstance(graph, onnx.GraphProto):
            for value in (*graph.input, *graph.output, *graph.value_info):
                if (dims := facts_of_type(value.type).shape) is not None:
                    shapes.setdefault(value.name, dims)
            shapes |= {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    return shapes


def _without_reshaping(model: onnx.ModelProto, shapes: Mapping[str, tuple[Dim, ...]]) -> onnx.ModelProto | None:
    """Return a model in which each Reshape to a graph input is an identity; None if it has none."""
    inputs = {value.name for value in model.graph.input}
    places = [
        place
        for place, node in enumerate(model.graph.node)
        if traits_of(node).reshapes and len(node.input) > 1 and node.input[1] in inputs and node.output[0] not in shapes
    ]
    if not places:
        return None
    unchanged = onnx.ModelProto()
    unchanged.CopyFrom(model)
    for place in places:
        node = unchanged.graph.node[place]
        node.op_type = IDENTITY
        del node.input[1:]
        node.ClearField("attribute")
    return unchanged


_WRITTEN = {"value_int": 7, "value_ints": 7, "value_float": 1, "value_floats": 1, "value_string": 8, "value_strings": 8}
"""The element types of a Constant's attributes that are not tensors."""


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Return the tensor of a Constant node, from whichever attribute it has."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            tensor: onnx.TensorProto = attribute.t
            return tensor
        if attribute.name in _WRITTEN and not attribute.ref_attr_name:
            value = onnx.helper.get_attribute_value(attribute)
            items = list(value) if attribute.name.endswith("s") else [value]
            dims = [len(items)] if attribute.name.endswith("s") else []
            return onnx.helper.make_tensor("", _WRITTEN[attribute.name], dims, items)
    return None


def _keep(constants: dict[str, Array], name: str, tensor: onnx.TensorProto | None) -> None:
    """Add a constant if it is small."""
    if tensor is None or len(tensor.dims) > 4:
        return
    facts = facts_of_tensor(tensor)
    if facts.known is not None and facts.known.size <= _FEW:
        constants[name] = facts.known


def declared_by_bodies(node: onnx.NodeProto, opset: int) -> Iterator[tuple[str, tuple[Dim, ...]]]:
    """Yield inputs of a Loop or a Scan, and the dims that the body declares for them; None for a dynamic dim.

    A scanned input has an additional axis, and the inputs of Scan-8 have a leading batch axis, which is left out.
    """
    attributes = {one.name: one for one in node.attribute}
    body = attributes.get("body")
    loop = traits_of(node).iteration
    if body is None or loop is None or (loop.scanned and opset < UNBATCHED_SCAN):
        return
    names, formal = list(node.input)[loop.inputs :], list(body.g.input)[loop.inputs :]
    states = len(names) - (attributes[loop.scanned].i if loop.scanned in attributes else 0)
    axes = list(attributes["scan_input_axes"].ints) if "scan_input_axes" in attributes else []
    for place, (name, value) in enumerate(zip(names, formal, strict=False)):
        dims = facts_of_type(value.type).shape
        if dims is None or not name:
            continue
        if loop.scanned and place >= states:
            axis = (axes[place - states] if place - states < len(axes) else 0) % (len(dims) + 1)
            dims = (*dims[:axis], None, *dims[axis:])
        yield name, dims


def declared_of_elements(node: onnx.NodeProto) -> Iterator[tuple[str, tuple[Dim, ...]]]:
    """Yield the input sequences of a SequenceMap, and the dims that its body declares for their elements."""
    if node.op_type != SEQUENCE_MAP:
        return
    for name, value in zip(node.input, next(subgraphs(node)).input, strict=False):
        if (dims := facts_of_type(value.type).shape) is not None:
            yield name, dims
