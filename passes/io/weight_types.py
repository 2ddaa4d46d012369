"""Convert large weights to another element type while they are copied, so that they are never all in memory."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import FLOATS, INTEGERS
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CAST
from opshift.passes.analysis.splicing import rename
from opshift.passes.graph.editing import drop_named, replace_nodes
from opshift.passes.graph.traversal import names_read
from opshift.passes.io import external_data as external
from opshift.passes.io.external_data import Span
from opshift.passes.io.reader import Source


def with_converted_weights(model: onnx.ModelProto, source: Source) -> onnx.ModelProto:
    """Return a copy with converted weights in place of Casts of weights in files; the model itself if there are none.

    `source` is the original model, whose own Casts stay. The converted weight takes over the name of a weight that
    becomes unused.
    """
    kept = {name for node in source.model.graph.node for name in node.output}
    kept.update(value.name for value in (*model.graph.input, *model.graph.output))
    weights = {one.name: one for one in model.graph.initializer if one.data_location == TensorProto.EXTERNAL}
    found: dict[str, TensorProto] = {}
    for node in model.graph.node if weights else ():
        if node.op_type == CAST and not default_domain(node.domain) and kept.isdisjoint(node.output):
            to = next(one.i for one in node.attribute if one.name == "to")
            weight = weights.get(node.input[0])
            span = None if weight is None or weight.name in kept else _converted(weight, to, source)
            if weight is not None and span is not None:
                made = found[node.output[0]] = TensorProto(name=node.output[0], data_type=to, dims=weight.dims)
                external.refer(made, span)
    return _with(model, found) if found else model


def _converted(weight: TensorProto, to: int, source: Source) -> Span | None:
    """Return the elements of a weight as a span of another type; None if they are not found, or not numbers."""
    types = weight.data_type, to
    if not any(kinds.issuperset(types) for kinds in (FLOATS, INTEGERS)):
        return None
    length = external.size(TensorProto(data_type=to, dims=weight.dims)) or 0
    if (span := external.span_of(weight)) is not None:
        return Span(span.file, span.stamp, span.offset, length, types)
    where = external.reference(weight)
    if where.location not in source.files:
        return None
    file = source.files[where.location]
    return Span(file, source.stamps[file], where.offset, length, types)


def _with(model: onnx.ModelProto, weights: Mapping[str, TensorProto]) -> onnx.ModelProto:
    """Return a copy with weights in place of the nodes that computed them."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    nodes = [node for node in graph.node if weights.keys().isdisjoint(node.output)]
    read = {value.name for value in graph.output}.union(*map(names_read, nodes))
    made_of = {node.output[0]: node.input[0] for node in graph.node if not weights.keys().isdisjoint(node.output)}
    names: dict[str, str] = {}
    for made, name in made_of.items():
        if name not in read and name not in names.values():
            names[made] = name
    drop_named(graph.initializer, set(made_of.values()) - read)
    for name, tensor in weights.items():
        tensor.name = names.get(name, name)
        graph.initializer.append(tensor)
    replace_nodes(graph, nodes)
    for node in graph.node:
        rename(node, names)
    drop_named(graph.value_info, {*made_of, *names.values()})
    return changed
