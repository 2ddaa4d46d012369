"""An ir_version that is older than what a model holds: what has no place in it is left out or said otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from opshift.passes.describe import inlined
from opshift.passes.graphs import graphs


def fitted(model: onnx.ModelProto, ir_version: int) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a model with nothing that came after an ir_version, as far as that computes the same, and what is gone.

    Functions (8) are written where they are called, initializers (4) are inputs with a default, or constants of the
    graph that they are in. Metadata of nodes, graphs and functions (10), device configurations (11), training
    information (7) and quantization annotations (5) are left out. What else is newer stays: an opset, an element type,
    a sparse initializer. The model itself may be changed.
    """
    gone: list[str] = []
    if ir_version < 8 and model.functions:
        gone.append(f"{len(model.functions)} functions, which are written where they are called")
        model = inlined(model)
        used = {node.domain for graph in graphs(model) for node in graph.node}
        kept = [item for item in model.opset_import if item.domain in (*used, "", "ai.onnx")]
        del model.opset_import[:]
        model.opset_import.extend(kept)
    if ir_version < 11 and (count := _unplaced(model)):
        gone.append(f"device configurations of {count} nodes")
    if ir_version < 10 and (count := _without_metadata(model)):
        gone.append(f"metadata in {count} places")
    if ir_version < 7 and model.training_info:
        gone.append("training information")
        del model.training_info[:]
    if ir_version < 5 and model.graph.quantization_annotation:
        gone.append("quantization annotations")
        del model.graph.quantization_annotation[:]
    if ir_version < 4:
        _initializers_given(model)
    return model, tuple(gone)


def _unplaced(model: onnx.ModelProto) -> int:
    placed = [node for graph in graphs(model) for node in graph.node if node.device_configurations]
    for node in placed:
        del node.device_configurations[:]
    return len(placed)


def _without_metadata(model: onnx.ModelProto) -> int:
    noted = [holder for holder in _holders(model) if holder.metadata_props]
    for holder in noted:
        del holder.metadata_props[:]
    told = [function for function in model.functions if function.value_info]
    for function in told:
        del function.value_info[:]
    return len(noted) + len(told)


def _holders(
    model: onnx.ModelProto,
) -> Iterator[onnx.GraphProto | onnx.FunctionProto | onnx.NodeProto | onnx.ValueInfoProto | onnx.TensorProto]:
    for graph in graphs(model):
        yield graph
        yield from graph.node
        if isinstance(graph, onnx.GraphProto):
            for values in (graph.input, graph.output, graph.value_info):
                yield from values
            yield from graph.initializer


def _initializers_given(model: onnx.ModelProto) -> None:
    """Make the main graph's initializers inputs, and those of other graphs constants: before 4 all were inputs."""
    for place, graph in enumerate(graphs(model)):  # the main graph is the first
        if not isinstance(graph, onnx.GraphProto):
            continue
        inputs = {value.name for value in graph.input}
        held = [tensor for tensor in graph.initializer if tensor.name not in inputs]
        if place == 0:
            graph.input.extend(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in held
            )
        elif held:
            _as_constants(graph, held)


def _as_constants(graph: onnx.GraphProto, held: Sequence[onnx.TensorProto]) -> None:
    nodes = [onnx.helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in held]
    nodes += [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    names = {tensor.name for tensor in held}
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
