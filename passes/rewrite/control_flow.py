"""Replace nodes by the nodes of their subgraphs.

An If with a known condition becomes the taken branch. If the target does not support the operators, Loop and Scan are
unrolled, and an If becomes both branches and a Where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import INTEGERS, Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits_of
from opshift.opsets.registry.schema import default_domain, version_read_at
from opshift.opsets.registry.structural import IDENTITY, IF, LOOP, SCAN
from opshift.opsets.registry.traits import Arithmetic
from opshift.passes.analysis.known_values import Propagation, is_static
from opshift.passes.analysis.scopes import Scope, default_opset
from opshift.passes.analysis.splicing import Spliced, accepts, named_node, rename
from opshift.passes.base.plan import Action, Step
from opshift.passes.graph.editing import replace_nodes
from opshift.passes.graph.names import Names
from opshift.passes.graph.traversal import graphs, named_subgraphs, nested_nodes, node_name, subgraph, subgraphs
from opshift.passes.rewrite.scan_as_loop import as_loop
from opshift.passes.rewrite.unrolling import unrolled

_WHERE = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT8,
        TensorProto.STRING,
    }
)
"""The element types for which runtimes support Where: onnxruntime 1.32.0 has no kernel for others."""

_STACKED = ("Unsqueeze", "Concat", "Gather")
"""The operators that select between two values of other types."""

_BRANCHES = ("then_branch", "else_branch")

BOTH = 256
"""The maximum number of nodes in the branches of an If that computes both."""


def expand(
    model: onnx.ModelProto,
    values: Scope,
    missing: Collection[str],
    propagation: Propagation,
    *,
    holding_missing: bool = False,
) -> tuple[Step, ...]:
    """Replace nodes by the nodes of their subgraphs, in place; return the steps.

    `values` are the facts about the model, and `propagation` infers more; `missing` are the unsupported operators among
    If, Loop, Scan and the sequence operators. With `holding_missing`, a supported Loop or Scan is also unrolled if it
    contains such a node or carries a sequence.
    """
    work = _Expansion(model, missing, propagation, holding_missing=holding_missing)
    work.graph(model.graph, values, "main")
    if model.graph.initializer:
        model.ir_version = max(model.ir_version, 4) if work.steps else model.ir_version
    return tuple(work.steps)


def why_kept(
    model: onnx.ModelProto, values: Scope, missing: Collection[str], propagation: Propagation
) -> dict[str, Reason]:
    """Return the reasons why unsupported If, Loop and Scan nodes stay, by path, after `expand` has finished."""
    if not any(node.op_type in (IF, LOOP, SCAN) for node in nested_nodes(model.graph)):
        return {}
    work = _Expansion(model, missing, propagation, holding_missing=True)
    work.graph(model.graph, values, "main")
    return work.kept


class _Expansion:
    """One pass over one model, inner graphs first."""

    def __init__(
        self, model: onnx.ModelProto, missing: Collection[str], propagation: Propagation, *, holding_missing: bool
    ) -> None:
        self._propagation = propagation
        self._holding_missing = holding_missing
        self._names = Names(model)
        self._opset = default_opset(model.opset_import) or 1
        self._missing = missing
        every = [graph for graph in graphs(model) if isinstance(graph, onnx.GraphProto)]
        self._given_out = {value.name for graph in every for value in graph.output}
        self._defined = Counter(_definitions(model.graph))
        self._labels = Counter(node.name for node in nested_nodes(model.graph))
        self.steps: list[Step] = []
        self.kept: dict[str, Reason] = {}

    def graph(self, graph: onnx.GraphProto, scope: Scope, path: str) -> None:
        """Expand the nodes of one graph and of its subgraphs."""
        nodes: list[onnx.NodeProto] = []
        renamed: dict[str, str] = {}
        expanded = False
        for index, node in enumerate(graph.node):
            where = f"{path}/{node_name(node, index)}"
            before = len(self.steps)
            for name, inner in named_subgraphs(node):
                self.graph(inner, scope.enter(node, name), f"{where}.{name}")
            # Unrolling the inner nodes may be enough.
            holds = self._holding_missing and len(self.steps) == before and self._holds_missing(node, scope)
            spliced = self._expanded(node, scope, where, holds)
            if spliced is None:
                nodes.append(node)
                continue
            expanded = True
            for name, value in zip(node.output, spliced.outputs, strict=False):
                if name in self._given_out:
                    spliced.call(value, name)
            nodes += spliced.nodes
            graph.initializer.extend(spliced.initializers)
            graph.value_info.extend(spliced.types)
            for name, value in zip(node.output, spliced.outputs, strict=False):
                if name in self._given_out and value == name:
                    continue
                if name in self._given_out:
                    label = self._names.new(f"{name}/Identity")
                    nodes.append(named_node(label, IDENTITY, [renamed.get(value, value)], name))
                elif name:
                    renamed[name] = renamed.get(value, value)
        if expanded:
            replace_nodes(graph, nodes)
            for node in graph.node:
                rename(node, renamed)

    def _holds_missing(self, node: onnx.NodeProto, scope: Scope) -> bool:
        """Return whether a node carries a sequence, or contains a node of an unsupported operator."""
        if any(name and (scope[name] or Facts()).container for name in node.input):
            return True
        inner = (one for inner_graph in subgraphs(node) for one in nested_nodes(inner_graph))
        return any(one.op_type in self._missing and not default_domain(one.domain) for one in inner)

    def _expanded(self, node: onnx.NodeProto, scope: Scope, where: str, holds: bool) -> Spliced | None:
        """Return the nodes that replace a node; None if it stays."""
        if default_domain(node.domain) or node.op_type not in (IF, LOOP, SCAN):
            return None
        if any(attribute.ref_attr_name for attribute in node.attribute):
            return None
        if node.op_type == IF:
            found = self._one_branch(node, scope, where) or self._both_branches(node, scope, where)
        elif node.op_type in self._missing or holds:
            found = unrolled(node, scope, self._propagation, self._names, self._opset)
            if isinstance(found, Spliced):
                self._note(Action.UNROLL, node, where, "the number of its iterations is known")
            elif node.op_type == SCAN and node.op_type in self._missing and LOOP not in self._missing:
                found = self._scan_as_loop(node, scope, where)
        else:
            return None
        if isinstance(found, Reason):
            # The condition of an If alone determines the required branch.
            self.kept[where] = Reason(found, found.missing or node.op_type == IF)
            return None
        return found

    def _scan_as_loop(self, node: onnx.NodeProto, scope: Scope, where: str) -> Spliced | Reason:
        inside, body = scope.enter(node, "body"), next(subgraphs(node))
        inputs, made = [scope[name] for name in node.input], [inside[value.name] for value in body.output]
        found = as_loop(node, inputs, made, self._names, self._opset)
        if isinstance(found, Spliced):
            self._note(Action.LOWER, node, where, "the number of its iterations is unknown", (LOOP,))
        return found

    def _one_branch(self, node: onnx.NodeProto, scope: Scope, where: str) -> Spliced | None:
        condition = (scope[node.input[0]] or Facts()).known
        fail = [scope.enter(node, name).fails for name in ("then_branch", "else_branch")]
        if condition is not None and condition.size == 1:
            truth = bool(condition.item())
            why = f"its condition is {'true' if truth else 'false'}"
        elif fail[0] != fail[1]:
            truth = fail[1]
            why = f"its {'else' if truth else 'then'} branch does not accept these shapes"
        else:
            return None
        self._note(Action.INLINE, node, where, why)
        found = Spliced()
        found.outputs = found.add(_branches(node)[not truth], {}, self._once, self._label)
        return found

    def _both_branches(self, node: onnx.NodeProto, scope: Scope, where: str) -> Spliced | Reason | None:
        """Return both branches and a Where for each output, or the reason why that would change the results."""
        if IF not in self._missing:
            return None
        condition = scope[node.input[0]] or Facts()
        if self._opset < 9 or condition.rank is None:
            return Reason("there is no Where" if self._opset < 9 else "its condition has no known shape")
        branches = _branches(node)
        scopes = [scope.enter(node, name) for name in _BRANCHES]
        if (count := sum(len(graph.node) for graph in branches)) > BOTH:
            return Reason(f"its branches have {count} nodes, more than the limit of {BOTH} for computing both")
        for name, graph, inside in zip(_BRANCHES, branches, scopes, strict=True):
            for index, one in enumerate(graph.node):
                if why := _why_it_may_fail(one, inside):
                    which = f"{one.op_type} at {node_name(one, index)} in its {name}"
                    return Reason(f"{which} {why}, so that it cannot be computed where that branch is not taken")
        kinds = [
            [inside[value.name] or Facts() for value in graph.output]
            for graph, inside in zip(branches, scopes, strict=True)
        ]
        if not all(_are_alike(one, other) for one, other in zip(*kinds, strict=True)):
            return Reason("its branches do not return tensors of the same known shapes")
        stacked = [facts for facts in kinds[0] if facts.dtype not in _WHERE]
        if not all(accepts(operator, facts, self._opset) for facts in stacked for operator in _STACKED):
            return Reason(f"no operator of opset {self._opset} selects one of two values of this element type")
        self._note(Action.INLINE, node, where, "the target has no If, and both branches can be computed", ("Where",))
        found = Spliced()
        results = [found.add(graph, {}, self._once, self._label) for graph in branches]
        base = node.name or node.output[0]
        chosen = node.input[0]
        if condition.rank:
            shape = found.constant(self._names.new(f"{base}/scalar"), [])
            chosen = found.node("Reshape", [chosen, shape], self._names.new(f"{base}/condition"))
        for facts, one, other in zip(kinds[0], *results, strict=True):
            label = self._names.new(f"{base}/Where")
            select = self._where if facts.dtype in _WHERE else self._gathered
            found.outputs.append(select(found, chosen, one, other, label))
        return found

    def _where(self, found: Spliced, chosen: str, one: str, other: str, label: str) -> str:
        return found.node("Where", [chosen, one, other], label)

    def _gathered(self, found: Spliced, chosen: str, one: str, other: str, label: str) -> str:
        """Stack both values, and select one of them with Gather."""
        rows = [self._names.new(f"{label}/{name}") for name in ("else", "then")]
        both = found.stacked((other, one), rows, self._names.new(f"{label}/both"), 0, self._opset)
        number = found.node("Cast", [chosen], self._names.new(f"{label}/number"), to=TensorProto.INT64)
        return found.element(both, number, label)

    def _once(self, name: str) -> str:
        """Return the name of a value that is emitted once: its own name, if it is unused."""
        return name if self._defined[name] == 1 else self._names.new(name)

    def _label(self, name: str) -> str:
        """Return the name of a node that is emitted once."""
        return name if self._labels[name] == 1 else self._names.new(name)

    def _note(self, action: Action, node: onnx.NodeProto, where: str, why: str, made: tuple[str, ...] = ()) -> None:
        since = version_read_at("", node.op_type, self._opset)
        self.steps.append(Step(action, where, node.op_type, since, why, becomes=made))


def _branches(node: onnx.NodeProto) -> tuple[onnx.GraphProto, onnx.GraphProto]:
    """Return the branches of an If for a true and for a false condition."""
    return subgraph(node, _BRANCHES[0]), subgraph(node, _BRANCHES[1])


def _are_alike(one: Facts, other: Facts) -> bool:
    """Return whether two values are tensors of the same type and the same known shape."""
    return bool(one.dtype) and one.dtype == other.dtype and one.shape == other.shape and is_static(one)


def _why_it_may_fail(node: onnx.NodeProto, scope: Scope) -> str:
    """Return the reason why a node may fail for some input elements; empty if it never fails."""
    if any(subgraphs(node)):
        return "stays"
    if default_domain(node.domain):
        return f"is of the domain {node.domain}"
    inputs = [scope[name] if name else None for name in node.input]
    if not all(is_static(scope[name] or Facts()) for name in node.output if name):
        return "returns an unknown shape"
    known = traits_of(node)
    computed = [index for index, facts in enumerate(inputs) if facts is not None and not facts.is_constant]
    if any(index in known.indices or index in known.counts for index in computed):
        return "reads an index or a count that is computed at run time"
    divides = known.arithmetic is Arithmetic.DIVIDE or 1 in known.domains
    by_zero = divides and 1 in computed and inputs[1] is not None and inputs[1].dtype in INTEGERS
    return "may divide by zero" if by_zero else ""


def _definitions(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of the values that a graph and its subgraphs define."""
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from node.output
        for inner in subgraphs(node):
            yield from _definitions(inner)
