"""What must happen to each node of a model so that it is legal on a target; the model itself is left alone.

`Planner` walks every graph and function once. Nodes that are the same to every lowering are derived once.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from operator import itemgetter
from typing import Any

import onnx
from onnx import TensorProto

from opshift.opsets.operators.constant import gives
from opshift.opsets.registry.equivalences import same_meaning
from opshift.opsets.registry.facts import RARE, Facts, facts_of_attribute, facts_of_type, type_name
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.no_conversion import why_absent
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import SPELLING, Lifted, Node, Operator, Outputs, operator_for
from opshift.opsets.registry.schema import NEWEST, OLDEST, Parameter, Schema, default_domain, schema_at, schema_read_at
from opshift.opsets.registry.schema_only import has_body, operator_of
from opshift.opsets.registry.structural import CAST, CONSTANT, IDENTITY, LOOP, SCAN
from opshift.opsets.runtimes.profiles import load_target
from opshift.opsets.runtimes.releases import first_that_loads
from opshift.opsets.runtimes.target import Legality, Target
from opshift.passes.analysis.inference import typed
from opshift.passes.analysis.lazy_inference import Asked, Static
from opshift.passes.analysis.operator_checks import operator_fault
from opshift.passes.analysis.scopes import NOTHING, Scope, Values, default_opset, describe, dtypes, view
from opshift.passes.base.errors import InvalidModelError
from opshift.passes.base.limits import Deadline, DeadlineError
from opshift.passes.base.results import Action, Caution, Code, Plan, Refusal, Step, Steps
from opshift.passes.graph.columnar import Kind
from opshift.passes.graph.traversal import Body, Walked, graphs, kinds, node_name, said, subgraphs, walk
from opshift.passes.rewrite.edits import (
    Carry,
    Change,
    Decision,
    Drop,
    GraphPlan,
    Known,
    Nest,
    Planned,
    Relabel,
    Replace,
)
from opshift.passes.rewrite.function_planner import Functions, bind
from opshift.passes.rewrite.kernel_warnings import caution, kept, lacks_kernel
from opshift.passes.rewrite.lowering_search import (
    Constant,
    Deriver,
    Failure,
    Fragment,
    Input,
    Output,
    operand_sources,
)
from opshift.passes.rewrite.missing_core_ops import closed, folded, given_out, indices_cast, is_folded, pin
from opshift.passes.rewrite.op_type_decisions import ByKind, holds_graphs, occurring

Settled = Step | dict[Hashable, Known] | None
"""What becomes of all nodes of a kind, what has been decided of some, or nothing."""

Renewed = tuple[Sequence[tuple[Step, Sequence[int]]], Sequence[str]]
"""What becomes of nodes of a graph, and where these stand; and the names of all its nodes."""


_HINTING = 10.0
"""Seconds in which other opsets are tried for what is refused."""


class Planner:
    """Plans one model for one target."""

    def __init__(
        self,
        model: onnx.ModelProto,
        legality: Legality,
        semantics: str,
        assume: frozenset[str],
        *,
        runnable: bool,
        progress: Callable[[str, int, int], None] | None = None,
        alike: Planner | None = None,
        hinting: bool = True,
        optimize: bool = False,
        walked: Sequence[Body | Walked] = (),
        static: Static | None = None,
        outline: onnx.ModelProto | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Plan for a target; `runnable` prefers what the installed onnxruntime has kernels for.

        `walked`, `static` and `outline`, the model with inferred types, are what `load` has found out.
        `alike` has planned the same model for another target: what it knows of the values is not inferred again.
        `hinting` looks for the opsets at which refused nodes could be said. `optimize` lowers what is legal too, where
        that is faster. At the deadline planning ends with DeadlineError.
        """
        self.progress = progress
        self.model = model
        self.source = default_opset(model.opset_import) or 1
        self._walked = walked
        if legality.target is not None and legality.types is None:
            types = self._occurring
            legality = dataclasses.replace(legality, types=None if types is None else frozenset(types))
        self.legality = legality
        self.optimize = optimize
        self.plain = Deriver(legality, semantics, assume, optimize=optimize, deadline=deadline)
        strict = dataclasses.replace(legality, runnable=True)
        self.strict = (
            Deriver(strict, semantics, assume, optimize=optimize, deadline=deadline) if runnable else self.plain
        )
        self.kinds = ByKind(self.plain, self.strict, lambda: self._occurring)
        self.steps: list[Step] = []
        self._renewed: Renewed = (), ()
        self._firsts: dict[int, int] = {}
        self.refusals: list[Refusal] = []
        self.cautions: list[Caution] = []
        self.kept = 0
        self._alike = alike
        self._outline = outline
        self._walked_by_graph = {id(one.graph): one for one in walked}
        self._static = static
        self._scope: Values | None = None
        self.functions: Functions = Functions(self, alike.functions if alike else None)
        self._hinting = hinting
        self._others: dict[int, Planner] = {}
        self._hints: dict[tuple[Code, str, str], str] = {}
        self._decisions: dict[Hashable, dict[Hashable, Known]] = {}

    @property
    def scope(self) -> Values:
        """What is known of the main graph's values; inferred when first asked for."""
        if self._scope is None:
            if self._alike:
                self._scope = self._alike.scope
            else:
                whole = functools.partial(describe, self.model, outline=self._outline)
                main = self._walked_by_graph.get(id(self.model.graph)) or next(walk(self.model))
                self._scope = Asked(self._static or Static(self.model, main), whole)
        return self._scope

    @property
    def _target(self) -> str:
        return self.legality.target.name if self.legality.target else ""

    @functools.cached_property
    def _imported(self) -> Mapping[str, int]:
        return {item.domain: item.version for item in self.model.opset_import}

    @functools.cached_property
    def _occurring(self) -> Set[int] | None:
        """The element types that values of the model can have."""
        return occurring(self.model, self._walked or tuple(walk(self.model)), self.source)

    def run(self) -> Planned:
        """Plan all graphs and functions."""
        main = self.graph(self.model.graph, "main", self.source, None, {})
        graphs = [main]
        for training in self.model.training_info:
            graphs.append(self.graph(training.initialization, "training.initialization", self.source, NOTHING, {}))
            graphs.append(self.graph(training.algorithm, "training.algorithm", self.source, NOTHING, {}))
        self.functions.plan_the_rest()
        opset = f"opset {self.legality.opset}"
        for name, version in self.functions.imports() if self.source == self.legality.opset else ():
            self.steps.append(Step(Action.RESTAMP, f"function {name}", name, version, opset))
        plan = Plan(
            source_opset=self.source,
            target_opset=self.legality.opset,
            target=self._target,
            decompose=tuple(sorted(self.legality.decompose)),
            kept=self.kept,
            steps=self._steps(),
            refusals=tuple(dict.fromkeys(self.refusals)),
            warnings=tuple(dict.fromkeys(self.cautions)),
        )
        only = not self.kinds.has(CONSTANT)
        return Planned(plan, tuple(graphs), self.functions.result(), self._has_constants(), only)

    def _steps(self) -> Sequence[Step]:
        """Return all steps: those of the nodes that were looked at, and between them those of the others."""
        steps, renewed, firsts = tuple(self.steps), self._renewed, self._firsts
        count = len(steps) + sum(len(places) for _, places in renewed[0])
        lowered = [step for step in steps if step.action is Action.LOWER]
        return Steps(count, lowered, lambda: _between(steps, renewed, firsts))

    def forget(self) -> None:
        """Let go of what is known of the values, once all is planned: planners hold each other, and so outlive that."""
        self._scope = self._static = self._outline = self._alike = None
        self._walked, self._walked_by_graph = (), {}
        self._others.clear()
        self._decisions.clear()

    def _has_constants(self) -> bool:
        """Below 9 a Constant is a float."""
        schema = schema_at("", CONSTANT, self.legality.opset)
        if schema is None or schema.since_version < 9:
            return False
        return self.legality.why_not(Node("", CONSTANT, schema.since_version, {}, (), (True,))) is None

    # --- graphs and nodes ---------------------------------------------------------------------------------------------

    def graph(
        self,
        graph: onnx.GraphProto | onnx.FunctionProto,
        path: str,
        opset: int,
        scope: Values | None,
        bound: Mapping[str, Any] | None,
    ) -> GraphPlan:
        """Plan one graph. `scope` None is the main graph's, inferred on demand; `bound` None leaves parameters open."""
        plan = GraphPlan(path)
        names_given_out = functools.cache(functools.partial(given_out, graph))
        joined = {} if self.kinds.has(CAST) else indices_cast(graph)
        dropped = frozenset(joined.values())
        walked = self._walked_by_graph.get(id(graph))
        nodes, found = graph.node, self._kinds_of(graph)
        asked = self._asked(found, path, opset)
        main = path == "main"
        if main and isinstance(walked, Body) and not joined:
            # Most nodes of a large model: all that is to be said of them is their names.
            self._renewed = [(step, places) for step, places in asked if isinstance(step, Step)], walked.names
            asked = [(settled, places) for settled, places in asked if not isinstance(settled, Step)]
        places = ((place, settled) for settled, found_at in asked for place in found_at)
        for count, (index, settled) in enumerate(sorted(places, key=itemgetter(0))):
            if self.progress and main and count % 256 == 0:
                self.progress("plan", index, len(nodes))
            if main:
                self._firsts[index] = len(self.steps)
            node = nodes[index]
            where = f"{path}/{node_name(node, index)}"
            refused = len(self.refusals)
            change: Change | None
            if index in joined:
                change = self._joined(nodes[joined[index]], node, path, joined[index], opset, scope)
            elif index in dropped:
                change = Drop()
            elif isinstance(settled, Step):
                self.steps.append(settled.at(where))
                change = None
            elif settled is None:
                change = self._node(node, where, opset, scope, bound)
            else:
                change = self._like_others(node, index if main else -1, where, opset, scope, bound, settled)
            if isinstance(change, Replace):
                change = self._closed(change, node, names_given_out, self.scope if scope is None else scope)
            if change is not None:
                plan.changes[index] = change
            hinting = self._hinting and len(self.refusals) > refused
            if hinting and (node.domain, node.op_type, node.overload) not in self.functions.known:
                for place in range(refused, len(self.refusals)):
                    self.refusals[place] = self._hinted(self.refusals[place], node, opset, scope, bound)
            for attribute, inner in subgraphs(node) if settled is None else ():
                inside = _Lazy(self, scope, node, attribute)
                within = self.graph(inner, f"{where}.{attribute}", opset, inside, bound)
                within.notes.update(self._noted(node, inner, opset, inside))
                plan.inner[index, attribute] = within
        if main:
            self._firsts[len(nodes)] = len(self.steps)
        return plan

    def _kinds_of(self, graph: onnx.GraphProto | onnx.FunctionProto) -> Mapping[Kind, Sequence[int]]:
        walked = self._walked_by_graph.get(id(graph))
        return kinds(graph) if walked is None else walked.kinds

    def _asked(self, found: Mapping[Kind, Sequence[int]], path: str, opset: int) -> list[tuple[Settled, Sequence[int]]]:
        """Return the places of the nodes of each kind that does not say that they stay.

        Beside them stands what settles them: the step, where the kind says that; what has been decided of nodes of this
        kind, where no more than their attributes and inputs counts; or nothing.
        """
        asked: list[tuple[Settled, Sequence[int]]] = []
        for kind, places in found.items():
            domain, name, _ = kind
            settled: Settled = None
            if default_domain(domain) not in ("", SPELLING) or kind in self.functions.known or holds_graphs(name):
                pass
            elif not default_domain(domain) and self.kinds.stays(name, opset):
                self.kept += len(places)
                continue
            else:
                settled = None if default_domain(domain) else self.kinds.renewal(name, opset)
                inside = path.startswith("function "), self.functions.uncalled
                settled = settled or self._decisions.setdefault((kind, opset, inside), {})
            asked.append((settled, places))
        return asked

    def _joined(
        self, node: onnx.NodeProto, cast: onnx.NodeProto, path: str, index: int, opset: int, scope: Values | None
    ) -> Replace | None:
        """Say an index and the Cast behind it at once, for targets that have neither Cast nor integers."""
        where = f"{path}/{node_name(node, index)}"
        values = self.scope if scope is None else scope
        seen, to = view(node, values, opset), view(cast, values, opset).attributes["to"]
        lifted, label = self.plain.lift(seen), f"{seen.name}-{seen.since_version}"
        if isinstance(lifted, Reason):
            self.refuse(*_refused(Failure(lifted, lifted.missing), where, label))
            return None
        lifted = dataclasses.replace(lifted, meaning=dataclasses.replace(lifted.meaning, dtype=to))
        found = self.plain.derive(lifted)
        if isinstance(found, Failure):
            self.refuse(*_refused(found, where, label))
            return None
        why = str(self.legality.why_not(view(cast, values, opset)))
        written, assumes = tuple(leaf.name for leaf in found.nodes), tuple(sorted(found.assumes))
        step = Step(Action.LOWER, where, seen.name, seen.since_version, why, found.lowerings, written, assumes)
        self.steps.append(step)
        return Replace(found, operand_sources(lifted), seen, lifted, where, cast=to, inputs=tuple(node.input))

    def _closed(
        self, change: Replace, node: onnx.NodeProto, given_out: Callable[[], frozenset[str]], values: Values
    ) -> Replace | None:
        """Do without the Identity or Constant that the target does not have."""
        constants = self._has_constants()
        found = closed(change, node, self.plain, given_out, constants=constants)
        if isinstance(found, Failure):
            self.refuse(Code.NO_LOWERING, change.where, change.seen.name, f"{found.reason}.", "")
            return None
        for place, (name, ref) in enumerate(zip(node.output, found.fragment.outputs, strict=True)):
            if name and isinstance(ref, Constant) and place not in found.renamed and not constants:
                # An Identity gives it its name: what needs a constant reads the initializer.
                values.note(name, Facts(ref.dtype, facts_of_attribute(ref.value).shape, ref.value, computed=True))
        return found

    def _hinted(
        self, refusal: Refusal, node: onnx.NodeProto, opset: int, scope: Values | None, bound: Mapping[str, Any] | None
    ) -> Refusal:
        """Add to a refusal the nearest opset at which the node can be said, where another opset helps at all."""
        key = refusal.code, refusal.operator, refusal.reason
        if key not in self._hints:
            self._hints[key] = self._hint(refusal, node, opset, scope, bound)
        return dataclasses.replace(refusal, hint=self._hints[key])

    def _hint(
        self, refusal: Refusal, node: onnx.NodeProto, opset: int, scope: Values | None, bound: Mapping[str, Any] | None
    ) -> str:
        if "opset" in refusal.hint:
            return refusal.hint
        down = self.legality.opset < opset
        between = range(self.legality.opset + 1, opset + 1) if down else range(self.legality.opset - 1, opset - 1, -1)
        try:
            found = next((other for other in between if self._goes(node, other, opset, scope, bound)), None)
        except DeadlineError:  # a hint is not worth a long wait
            found = None
        if found is None:
            if not refusal.hint and node.op_type in self.legality.decompose:
                return f"Remove {node.op_type} from --decompose."
            return refusal.hint
        release = first_that_loads(found, 3) if self.legality.target and self.legality.target.release else None
        where = f": {release.name} loads it first." if release and down else ", if the runtime allows."
        take = f"ake opset {found} or {'newer' if down else 'older'}{where}"
        return f"{refusal.hint.removesuffix('.')}, or t{take}" if refusal.hint else f"T{take}"

    @functools.cached_property
    def _for_hints(self) -> Deadline:
        return Deadline(_HINTING)

    def _goes(
        self, node: onnx.NodeProto, other: int, opset: int, scope: Values | None, bound: Mapping[str, Any] | None
    ) -> bool:
        """Whether one node can be said at another opset."""
        if other not in self._others:
            legality = dataclasses.replace(self.legality, opset=other, target=_loading(other, self.legality.target))
            plain = self.plain
            self._others[other] = Planner(
                self.model,
                legality,
                plain.semantics,
                plain.assume,
                runnable=False,
                alike=self,
                hinting=False,
                deadline=self._for_hints,
            )
        planner = self._others[other]
        before = len(planner.refusals)
        values = planner.scope if scope is None else scope
        change = planner._node(node, "", opset, values, bound)
        if isinstance(change, Replace):
            # An output that must keep its name may need an Identity, which has sequences since 14 only.
            planner._closed(change, node, lambda: frozenset(node.output), values)
        return len(planner.refusals) == before

    def _noted(
        self, node: onnx.NodeProto, body: onnx.GraphProto, opset: int, inside: Values
    ) -> Iterator[tuple[str, Facts]]:
        """Yield the types of what a body returns, where onnxruntime reads shapes off them that may be inferred no more.

        The kernel of Scan requires the rank of each output, and that of Loop has the dimensions of none of its
        iterations from there (onnxruntime 1.32.0). Lowerings compute shapes that onnx does not follow; Reshape has it
        follow computed shapes since 14 only.
        """
        if default_domain(node.domain) or node.op_type not in (LOOP, SCAN):
            return
        if not self.legality.opset < 14 <= opset and not any(step.action is Action.LOWER for step in self.steps):
            return
        # A Loop carries what its body returns after the condition; for no iterations that is as it went in.
        loop = node.op_type == LOOP
        for value in body.output[len(node.input) - 1 if loop else 0 :]:
            declared = facts_of_type(value.type).shape
            if declared is not None and (not loop or all(isinstance(dim, int) for dim in declared)):
                continue
            facts = inside[value.name]
            if facts is not None and facts.dtype and facts.shape is not None:
                yield (
                    value.name,
                    Facts(facts.dtype, tuple(dim if isinstance(dim, int) else None for dim in facts.shape)),
                )

    def _node(
        self, node: onnx.NodeProto, where: str, opset: int, scope: Values | None, bound: Mapping[str, Any] | None
    ) -> Change | None:
        domain = default_domain(node.domain)
        if self.functions.known and (key := (node.domain, node.op_type, node.overload)) in self.functions.known:
            return self.functions.call(key, node, opset, scope, bound)
        if domain and domain != SPELLING:
            if reason := self.legality.why_not_foreign(domain, node.op_type, self._imported.get(domain, 1)):
                self.refuse(Code.ABSENT_OPERATOR, where, f"{domain}::{node.op_type}", f"{reason}.", "")
                return None
            self.kept += 1
            return None
        if not domain and self.kinds.stays(node.op_type, opset):
            self.kept += 1
            return None
        return self._decided(node, where, opset, scope, bound)

    def _like_others(
        self,
        node: onnx.NodeProto,
        index: int,
        where: str,
        opset: int,
        scope: Values | None,
        bound: Mapping[str, Any] | None,
        known: dict[Hashable, Known],
    ) -> Change | None:
        """Decide what becomes of a node as of the first that has the same attributes and inputs."""
        values = self.scope if scope is None else scope
        alike = values.alike(index) if isinstance(values, Asked) and index >= 0 else None
        if alike in known:
            return self._again(known[alike].decision, where)
        told = said(node) if node.attribute else ()
        if told is None:
            return self._decided(node, where, opset, scope, bound)
        inputs = [values[name] if name else None for name in node.input[:]]
        # Facts that are equal are mostly the same object; `Known` keeps it, so that its id is nobody else's.
        key = told, tuple(map(id, inputs)), tuple(map(bool, node.output[:]))
        if key in known:
            return self._again(known[key].decision, where)
        steps, refusals, kept, cautions = len(self.steps), len(self.refusals), self.kept, len(self.cautions)
        change = self._decided(node, where, opset, scope, bound)
        typed = all(facts is None or facts.dtype is not None for facts in inputs)
        if typed and len(self.refusals) == refusals and not is_folded(change):
            decision = Decision(change, tuple(self.steps[steps:]), self.kept - kept, tuple(self.cautions[cautions:]))
            known[key] = Known(decision, tuple(inputs))
            if alike is not None:
                known[alike] = known[key]
        return change

    def _again(self, decision: Decision, where: str) -> Change | None:
        """Do what has been decided of another node."""
        self.steps += [step.at(where) for step in decision.steps]
        self.kept += decision.kept
        self.cautions += [dataclasses.replace(one, node=where) for one in decision.cautions]
        change = decision.change
        return change.at(where) if isinstance(change, Replace) else change

    def _decided(
        self, node: onnx.NodeProto, where: str, opset: int, scope: Values | None, bound: Mapping[str, Any] | None
    ) -> Change | None:
        """Decide what becomes of a node that does not stay as it is whatever is known of it."""
        domain = default_domain(node.domain)
        seen = bind(view(node, self.scope if scope is None else scope, opset), node, bound)
        if self.legality.opset < 13 and any(facts and facts.dtype == TensorProto.BFLOAT16 for facts in seen.inputs):
            label = f"{seen.name}-{seen.since_version}"
            reason = "its input is bfloat16, which no operator takes below opset 13, not even Cast."
            self.refuse(Code.TYPE, where, label, reason, "Take opset 13 or newer, or convert the model to float first.")
            return None
        if not domain and seen.name == SCAN and seen.since_version == 8:
            return self._nested(node, seen, where, bound)
        if any(isinstance(value, Outputs) for value in seen.attributes.values()) and self.legality.computed(seen):
            label = f"{seen.name}-{seen.since_version}"
            reason = f"{self._target} needs a constant input, which the model computes."
            self.refuse(Code.MISSING_FACT, where, label, reason, "Fold it into a constant first.")
            return None
        if asked := self._asked_of_parameters(node, bound):
            label, reason = f"{seen.name}-{seen.since_version}", f"{asked} is a parameter of the function."
            self.refuse(Code.MISSING_FACT, where, label, reason, "Inline the function.")
            return None
        operator = operator_for(domain, node.op_type)
        if domain == SPELLING and (operator is None or operator.domain != SPELLING):
            raise InvalidModelError(f"{node.op_type} at {where}: the domain opshift has HardmaxAxes only.")
        if operator is None:
            return self._relabelled(node, seen, where, opset, bound, scope)
        return self._rewritten(node, seen, operator, where, opset, bound, None, scope)

    def _relabelled(
        self,
        node: onnx.NodeProto,
        seen: Node,
        where: str,
        opset: int,
        bound: Mapping[str, Any] | None,
        scope: Values | None,
    ) -> Change | None:
        """Keep the node of an operator without a file, if the reviewed table lets it pass; else derive it."""
        found = self._relabelling(node, seen, where, opset)
        operator = operator_of("", seen.name)
        if operator and not isinstance(found, Refusal) and self.legality.computed(seen):
            return self._rewritten(node, seen, operator, where, opset, bound, None, scope)
        asked = self.strict is not self.plain and not _open_parameters(node, bound) and not isinstance(found, Refusal)
        lacks = asked and lacks_kernel(seen, opset, self.legality.opset)
        if operator and not isinstance(found, Refusal) and (lacks or self.kinds.loses(seen.name, opset)):
            return self._rewritten(node, seen, operator, where, opset, bound)
        if lacks:
            self.cautions.append(kept(seen, opset, self.legality.opset, where))
        if isinstance(found, Refusal):
            if operator is None or self.legality.why_not(seen) is None:
                self.refusals.append(found)
                return None
            return self._rewritten(node, seen, operator, where, opset, bound, found, scope)
        after = schema_at("", seen.name, self.legality.opset)
        if after is None or after.since_version == seen.since_version:
            self.kept += 1
            return None
        self.steps.append(Step(Action.RESTAMP, where, seen.name, seen.since_version, f"opset {self.legality.opset}"))
        return found

    def _relabelling(
        self, node: onnx.NodeProto, seen: Node, where: str, opset: int
    ) -> Relabel | Carry | Refusal | None:
        """Say what the reviewed table changes in a node, or why it does not let it pass."""
        label = f"{seen.name}-{seen.since_version}"
        before, after = schema_at("", seen.name, opset), schema_at("", seen.name, self.legality.opset)
        if before is None:
            return Refusal(Code.UNKNOWN_OPERATOR, where, seen.name, f"opset {opset} has no {seen.name}.", "")
        if after is None:
            known = why_absent(seen.name)
            known = f"opshift cannot replace it exactly: {known}" if known else "opshift has no replacement for it"
            reason = f"opset {self.legality.opset} has no {seen.name}, and {known}."
            return Refusal(Code.ABSENT_OPERATOR, where, label, reason, "")
        row = same_meaning(seen.name, before.since_version, after.since_version)
        if before.since_version != after.since_version:
            if row is None:
                reason = f"{seen.name}-{after.since_version} differs from it, and no conversion between them is known."
                return Refusal(Code.UNKNOWN_OPERATOR, where, label, reason, "")
            if lost := row.lost(seen.attributes):
                gone = [what for what in lost if what.removeprefix("attribute ") not in after.attributes]
                how = f"has no {', '.join(gone)}" if gone else f"differs in {', '.join(lost)}"
                reason = f"{seen.name}-{after.since_version} {how}."
                return Refusal(Code.NO_LOWERING, where, label, reason, "")
        open_parameters = {item.name for item in node.attribute if item.ref_attr_name} - set(seen.attributes)
        bounded = {*(row.new_attributes if row else ()), *(open_parameters - set(after.attributes))}
        if _gives_fewer(before, after):
            bounded |= open_parameters  # one of them may name the type
        if vague := sorted(open_parameters & bounded):
            reason = f"{', '.join(vague)} is a parameter of the function, and its values are not known."
            return Refusal(Code.MISSING_FACT, where, label, reason, "")
        if shrinks := self._shrinks(seen, before, after):
            return Refusal(Code.MISSING_FACT, where, label, shrinks, "Give the model's inputs element types.")
        drop = tuple(name for name in (row.new_attributes if row else ()) if name in seen.attributes)
        kept = {name: value for name, value in seen.attributes.items() if name not in drop}
        renewed = dataclasses.replace(seen, since_version=after.since_version, attributes=kept)
        carry = seen.name == LOOP and after.since_version == 1 and len(node.input) == 2
        if carry and not self.kinds.has(IDENTITY):
            return Refusal(Code.NO_LOWERING, where, label, "Loop-1 carries a value by Identity.", "")
        if carry:
            renewed = dataclasses.replace(renewed, inputs=(*renewed.inputs, Facts(TensorProto.FLOAT, ())))
        if illegal := self.legality.why_not(renewed) or _output_type(renewed, after):
            if seen.name in self.legality.decompose:
                reason = f"opshift has no decomposition for {seen.name}."
                return Refusal(Code.ABSENT_OPERATOR, where, label, reason, "")
            return Refusal(Code.TYPE, where, label, f"{illegal}, and opshift has no replacement for it.", "")
        return Carry() if carry else Relabel(drop) if drop else None

    def _nested(self, node: onnx.NodeProto, seen: Node, where: str, bound: Mapping[str, Any] | None) -> Nest | None:
        """Plan a Scan-8 inside of another Scan, unless its sequences have lengths of their own."""
        if asked := _open_parameters(node, bound):
            reason = f"{', '.join(asked)} is a parameter of the function."
            self.refuse(Code.MISSING_FACT, where, "Scan-8", reason, "Inline the function.")
            return None
        if any(item.name == "body" and item.ref_attr_name for item in node.attribute):
            self.refuse(Code.NO_LOWERING, where, "Scan-8", "its body is a parameter of the function.", "Inline it.")
            return None
        if "num_scan_inputs" not in seen.attributes:
            self.refuse(Code.MISSING_FACT, where, "Scan-8", "no call gives its num_scan_inputs.", "")
            return None
        after = schema_at("", SCAN, self.legality.opset)
        attributes = {name: value for name, value in seen.attributes.items() if name != "directions"}
        outer = Node("", SCAN, after.since_version if after else 9, attributes, seen.inputs[1:], seen.used)
        why: str | None = self.legality.why_not(outer)
        if seen.inputs[0] is not None:
            why = "each entry of its batch has a length of its own, and since version 9 all have one"
        if why is not None:
            self.refuse(Code.NO_LOWERING, where, "Scan-8", f"{why}.", "")
            return None
        because = f"opset {self.legality.opset} has Scan-{outer.since_version}"
        self.steps.append(Step(Action.LOWER, where, SCAN, 8, because, ("batch",), (SCAN,)))
        return Nest()

    def _rewritten(
        self,
        node: onnx.NodeProto,
        seen: Node,
        operator: Operator,
        where: str,
        opset: int,
        bound: Mapping[str, Any] | None,
        otherwise: Refusal | None = None,
        scope: Values | None = None,
    ) -> Replace | None:
        """Derive a node; `otherwise` is why it cannot be kept, told where ONNX has no body for the operator either."""
        label = f"{seen.name}-{seen.since_version}"
        before, after = schema_read_at("", seen.name, opset), schema_at("", seen.name, self.legality.opset)
        if not seen.domain and before is None:
            self.refuse(Code.UNKNOWN_OPERATOR, where, seen.name, f"opset {opset} has no {seen.name}.", "")
            return None
        why = self.legality.why_not(seen)
        if before and after and (shrinks := self._shrinks(seen, before, after)):
            self.refuse(Code.MISSING_FACT, where, label, shrinks, "Give the model's inputs element types.")
            return None
        if why is not None and why.missing and bound is None and where.startswith("function "):
            # The facts of each call tell, and so does a new plan of the result.
            self.refuse(Code.MISSING_FACT, where, label, f"{why}.", "Give the model's inputs element types and shapes.")
            return None
        slow = self.optimize and traits(seen.name).rivals
        computed = self.legality.computed(seen)
        if (
            why is None
            and not slow
            and not computed
            and (self.strict is self.plain or self.strict.legality.why_not(seen) is None)
        ):
            self.kept += 1
            return None
        if not _open_parameters(node, bound) and (fault := _fault(seen)):
            raise InvalidModelError(f"{label} at {where}: {fault}.")
        derived = self._derived(node, seen, where, bound, kept=why is None)
        unwanted = self.legality.target is not None or seen.name in self.legality.decompose
        # What an open parameter is decides what the elements are.
        foldable = why is not None and unwanted and not _open_parameters(node, bound)
        if foldable and (constants := folded(seen, derived, self.plain)):
            derived = constants
            values = self.scope if scope is None else scope
            for name, ref in zip(node.output, constants[1].outputs, strict=True):
                if name and isinstance(ref, Constant):
                    values.note(name, Facts(ref.dtype, ref.value.array.shape, ref.value))
        if derived is None:
            self.kept += 1
            return None
        if isinstance(derived, Failure):
            if otherwise and not has_body(seen.name):
                self.refusals.append(otherwise)
                return None
            self.refuse(*_refused(derived, where, label))
            return None
        lifted, found = derived
        if refused := self._unwritable(found, where):
            self.refuse(Code.TYPE, where, label, *refused)
            return None
        if self.strict is not self.plain and isinstance(self.strict.derive(lifted), Failure):
            warned = caution(seen, opset, self.legality.opset, found, lifted.operands, where)
            self.cautions += [] if warned is None else [warned]
        sources, pinned = pin(found, lifted, seen, self.legality)
        if pinned and not found.lowerings:
            found = dataclasses.replace(found, lowerings=("constant_inputs",))
            needed = schema_at("", seen.name, self.legality.opset)
            names = ", ".join(one.name for index in computed if needed and (one := needed.input(index)))
            why = why or Reason(f"{self._target} needs a constant {names}, which the model computes")
        written = [leaf.name for leaf in found.nodes]
        unchanged = not found.lowerings and after is not None and _unchanged(node, seen, after, found, sources)
        if why is None and not found.lowerings and before is after:
            self.kept += 1
            return None
        if unchanged:
            self.steps.append(
                Step(Action.RESTAMP, where, seen.name, seen.since_version, f"opset {self.legality.opset}")
            )
            return None
        self.steps.append(
            Step(
                Action.LOWER,
                where,
                seen.name,
                seen.since_version,
                str(why or self.strict.legality.why_not(seen) or "it is slower than what replaces it"),
                found.lowerings,
                tuple(written),
                tuple(sorted(found.assumes)),
            )
        )
        return Replace(found, sources, seen, lifted, where)

    def _derived(
        self, node: onnx.NodeProto, seen: Node, where: str, bound: Mapping[str, Any] | None, *, kept: bool
    ) -> tuple[Lifted, Fragment] | Failure | None:
        """Derive what onnxruntime runs, else what is legal; None if a node that is legal had better stay as it is."""
        if open_parameters := _open_parameters(node, bound):
            return Failure(f"{', '.join(open_parameters)} is a parameter of the function", missing=True)
        lifted = self.strict.lift(seen)
        if isinstance(lifted, Reason):
            if lifted.invalid:
                raise InvalidModelError(f"{seen.name}-{seen.since_version} at {where}: {lifted}.")
            return Failure(lifted, lifted.missing)
        if bound is None and (unsure := self._unsure(lifted)):
            return Failure(unsure, unsure.missing)
        idle = lifted.operator.idle
        if not kept and not self.kinds.has(IDENTITY) and idle and idle(lifted.meaning, lifted.operands):
            return lifted, Fragment((), (Input(0),), ("left_out",), 0.0)
        if not lifted.operator.lowerings and not has_body(lifted.operator.name):
            # What has no other way to be said stays as it is, also where onnxruntime has no kernel for its types.
            found = self.plain.derive(lifted)
            if isinstance(found, Fragment) and not found.lowerings:
                return lifted, found
        found = self.strict.derive(lifted)
        if isinstance(found, Failure) and not kept and idle and idle(lifted.meaning, lifted.operands):
            return lifted, Fragment((), (Input(0),), ("left_out",), 0.0)
        if isinstance(found, Failure) and bound is not None and self.strict is not self.plain:
            if kept:
                return None
            found = self.plain.derive(lifted)
        return found if isinstance(found, Failure) else (lifted, found)

    def _asked_of_parameters(self, node: onnx.NodeProto, bound: Mapping[str, Any] | None) -> str:
        """Name the attributes that the target limits, and that only a call of the function gives."""
        limits = self.legality.target.limits if self.legality.target else ()
        limited = {name for limit in limits if limit.operator == node.op_type for name in limit.attributes}
        return ", ".join(name for name in _open_parameters(node, bound) if name in limited)

    def _unsure(self, lifted: Lifted) -> Reason | None:
        """Say which fact a function must have of its call, for the target's version to be right for sure."""
        schema = schema_at("", lifted.operator.name, self.legality.opset)
        version = lifted.operator.version(schema.since_version) if schema else None
        return version.unsure(lifted.meaning, lifted.operands) if version and version.unsure else None

    @functools.cached_property
    def _nowhere(self) -> frozenset[str]:
        """Rare element types that nothing in the model is declared to be: no value of unknown type is taken for one."""
        walked = self._walked or tuple(walk(self.model))
        found = {*itertools.chain.from_iterable((*dtypes(one.graph), *one.dtypes) for one in walked)}
        declared = {f"tensor({type_name(dtype)})" for dtype in found}
        return frozenset(f"tensor({type_name(dtype)})" for dtype in RARE) - declared

    @functools.cached_property
    def _only_tensors(self) -> bool:
        """Whether no input is a sequence or an optional, and no node of the default domain makes one."""
        walked = self._walked or tuple(walk(self.model))
        names = {name for one in walked for domain, name, _ in one.kinds if not default_domain(domain)}
        return not any(map(_makes_containers, names)) and not any(_takes_containers(one.graph) for one in walked)

    def _lost(self, before: Parameter, after: Parameter) -> bool:
        """Whether a value of unknown type could have one that the target's version lacks."""
        lost = before.types - after.types - self._nowhere
        return any(kind.startswith("tensor(") for kind in lost) if self._only_tensors else bool(lost)

    def _shrinks(self, seen: Node, before: Schema, after: Schema) -> str:
        """Say which input of unknown type could have one that the target's version does not take, if any."""
        if self.functions.uncalled:
            return ""
        for index, facts in enumerate(seen.inputs):
            old, new = before.input(index), after.input(index)
            if facts is not None and not facts.type and old and new and self._lost(old, new):
                return f"the type of {old.name} is unknown, and {seen.name}-{after.since_version} does not take all."
        returned = (value for value in seen.attributes.values() if isinstance(value, Outputs))
        open_types = any(not facts.type for facts in itertools.chain.from_iterable(returned))
        if open_types and self._lost(before.outputs[-1], after.outputs[-1]):
            name = f"{seen.name}-{after.since_version}"
            return f"the type of a value that a graph of it returns is unknown, and {name} does not return all."
        return ""

    def _unwritable(self, fragment: Fragment, where: str) -> tuple[str, str] | None:
        """Say why, and what helps, if the target opset has no way to hold a constant of the fragment."""
        refs = [*fragment.outputs, *(ref for leaf in fragment.nodes for ref in leaf.inputs)]
        dtypes = {ref.dtype for ref in refs if isinstance(ref, Constant)}
        opset = self.legality.opset
        if TensorProto.BFLOAT16 in dtypes and opset < 13:
            return f"opset {opset} has no operator that takes bfloat16.", "Take opset 13 or newer."
        # Functions have no initializers; below 9 they make constants by Cast of floats, of 64-bit integers in halves.
        inside = where.startswith("function ")
        wide = dtypes & {TensorProto.INT64, TensorProto.UINT64}
        needed = (CONSTANT, CAST, "Mul", "Add") if wide and opset < 9 else (CONSTANT, CAST)[: 2 - (opset >= 9)]
        lacking = next((name for name in needed if not self.kinds.has(name)), None)
        if dtypes and inside and lacking:
            return (
                f"a function needs {lacking} for a constant, and the target does not have it.",
                "Inline the function.",
            )
        target = self.legality.target
        if dtypes and not self.kinds.has(CONSTANT) and target and target.ir_version and target.ir_version[1] < 4:
            return "constants are initializers only from ir_version 4 on, and the target has no Constant.", ""
        if inside or self.model.ir_version < 4:
            maker = CONSTANT if opset >= 9 else CAST
            if unheld := [dtype for dtype in sorted(dtypes) if not gives(maker, opset, dtype)]:
                kind = type_name(unheld[0])
                since = next((one for one in range(opset, NEWEST + 1) if gives(CONSTANT, one, unheld[0])), None)
                holder = "a function" if inside else "a model of ir_version 3"
                reason = f"opset {opset} has no {maker} of {kind}, by which {holder} holds a constant."
                return reason, f"Take opset {since} or newer." if since else ""
        uncastable = dtypes & {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128}
        if uncastable and opset < 9 and (inside or self.model.ir_version < 4):
            kind = type_name(min(uncastable))
            reason = f"a function, or a model of ir_version 3, at opset {opset} cannot hold a constant of type {kind}."
            return reason, "Inline the function, or take opset 9 or newer."
        return None

    def refuse(self, code: Code, where: str, operator: str, reason: str, hint: str) -> None:
        """Note that a node, or a function, cannot be converted."""
        self.refusals.append(Refusal(code, where, operator, reason, hint))


def _loading(opset: int, target: Target | None) -> Target | None:
    """Return a target that loads an opset: the first release of onnxruntime for one that is older."""
    release = target.release if target else None
    if release is None or opset <= release.opset:
        return target
    newer = first_that_loads(opset, 3)
    return load_target(newer.name) if newer else target


def _between(steps: Sequence[Step], renewed: Renewed, firsts: Mapping[int, int]) -> tuple[Step, ...]:
    """Put those of the renewed nodes between other steps, of which nodes at some places have their first."""
    kinds, names = renewed
    looked = list(firsts)
    found: list[Step] = []
    done = 0
    for place, step in sorted(((place, step) for step, places in kinds for place in places), key=itemgetter(0)):
        before = firsts[looked[bisect.bisect(looked, place)]]
        found += steps[done:before]
        found.append(step.at(f"main/{names[place] or f'{step.operator}_{place}'}"))
        done = before
    return (*found, *steps[done:])


class _Lazy:
    """The scope of a subgraph, looked up when a value is asked for: most graphs are never asked."""

    def __init__(self, planner: Planner, scope: Values | None, node: onnx.NodeProto, attribute: str) -> None:
        self._of = planner, scope, node, attribute
        self._found: Scope | None = None

    def _scope(self) -> Scope:
        if self._found is None:
            planner, scope, node, attribute = self._of
            self._found = (planner.scope if scope is None else scope).enter(node, attribute)
        return self._found

    def __getitem__(self, name: str) -> Facts | None:
        return self._scope()[name]

    def enter(self, node: onnx.NodeProto, attribute: str) -> Scope:
        return self._scope().enter(node, attribute)

    def note(self, name: str, facts: Facts) -> None:
        self._scope().note(name, facts)


def _fault(node: Node) -> str | None:
    """Say what breaks ONNX's rules in a node, which nobody could tell before its inputs were known: in a function."""
    if not node.domain and traits(node.name).checked:
        return operator_fault(node)
    if _takes_others(node):
        return None
    inferred = typed(node)
    return str(inferred) if isinstance(inferred, Reason) else None


def _takes_others(node: Node) -> bool:
    """Whether an input can be no tensor, so that nothing is known of it: a sequence, say."""
    schema = schema_at(node.domain, node.name, node.since_version)
    parameters = [] if schema is None else [schema.input(index) for index in range(len(node.inputs))]
    return any(one is not None and not any(kind.startswith("tensor(") for kind in one.types) for one in parameters)


@functools.cache
def _makes_containers(name: str) -> bool:
    """Whether an operator of the default domain returns sequences or optionals only."""
    schema = schema_at("", name, NEWEST)
    outputs = () if schema is None else schema.outputs
    return any(not any(kind.startswith("tensor(") for kind in one.types) for one in outputs)


def _takes_containers(graph: onnx.GraphProto | onnx.FunctionProto) -> bool:
    """Whether a graph declares an input to be a sequence or an optional."""
    return isinstance(graph, onnx.GraphProto) and any(not value.type.HasField("tensor_type") for value in graph.input)


def _output_type(node: Node, schema: Schema) -> Reason | None:
    """Ask onnx about a node of which an attribute, and no input, decides the type of an output."""
    given = {parameter.type_variable for parameter in schema.inputs}
    if all(parameter.type_variable in given for parameter in schema.outputs):
        return None
    inferred = typed(node)
    return inferred if isinstance(inferred, Reason) else None


def _gives_fewer(before: Schema, after: Schema) -> bool:
    """Whether an output, whose type no input decides, could once have types that it cannot have after."""
    given = {parameter.type_variable for parameter in before.inputs}
    later = {parameter.name: parameter.types for parameter in after.outputs}
    return any(
        parameter.type_variable not in given and bool(parameter.types - later.get(parameter.name, parameter.types))
        for parameter in before.outputs
    )


def _open_parameters(node: onnx.NodeProto, bound: Mapping[str, Any] | None) -> list[str]:
    """Name the attributes that refer to a function's parameters, where these are not bound yet."""
    return [] if bound is not None else [attribute.name for attribute in node.attribute if attribute.ref_attr_name]


def _unchanged(
    node: onnx.NodeProto, seen: Node, after: Schema, fragment: Fragment, sources: Sequence[int | Constant | None]
) -> bool:
    """Whether a fragment is the node as it stands: the same operator, inputs and, as `after` has them, attributes."""
    if len(fragment.nodes) != 1 or len(node.input) > after.raw.max_input:
        return False
    (leaf,) = fragment.nodes
    operator = operator_for(seen.domain, seen.name)
    version = operator.version(after.since_version) if operator else None
    if version and version.explicit - {attribute.name for attribute in node.attribute}:
        return False
    defaults = {name: default for name, (_, default) in after.attributes.items()}
    places = tuple(sources[ref.operand] if isinstance(ref, Input) else -1 for ref in leaf.inputs)
    given = tuple(index if name else -1 for index, name in enumerate(node.input))
    straight = fragment.outputs == tuple(Output(0, index) for index in range(len(node.output)))
    same = places == given[: len(places)] and all(place == -1 for place in given[len(places) :])
    return (
        leaf.name == seen.name
        and straight
        and same
        and {**defaults, **leaf.attributes} == {**defaults, **seen.attributes}
    )


def _refused(failure: Failure, where: str, label: str) -> tuple[Code, str, str, str, str]:
    code, reason, hint = _refusal(failure)
    return code, where, label, reason, hint


def _refusal(failure: Failure) -> tuple[Code, str, str]:
    """Say a failure as code, reason and hint."""
    reason = f"{failure.reason}."
    if failure.missing:
        constant = "run time" in failure.reason
        hint = "Make it a constant." if constant else "Give the model's inputs element types and shapes."
        return Code.MISSING_FACT, reason, hint
    if failure.assumption:
        return Code.ASSUMPTION, reason, f"Accept it with --assume {failure.assumption}."
    if failure.absent:
        return Code.ABSENT_OPERATOR, reason, ""
    return Code.NO_LOWERING, reason, ""


def written_too_old(model: onnx.ModelProto, own: int) -> Refusal | None:
    """Refuse a model of an opset below the oldest, unless all its operators are at the version that the oldest has."""
    if own >= OLDEST:
        return None
    named = {node.op_type for graph in graphs(model) for node in graph.node if not default_domain(node.domain)}
    pairs = [(schema_at("", name, own), schema_at("", name, OLDEST)) for name in named]
    alike = all(now and then and now.since_version == then.since_version for now, then in pairs)
    return None if alike else too_old(own, "it is written in")


def too_old(opset: int, what: str) -> Refusal:
    """Refuse an opset below the oldest that opshift speaks."""
    return Refusal(
        Code.OPSET_TOO_OLD,
        "model",
        "",
        f"{what} opset {opset}, and below {OLDEST} operators broadcast and infer in other ways.",
        f"Take opset {OLDEST} or newer.",
    )
