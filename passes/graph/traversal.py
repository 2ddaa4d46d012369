"""Traverse the graphs and nodes of a model; nodes are grouped by op key, so that each query runs once per group."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import onnx
from onnx import AttributeProto, TensorProto

from opshift.passes.base.errors import InvalidModelError
from opshift.passes.graph.columnar import NAMING, UNTYPED, ColumnarView, OpKey
from opshift.passes.graph.limits import NESTING

_GRAPHS = frozenset({AttributeProto.GRAPH, AttributeProto.GRAPHS})


def nodes_by_op_key(graph: onnx.GraphProto | onnx.FunctionProto) -> Mapping[OpKey, list[int]]:
    """Return the indices of one graph's nodes by op key, in the order of first appearance."""
    places: dict[OpKey, list[int]] = {}
    for index, node in enumerate(graph.node):
        op_key = node.domain, node.op_type, node.overload
        if op_key in places:
            places[op_key].append(index)
        else:
            places[op_key] = [index]
    return places


@dataclass(frozen=True)
class GraphWalk:
    """The results of one walk over the nodes of a graph or function.

    `noted` is whether any node has metadata_props or an overload, `placed` whether any has device configurations;
    `dtypes` are the element types of tensors in attributes, and those that attributes name.
    """

    graph: onnx.GraphProto | onnx.FunctionProto
    by_op_key: Mapping[OpKey, Sequence[int]]
    noted: bool
    placed: bool
    dtypes: Set[int]


_INSPECTED = frozenset({UNTYPED, AttributeProto.TENSOR, AttributeProto.SPARSE_TENSOR}) | _GRAPHS
"""The types of attributes that a walk reads."""


def walk(model: onnx.ModelProto, main: ColumnarView | None = None) -> Iterator[GraphWalk]:
    """Walk once over all nodes of a model, graph by graph, main graph first; `main` is its columnar view."""
    if main and not main.types & _INSPECTED and not model.functions and not model.training_info:
        yield GraphWalk(model.graph, main.by_op_key, main.noted, main.placed, main.dtypes)
        return
    for graph in graphs(model):
        places: dict[OpKey, list[int]] = {}
        noted = placed = False
        dtypes: set[int] = set()
        for index, node in enumerate(graph.node):
            op_key = node.domain, node.op_type, node.overload
            if op_key in places:
                places[op_key].append(index)
            else:
                places[op_key] = [index]
            if node.metadata_props:
                noted = True
            if node.device_configurations:
                placed = True
            if node.attribute:
                dtypes.update(attribute_dtypes(node))
        noted = noted or any(overload for _, _, overload in places)
        yield GraphWalk(graph, places, noted, placed, dtypes)


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
"""The types of attributes that are graphs, or that may be as large as weights."""


def attribute_key(node: onnx.NodeProto) -> tuple[bytes, ...] | None:
    """Return a hashable key of a node's attributes; None if one is a function parameter, or may be large."""
    found = []
    for attribute in node.attribute:
        if attribute.ref_attr_name or attribute.type in _LARGE:
            return None
        found.append(attribute.SerializeToString())
    return tuple(found)


def held_graphs(attribute: AttributeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in an attribute."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in the attributes of a node."""
    # This test comes first: most nodes of a large model have no attribute.
    for attribute in node.attribute if node.attribute else ():
        yield from held_graphs(attribute)


def named_subgraphs(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the subgraphs of a node, by the name of their attribute; those of a list are numbered."""
    for attribute in node.attribute if node.attribute else ():
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{index}]", graph


def subgraph(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    """Return the subgraph of a node with a name from `named_subgraphs`."""
    return next(graph for found, graph in named_subgraphs(node) if found == name)


def nested_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph, each followed by the nodes of its subgraphs."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from nested_nodes(inner)


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that a node and its subgraphs read, including the subgraphs' outputs."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        yield from (value.name for value in graph.output)
        for inner in graph.node:
            yield from names_read(inner)


def outer_names(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the names of outer values that a node's subgraphs read."""
    return tuple(dict.fromkeys(name for graph in subgraphs(node) for name in _free(graph)))


def _free(graph: onnx.GraphProto) -> Iterator[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        yield from (name for name in (*node.input, *outer_names(node)) if name and name not in own)
        own.update(node.output)
    yield from (value.name for value in graph.output if value.name not in own)


def graphs(owner: onnx.ModelProto | onnx.FunctionProto) -> Iterator[onnx.GraphProto | onnx.FunctionProto]:
    """Yield all graphs and functions of a model, including its training graphs, or a function and its subgraphs.

    The main graph comes first, and an outer graph before its subgraphs.
    """
    waiting: list[onnx.GraphProto | onnx.FunctionProto] = [owner] if isinstance(owner, onnx.FunctionProto) else []
    if isinstance(owner, onnx.ModelProto):
        waiting = [owner.graph, *owner.functions]
        for training in owner.training_info:
            waiting += [training.initialization, training.algorithm]
        waiting.reverse()
    while waiting:
        graph = waiting.pop()
        yield graph
        for node in graph.node:
            # This test comes first: most nodes of a large model have no attribute, and few have a subgraph.
            for attribute in node.attribute if node.attribute else ():
                if attribute.type in _GRAPHS:
                    waiting.extend(held_graphs(attribute))


# The types of attributes with a tensor or a graph; an attribute without a type is invalid, and checked as well.
_HOLDERS = frozenset(
    {
        AttributeProto.UNDEFINED,
        AttributeProto.TENSOR,
        AttributeProto.TENSORS,
        AttributeProto.SPARSE_TENSOR,
        AttributeProto.SPARSE_TENSORS,
        AttributeProto.GRAPH,
        AttributeProto.GRAPHS,
    }
)


@dataclass(frozen=True)
class GraphView:
    """A graph or a function of a model, with data from one walk over its nodes.

    `holders` are its attributes with tensors or graphs, `by_op_key` the indices of the nodes by op key, `names` their
    names, `inputs` and `outputs` their concatenated inputs and outputs; an omitted name is empty. `dtypes` are the
    element types of tensors in attributes, and those that attributes name. `path` reads `main`, `main/if_0.then_branch`
    or `function f`; `outer` is the enclosing graph.
    """

    graph: onnx.GraphProto | onnx.FunctionProto
    path: str
    outer: GraphView | None
    holders: tuple[AttributeProto, ...]
    by_op_key: Mapping[OpKey, Sequence[int]]
    names: Sequence[str]
    inputs: Sequence[str]
    outputs: Sequence[str]
    dtypes: Set[int]
    depth: int = 0

    def places(self, operators: Container[str]) -> list[int]:
        """Return the indices of the nodes with these operator names, whatever their domain, in order."""
        return sorted(index for (_, name, _), found in self.by_op_key.items() if name in operators for index in found)


def graph_views(model: onnx.ModelProto, main: ColumnarView | None = None) -> Iterator[GraphView]:
    """Walk all graphs and functions: the main graph first, an outer graph always before its subgraphs.

    Raises:
        InvalidModelError: subgraphs are nested deeper than protobuf reads.
    """
    first: list[tuple[onnx.GraphProto | onnx.FunctionProto, str, GraphView | None]] = [(model.graph, "main", None)]
    first += [(function, f"function {function.name}", None) for function in model.functions]
    for training in model.training_info:
        first += [(training.initialization, "training", None), (training.algorithm, "training", None)]
    waiting = first[::-1]
    while waiting:
        graph, path, outer = waiting.pop()
        depth = outer.depth + 1 if outer else 0
        if depth > NESTING:
            raise InvalidModelError(
                f"graphs are nested more than {NESTING} deep, which is more than protobuf and onnxruntime read."
            )
        holders: list[AttributeProto] = []
        inner: list[tuple[onnx.GraphProto, str]] = []
        places: dict[OpKey, list[int]] = {}
        names: list[str] = []
        inputs: list[str] = []
        outputs: list[str] = []
        dtypes: set[int]
        read = main if graph is model.graph else None
        dtypes = set(read.dtypes) if read else set()
        for index, node in enumerate(graph.node) if read is None or read.types & _HOLDERS else ():
            if read is None:
                op_key = node.domain, node.op_type, node.overload
                if op_key in places:
                    places[op_key].append(index)
                else:
                    places[op_key] = [index]
                names.append(node.name)
                inputs += node.input[:]
                outputs += node.output[:]
            # This test comes first: most nodes of a large model have no attribute.
            for attribute in node.attribute if node.attribute else ():
                if attribute.type == AttributeProto.INT and attribute.name in NAMING:
                    dtypes.add(attribute.i)
                if attribute.type in _HOLDERS:
                    holders.append(attribute)
                    label = f"{path}/{node_name(node, index)}.{attribute.name}"
                    inner += [(nested, label) for nested in held_graphs(attribute)]
        if isinstance(graph, onnx.FunctionProto):
            for attribute in graph.attribute_proto:
                holders.append(attribute)
                inner += [(nested, f"{path}.{attribute.name}") for nested in held_graphs(attribute)]
        dtypes.update(attribute.t.data_type for attribute in holders)
        dtypes.update(attribute.sparse_tensor.values.data_type for attribute in holders)
        listed = (
            (places, names, inputs, outputs)
            if read is None
            else (read.by_op_key, read.names, read.inputs, read.outputs)
        )
        view = GraphView(graph, path, outer, tuple(holders), *listed, dtypes, depth)
        yield view
        waiting += [(nested, label, view) for nested, label in reversed(inner)]


def node_name(node: onnx.NodeProto, index: int) -> str:
    """Return the name of a node or, if it is unnamed, its operator and its index in the graph."""
    return node.name or f"{node.op_type}_{index}"


def declared_types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the declared element types of the inputs and values of all graphs and functions, by name."""
    found: dict[str, int] = {}
    for graph in (view.graph for view in graph_views(model)):
        inputs = graph.input if isinstance(graph, onnx.GraphProto) else ()
        found |= {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *inputs)}
    return found


def tensors(found: Iterable[GraphView]) -> Iterator[TensorProto]:
    """Yield every tensor: initializers, sparse ones (values and indices), and those in attributes."""
    for view in found:
        if isinstance(view.graph, onnx.GraphProto):
            yield from view.graph.initializer
        for attribute in view.holders:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for sparse in sparse_tensors(view):
            yield sparse.values
            yield sparse.indices


def sparse_tensors(view: GraphView) -> Iterator[onnx.SparseTensorProto]:
    """Yield the sparse tensors of one graph or function, without those of its subgraphs."""
    if isinstance(view.graph, onnx.GraphProto):
        yield from view.graph.sparse_initializer
    for attribute in view.holders:
        if attribute.HasField("sparse_tensor"):
            yield attribute.sparse_tensor
        yield from attribute.sparse_tensors
