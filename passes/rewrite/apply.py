"""Apply a plan to a copy of the model."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableSequence, Sequence, Set
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from opshift.opsets.registry.facts import (
    Facts,
    Tensor,
)
from opshift.opsets.registry.node_traits import float_traits
from opshift.opsets.registry.structural import CONSTANT, IDENTITY, SCAN
from opshift.opsets.registry.traits import Trait
from opshift.passes.analysis.inference import make_node
from opshift.passes.graph.editing import drop_named
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import GraphView, graphs, names_read, subgraph, subgraphs
from opshift.passes.rewrite.edits import (
    CallFunction,
    CarryValue,
    Drop,
    DropAttributes,
    FunctionPlan,
    GraphPlan,
    NestScan,
    Planned,
)
from opshift.passes.rewrite.fragment import Constant
from opshift.passes.rewrite.function_planner import bind_attributes
from opshift.passes.rewrite.new_constants import Constants, ConstantsAsNodes
from opshift.passes.rewrite.splice import splice

METADATA = 10
"""The first ir_version in which nodes have metadata_props."""


def lower(
    model: onnx.ModelProto, planned: Planned, views: Iterable[GraphView] = (), ir_version: int | None = None
) -> None:
    """Apply a plan to a model in place; `set_opset_imports` sets the opset imports.

    `views` are the graph views of the original model, if they exist. `ir_version` is that of the result, by default
    the model's; nodes get metadata only if it permits.
    """
    names = Names(model, views)
    read_before = _read_by_changed(model, planned)
    opset = planned.plan.target_opset
    if planned.initializers:
        # Below ir_version 4, an initializer is an input with a default.
        model.ir_version = max(model.ir_version, 4)
    initializers = Constants(names, opset, nodes=planned.constants)
    ir_version = model.ir_version if ir_version is None else ir_version
    in_graphs = initializers if max(ir_version, model.ir_version) >= 4 else ConstantsAsNodes(names, opset)
    mains: list[onnx.GraphProto] = [model.graph]
    for training in model.training_info:
        mains += [training.initialization, training.algorithm]
    marked = min(ir_version, model.ir_version) >= METADATA
    for graph, plan in zip(mains, planned.graphs, strict=True):
        _lower_graph(graph, plan, names, in_graphs, marked)
    _lower_functions(model, planned.functions, names, ConstantsAsNodes(names, opset), marked)
    _drop_unread(model, read_before)
    model.graph.initializer.extend(initializers.made)


def _read(model: onnx.ModelProto) -> Iterator[str]:
    """Yield the names of all node inputs and graph outputs, with repetitions."""
    for graph in graphs(model):
        yield from (value if isinstance(value, str) else value.name for value in graph.output)
        if isinstance(graph, onnx.GraphProto):
            yield from (
                entry.value for note in graph.quantization_annotation for entry in note.quant_parameter_tensor_names
            )
        for node in graph.node:
            yield from node.input[:]
    for training in model.training_info:
        for item in (*training.initialization_binding, *training.update_binding):
            yield from (item.key, item.value)


def _read_by_changed(model: onnx.ModelProto, planned: Planned) -> set[str]:
    """Return the names that replaced nodes of the main graph and its subgraphs read."""
    names: set[str] = set()
    waiting: list[tuple[onnx.GraphProto, GraphPlan]] = [(model.graph, planned.graphs[0])]
    while waiting:
        graph, plan = waiting.pop()
        for index in plan.changes:
            names.update(graph.node[index].input[:])
        for (index, attribute), inside in plan.inner.items():
            waiting.append((subgraph(graph.node[index], attribute), inside))
    return names


def _drop_unread(model: onnx.ModelProto, names: Set[str]) -> None:
    """Drop values of the main graph that the rewrite made unused: axes that became an attribute, known shapes.

    `names` are the inputs of the rewritten nodes before. Nodes that computed only such values are dropped too.
    """
    graph = model.graph
    interface = {value.name for value in (*graph.input, *graph.output)}
    readers = Counter(_read(model))
    unread = {name for name in names if name and not readers[name]} - interface
    if not unread:
        return
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    waiting = list(unread)
    idle: set[int] = set()
    while waiting:
        index = makers.get(waiting.pop(), -1)
        if index < 0 or index in idle or any(readers[name] or name in interface for name in graph.node[index].output):
            continue
        idle.add(index)
        read = list(names_read(graph.node[index]))
        readers.subtract(read)
        freed = {name for name in read if not readers[name]} - interface
        unread |= freed
        waiting += freed
    drop_named(graph.initializer, unread)
    for index in sorted(idle, reverse=True):
        del graph.node[index]


def _lower_functions(
    model: onnx.ModelProto,
    plans: Sequence[FunctionPlan],
    names: Names,
    constants: Constants,
    marked: bool,
) -> None:
    originals = {(item.domain, item.name, item.overload): item for item in model.functions}
    copies: list[onnx.FunctionProto] = []
    for plan in plans:
        function = onnx.FunctionProto.FromString(originals[plan.key].SerializeToString())
        function.name = plan.name
        if plan.bound:
            bind_attributes(function, plan.bound)
            del function.attribute[:], function.attribute_proto[:]
        _lower_graph(function, plan.graph, names, constants, marked)
        copies.append(function)
    del model.functions[:]
    model.functions.extend(copies)


def _lower_graph(
    graph: onnx.GraphProto | onnx.FunctionProto,
    plan: GraphPlan,
    names: Names,
    constants: Constants,
    marked: bool,
) -> None:
    if isinstance(graph, onnx.GraphProto):
        _note(graph, plan.notes)
    for (index, attribute), inside in plan.inner.items():
        inner = subgraph(graph.node[index], attribute)
        own = constants.within(graph.node[index])
        _lower_graph(inner, inside, names, own, marked)
        if own is not constants:
            inner.initializer.extend(own.made)
    nodes = graph.node
    places = list(range(len(nodes)))
    gone: list[int] = []
    renamed: dict[str, str] = {}
    for index, change in plan.changes.items():
        node = nodes[index]
        if isinstance(change, CallFunction):
            node.op_type = change.name
            # The copy has its attributes bound, so the call passes none.
            del node.attribute[:]
        elif isinstance(change, Drop):
            gone.append(index)
            renamed.update(dict.fromkeys(node.output, ""))
        elif isinstance(change, CarryValue):
            before: list[NodeProto] = []
            _carry(node, names, constants, before)
            nodes.extend([*before, node])
            gone.append(index)
        elif isinstance(change, NestScan):
            _nest(node, names)
        elif isinstance(change, DropAttributes):
            kept = [item for item in node.attribute if item.name not in change.drop]
            del node.attribute[:]
            node.attribute.extend(kept)
        else:
            splice(nodes, node, index, change, names, constants, marked, renamed)
            gone.append(index)
            if constants.outputs and isinstance(graph, onnx.GraphProto):
                graph.initializer.extend(constants.outputs)
                constants.outputs.clear()
        places += [index] * (len(nodes) - len(places))
    if plan.changes:
        gone += _written_twice(nodes, places, plan.changes, renamed)
    if gone:
        _sort(nodes, places, gone)
    if renamed:
        _rename(graph, renamed)
        for index in range(len(graph.value_info) - 1, -1, -1):
            if graph.value_info[index].name in renamed:
                del graph.value_info[index]


def _written_twice(
    nodes: Sequence[NodeProto], places: Sequence[int], changed: Collection[int], renamed: dict[str, str]
) -> list[int]:
    """Return the indices of new nodes that compute what an earlier new node does, such as a mask in each layer.

    `places` are the nodes' indices before the change, and `changed` those of the nodes that were replaced: their
    outputs keep their names, and are computed once each. The other outputs are added to `renamed`.
    """
    kept = {name for index in changed for name in nodes[index].output}
    written: dict[tuple[str | bytes, ...], NodeProto] = {}
    twice = []
    first = next((index for index, place in enumerate(places) if place != index), len(places))
    for index in sorted(range(first, len(places)), key=places.__getitem__):
        node = nodes[index]
        if node.op_type == CONSTANT:
            continue
        read = [renamed.get(name, name) for name in node.input]
        attributes = [one.SerializeToString(deterministic=True) for one in node.attribute]
        earlier = written.setdefault((node.op_type, node.domain, *read, *attributes), node)
        if earlier is node or any(subgraphs(node)) or Trait.RANDOM in float_traits(node):
            continue
        alike = all(node.output) and all(earlier.output) and len(earlier.output) == len(node.output)
        if alike and kept.isdisjoint(node.output):
            renamed.update(zip(node.output, earlier.output, strict=True))
            twice.append(index)
    return twice


def _note(graph: onnx.GraphProto, notes: Mapping[str, Facts]) -> None:
    """Declare the known shapes of a graph's outputs that have no declared shape."""
    for value in graph.output if notes else ():
        facts = notes.get(value.name)
        if facts is None or facts.shape is None:
            continue
        tensor = value.type.tensor_type
        tensor.elem_type = tensor.elem_type or facts.dtype or 0
        if not tensor.HasField("shape"):
            tensor.shape.SetInParent()
            for _ in facts.shape:
                tensor.shape.dim.add()
        for dim, size in zip(tensor.shape.dim, facts.shape, strict=False):
            if isinstance(size, int) and not dim.HasField("dim_value"):
                dim.dim_value = size


def _sort(nodes: MutableSequence[NodeProto], places: list[int], gone: Sequence[int]) -> None:
    """Sort nodes by their target indices, and remove the dropped ones; nodes that stay are not copied."""
    end = len(places)
    for index in gone:
        places[index] = end
    # The keys are the target indices: `sort` asks for one key per node, in order.
    nodes.sort(key=functools.partial(next, iter(places)))  # type: ignore[attr-defined]
    del nodes[end - len(gone) :]


def _rename(graph: onnx.GraphProto | onnx.FunctionProto, renamed: Mapping[str, str]) -> None:
    """Rename the inputs of the nodes of a graph and all its subgraphs."""
    for node in graph.node:
        for place, name in enumerate(node.input):
            while name in renamed:
                name = renamed[name]
            node.input[place] = name
        for inner in subgraphs(node):
            _rename(inner, renamed)


def _carry(node: NodeProto, names: Names, constants: Constants, before: list[NodeProto]) -> None:
    """Add a loop-carried value to a Loop that passes through each iteration unchanged."""
    base = node.name or node.output[0]
    body = next(subgraphs(node))
    zero = Constant(Tensor(np.zeros((), dtype=np.float32)), TensorProto.FLOAT)
    node.input.append(constants.name(zero, before))
    node.output.insert(0, names.new(f"{base}/carried"))
    taken, returned = names.new(f"{base}/carried.in"), names.new(f"{base}/carried.out")
    body.input.add(name=taken).type.CopyFrom(onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, ()))
    outputs = [body.output[0], onnx.helper.make_tensor_value_info(returned, TensorProto.FLOAT, ()), *body.output[1:]]
    kept = onnx.GraphProto()
    kept.output.extend(outputs)
    del body.output[:]
    body.output.extend(kept.output)
    same = make_node(IDENTITY, "", [taken], [returned], {})
    same.name = names.new(f"{base}/Identity")
    body.node.append(same)


def _nest(node: NodeProto, names: Names) -> None:
    """Nest a Scan-8 in the body of a Scan over the batch, which is the first axis of all its inputs and outputs.

    Scan-8: "the batch-axis is required to be 0", "the sequence axis or scan axis is required to be 1".
    """
    base = node.name or node.output[0]
    attributes = {attribute.name: attribute for attribute in node.attribute}
    body, scanned = attributes["body"].g, attributes["num_scan_inputs"].i
    states = len(body.input) - scanned
    outer = onnx.GraphProto(name=f"{base}/batch")

    def entry(values: Any, value: onnx.ValueInfoProto, *, sequence: bool) -> str:
        """Add the slice of a body's value for one entry of the batch."""
        name = names.new(f"{base}/{value.name}")
        values.add(name=name).type.CopyFrom(value.type)
        if sequence and value.type.tensor_type.HasField("shape"):
            shape = values[-1].type.tensor_type.shape
            dims = [onnx.TensorShapeProto.Dimension(), *value.type.tensor_type.shape.dim]
            del shape.dim[:]
            shape.dim.extend(dims)
        return name

    taken = [entry(outer.input, value, sequence=place >= states) for place, value in enumerate(body.input)]
    made = [
        entry(outer.output, value, sequence=place >= states) if name else ""
        for place, (name, value) in enumerate(zip(node.output, body.output, strict=False))
    ]
    inner = make_node(SCAN, "", taken, made, {"num_scan_inputs": scanned})
    inner.name = names.new(f"{base}/Scan")
    inner.attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g.CopyFrom(body)
    if "directions" in attributes:
        inner.attribute.append(onnx.helper.make_attribute("scan_input_directions", list(attributes["directions"].ints)))
    outer.node.append(inner)
    inputs, outputs = list(node.input[1:]), [name for name in node.output if name]
    del node.input[:], node.output[:], node.attribute[:]
    node.input.extend(inputs)
    node.output.extend(outputs)
    node.attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g.CopyFrom(outer)
    node.attribute.append(onnx.helper.make_attribute("num_scan_inputs", len(inputs)))
