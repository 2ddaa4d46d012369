"""Replace nodes with known outputs by constants, and drop the nodes that become unused.

Nothing else changes: no node is moved, fused or replaced by another node.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import onnx

from opshift.opsets.operators.constant import gives
from opshift.opsets.registry.facts import Facts, Tensor, tensor_of
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.operator import lift, operator_for, write_native
from opshift.opsets.registry.schema import default_domain, version_read_at
from opshift.opsets.registry.structural import CAST, CONSTANT, IDENTITY
from opshift.opsets.registry.traits import Flow
from opshift.passes.analysis.known_values import is_constant, scopes_of
from opshift.passes.analysis.scopes import Scope, default_opset, view
from opshift.passes.analysis.splicing import named_node
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph.editing import replace_nodes
from opshift.passes.graph.limits import FOLDED
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import graphs, named_subgraphs, nested_nodes, node_name, subgraphs

FOLLOWS = "its elements follow from shapes and constants"
UNREAD = "its outputs are unused"


def may_fold(model: onnx.ModelProto, missing: Collection[str] = ()) -> bool:
    """Return whether any node reads only constants or shapes, has subgraphs, or is of a `missing` operator."""
    if model.functions:
        return True
    constants = {"", *(tensor.name for graph in graphs(model) for tensor in getattr(graph, "initializer", ()))}
    for node in nested_nodes(model.graph):
        if is_constant(node):
            constants.update(node.output)
        elif (
            traits_of(node).flow is Flow.DROPPED
            or any(subgraphs(node))
            or node.op_type in missing
            or (node.input and constants.issuperset(node.input))
        ):
            return True
    return False


def foldable(model: onnx.ModelProto, values: Scope, types: Collection[int] = ()) -> bool:
    """Return whether any node has known outputs or partly known inputs; `types` as in `fold`."""
    return any(
        (_is_known(node, scope) and not _is_spelled(node, scope, types))
        or any(name and _is_partly_known(scope[name]) for name in node.input)
        for graph, scope in scopes_of(values, model.graph)
        for node in graph.node
    )


def is_any_unused(model: onnx.ModelProto, missing: Collection[str]) -> bool:
    """Return whether a node of an unsupported operator is unused; in subgraphs, a node of any operator.

    Both branches of an If can be computed only if all their nodes can.
    """
    found, _ = _unused(model.graph, missing, inner=False)
    return found


def _unused(graph: onnx.GraphProto, missing: Collection[str], *, inner: bool) -> tuple[bool, set[str]]:
    """Return whether a graph has such a node, and the names that it reads."""
    found, needed = False, {value.name for value in graph.output}
    for annotation in graph.quantization_annotation:
        needed.update(entry.value for entry in annotation.quant_parameter_tensor_names)
    for node in reversed(graph.node):
        if any(node.output) and needed.isdisjoint(filter(None, node.output)):
            found = found or (not is_constant(node) and (inner or node.op_type in missing))
            continue
        needed.update(node.input)
        for subgraph in subgraphs(node):
            has, read = _unused(subgraph, missing, inner=True)
            found, needed = found or has, needed | read
    return found, needed


def fold(model: onnx.ModelProto, values: Scope, types: Collection[int] = ()) -> tuple[Step, ...]:
    """Fold in place, and return the steps of the removed nodes; `values` are the facts about the model.

    `types` are the element types in which the target reads constants, empty for all; others stay Casts of constants.
    """
    work = _Folding(Names(model), default_opset(model.opset_import) or 1, types)
    work.graph(model.graph, values, "main")
    if work.initializers:
        # Below ir_version 4, an initializer is an input with a default.
        model.ir_version = max(model.ir_version, 4)
    model.graph.initializer.extend(work.initializers)
    return tuple(reversed(work.steps))


def fold_lowered(model: onnx.ModelProto, values: Scope, types: Collection[int] = ()) -> None:
    """Fold emitted nodes of the main graph, in place, if an initializer can replace them.

    No node is added, because all other nodes are already legal. `values` and `types` are as in `fold`.
    """
    work = _Folding(Names(model), default_opset(model.opset_import) or 1, types, lowered=True)
    work.graph(model.graph, values, "main")
    model.graph.initializer.extend(work.initializers)


def reads_constants_alone(model: onnx.ModelProto) -> bool:
    """Return whether any node of the main graph reads only constants."""
    constants = {"", *(tensor.name for tensor in model.graph.initializer)}
    for node in model.graph.node:
        if is_constant(node):
            constants.update(node.output)
        elif node.input and constants.issuperset(node.input):
            return True
    return False


def _is_known(node: onnx.NodeProto, scope: Scope) -> bool:
    """Return whether a node is not a constant and has known outputs that are small enough for constants."""
    if is_constant(node) or not any(node.output):
        return False
    return all(_is_writable(scope.own.get(name)) for name in node.output if name)


def _is_spelled(node: onnx.NodeProto, scope: Scope, types: Collection[int]) -> bool:
    """Return whether a node is a Cast of a constant that expresses a constant outside these element types.

    Without any types, the result is false.
    """
    if not types or node.op_type != CAST or default_domain(node.domain):
        return False
    read, made = scope[node.input[0]], scope.own.get(node.output[0])
    return read is not None and read.is_constant and not read.computed and made is not None and made.dtype not in types


def _is_partly_known(facts: Facts | None) -> bool:
    return facts is not None and facts.value is not None and facts.known is None


def _is_writable(facts: Facts | None) -> bool:
    return facts is not None and facts.known is not None and facts.known.size * 8 <= FOLDED


@dataclass
class _Folding:
    """One pass over a model, from the last node to the first."""

    names: Names
    opset: int
    types: Collection[int]
    lowered: bool = False
    """Whether nodes must not be added."""
    steps: list[Step] = field(default_factory=list)
    initializers: list[onnx.TensorProto] = field(default_factory=list)

    def graph(self, graph: onnx.GraphProto, scope: Scope, path: str) -> set[str]:
        """Fold one graph, and return the outer names that it reads."""
        graph_outputs = {value.name for value in graph.output}
        needed = set(graph_outputs)
        for annotation in graph.quantization_annotation:
            needed.update(entry.value for entry in annotation.quant_parameter_tensor_names)
        kept: list[onnx.NodeProto] = []
        changed = False
        for index in range(len(graph.node) - 1, -1, -1):
            node = graph.node[index]
            where = f"{path}/{node_name(node, index)}"
            wanted = [name for name in node.output if name and name in needed]
            if not wanted and any(node.output):
                changed = True
                self._note_removed(node, where, known=_is_known(node, scope))
            elif wanted and self._becomes_constant(
                node, scope, wanted, held=path == "main" and graph_outputs.isdisjoint(wanted)
            ):
                changed = True
                self._note_removed(node, where, known=True)
                for name in wanted:
                    kept += self._constant(
                        node, name, scope.own[name], held=path == "main" and name not in graph_outputs
                    )
            else:
                if not self.lowered and (canonical := self._canonical(node, scope)) is not None:
                    changed, node = True, canonical
                    self._note(Action.FOLD, node, where, "its shape is constant but for dims that it copies or infers")
                needed.update(name for name in node.input if name)
                for name, inner in named_subgraphs(node):
                    needed |= self.graph(inner, scope.enter(node, name), f"{where}.{name}")
                kept.append(node)
        if changed:
            replace_nodes(graph, reversed(kept))
        return needed - _tidied(graph, needed)

    def _becomes_constant(self, node: onnx.NodeProto, scope: Scope, wanted: Collection[str], *, held: bool) -> bool:
        """Return whether constants replace a node; `held`: as initializers of the main graph."""
        found = [scope.own.get(name) for name in wanted]
        if self.lowered and not (held and all(self._is_read(facts) for facts in found)):
            return False
        known = all(map(_is_writable, found))
        return known and not is_constant(node) and not _is_spelled(node, scope, self.types)

    def _is_read(self, facts: Facts | None) -> bool:
        """Return whether the target reads a value as an initializer."""
        return not self.types or (facts is not None and facts.dtype in self.types)

    def _canonical(self, node: onnx.NodeProto, scope: Scope) -> onnx.NodeProto | None:
        """Return a node in the form in which inputs with partly known elements are constant."""
        operator = operator_for("", node.op_type) if not default_domain(node.domain) else None
        inputs = [scope[name] if name else None for name in node.input]
        if operator is None or operator.normal is None or not any(map(_is_partly_known, inputs)):
            return None
        lifted = lift(operator, view(node, scope, self.opset), "runtime")
        native = lifted if isinstance(lifted, Reason) else write_native(lifted, self.opset)
        if isinstance(lifted, Reason) or isinstance(native, Reason) or any(subgraphs(node)):
            return None
        names = []
        for place in native.inputs:
            facts = None if place is None else lifted.operands[place]
            index = None if place is None else lifted.sources[place]
            if index is None and facts is not None and not _is_writable(facts):
                return None
            held = "" if facts is None or index is not None else self._initializer(facts, f"{node.output[0]}/constant")
            names.append(held if index is None else node.input[index])
        if names == list(node.input):
            return None
        return named_node(node.name, node.op_type, names, node.output[0], **native.attributes)

    def _initializer(self, facts: Facts, name: str) -> str:
        assert facts.known is not None
        assert facts.dtype
        read = self.names.new(name)
        self.initializers.append(tensor_of(facts.known, facts.dtype, read))
        return read

    def _constant(self, node: onnx.NodeProto, name: str, facts: Facts | None, *, held: bool) -> list[onnx.NodeProto]:
        """Return the node that outputs a constant under a name; none if an initializer does (`held`)."""
        assert facts is not None
        assert facts.dtype
        assert facts.known is not None
        if not held and gives(CONSTANT, self.opset, facts.dtype):
            return [named_node(node.name, CONSTANT, [], name, value=Tensor(facts.known))]
        read = name if held else self.names.new(f"{name}/constant")
        self.initializers.append(tensor_of(facts.known, facts.dtype, read))
        return [] if held else [named_node(node.name, IDENTITY, [read], name)]

    def _note_removed(self, node: onnx.NodeProto, where: str, *, known: bool) -> None:
        if not is_constant(node):
            self._note(*((Action.FOLD, node, where, FOLLOWS) if known else (Action.DROP, node, where, UNREAD)))

    def _note(self, action: Action, node: onnx.NodeProto, where: str, why: str) -> None:
        domain = default_domain(node.domain)
        since = version_read_at(domain, node.op_type, self.opset if not domain else 1)
        name = f"{domain}::{node.op_type}" if domain else node.op_type
        self.steps.append(Step(action, where, name, since, why))


def _tidied(graph: onnx.GraphProto, needed: Collection[str]) -> set[str]:
    """Drop the initializers and declared types of removed values, and return the names that the graph defines."""
    inputs = {value.name for value in graph.input}
    for tensors in (graph.initializer, graph.sparse_initializer):
        for index in range(len(tensors) - 1, -1, -1):
            tensor = tensors[index]
            name = tensor.values.name if isinstance(tensor, onnx.SparseTensorProto) else tensor.name
            if name not in needed and name not in inputs:
                del tensors[index]
    own = inputs | {name for node in graph.node for name in node.output}
    own.update(tensor.name for tensor in graph.initializer)
    own.update(tensor.values.name for tensor in graph.sparse_initializer)
    for index in range(len(graph.value_info) - 1, -1, -1):
        if graph.value_info[index].name not in own:
            del graph.value_info[index]
    return own
