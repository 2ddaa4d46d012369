"""Limit onnx's data propagation to dimensions: it stores each element of a vector as a protobuf.

onnx 1.23.2 creates such elements also for a vector of known length and unknown elements, about 64 bytes each: an Add of
10^12 of them takes all memory. A node that reads a long vector is set aside, with its declared type.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

import onnx

from opshift.opsets.native import onnx_process
from opshift.opsets.registry.facts import Dim, facts_of_type
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.schema import default_domain
from opshift.passes.graph.traversal import graphs

LONGEST = 2**14
"""The maximum length of a vector of dimensions."""

_MANY = 12
"""The number of nodes that suffices to make a short vector long, if each doubles it."""


def set_long_aside(model: onnx.ModelProto, set_aside: Callable[[onnx.ModelProto, onnx.NodeProto], None]) -> None:
    """Set aside the nodes of a model that read long vectors and whose elements onnx would propagate."""
    if not _may_have_long(model):
        return
    typed = onnx_process.infer_shapes(model)
    types = {
        value.name: value.type
        for graph in graphs(typed)
        if isinstance(graph, onnx.GraphProto)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    long = {name for name, type_proto in types.items() if _is_long(facts_of_type(type_proto).shape)}
    long.update(
        tensor.name for graph in graphs(model) for tensor in _initializers(graph) if _is_long(tuple(tensor.dims))
    )
    for graph in graphs(model):
        if not isinstance(graph, onnx.GraphProto):
            continue
        declared = {value.name: value for value in (*graph.output, *graph.value_info)}
        for node in graph.node:
            if default_domain(node.domain) or not _propagates(node.op_type) or long.isdisjoint(node.input):
                continue
            set_aside(model, node)
            for name in node.output:
                if name in declared and name in types:
                    declared[name].type.CopyFrom(types[name])


def _is_long(shape: tuple[Dim, ...] | None) -> bool:
    return shape is not None and len(shape) == 1 and isinstance(shape[0], int) and shape[0] > LONGEST


def _propagates(operator: str) -> bool:
    """Return whether onnx propagates elements through the newest version of a default-domain operator."""
    return onnx.defs.has(operator) and bool(onnx.defs.get_schema(operator).has_data_propagation_function)


def _may_have_long(model: onnx.ModelProto) -> bool:
    """Return whether a long vector is possible: without large declared values, only certain operators or many nodes."""
    found = Counter(node.op_type for graph in graphs(model) for node in graph.node)
    joined = sum(count for name, count in found.items() if traits(name).joins)
    grows = any(traits(name).grows for name in found)
    return joined >= _MANY or grows or any(size > LONGEST for size in _sizes(model))


def _sizes(model: onnx.ModelProto) -> Iterator[int]:
    """Yield the sizes of the declared values, and the number of constant vectors."""
    for graph in graphs(model):
        yield from (tensor.dims[0] for tensor in _initializers(graph) if len(tensor.dims) == 1)
        if isinstance(graph, onnx.GraphProto):
            for value in (*graph.input, *graph.value_info, *graph.output):
                dims = facts_of_type(value.type).shape or ()
                yield math.prod(dim for dim in dims if isinstance(dim, int))


def _initializers(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.TensorProto]:
    if isinstance(graph, onnx.GraphProto):
        yield from graph.initializer
