"""An ir_version that is older than what a model holds: what has no place in it is left out or said otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import onnx
from onnx import TensorProto

from opshift.opsets.schema import default_domain
from opshift.passes.describe import INLINED, expanded, inlined
from opshift.passes.errors import InvalidModelError
from opshift.passes.graphs import graphs
from opshift.passes.load import load

_CONSTANT_1 = frozenset({TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE})
"""What Constant-1 holds, the version of the opsets that go with ir_version 3."""


def fitted(model: onnx.ModelProto, ir_version: int) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a model with nothing that came after an ir_version, as far as that computes the same, and what is gone.

    Functions (8) are written where they are called, initializers (4) are inputs with a default, or constants of the
    graph that they are in. Metadata of nodes, graphs and functions (10), device configurations (11), training
    information (7) and quantization annotations (5) are left out. What else is newer stays: an opset, an element type,
    a sparse initializer, functions that onnx does not inline, a constant in a branch that Constant-1 does not hold. The
    model itself may be changed.
    """
    gone: list[str] = []
    if ir_version < 7 and model.training_info:
        gone.append("training information")
        del model.training_info[:]
    if ir_version < 8 and model.functions:
        plain = _without_functions(model)
        if plain is None:
            return model, ()
        gone.append(f"{len(model.functions)} functions, which are written where they are called")
        model = plain
    if ir_version < 11 and (count := _unplaced(model)):
        gone.append(f"device configurations of {count} nodes")
    if ir_version < 10 and (count := _without_metadata(model)):
        gone.append(f"metadata in {count} places")
    if ir_version < 5 and model.graph.quantization_annotation:
        gone.append("quantization annotations")
        del model.graph.quantization_annotation[:]
    if ir_version < 4:
        _initializers_given(model)
    return model, tuple(gone)


def _without_functions(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return a model with its functions written where they are called; None where that cannot be, or is too much."""
    if model.training_info or expanded(model) > INLINED:  # onnx's inliner passes graphs for training over
        return None
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    imported = {item.domain for item in whole.opset_import}
    for item in itertools.chain.from_iterable(function.opset_import for function in whole.functions):
        if item.domain not in imported:
            imported.add(item.domain)
            whole.opset_import.add(domain=item.domain, version=item.version)
    plain = inlined(whole)
    used = {node.domain for graph in graphs(plain) for node in graph.node}
    kept = [item for item in plain.opset_import if not default_domain(item.domain) or item.domain in used]
    del plain.opset_import[:]
    plain.opset_import.extend(kept)
    try:
        load(plain)
    except InvalidModelError:  # a function that gives its input out is inlined to a value that nothing computes
        return None
    return plain


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
        elif all(tensor.data_type in _CONSTANT_1 for tensor in held):
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
