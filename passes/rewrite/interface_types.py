"""Add Casts around models, so that a verification feeds both models the same inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx
from onnx import TensorProto

from opshift.opsets.registry.structural import CAST
from opshift.passes.analysis.splicing import named_node, rename_values
from opshift.passes.graph.editing import drop_named, replace_nodes
from opshift.passes.graph.names import Names


def with_interface(
    model: onnx.ModelProto, like: onnx.ModelProto, types: Collection[tuple[int, int]]
) -> onnx.ModelProto:
    """Return a model with the inputs and outputs of another model, where both have one pair of element types.

    Each pair has the type of this model first. Casts restore its own types inside.
    """
    wanted_inputs, wanted_outputs = _types(like.graph.input), _types(like.graph.output)
    inputs = {
        name: (wanted_inputs[name], [dtype])
        for name, dtype in _types(model.graph.input).items()
        if (dtype, wanted_inputs.get(name)) in types
    }
    outputs = {
        name: wanted_outputs[name]
        for name, dtype in _types(model.graph.output).items()
        if (dtype, wanted_outputs.get(name)) in types
    }
    return _wrapped(model, inputs, outputs)


def with_unread(model: onnx.ModelProto, like: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """Return a model with additional unused inputs, as in another model."""
    if not names:
        return model
    work = onnx.ModelProto()
    work.CopyFrom(model)
    work.graph.input.extend(value for value in like.graph.input if value.name in names)
    return work


def with_small_integers(model: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """Return a model that cuts these inputs to integers of 16 bits, so that products of two fit in 32."""
    types = _types(model.graph.input)
    return _wrapped(model, {name: (types[name], [TensorProto.INT16, types[name]]) for name in names}, {})


def _types(values: Sequence[onnx.ValueInfoProto]) -> dict[str, int]:
    return {value.name: value.type.tensor_type.elem_type for value in values if value.type.HasField("tensor_type")}


def _wrapped(
    model: onnx.ModelProto, inputs: Mapping[str, tuple[int, Sequence[int]]], outputs: Mapping[str, int]
) -> onnx.ModelProto:
    """Return a model with Casts after inputs, each with an outer type and the types to cast to, and before outputs."""
    if not inputs and not outputs:
        return model
    work = onnx.ModelProto()
    work.CopyFrom(model)
    names = Names(work)
    graph = work.graph
    first: list[onnx.NodeProto] = []
    last: list[onnx.NodeProto] = []
    inner = {name: names.new(f"{name}_inside") for name in {*inputs, *outputs}}
    rename_values(graph.node, inner)
    for name, (dtype, casts) in inputs.items():
        read = name
        for index, to in enumerate(casts):
            made = inner[name] if index == len(casts) - 1 else names.new(f"{name}_inside")
            first.append(named_node(made, CAST, [read], made, to=to))
            read = made
        next(value for value in graph.input if value.name == name).type.tensor_type.elem_type = dtype
    for name, dtype in outputs.items():
        last.append(named_node(f"{name}_outside", CAST, [inner[name]], name, to=dtype))
        next(value for value in graph.output if value.name == name).type.tensor_type.elem_type = dtype
    replace_nodes(graph, (*first, *graph.node, *last))
    drop_named(graph.value_info, inner)
    return work
