"""Walks over the graphs and nodes of a model: what is asked of all nodes is asked once for each kind of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import onnx
from google.protobuf.message import EncodeError
from onnx import AttributeProto

from opshift.passes.columns import NAMING, UNTYPED, Columns, Kind

_GRAPHS = frozenset({AttributeProto.GRAPH, AttributeProto.GRAPHS})


def kinds(graph: onnx.GraphProto | onnx.FunctionProto) -> Mapping[Kind, list[int]]:
    """Return the places of the nodes of one graph by their kind, in the order of first appearance."""
    places: dict[Kind, list[int]] = {}
    for index, node in enumerate(graph.node):
        kind = node.domain, node.op_type, node.overload
        if kind in places:
            places[kind].append(index)
        else:
            places[kind] = [index]
    return places


@dataclass(frozen=True)
class Walked:
    """What one walk over the nodes of a graph or function has found.

    `noted` says whether any node has metadata_props or an overload, `placed` whether any has device configurations;
    `dtypes` are the element types of tensors in attributes, and those that attributes name.
    """

    graph: onnx.GraphProto | onnx.FunctionProto
    kinds: Mapping[Kind, Sequence[int]]
    noted: bool
    placed: bool
    dtypes: Set[int]


_TELLING = frozenset({UNTYPED, AttributeProto.TENSOR, AttributeProto.SPARSE_TENSOR}) | _GRAPHS
"""Types of attributes that a walk looks into."""


def walk(model: onnx.ModelProto, main: Columns | None = None) -> Iterator[Walked]:
    """Walk once over all nodes of a model, graph by graph as `graphs` does; `main` is what the main graph's say."""
    if main and not main.types & _TELLING and not model.functions and not model.training_info:
        yield Walked(model.graph, main.kinds, main.noted, main.placed, main.dtypes)
        return
    for graph in graphs(model):
        places: dict[Kind, list[int]] = {}
        noted = placed = False
        dtypes: set[int] = set()
        for index, node in enumerate(graph.node):
            kind = node.domain, node.op_type, node.overload
            if kind in places:
                places[kind].append(index)
            else:
                places[kind] = [index]
            if node.metadata_props:
                noted = True
            if node.device_configurations:
                placed = True
            if node.attribute:
                dtypes.update(attribute_dtypes(node))
        noted = noted or any(overload for _, _, overload in places)
        yield Walked(graph, places, noted, placed, dtypes)


def attribute_dtypes(node: onnx.NodeProto) -> Iterator[int]:
    """Yield the element types of a node's tensors, and those that its attributes name."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            yield attribute.t.data_type
        elif attribute.type == AttributeProto.SPARSE_TENSOR:
            yield attribute.sparse_tensor.values.data_type
        elif attribute.type == AttributeProto.INT and attribute.name in NAMING:
            yield attribute.i


_LARGE = frozenset({AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.TENSOR, AttributeProto.SPARSE_TENSOR})
"""Types of attributes that are graphs, or may be as large as weights."""


def said(node: onnx.NodeProto) -> tuple[bytes, ...] | None:
    """Return what the attributes of a node say; None where one is a function's parameter, or may be large."""
    found = []
    for attribute in node.attribute:
        if attribute.ref_attr_name or attribute.type in _LARGE:
            return None
        found.append(attribute.SerializeToString())
    return tuple(found)


def subgraphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the subgraphs of a node, by the name of their attribute; those of a list are numbered."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{index}]", graph


def graphs(owner: onnx.ModelProto | onnx.FunctionProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """Yield all graphs and functions of a model, those of its training too, or a function and the graphs in it."""
    waiting: list[onnx.GraphProto | onnx.FunctionProto] = [owner] if isinstance(owner, onnx.FunctionProto) else []
    if isinstance(owner, onnx.ModelProto):
        waiting = [owner.graph, *owner.functions]
        for training in owner.training_info:
            waiting += [training.initialization, training.algorithm]
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            # Asked for any first: most nodes of a large model have no attribute, and few a graph in one.
            if node.attribute:
                for attribute in node.attribute:
                    if attribute.type in _GRAPHS:
                        waiting.extend((attribute.g,) if attribute.type == AttributeProto.GRAPH else attribute.graphs)


LONGEST = 2**21
"""A vector longer than this may be one of sizes: onnx's inference (1.23.2, Slice, Gather ...) makes a dim of each."""
# The field dim_value, with a number that takes four bytes (2**21 and more) to ten (what is negative).
_FAR = re.compile(rb"\x08[\x80-\xff]{3,9}[\x01-\x7f]")


def without_hostile_dims(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model, itself or a copy, that says nothing of dimensions that onnx's inference does not survive.

    Negative ones, which onnxruntime takes for unknown, end the process (1.23.2, Slice); vectors of more than `LONGEST`
    elements take memory without bounds.
    """
    try:
        data = model.SerializeToString()
    except EncodeError:  # too large for onnx as well
        return model
    if not _FAR.search(data):
        return model
    known = onnx.ModelProto()
    known.CopyFrom(model)
    for graph in graphs(known):
        declared = () if isinstance(graph, onnx.FunctionProto) else (graph.input, graph.output)
        for value in (value for values in (*declared, graph.value_info) for value in values):
            dims = value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()
            for dim in dims:
                if dim.dim_value < 0 or (len(dims) == 1 and dim.dim_value > LONGEST):
                    dim.ClearField("dim_value")
    return known
