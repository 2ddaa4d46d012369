"""Plan the changes that make each node of a model legal on a target, without modifying the model.

`Planner` walks every graph and function once. Nodes that are the same to every lowering are derived once.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import onnx

from opshift.opsets.registry.facts import Facts, facts_of_type
from opshift.opsets.registry.operator import SPELLING
from opshift.opsets.registry.schema import OLDEST, default_domain
from opshift.opsets.registry.structural import CAST, CONSTANT, LOOP, SCAN
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.lazy_inference import OnDemandScope, StaticFacts
from opshift.passes.analysis.scopes import NOTHING, Values, default_opset, describe
from opshift.passes.base.limits import Deadline
from opshift.passes.base.plan import Action, Code, Plan, Refusal, Step, Steps
from opshift.passes.graph.columnar import OpKey
from opshift.passes.graph.traversal import (
    GraphView,
    GraphWalk,
    attribute_key,
    named_subgraphs,
    node_name,
    nodes_by_op_key,
    walk,
)
from opshift.passes.rewrite import foreign
from opshift.passes.rewrite.edits import Change, Drop, GraphPlan, KnownDecision, Planned, Replace
from opshift.passes.rewrite.function_planner import Functions
from opshift.passes.rewrite.hints import SECONDS, Hints, loading
from opshift.passes.rewrite.ledger import Ledger, Mark
from opshift.passes.rewrite.lowering_search import Deriver
from opshift.passes.rewrite.missing_core_ops import casts_of_indices, fixed_names, is_folded
from opshift.passes.rewrite.node_context import LazyScope, NodeContext
from opshift.passes.rewrite.node_planner import NodePlanner
from opshift.passes.rewrite.op_type_decisions import OpTypeDecisions, holds_graphs, occurring_types
from opshift.passes.rewrite.specialiser import Specialisers
from opshift.passes.rewrite.unknown_types import UnknownTypes

Settled = Step | dict[Hashable, KnownDecision] | None
"""The step of all nodes with an op key, the decisions for some of them, or None."""

BumpedNodes = tuple[Sequence[tuple[Step, Sequence[int]]], Sequence[str]]
"""The version bumps of a graph with the indices of their nodes; and the names of all its nodes."""


@dataclass(frozen=True)
class Goal:
    """The goal of a plan.

    Attributes:
        legality: the predicate for supported nodes.
        semantics: "runtime" or "spec", if onnxruntime differs from the specification.
        assume: assumptions that the result may need.
        runnable: prefer nodes with a kernel in the installed onnxruntime.
        optimize: also lower legal nodes if that is faster in onnxruntime.
        any_form: take the first form of each node instead of the best one, to find out whether there is a plan.
    """

    legality: Legality
    semantics: str = "runtime"
    assume: frozenset[str] = frozenset()
    runnable: bool = False
    optimize: bool = False
    any_form: bool = False


@dataclass(frozen=True)
class Analysis:
    """The facts about a model before planning.

    Attributes:
        walked: its graphs, if already traversed.
        static: the values that need no inference.
        summary: the model with inferred types.
        specialisers: those of other planners of the model.
    """

    walked: Sequence[GraphView | GraphWalk] = ()
    static: StaticFacts | None = None
    summary: onnx.ModelProto | None = None
    specialisers: Specialisers | None = None


class FirstRefusalError(Exception):
    """A node cannot be converted, and the caller needs only the first refusal."""


@dataclass(frozen=True)
class Focus:
    """The main graph's nodes, by index, to plan first; planning ends at the first refusal.

    This quickly shows whether a goal is possible at all. With `alone`, only these nodes are planned.
    """

    places: frozenset[int] = frozenset()
    alone: bool = False

    def ordered(self, nodes: Sequence[tuple[int, Settled]]) -> list[tuple[int, Settled]]:
        """Return the nodes to plan, in order."""
        first = [one for one in nodes if one[0] in self.places]
        return first if self.alone else first + [one for one in nodes if one[0] not in self.places]


class Planner:
    """Plans one model for one target."""

    def __init__(
        self,
        model: onnx.ModelProto,
        goal: Goal,
        analysis: Analysis | None = None,
        *,
        alike: Planner | None = None,
        hinting: bool = True,
        progress: Callable[[str, int, int], None] | None = None,
        deadline: Deadline | None = None,
        focus: Focus | None = None,
    ) -> None:
        """Plan for a goal.

        `alike` has planned the same model for another target: its facts about the values are reused. `hinting` finds
        opsets to which refused nodes could be converted. At the deadline, planning raises DeadlineError. With a `focus`
        on some nodes, the first refusal may raise FirstRefusalError.
        """
        self.progress = progress
        self._focus = focus
        self.model = model
        self.source_opset = default_opset(model.opset_import) or 1
        self._analysis = analysis = analysis or Analysis()
        self._alike = alike
        legality = goal.legality
        if legality.target is not None and legality.types is None:
            types = self._occurring
            legality = dataclasses.replace(legality, types=None if types is None else frozenset(types))
        self.goal = dataclasses.replace(goal, legality=legality)
        self.legality = legality
        self._specialisers: Specialisers = analysis.specialisers or (alike._specialisers if alike else Specialisers())
        specialiser = self._specialisers.of(goal.semantics, dequantized=legality.dequantized)
        derive = functools.partial(Deriver, specialiser=specialiser, assume=goal.assume)
        derive = functools.partial(derive, optimize=goal.optimize, explains=hinting, deadline=deadline)
        derive = functools.partial(derive, any_form=goal.any_form)
        plain = derive(legality)
        strict = derive(dataclasses.replace(legality, runnable=True)) if goal.runnable else plain
        self.op_types = OpTypeDecisions(plain, strict, lambda: self._occurring)
        self.ledger = Ledger()
        self._unknown = UnknownTypes(model, analysis.walked)
        self._nodes = NodePlanner(
            plain,
            strict,
            self.op_types,
            self.ledger,
            self._unknown,
            optimize=goal.optimize,
            ir_version=model.ir_version,
        )
        self.functions: Functions = Functions(
            model, self.ledger, self.op_types, self._unknown, self._graph, alike.functions if alike else None
        )
        self._bumped: BumpedNodes = (), ()
        self._firsts: dict[int, int] = {}
        self._walked_by_graph = {id(one.graph): one for one in analysis.walked}
        self._scope: Values | None = None
        self._hints = Hints(legality, self._fits) if hinting else None
        self._others: dict[int, Planner] = {}
        self._decisions: dict[Hashable, dict[Hashable, KnownDecision]] = {}

    @property
    def scope(self) -> Values:
        """The facts about the main graph's values, inferred on first access."""
        if self._scope is None:
            if self._alike:
                self._scope = self._alike.scope
            else:
                whole = functools.partial(describe, self.model, summary=self._analysis.summary)
                main = self._walked_by_graph.get(id(self.model.graph)) or next(walk(self.model))
                self._scope = OnDemandScope(self._analysis.static or StaticFacts(self.model, main), whole)
        return self._scope

    @functools.cached_property
    def _imported(self) -> Mapping[str, int]:
        return {item.domain: item.version for item in self.model.opset_import}

    @functools.cached_property
    def _occurring(self) -> Set[int] | None:
        """The element types that values of the model can have."""
        if self._alike:
            return self._alike._occurring
        return occurring_types(self.model, self._analysis.walked or tuple(walk(self.model)), self.source_opset)

    def run(self) -> Planned:
        """Plan all graphs and functions."""
        main = self._graph(self.model.graph, "main", self.source_opset, None, {})
        graphs = [main]
        for training in self.model.training_info:
            graphs.append(
                self._graph(training.initialization, "training.initialization", self.source_opset, NOTHING, {})
            )
            graphs.append(self._graph(training.algorithm, "training.algorithm", self.source_opset, NOTHING, {}))
        self.functions.plan_the_rest()
        opset, ledger = f"opset {self.legality.opset}", self.ledger
        for name, version in self.functions.imports() if self.source_opset == self.legality.opset else ():
            ledger.steps.append(Step(Action.VERSION_BUMP, f"function {name}", name, version, opset))
        plan = Plan(
            source_opset=self.source_opset,
            target_opset=self.legality.opset,
            target=self.legality.target.name if self.legality.target else "",
            decompose=tuple(sorted(self.legality.decompose)),
            kept=ledger.kept,
            steps=self._steps(),
            refusals=tuple(dict.fromkeys(ledger.refusals)),
            warnings=tuple(dict.fromkeys(ledger.kernel_warnings)),
        )
        only = not self.op_types.has(CONSTANT)
        return Planned(plan, tuple(graphs), self.functions.result(), self._nodes.constants, only)

    def _steps(self) -> Sequence[Step]:
        """Return all steps: those of individually planned nodes, merged with those of the others."""
        steps, bumped, firsts = tuple(self.ledger.steps), self._bumped, self._firsts
        count = len(steps) + sum(len(places) for _, places in bumped[0])
        lowered = [step for step in steps if step.action is Action.LOWER]
        return Steps(count, lowered, lambda: _between(steps, bumped, firsts))

    def forget(self) -> None:
        """Release the facts about the values after planning: planners refer to each other and live longer."""
        self._scope = self._alike = None
        self._analysis, self._walked_by_graph = Analysis(), {}
        self._unknown.forget()
        self._others.clear()
        self._decisions.clear()

    # --- graphs -------------------------------------------------------------------------------------------------------

    def _graph(
        self,
        graph: onnx.GraphProto | onnx.FunctionProto,
        path: str,
        opset: int,
        scope: Values | None,
        bound: Mapping[str, Any] | None,
    ) -> GraphPlan:
        """Plan one graph. `scope` None is the main graph's, inferred on demand; `bound` None leaves parameters open."""
        plan = GraphPlan(path)
        names_to_keep = functools.cache(functools.partial(fixed_names, graph))
        joined = {} if self.op_types.has(CAST) else casts_of_indices(graph)
        dropped = frozenset(joined.values())
        nodes, undecided = graph.node, self._undecided(self._kinds_of(graph), path, opset)
        main = path == "main"
        walked = self._walked_by_graph.get(id(graph))
        if main and isinstance(walked, GraphView) and not joined:
            # Most nodes of a large model need only their names here.
            self._bumped = [(step, places) for step, places in undecided if isinstance(step, Step)], walked.names
            undecided = [(settled, places) for settled, places in undecided if not isinstance(settled, Step)]
        places = sorted(((place, settled) for settled, found_at in undecided for place in found_at), key=itemgetter(0))
        if main and self._focus:
            places = self._focus.ordered(places)
        for count, (index, settled) in enumerate(places):
            if self.progress and main and count % 256 == 0:
                self.progress("plan", index, len(nodes))
            if main:
                self._firsts[index] = len(self.ledger.steps)
            node = nodes[index]
            where = f"{path}/{node_name(node, index)}"
            if isinstance(settled, Step) and index not in joined and index not in dropped:
                self.ledger.steps.append(settled.at(where))
                continue
            values = self.scope if scope is None else scope
            context = NodeContext(node, where, opset, values, bound, self._imported)
            mark = self.ledger.mark()
            change: Change | None
            if index in joined:
                maker = nodes[joined[index]]
                before = f"{path}/{node_name(maker, joined[index])}"
                change = self._nodes.joined(NodeContext(maker, before, opset, values, bound, self._imported), context)
            elif index in dropped:
                change = Drop()
            elif isinstance(settled, dict):
                change = self._like_others(context, index if main else -1, settled)
            else:
                change = self._node(context)
            if isinstance(change, Replace):
                change = self._nodes.without_core_ops(change, node, names_to_keep, values)
            if change is not None:
                plan.changes[index] = change
            self._hint(context, mark)
            for attribute, inner in named_subgraphs(node) if settled is None else ():
                plan.inner[index, attribute] = self._inner(context, attribute, inner)
        if main:
            self._firsts[len(nodes)] = len(self.ledger.steps)
        return plan

    def _inner(self, context: NodeContext, attribute: str, graph: onnx.GraphProto) -> GraphPlan:
        """Plan a subgraph of a node."""
        inside = LazyScope(lambda: context.scope, context.node, attribute)
        plan = self._graph(graph, f"{context.where}.{attribute}", context.opset, inside, context.bound)
        lowered = any(step.action is Action.LOWER for step in self.ledger.steps)
        if lowered or self.legality.opset < 14 <= context.opset:
            plan.notes.update(_noted(context.node, graph, inside))
        return plan

    def _hint(self, context: NodeContext, mark: Mark) -> None:
        """Add the helpful opset to the refusals of a node; those of a called function are inside it."""
        node, refusals = context.node, self.ledger.refusals
        if refusals and self._focus and not self._focus.alone:
            raise FirstRefusalError
        if self._hints is None or not self.ledger.refused_since(mark):
            return
        if (node.domain, node.op_type, node.overload) in self.functions.known:
            return
        refusals[mark.refusals :] = [self._hints.hinted(one, context) for one in refusals[mark.refusals :]]

    def _kinds_of(self, graph: onnx.GraphProto | onnx.FunctionProto) -> Mapping[OpKey, Sequence[int]]:
        walked = self._walked_by_graph.get(id(graph))
        return nodes_by_op_key(graph) if walked is None else walked.by_op_key

    def _undecided(
        self, found: Mapping[OpKey, Sequence[int]], path: str, opset: int
    ) -> list[tuple[Settled, Sequence[int]]]:
        """Return the indices of the nodes by op key, without those that certainly stay.

        Each entry has the common step if the op key determines it; the shared decisions if attributes and inputs
        determine them; or None.
        """
        undecided: list[tuple[Settled, Sequence[int]]] = []
        for op_key, places in found.items():
            domain, name, _ = op_key
            settled: Settled = None
            if default_domain(domain) not in ("", SPELLING) or op_key in self.functions.known or holds_graphs(name):
                pass
            elif not default_domain(domain) and self.op_types.stays(name, opset):
                self.ledger.kept += len(places)
                continue
            else:
                settled = None if default_domain(domain) else self.op_types.version_bump_step(name, opset)
                inside = path.startswith("function "), self._unknown.ignored
                settled = settled or self._decisions.setdefault((op_key, opset, inside), {})
            undecided.append((settled, places))
        return undecided

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _node(self, context: NodeContext) -> Change | None:
        node, domain = context.node, default_domain(context.node.domain)
        if self.functions.known and (key := (node.domain, node.op_type, node.overload)) in self.functions.known:
            return self.functions.call(key, context)
        if domain and domain != SPELLING:
            why = self.legality.why_not_foreign(domain, node.op_type, self._imported.get(domain, 1))
            if why is None:
                self.ledger.kept += 1
                return None
            if refused := foreign.refusal(node, context.where, why, self.legality.target):
                self.ledger.refusals.append(refused)
                return None
            return self._nodes.decide(context)
        if not domain and self.op_types.stays(node.op_type, context.opset):
            self.ledger.kept += 1
            return None
        return self._nodes.decide(context)

    def _like_others(self, context: NodeContext, index: int, known: dict[Hashable, KnownDecision]) -> Change | None:
        """Decide the change of a node as for an earlier node with the same attributes and inputs."""
        node, values, ledger = context.node, context.scope, self.ledger
        alike = values.alike(index) if isinstance(values, OnDemandScope) and index >= 0 else None
        if alike in known:
            return ledger.repeat(known[alike].decision, context.where)
        attributes = attribute_key(node) if node.attribute else ()
        if attributes is None:
            return self._nodes.decide(context)
        inputs = [values[name] if name else None for name in node.input[:]]
        # Equal facts are usually the same object; `KnownDecision` keeps it alive, so that its id stays unique.
        key = attributes, tuple(map(id, inputs)), tuple(map(bool, node.output[:]))
        if key in known:
            return ledger.repeat(known[key].decision, context.where)
        mark = ledger.mark()
        change = self._nodes.decide(context)
        typed = all(facts is None or facts.dtype is not None for facts in inputs)
        if typed and not ledger.refused_since(mark) and not is_folded(change):
            known[key] = KnownDecision(ledger.since(mark, change), tuple(inputs))
            if alike is not None:
                known[alike] = known[key]
        return change

    @functools.cached_property
    def _for_hints(self) -> Deadline:
        return Deadline(SECONDS)

    def _fits(self, context: NodeContext, opset: int) -> bool:
        """Return whether one node can be converted to another opset."""
        if opset not in self._others:
            target = loading(opset, self.legality.target)
            legality = dataclasses.replace(self.legality, opset=opset, target=target)
            goal = dataclasses.replace(self.goal, legality=legality, runnable=False, optimize=False)
            self._others[opset] = Planner(self.model, goal, alike=self, hinting=False, deadline=self._for_hints)
        planner = self._others[opset]
        mark = planner.ledger.mark()
        change = planner._node(dataclasses.replace(context, where=""))
        if isinstance(change, Replace):
            # An output that must keep its name may need an Identity, which supports sequences only since opset 14.
            planner._nodes.without_core_ops(change, context.node, lambda: frozenset(context.node.output), context.scope)
        return not planner.ledger.refused_since(mark)


def _noted(node: onnx.NodeProto, body: onnx.GraphProto, inside: Values) -> Iterator[tuple[str, Facts]]:
    """Yield the types of a body's outputs if onnxruntime needs their shapes and may no longer infer them.

    The kernel of Scan requires the rank of each output, and that of Loop takes the dimensions for zero iterations from
    there (onnxruntime 1.32.0). Lowerings compute shapes that onnx cannot infer; it infers computed shapes of Reshape
    only since opset 14.
    """
    if default_domain(node.domain) or node.op_type not in (LOOP, SCAN):
        return
    # A Loop carries the body's outputs after the condition; without iterations, they are the initial values.
    loop = node.op_type == LOOP
    for value in body.output[len(node.input) - 1 if loop else 0 :]:
        declared = facts_of_type(value.type).shape
        if declared is not None and (not loop or all(isinstance(dim, int) for dim in declared)):
            continue
        facts = inside[value.name]
        if facts is not None and facts.dtype and facts.shape is not None:
            shape = tuple(dim if isinstance(dim, int) else None for dim in facts.shape)
            yield value.name, Facts(facts.dtype, shape)


def _between(steps: Sequence[Step], bumped: BumpedNodes, firsts: Mapping[int, int]) -> tuple[Step, ...]:
    """Merge the steps of version bumps into the other steps, by node index."""
    stepped, names = bumped
    looked = list(firsts)
    found: list[Step] = []
    done = 0
    for place, step in sorted(((place, step) for step, places in stepped for place in places), key=itemgetter(0)):
        before = firsts[looked[bisect.bisect(looked, place)]]
        found += steps[done:before]
        found.append(step.at(f"main/{names[place] or f'{step.operator}_{place}'}"))
        done = before
    return (*found, *steps[done:])


def too_old(opset: int) -> Refusal:
    """Return the refusal of a target below the oldest opset that opshift writes."""
    return Refusal(
        Code.OPSET_TOO_OLD,
        "model",
        "",
        f"the target is opset {opset}, and opshift reads opsets below {OLDEST} but does not write them.",
        f"Use opset {OLDEST} or newer.",
    )
