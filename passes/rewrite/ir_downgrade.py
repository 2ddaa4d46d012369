"""Downgrade the ir_version: drop or rewrite the parts of a model that an older ir_version cannot hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import onnx

from opshift.opsets.native.onnx_process import OnnxDiedError
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CONSTANT
from opshift.passes.analysis.scopes import INLINED, expanded, inlined
from opshift.passes.base.errors import InvalidModelError
from opshift.passes.graph.editing import drop_named, replace_nodes
from opshift.passes.graph.traversal import GraphWalk, graphs, walk
from opshift.passes.rewrite.apply import METADATA
from opshift.passes.rewrite.opset_imports import FUNCTIONS, IrVersionNeed, ir_version_needs, unwritten

OWN = "opshift."
"""The prefix of opshift's metadata keys."""


Check = Callable[[onnx.ModelProto], object]


@dataclass(frozen=True)
class IrDowngrade:
    """A model with its new ir_version, the removed parts, and the parts that need a higher ir_version."""

    model: onnx.ModelProto
    walked: Sequence[GraphWalk]
    left_out: tuple[str, ...]
    ir_version_needs: tuple[IrVersionNeed, ...]


def downgrade_ir_version(
    model: onnx.ModelProto,
    wanted: int,
    highest: int | None,
    walked: Sequence[GraphWalk],
    check: Check,
    *,
    functions: bool = True,
) -> IrDowngrade:
    """Return a model at the requested ir_version, or at the lowest higher one that can express its computations.

    Metadata of nodes, values, graphs and functions (10), and device configurations (11), are removed below these
    versions; initializers (4) become inputs, or constants of their subgraph. Only if `highest` requires it, functions
    are inlined and training information and quantization annotations left out as well; without `functions`, the target
    loads none, and they are inlined too. The model may be modified; its ir_version may be above `highest` afterwards,
    because of the returned needs. `check` raises InvalidModelError for a model that is invalid after its functions are
    inlined.
    """
    gone: list[str] = []
    if not functions and model.functions:
        model = _inlined(model, gone, check)
        walked = tuple(walk(model))
    needed = ir_version_needs(model, walked)
    if highest is not None and any(need.ir_version > highest for need in needed):
        model = _forced(model, highest, gone, check)
        walked = tuple(walk(model))
        needed = ir_version_needs(model, walked)
    ir_version = max(wanted, 3, *(need.ir_version for need in needed))
    newer = model.ir_version >= METADATA or any(one.noted for one in walked)
    model.ir_version = ir_version
    if ir_version < 11 and (count := _unplaced(model)):
        gone.append(f"device configurations of {_count(count, 'node')}" if count > 0 else "device configurations")
    if ir_version < METADATA and newer:
        gone += _without_metadata(model)
    if ir_version < 4:
        _initializers_as_inputs(model)
        walked = tuple(walk(model))
    return IrDowngrade(model, walked, tuple(gone), tuple(need for need in needed if need.ir_version > wanted))


def _forced(model: onnx.ModelProto, ir_version: int, gone: list[str], check: Check) -> onnx.ModelProto:
    """Inline functions, and remove parts that inference does not use, if an ir_version does not support them."""
    if ir_version < 7 and model.training_info:
        gone.append("training information")
        del model.training_info[:]
    if model.functions and any(
        need.what in FUNCTIONS and need.ir_version > ir_version for need in ir_version_needs(model, ())
    ):
        model = _inlined(model, gone, check)
    if ir_version < 5:
        noted = [graph for graph in graphs(model) if isinstance(graph, onnx.GraphProto)]
        noted = [graph for graph in noted if graph.quantization_annotation]
        gone += ["quantization annotations"] * bool(noted)
        for graph in noted:
            del graph.quantization_annotation[:]
    return model


def _inlined(model: onnx.ModelProto, gone: list[str], check: Check) -> onnx.ModelProto:
    """Inline all functions, if possible."""
    plain = _without_functions(model, check)
    if plain is None:
        return model
    gone.append(f"{_count(len(model.functions), 'function')}, inlined at each call")
    return plain


def _without_functions(model: onnx.ModelProto, check: Check) -> onnx.ModelProto | None:
    """Return a model with inlined functions; None if that is impossible, or the result too large."""
    if model.training_info or expanded(model) > INLINED:  # onnx's inliner skips training graphs
        return None
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    imported = {item.domain for item in whole.opset_import}
    for item in itertools.chain.from_iterable(function.opset_import for function in whole.functions):
        if item.domain not in imported:
            imported.add(item.domain)
            whole.opset_import.add(domain=item.domain, version=item.version)
    try:
        plain = inlined(whole)
    except OnnxDiedError:
        return None
    used = {node.domain for graph in graphs(plain) for node in graph.node}
    kept = [item for item in plain.opset_import if not default_domain(item.domain) or item.domain in used]
    del plain.opset_import[:]
    plain.opset_import.extend(kept)
    try:
        check(plain)
    except InvalidModelError:  # a function that outputs its input is inlined to an undefined value
        return None
    return plain


def _unplaced(model: onnx.ModelProto) -> int:
    """Remove device configurations; return the number of affected nodes, or -1 if only the model has some."""
    placed = [node for graph in graphs(model) for node in graph.node if node.device_configurations]
    for node in placed:
        del node.device_configurations[:]
    configured = bool(model.configuration)
    del model.configuration[:]
    return len(placed) or -configured


def _without_metadata(model: onnx.ModelProto) -> Iterator[str]:
    """Remove metadata, and yield notes with the numbers of nodes and others, starting with opshift's own metadata."""
    own = nodes = others = 0
    for holder in _holders(model):
        if holder.metadata_props:
            marks = sum(item.key.startswith(OWN) for item in holder.metadata_props)
            own += bool(marks)
            noted = len(holder.metadata_props) > marks
            nodes += noted and isinstance(holder, onnx.NodeProto)
            others += noted and not isinstance(holder, onnx.NodeProto)
            del holder.metadata_props[:]
    typed_functions = [function for function in model.functions if function.value_info]
    for function in typed_functions:
        del function.value_info[:]
    if own:
        yield f"opshift's own marks on {_count(own, 'node')}"
    if nodes:
        yield f"metadata of {_count(nodes, 'node')}"
    if others:
        yield f"metadata of {_count(others, 'graph or value', 'graphs and values')}"
    if typed_functions:
        yield f"types of values in {_count(len(typed_functions), 'function')}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


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


def _initializers_as_inputs(model: onnx.ModelProto) -> None:
    """Make the main graph's initializers inputs, as required below ir_version 4, and those of subgraphs constants."""
    for place, graph in enumerate(graphs(model)):  # the main graph is the first
        if not isinstance(graph, onnx.GraphProto):
            continue
        inputs = {value.name for value in graph.input}
        held = [tensor for tensor in graph.initializer if tensor.name not in inputs]
        if place == 0:
            graph.input.extend(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in held
            )
        elif held and not unwritten(graph):
            _as_constants(graph, held)


def _as_constants(graph: onnx.GraphProto, held: Sequence[onnx.TensorProto]) -> None:
    nodes = [onnx.helper.make_node(CONSTANT, [], [tensor.name], value=tensor) for tensor in held]
    replace_nodes(graph, (*nodes, *graph.node))
    drop_named(graph.initializer, {tensor.name for tensor in held})
