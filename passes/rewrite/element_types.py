"""Change the element types of a model's values, such as int64 to int32.

Each value has one type. A Cast is added if a node needs another type: if its schema requires the old type, or if the
installed onnxruntime has no kernel for the new one. type_choice.py decides which values change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import AttributeProto, TensorProto

from opshift.opsets.registry.facts import INTEGERS, Facts, exact_types, tensor_of, type_name
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.schema import Schema, default_domain, schema_read_at
from opshift.opsets.registry.structural import CAST, CONSTANT, IDENTITY, IF
from opshift.opsets.registry.value_ranges import of_type, whole_numbers_of_type
from opshift.passes.analysis.known_values import is_constant
from opshift.passes.analysis.scopes import Scope, default_opset, view
from opshift.passes.analysis.splicing import named_node, rename_values
from opshift.passes.analysis.value_ranges import Ranges, value_ranges
from opshift.passes.base.assumptions import FITS
from opshift.passes.base.plan import Action, Refusal, Step
from opshift.passes.graph.editing import drop_named, replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import named_subgraphs, names_read, node_name, subgraphs
from opshift.passes.rewrite.retyped_graph import (
    GraphTypes,
    Place,
    RetypedGraph,
    Visit,
    converted,
    groups,
    held_tensor,
    holds_sequences,
    places,
    retype_values,
    values_made,
)
from opshift.passes.rewrite.type_choice import TypeChoice, Types, is_narrower, name_kept_type, name_type


@dataclass(frozen=True)
class Retyped:
    """The result of changing a model's element types in place."""

    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    outer: bool = False
    """Whether model inputs or outputs have other types."""
    casts: int = 0
    """The number of added Casts."""
    wide: Mapping[str, str] = field(default_factory=dict)
    """The reasons why nodes keep a wider float type, by node path."""
    narrowed: frozenset[str] = frozenset()
    """The paths of nodes that compute in narrower floats."""
    narrow: frozenset[str] = frozenset()
    """The values that are narrower floats now."""


def change_types(model: onnx.ModelProto, values: Scope, asked: Types, *, runnable: bool) -> Retyped:
    """Change element types in place; `values` are the facts about the model, which calls no functions.

    With `runnable`, a node keeps its type if the installed onnxruntime has a kernel only for that type.
    """
    changed = {
        value.name: whole_numbers_of_type(wanted) & of_type(old)
        for value in model.graph.input
        if asked.outer and (wanted := asked.changes.get(old := value.type.tensor_type.elem_type)) is not None
    }
    ranges = value_ranges(model.graph, values, changed)
    choice = TypeChoice(asked, default_opset(model.opset_import) or 1, runnable)
    work = _Retyping(Names(model), asked, choice, _versions(model))
    before = [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]
    work.main(model.graph, values, ranges)
    after = [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]
    wide = {where: why for where, why in choice.kept.items() if where not in work.narrowed}
    kinds = {new for old, new in asked.changes.items() if is_narrower(old, new)}
    narrow = frozenset(name for name, dtype in work.stored.items() if dtype in kinds)
    return Retyped(
        tuple(work.steps), tuple(choice.refusals), before != after, work.casts, wide, frozenset(work.narrowed), narrow
    )


def _held(tensor: TensorProto, facts: Facts | None) -> TensorProto | None:
    """Return a constant with its elements; None if they are in a file and too large to read."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    if facts is None or facts.known is None:
        return None
    return tensor_of(facts.known, tensor.data_type, tensor.name)


def _versions(model: onnx.ModelProto) -> dict[str, int]:
    return {default_domain(item.domain): item.version for item in model.opset_import}


@dataclass
class _Retyping:
    """One pass over a model, from the first node to the last."""

    names: Names
    asked: Types
    choice: TypeChoice
    imported: Mapping[str, int]
    steps: list[Step] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    """The copies of constants in another type."""
    casts: int = 0
    """The number of added Casts."""
    narrowed: set[str] = field(default_factory=set)
    """The paths of nodes that compute in narrower floats."""
    stored: dict[str, int] = field(default_factory=dict)
    """The element types of values of all graphs that are not, or no longer, what the model declares."""

    # --- graphs ---

    def main(self, proto: onnx.GraphProto, scope: Scope, ranges: Ranges) -> None:
        """Change the main graph; its inputs and outputs keep their names."""
        graph = RetypedGraph(proto, scope, ranges)
        fed = {value.name for value in proto.input}
        graph.constants.update((tensor.name, tensor) for tensor in proto.initializer if tensor.name not in fed)
        if self.asked.outer:
            for value in proto.input:
                self._declare(graph, value)
            for tensor in proto.initializer:
                if tensor.name in fed and tensor.name in graph.stored:
                    tensor.CopyFrom(converted(tensor, graph.stored[tensor.name], tensor.name))
        if not self.asked.outer:
            read = {name for node in proto.node for name in names_read(node)}
            self.choice.returned = {value.name for value in proto.output} - read
        self._nodes(graph, "main")
        for value in proto.output:
            self._output(graph, value)
        self._restore_names(graph)
        self._finish(graph)

    def _finish(self, graph: RetypedGraph) -> None:
        replace_nodes(graph.proto, graph.nodes)
        retype_values(graph)
        self.stored |= graph.stored

    def _restore_names(self, graph: RetypedGraph) -> None:
        """Give copies of constants their original names, if the originals are unused."""
        read = {value.name for value in graph.proto.output}
        read.update(name for node in graph.nodes for name in names_read(node))
        gone = {name: copy for name, copy in self.constants.items() if name in graph.constants and name not in read}
        drop_named(graph.proto.initializer, gone)
        graph.nodes = [node for node in graph.nodes if not is_constant(node) or node.output[0] not in gone]
        graph.stored.update((name, graph.stored[copy]) for name, copy in gone.items() if copy in graph.stored)
        _rename(graph, {copy: name for name, copy in gone.items()})

    def _declare(self, graph: RetypedGraph, value: onnx.ValueInfoProto) -> None:
        wanted = self.asked.changes.get(value.type.tensor_type.elem_type)
        if wanted is not None:
            value.type.tensor_type.elem_type = wanted
            graph.stored[value.name] = wanted

    def _output(self, graph: RetypedGraph, value: onnx.ValueInfoProto) -> None:
        """Set the type of a model output; the output keeps its name, and the value of another type gets a new one."""
        if not value.type.HasField("tensor_type"):
            return  # sequences and optionals keep their types, and so do the nodes that create them
        declared = value.type.tensor_type.elem_type
        wanted = self.asked.changes.get(declared, declared) if self.asked.outer else declared
        current = graph.current_name(value.name)
        now = graph.dtype(current)
        if now is None or (now == wanted and current == value.name):
            value.type.tensor_type.elem_type = wanted
            return
        if current == value.name:
            current = self.names.new(f"{value.name}_{type_name(now)}")
            _rename(graph, {value.name: current})
            graph.stored[current] = now
            if (copy := graph.copies.get((value.name, wanted))) is not None:
                _rename(graph, {copy: value.name})
                graph.stored[value.name] = value.type.tensor_type.elem_type = wanted
                return
        cast = named_node(value.name, IDENTITY, [current], value.name)
        if now != wanted:
            cast = self._cast(current, value.name, wanted)
        if any(node.name == value.name for node in graph.nodes):
            cast.name = self.names.new(f"{value.name}_{type_name(wanted)}")
        graph.nodes.append(cast)
        graph.stored[value.name] = wanted
        value.type.tensor_type.elem_type = wanted

    def _inner(
        self, proto: onnx.GraphProto, scope: Scope, ranges: Ranges, outer: RetypedGraph, path: str, types: GraphTypes
    ) -> None:
        """Change a subgraph, whose inputs and outputs get the types that the node requires."""
        graph = RetypedGraph(proto, scope, ranges, outer)
        graph.constants.update((tensor.name, tensor) for tensor in proto.initializer)
        for value, dtype in zip(proto.input, types.inputs, strict=False):
            if dtype is not None:
                graph.stored[value.name] = dtype
                if value.type.tensor_type.elem_type:
                    value.type.tensor_type.elem_type = dtype
        self._nodes(graph, path)
        returned: set[str] = set()
        for value, dtype in zip(proto.output, types.outputs or [None] * len(proto.output), strict=False):
            name = graph.current_name(value.name)
            declared = scope[value.name]
            wanted = dtype or (declared.dtype if declared is not None else None) or graph.dtype(name)
            held = self._as(graph, name, wanted) if wanted else name
            if held in returned or (held != value.name and held not in values_made(graph)):
                # A graph must compute its outputs itself, each once.
                made = self.names.new(value.name)
                graph.nodes.append(named_node(made, IDENTITY, [held], made))
                held = made
            returned.add(held)
            value.name = held
            if wanted and value.type.tensor_type.elem_type:
                value.type.tensor_type.elem_type = wanted
        self._finish(graph)

    def _nodes(self, graph: RetypedGraph, path: str) -> None:
        for index, node in enumerate(graph.proto.node):
            if is_constant(node) and (tensor := held_tensor(node)) is not None:
                graph.constants[node.output[0]] = tensor
                graph.nodes.append(node)
            else:
                self._node(graph, node, f"{path}/{node_name(node, index)}")

    # --- values ---

    def _as(self, graph: RetypedGraph, name: str, dtype: int) -> str:
        """Return the name of a value in a type, for the next added node."""
        name = graph.current_name(name)
        now = graph.dtype(name)
        if now is None or now == dtype:
            return name
        earlier = next((one.casts[name] for one in graph.around() if name in one.casts), None)
        if earlier is not None and graph.dtype(earlier) == dtype:
            return graph.current_name(earlier)
        if (known := graph.copy(name, dtype)) is not None:
            return known
        made = self.names.new(f"{name}_{type_name(dtype)}")
        found = graph.constant(name)
        if found is not None and (tensor := _held(found[1], graph.scope[name])) is not None:
            owner = found[0]
            if any(one.name == name for one in owner.proto.initializer):
                owner.proto.initializer.append(converted(tensor, dtype, made))
            else:
                owner = graph
                node = named_node(made, CONSTANT, [], made)
                node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(converted(tensor, dtype, ""))
                graph.nodes.append(node)
            owner.copies[name, dtype] = made
            self.constants.setdefault(name, made)
            owner.stored[made] = dtype
            return made
        facts = graph.scope[name]
        # What restores the type that a Cast made is that Cast.
        restores = earlier is not None and facts is not None and facts.dtype == dtype
        graph.nodes.append(self._cast(graph.current_name(earlier) if restores and earlier else name, made, dtype))
        graph.copies[name, dtype] = made
        graph.stored[made] = dtype
        return made

    def _cast(self, name: str, made: str, dtype: int) -> onnx.NodeProto:
        self.casts += 1
        return named_node(made, CAST, [name], made, to=dtype)

    # --- nodes ---

    def _node(self, graph: RetypedGraph, node: onnx.NodeProto, where: str) -> None:
        domain = default_domain(node.domain)
        schema = schema_read_at(domain, node.op_type, self.imported.get(domain, 1) if domain else self.choice.opset)
        if any(subgraphs(node)) and not domain and (node.op_type == IF or traits_of(node).iteration is not None):
            self._with_graphs(graph, node, where)
            return
        if schema is None or holds_sequences(node, schema, graph.scope) or any(subgraphs(node)):
            self._keep(graph, node, list(places(graph, node)))
            for attribute, proto in named_subgraphs(node):
                inside = graph.scope.enter(node, attribute), graph.ranges.enter(node, attribute)
                self._inner(proto, *inside, graph, f"{where}.{attribute}", GraphTypes())
            self._add(graph, node)
            return
        if node.op_type == CAST and not domain:
            self._skip_casts(graph, node)
        changed, stays = False, None
        visit = Visit(node, schema, where, view(node, graph.scope, self.choice.opset))
        for group in groups(node, schema, graph):
            dtype = next((place.facts.dtype for place in group if place.facts.dtype), None)
            wanted = self.asked.wanted(where, group[0].parameter.type_variable, dtype)
            if dtype is None:
                continue
            if wanted is None or not self.choice.changes(graph, visit, group, dtype, wanted):
                self._keep(graph, node, group)
                stays = dtype if any(place.is_output for place in group) else stays
                continue
            changed = True
            if is_narrower(dtype, wanted):
                self.narrowed.add(where)
            name_type(visit, group, dtype, wanted)
            for place in group:
                if place.is_output:
                    graph.stored[place.name] = wanted
                else:
                    visit.types[place.index] = wanted
                    node.input[place.index] = self._as(graph, place.name, wanted)
        if changed and stays is not None:
            name_kept_type(visit, stays)
        idle = node.op_type == CAST and not domain and graph.dtype(node.input[0]) == graph.dtype(node.output[0])
        if idle and any(value.name == node.output[0] for value in graph.proto.output):
            node.op_type = IDENTITY
            del node.attribute[:]
        elif idle:
            graph.renamed[node.output[0]] = graph.current_name(node.input[0])
            self._note(Action.DROP, where, node, schema, "it casts to the type that its input has")
            return
        if changed:
            single = self.asked.at.get(where)
            self._note(Action.RETYPE, where, node, schema, single.why if single else _listed(self.asked))
        self._add(graph, node)

    def _add(self, graph: RetypedGraph, node: onnx.NodeProto) -> None:
        for index, name in enumerate(node.input):
            node.input[index] = graph.current_name(name)
        graph.nodes.append(node)

    def _note(self, action: Action, where: str, node: onnx.NodeProto, schema: Schema, why: str) -> None:
        assumes = (FITS,) if where in self.choice.assumed else ()
        self.steps.append(Step(action, where, node.op_type, schema.since_version, why, assumes=assumes))

    def _keep(self, graph: RetypedGraph, node: onnx.NodeProto, places: Sequence[Place]) -> None:
        """Keep the original types of values at a node."""
        for place in places:
            if place.is_output:
                if place.facts.dtype:
                    graph.stored[place.name] = place.facts.dtype
            elif place.facts.dtype:
                node.input[place.index] = self._as(graph, place.name, place.facts.dtype)

    def _skip_casts(self, graph: RetypedGraph, node: onnx.NodeProto) -> None:
        """Read the input of a preceding Cast, if the Cast was lossless."""
        read = node.input[0]
        earlier = next((one.casts[read] for one in graph.around() if read in one.casts), None)
        if earlier is not None:
            node.input[0] = earlier
        before, after = graph.scope[node.input[0]], graph.scope[node.output[0]]
        if after is not None and after.dtype == TensorProto.STRING:
            node.input[0] = read  # 1 and 1.0 have different string forms
            return
        if before is None or after is None:
            return
        if after.dtype == before.dtype or after.dtype in exact_types(before.dtype or 0):
            graph.casts[node.output[0]] = graph.current_name(node.input[0])

    # --- nodes with subgraphs ---

    def _with_graphs(self, graph: RetypedGraph, node: onnx.NodeProto, where: str) -> None:
        schema = schema_read_at("", node.op_type, self.choice.opset)
        assert schema is not None
        iteration = traits_of(node).iteration
        visit = Visit(node, schema, where, view(node, graph.scope, self.choice.opset))
        first = iteration.inputs if iteration is not None else len(node.input)
        states = node.input[first : len(node.input) - self._scanned(node)]
        outputs: list[int | None] = []
        for index, name in enumerate(node.output):
            facts = graph.scope.own.get(name) or Facts()
            dtype = facts.dtype or 0
            read = states[index] if index < len(states) else ""
            wanted = self.choice.returns(graph, visit, dtype, self.asked.changes.get(dtype), read)
            outputs.append(wanted or facts.dtype)
            if wanted is not None and dtype in INTEGERS:
                self.choice.check(graph, visit, Place(0, name, schema.outputs[-1], facts, True), wanted)
            if wanted is not None and is_narrower(dtype, wanted):
                self.narrowed.add(where)
            if name and dtype in self.asked.changes:
                graph.stored[name] = outputs[-1] or 0
        inputs: list[int | None] = [None] * len(node.input)
        for index, name in enumerate(node.input):
            known = graph.scope[name] if name else None
            if known is None or not known.dtype:
                continue
            if index < first:
                inputs[index] = known.dtype
            elif index < first + len(states):
                inputs[index] = outputs[index - first] or known.dtype
            else:
                inputs[index] = graph.dtype(name)
            node.input[index] = self._as(graph, name, inputs[index] or known.dtype)
        for attribute, proto in named_subgraphs(node):
            inside = graph.scope.enter(node, attribute), graph.ranges.enter(node, attribute)
            types = GraphTypes((), outputs)
            if iteration is not None:
                head = [None] * iteration.inputs
                types = GraphTypes([*head, *inputs[first:]], [*[None] * iteration.outputs, *outputs])
            self._inner(proto, *inside, graph, f"{where}.{attribute}", types)
        self._add(graph, node)

    def _scanned(self, node: onnx.NodeProto) -> int:
        iteration = traits_of(node).iteration
        scanned = iteration.scanned if iteration is not None else ""
        return next((one.i for one in node.attribute if scanned and one.name == scanned), 0)


def _rename(graph: RetypedGraph, renamed: Mapping[str, str]) -> None:
    """Rename values of a graph in all nodes that write or read them."""
    rename_values(graph.nodes if renamed else (), renamed)
    for named in (*graph.proto.initializer, *graph.proto.value_info):
        named.name = renamed.get(named.name, named.name)


def _listed(types: Types) -> str:
    return ", ".join(f"{old} becomes {new}" for old, new in types.named.items())
