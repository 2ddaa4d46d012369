"""Apply a plan to a copy of the model: only this module builds nodes of a model."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableSequence, Sequence, Set
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto

from opshift.opsets.operators.constant import gives
from opshift.opsets.registry.facts import (
    ExternalTensor,
    Facts,
    Tensor,
    facts_of_attribute,
    tensor_of,
    type_name,
    type_of_facts,
)
from opshift.opsets.registry.node_traits import float_traits
from opshift.opsets.registry.operator import Node
from opshift.opsets.registry.schema import default_domain
from opshift.opsets.registry.structural import CAST, CONSTANT, IDENTITY, SCAN
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
    Replace,
)
from opshift.passes.rewrite.fragment import Constant, Fragment, FragmentNode, Input, LoopBody, Output, ValueRef
from opshift.passes.rewrite.function_planner import bind_attributes

METADATA = 10
"""The first ir_version in which nodes have metadata_props."""


class Constants:
    """The constants that new nodes read: one initializer of the main graph for each value."""

    def __init__(self, names: Names, opset: int, *, nodes: bool = False) -> None:
        """Start without constants; `nodes`: the target supports Constant, for all types that its opset permits."""
        self._names = names
        self._opset = opset
        self._nodes = nodes
        self._known: dict[tuple[bytes, int], str] = {}
        self.made: list[TensorProto] = []
        self.outputs: list[TensorProto] = []
        """Constants that replace outputs of nodes: they become initializers of the nodes' graph."""

    def within(self, node: NodeProto) -> Constants:
        """Return the constants for a node's subgraphs: those of another domain's nodes may not read outer values.

        The functions of FlexAttention-1 of ai.onnx.preview become part of its function body.
        """
        return Constants(self._names, self._opset, nodes=self._nodes) if default_domain(node.domain) else self

    def name(self, constant: Constant, before: list[NodeProto]) -> str:
        """Return the name of a value that holds the constant; `before` takes nodes to put before its use."""
        key = constant.value.digest, constant.dtype
        if key not in self._known:
            shape = "x".join(map(str, facts_of_attribute(constant.value).shape or ()))
            self._known[key] = self._names.new(f"opshift/{type_name(constant.dtype)}[{shape}]")
            self.made.append(_tensor(constant, self._known[key]))
        return self._known[key]

    def output(self, constant: Constant, name: str, before: list[NodeProto]) -> NodeProto | None:
        """Return a node that outputs a constant under a name: runtimes infer shapes through Constant, not Identity.

        Return None if neither supports the element type at this opset (int4 below 21): it becomes an initializer.
        """
        if self._nodes and gives(CONSTANT, self._opset, constant.dtype):
            return make_node(CONSTANT, "", [], [name], {"value": constant.value})
        if gives(IDENTITY, self._opset, constant.dtype):
            return make_node(IDENTITY, "", [self.name(constant, before)], [name], {})
        self.outputs.append(_tensor(constant, name))
        return None


def _tensor(constant: Constant, name: str) -> TensorProto:
    """Return a constant as an initializer; elements in a file stay there."""
    if not isinstance(constant.value, ExternalTensor):
        return tensor_of(constant.value.array, constant.dtype, name)
    tensor = TensorProto()
    tensor.CopyFrom(constant.value.proto)
    tensor.name = name
    return tensor


class ConstantNodes(Constants):
    """Constants as nodes, if initializers are impossible: in functions, and below ir_version 4 (all are inputs)."""

    def __init__(self, names: Names, opset: int) -> None:
        """Emit this opset's form of Constant; each use gets its own node, so that it is always in scope."""
        super().__init__(names, opset)

    def within(self, node: NodeProto) -> Constants:
        """Return itself, because the nodes are emitted where they are used."""
        return self

    def name(self, constant: Constant, before: list[NodeProto]) -> str:
        """Emit a Constant before the node; below opset 9, where a Constant holds only floats, a Cast follows it."""
        name = self._names.new(f"opshift/{type_name(constant.dtype)}")
        floats = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
        if self._opset >= 9 or constant.dtype in floats:
            before.append(make_node(CONSTANT, "", [], [name], {"value": constant.value}))
        elif ((array := constant.value.array).astype(np.float64).astype(array.dtype) == array).all():
            self._cast(array.astype(np.float64), constant.dtype, name, before)
        else:
            # A double holds only half of the bits of a 64-bit integer exactly.
            high, low, scale, scaled = (
                self._names.new(f"{name}/{part}") for part in ("high", "low", "scale", "scaled")
            )
            self._cast((array // 2**32).astype(np.float64), constant.dtype, high, before)
            self._cast((array % 2**32).astype(np.float64), constant.dtype, low, before)
            self._cast(np.float64(2**32), constant.dtype, scale, before)
            before.append(make_node("Mul", "", [high, scale], [scaled], {}))
            before.append(make_node("Add", "", [scaled, low], [name], {}))
        for node in before:
            node.name = node.name or node.output[0]
        return name

    def output(self, constant: Constant, name: str, before: list[NodeProto]) -> NodeProto:
        """Return the node that outputs a constant under this name."""
        self.name(constant, before)
        made = before.pop()
        made.output[0] = name
        made.name = ""
        return made

    def _cast(self, array: Any, dtype: int, name: str, before: list[NodeProto]) -> None:
        whole = self._names.new(f"{name}/double")
        before.append(make_node(CONSTANT, "", [], [whole], {"value": Tensor(np.asarray(array))}))
        before.append(make_node(CAST, "", [whole], [name], {"to": dtype}))


def lower(
    model: onnx.ModelProto, planned: Planned, bodies: Iterable[GraphView] = (), ir_version: int | None = None
) -> None:
    """Apply a plan to a model in place; `set_opset_imports` sets the opset imports.

    `bodies` are the graph views of the original model, if they exist. `ir_version` is that of the result, by default
    the model's; nodes get metadata only if it permits.
    """
    names = Names(model, bodies)
    read_before = _read_by_changed(model, planned)
    opset = planned.plan.target_opset
    if planned.initializers:
        # Below ir_version 4, an initializer is an input with a default.
        model.ir_version = max(model.ir_version, 4)
    initializers = Constants(names, opset, nodes=planned.constants)
    ir_version = model.ir_version if ir_version is None else ir_version
    in_graphs = initializers if max(ir_version, model.ir_version) >= 4 else ConstantNodes(names, opset)
    mains: list[onnx.GraphProto] = [model.graph]
    for training in model.training_info:
        mains += [training.initialization, training.algorithm]
    marked = min(ir_version, model.ir_version) >= METADATA
    for graph, plan in zip(mains, planned.graphs, strict=True):
        _lower_graph(graph, plan, names, in_graphs, marked)
    _lower_functions(model, planned.functions, names, ConstantNodes(names, opset), marked)
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
    given = {value.name for value in (*graph.input, *graph.output)}
    readers = Counter(_read(model))
    unread = {name for name in names if name and not readers[name]} - given
    if not unread:
        return
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    waiting = list(unread)
    idle: set[int] = set()
    while waiting:
        index = makers.get(waiting.pop(), -1)
        if index < 0 or index in idle or any(readers[name] or name in given for name in graph.node[index].output):
            continue
        idle.add(index)
        read = list(names_read(graph.node[index]))
        readers.subtract(read)
        freed = {name for name in read if not readers[name]} - given
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
    taken, given = names.new(f"{base}/carried.in"), names.new(f"{base}/carried.out")
    body.input.add(name=taken).type.CopyFrom(onnx.helper.make_tensor_type_proto(TensorProto.FLOAT, ()))
    outputs = [body.output[0], onnx.helper.make_tensor_value_info(given, TensorProto.FLOAT, ()), *body.output[1:]]
    kept = onnx.GraphProto()
    kept.output.extend(outputs)
    del body.output[:]
    body.output.extend(kept.output)
    same = make_node(IDENTITY, "", [taken], [given], {})
    same.name = names.new(f"{base}/Identity")
    body.node.append(same)


def _nest(node: NodeProto, names: Names) -> None:
    """Nest a Scan-8 in the body of a Scan over the batch, which is the first axis of all its inputs and outputs.

    Scan-8: "the batch-axis is required to be 0", "the sequence axis or scan axis is required to be 1".
    """
    base = node.name or node.output[0]
    given = {attribute.name: attribute for attribute in node.attribute}
    body, scanned = given["body"].g, given["num_scan_inputs"].i
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
    if "directions" in given:
        inner.attribute.append(onnx.helper.make_attribute("scan_input_directions", list(given["directions"].ints)))
    outer.node.append(inner)
    inputs, outputs = list(node.input[1:]), [name for name in node.output if name]
    del node.input[:], node.output[:], node.attribute[:]
    node.input.extend(inputs)
    node.output.extend(outputs)
    node.attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g.CopyFrom(outer)
    node.attribute.append(onnx.helper.make_attribute("num_scan_inputs", len(inputs)))


def splice(
    nodes: Any,
    node: NodeProto,
    index: int,
    change: Replace,
    names: Names,
    constants: Constants,
    marked: bool,
    renamed: dict[str, str],
) -> None:
    """Add the nodes of a fragment to `nodes`, with the inputs and outputs of the replaced node.

    Outputs that no node computes are added to `renamed`, with the names of their source values.
    """
    base = node.name or next(filter(None, node.output), f"{node.op_type}_{index}")
    fragment, before = change.fragment, list[NodeProto]()
    outputs, given = node.output[:], change.inputs or node.input[:]
    values = _output_names(outputs, fragment, names, base)

    hold = functools.partial(constants.name, before=before)

    def name_of(ref: ValueRef) -> str:
        if ref is None:
            return ""
        if isinstance(ref, Output):
            return values[ref]
        if isinstance(ref, Input):
            source = change.sources[ref.operand]
            ref = source if isinstance(source, Constant) else None
            if isinstance(source, int):
                return given[source]
        return "" if ref is None else hold(ref)

    inputs = [[name_of(ref) for ref in leaf.inputs] for leaf in fragment.nodes]
    labels = [node.name if len(inputs) == 1 else names.new(f"{base}/{leaf.name}") for leaf in fragment.nodes]
    behind: list[NodeProto] = []  # nodes that give an output its name
    for place, (name, ref) in enumerate(zip(outputs, fragment.outputs, strict=True)):
        if place in change.renamed:
            renamed[name] = name_of(ref)
        elif name and isinstance(ref, Constant):
            behind += filter(None, (constants.output(ref, name, before),))
        elif name and (source := name_of(ref)) != name:
            behind.append(make_node(IDENTITY, "", [source], [name], {}))
    nodes.extend(before)
    first = len(nodes)
    wanted = {ref for leaf in fragment.nodes for ref in leaf.inputs}
    wanted.update(ref for name, ref in zip(outputs, fragment.outputs, strict=True) if name)
    for leaf, read, made, label in zip(fragment.nodes, inputs, fragment.made, labels, strict=True):
        before.clear()
        left_out = _optional_outputs(leaf.name) - {ref.place for ref, _ in made if ref in wanted}
        written = ["" if ref.place in left_out else values[ref] for ref, _ in made]
        new = _filled(leaf, read, written, label, names, hold)
        nodes.extend(before)  # constants of a Loop's body
        nodes.append(new)
    for new in behind:
        new.name = names.new(f"{base}/{new.op_type}")
    nodes.extend(behind)
    if marked or node.doc_string:
        for new in nodes[first:]:
            _mark(new, node, fragment, marked)


def _mark(new: NodeProto, node: NodeProto, fragment: Fragment, marked: bool) -> None:
    """Copy the doc_string of the replaced node to a new node, and add metadata if nodes can have it."""
    new.doc_string = node.doc_string
    if marked:
        new.metadata_props.extend(node.metadata_props)
        if fragment.lowerings:
            origin = f"{node.op_type}: {', '.join(fragment.lowerings)}"
            new.metadata_props.add(key="opshift.lowering", value=origin)


@functools.cache
def _optional_outputs(name: str) -> frozenset[int]:
    """Return the outputs that a node may omit: an Attention may have to, and an LSTM need not compute them."""
    if not onnx.defs.has(name):
        return frozenset()
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    outputs = onnx.defs.get_schema(name).outputs
    return frozenset(index for index, output in enumerate(outputs) if output.option == optional)


def _filled(
    leaf: FragmentNode,
    read: Sequence[str],
    made: Sequence[str],
    label: str,
    names: Names,
    hold: Callable[[Constant], str],
) -> NodeProto:
    """Return a fragment's node with its value names; `hold` returns the names of constants."""
    node, inputs, outputs = leaf.form
    if leaf.body is None:
        node.name, inputs[:], outputs[:] = label, read, made
        return node  # callers copy the node when they append it
    loop = make_node(leaf.name, "", read[: 2 + len(leaf.body.carries)], made, leaf.attributes)
    loop.name = label
    body = _iteration(leaf.body, read, label, names, hold)
    loop.attribute.add(name="body", type=onnx.AttributeProto.GRAPH).g.CopyFrom(body)
    return loop


def _iteration(
    iteration: LoopBody, read: Sequence[str], base: str, names: Names, hold: Callable[[Constant], str]
) -> onnx.GraphProto:
    """Return the body of a Loop; `read` are the values that the Loop reads, starting with its own inputs."""
    fragment, carried = iteration.fragment, iteration.carries
    graph = onnx.GraphProto(name=f"{base}/body")
    given = [
        names.new(f"{base}/{name}") for name in ("iteration", "going", *(f"carried:{i}" for i in range(len(carried))))
    ]
    for name, facts in zip(given, (Facts(TensorProto.INT64, ()), Facts(TensorProto.BOOL, ()), *carried), strict=True):
        graph.input.add(name=name).type.CopyFrom(type_of_facts(facts))
    operands = [given[0], *given[2:], *read[len(given) :]]
    values = _output_names((), dataclasses.replace(fragment, outputs=()), names, base)

    def name_of(ref: ValueRef) -> str:
        if isinstance(ref, Input):
            return operands[ref.operand]
        return "" if ref is None else values[ref] if isinstance(ref, Output) else hold(ref)

    for leaf, made in zip(fragment.nodes, fragment.made, strict=True):
        label, inputs = names.new(f"{base}/{leaf.name}"), [name_of(ref) for ref in leaf.inputs]
        graph.node.append(_filled(leaf, inputs, [values[ref] for ref, _ in made], label, names, hold))
    outputs: list[str] = []
    for ref in (None, *fragment.outputs):
        source = given[1] if ref is None else name_of(ref)
        if not isinstance(ref, Output) or source in outputs:
            # A body's output must be computed in the body, and only once.
            outputs.append(names.new(f"{base}/Identity.out"))
            graph.node.append(make_node(IDENTITY, "", [source], outputs[-1:], {}))
            graph.node[-1].name = names.new(f"{base}/Identity")
        else:
            outputs.append(source)
    for name, facts in zip(outputs, (Facts(TensorProto.BOOL, ()), *carried, *iteration.rows), strict=True):
        graph.output.add(name=name).type.CopyFrom(type_of_facts(facts))
    return graph


def _output_names(outputs: Sequence[str], fragment: Fragment, names: Names, base: str) -> dict[Output, str]:
    """Name all outputs of a fragment: the node's own outputs keep their names."""
    values: dict[Output, str] = {}
    for name, ref in zip(outputs, fragment.outputs, strict=True):
        if name and isinstance(ref, Output) and ref not in values:
            values[ref] = name
    for made in fragment.made:
        for ref, ending in made:
            if ref not in values:
                values[ref] = names.new(base + ending)
    return values


def alone(change: Replace, source: int, target: int) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return a lowered node and its replacement as separate models, with the types that the planner knew.

    Inputs have the names of the operands; constant operands are initializers. Outputs are y0, y1 ...
    """
    typed_node, operator = change.typed_node, change.lifted.operator
    named = {
        index: name for name, index in zip(operator.operands, change.lifted.sources, strict=False) if index is not None
    }
    inputs = ["" if facts is None else named.get(index, f"x{index}") for index, facts in enumerate(typed_node.inputs)]
    outputs = [f"y{index}" if used else "" for index, used in enumerate(typed_node.used)]
    original = _model(source, typed_node, inputs, outputs)
    node = make_node(typed_node.name, typed_node.domain, inputs, outputs, typed_node.attributes)
    original.graph.node.append(node)
    node.name = "node"
    if change.cast is not None:
        node.output[0] = "index"
        original.graph.node.append(make_node(CAST, "", ["index"], outputs, {"to": change.cast}))
        node = make_node(typed_node.name, typed_node.domain, inputs, outputs, typed_node.attributes)
    # A detached sequence that is only passed through needs an Identity, which supports only tensors below opset 14.
    passed_on = not change.fragment.nodes and any(facts is not None and facts.container for facts in typed_node.inputs)
    rewritten = _model(source if passed_on else target, typed_node, inputs, outputs)
    constants = Constants(Names(original), target)
    # In a detached model, an output value must have the output's name.
    change = change._replace(renamed=(), inputs=())
    splice(rewritten.graph.node, node, 0, change, Names(original), constants, False, {})
    rewritten.graph.initializer.extend([*constants.made, *constants.outputs])
    return original, rewritten


def _model(opset: int, typed_node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    imports = [onnx.helper.make_opsetid("", opset)]
    if typed_node.domain:
        imports.append(onnx.helper.make_opsetid(typed_node.domain, typed_node.since_version))
    least = onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True)
    model = onnx.ModelProto(ir_version=max(least, 8))
    model.opset_import.extend(imports)
    model.graph.name = "node"
    for name, facts in zip(inputs, typed_node.inputs, strict=True):
        if facts is None:
            continue
        if facts.known is not None:
            model.graph.initializer.append(tensor_of(facts.known, facts.dtype or 0, name))
            continue
        value = model.graph.input.add(name=name)
        value.type.CopyFrom(type_of_facts(facts))
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if name)
    return model
