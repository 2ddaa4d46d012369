"""What must happen to each node of a model so that it is legal on a target; the model itself is left alone.

`Planner` walks every graph and function once. Nodes that are the same to every lowering are derived once.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto

from opshift.opsets.facts import RARE, Facts, type_name, type_of_facts
from opshift.opsets.kernels import loses
from opshift.opsets.lowering import Reason
from opshift.opsets.no_conversion import why_absent
from opshift.opsets.operator import SPELLING, Lifted, Node, Operator, freeze, operator_for
from opshift.opsets.same_meaning import same_meaning
from opshift.opsets.schema import OLDEST, Schema, attribute_value, default_domain, schema_at, schema_read_at
from opshift.opsets.target import Legality
from opshift.opsets.unfiled import has_body, operator_of
from opshift.passes.derive import (
    RIVALLED,
    Constant,
    Deriver,
    Failure,
    Fragment,
    Input,
    Output,
    Ref,
    operand_sources,
)
from opshift.passes.describe import NOTHING, Scope, default_opset, describe, dtypes, graphs, subgraphs, view
from opshift.passes.errors import InvalidModelError
from opshift.passes.external import node_name
from opshift.passes.infer import infer, make_attribute, typed
from opshift.passes.load import TensorType, operator_fault
from opshift.passes.outcome import Action, Code, Plan, Refusal, Step

COPIES = 64
"""Copies of one function, for as many kinds of calls; a model with more is refused."""

FunctionKey = tuple[str, str, str]


@dataclass(frozen=True)
class Replace:
    """Write a fragment in the place of a node; `sources` says what each operand of the fragment is.

    Outputs that are `renamed` are written by no node: who reads them reads what they are instead. `cast` is the Cast
    behind the node that is replaced together with it, in whose place the fragment stands; `inputs` are the node's then.
    """

    fragment: Fragment
    sources: tuple[int | Constant | None, ...]
    seen: Node
    lifted: Lifted
    where: str
    renamed: tuple[int, ...] = ()
    cast: int | None = None
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Relabel:
    """Keep a node but for attributes that mean nothing at the target's version, or do not exist there."""

    drop: tuple[str, ...]


@dataclass(frozen=True)
class Carry:
    """Give a Loop that carries nothing a value to carry: Loop-1 must have one."""


@dataclass(frozen=True)
class Nest:
    """Put a Scan-8 into a Scan that goes through the batch, of which later versions know nothing."""


@dataclass(frozen=True)
class Call:
    """Call a copy of a function that is made for these inputs."""

    name: str


@dataclass(frozen=True)
class Drop:
    """Write nothing: the Cast that reads the node is replaced together with it."""


Change = Replace | Relabel | Carry | Nest | Call | Drop


@dataclass(frozen=True)
class Decision:
    """What becomes of a node, and of every other that is the same but for its place and its names."""

    change: Change | None
    steps: tuple[Step, ...]
    kept: int

    def at(self, where: str) -> tuple[Change | None, list[Step]]:
        """Return the change and the steps at another place."""
        change = dataclasses.replace(self.change, where=where) if isinstance(self.change, Replace) else self.change
        steps = (
            Step(one.action, where, one.operator, one.since_version, one.why, one.lowerings, one.becomes, one.narrows)
            for one in self.steps
        )
        return change, list(steps)


@dataclass
class GraphPlan:
    """What to do in one graph, by the index of the node; `inner` by node and attribute."""

    path: str
    changes: dict[int, Change] = field(default_factory=dict)
    notes: dict[str, Facts] = field(default_factory=dict)
    """Values whose shapes are to be noted, since the target's versions do not tell them."""
    inner: dict[tuple[int, str], GraphPlan] = field(default_factory=dict)

    def all(self) -> Iterator[GraphPlan]:
        """Yield this plan and those of all graphs inside."""
        yield self
        for plan in self.inner.values():
            yield from plan.all()


@dataclass(frozen=True)
class FunctionPlan:
    """A function of the result: which one it is made of, its name, the attributes that are bound, what to do in it."""

    key: FunctionKey
    name: str
    bound: Mapping[str, Any]
    graph: GraphPlan


@dataclass(frozen=True)
class Planned:
    """A plan with all that carrying it out needs."""

    plan: Plan
    graphs: tuple[GraphPlan, ...]
    """The main graph's, then those of training_info in order."""
    functions: tuple[FunctionPlan, ...]
    constants: bool = False
    """Whether a Constant of any type may stand on the target."""
    initializers: bool = True
    """Whether constants can be initializers only, whatever the ir_version."""


class Planner:
    """Plans one model for one target."""

    def __init__(
        self,
        model: onnx.ModelProto,
        legality: Legality,
        semantics: str,
        allow: frozenset[str],
        *,
        runnable: bool,
        progress: Callable[[str, int, int], None] | None = None,
        alike: Planner | None = None,
        hinting: bool = True,
        optimize: bool = False,
    ) -> None:
        """Plan for a target; `runnable` prefers what the installed onnxruntime has kernels for.

        `alike` has planned the same model for another target: what it knows of the values is not inferred again.
        `hinting` looks for the opsets at which refused nodes could be said. `optimize` lowers what is legal too, where
        that is faster.
        """
        self.progress = progress
        self.model = model
        self.source = default_opset(model.opset_import) or 1
        self.legality = legality
        self.optimize = optimize
        self.plain = Deriver(legality, semantics, allow, optimize=optimize)
        strict = dataclasses.replace(legality, runnable=True)
        self.strict = Deriver(strict, semantics, allow, optimize=optimize) if runnable else self.plain
        self.functions = {(item.domain, item.name, item.overload): item for item in model.functions}
        self.steps: list[Step] = []
        self.refusals: list[Refusal] = []
        self.kept = 0
        self.copies: dict[FunctionKey, list[tuple[Any, FunctionPlan]]] = {}
        self._alike = alike
        self._scope: Scope | None = None
        self._scopes: dict[Hashable, Scope] = alike._scopes if alike else {}
        self._hinting = hinting
        self._others: dict[int, Planner] = {}
        self._hints: dict[tuple[Code, str, str], str] = {}
        self._still: dict[tuple[str, str, int], bool] = {}
        self._decisions: dict[Hashable, Decision] = {}
        self._uncalled = False
        self._generic: dict[FunctionKey, FunctionPlan | None] = {}

    @property
    def scope(self) -> Scope:
        """What is known of the main graph's values; inferred when first asked for."""
        if self._scope is None:
            self._scope = self._alike.scope if self._alike else describe(self.model)
        return self._scope

    def _scope_of(
        self, key: FunctionKey, inputs: Sequence[Facts | None], bound: Mapping[str, Any], *, known: bool
    ) -> Scope:
        """What is known of the values in a function, called so; inferred once for all targets."""
        kind = key, tuple(inputs), tuple(sorted(bound.items(), key=lambda item: item[0])), known
        if kind not in self._scopes:
            self._scopes[kind] = _function_scope(self.model, self.functions[key], inputs, bound, known=known)
        return self._scopes[kind]

    def run(self) -> Planned:
        """Plan all graphs and functions."""
        main = self._graph(self.model.graph, "main", self.source, None, {})
        graphs = [main]
        for training in self.model.training_info:
            graphs.append(self._graph(training.initialization, "training.initialization", self.source, NOTHING, {}))
            graphs.append(self._graph(training.algorithm, "training.algorithm", self.source, NOTHING, {}))
        for key in self.functions:
            if self._as_it_is(key) is None and key not in self.copies:
                # Nobody says which types it is for; it stays one for those that the target takes.
                self._uncalled = True
                self._function(key, (), {}, called=False)
                self._uncalled = False
        for name, version in self._imports():
            self.steps.append(Step(Action.RESTAMP, f"function {name}", name, version, f"opset {self.legality.opset}"))
        copies = [plan for made in self.copies.values() for _, plan in made]
        as_they_are = [plan for plan in self._generic.values() if plan is not None]
        plan = Plan(
            source_opset=self.source,
            target_opset=self.legality.opset,
            target=self.legality.target.name if self.legality.target else "",
            decompose=tuple(sorted(self.legality.decompose)),
            kept=self.kept,
            steps=tuple(self.steps),
            refusals=tuple(dict.fromkeys(self.refusals)),
        )
        unique = {(made.key, made.name): made for made in (*as_they_are, *copies)}
        only = not self._has("Constant")
        return Planned(plan, tuple(graphs), tuple(unique.values()), self._has_constants(), only)

    def _has(self, operator: str) -> bool:
        """Whether the target has an operator of the default domain, be it with limits."""
        target = self.legality.target
        return operator not in self.legality.decompose and (target is None or target.has(operator))

    def _has_constants(self) -> bool:
        """Below 9 a Constant is a float."""
        schema = schema_at("", "Constant", self.legality.opset)
        if schema is None or schema.since_version < 9:
            return False
        return self.legality.why_not(Node("", "Constant", schema.since_version, {}, (), (True,))) is None

    def _imports(self) -> Iterator[tuple[str, int]]:
        """Yield the functions whose opset is another than that of the result, though the model's is the same."""
        if self.source == self.legality.opset:
            for function in self.model.functions:
                version = default_opset(function.opset_import)
                if version not in (None, self.source):
                    yield function.name, version or 0

    # --- graphs and nodes ---------------------------------------------------------------------------------------------

    def _graph(
        self,
        graph: onnx.GraphProto | onnx.FunctionProto,
        path: str,
        opset: int,
        scope: Scope | None,
        bound: Mapping[str, Any] | None,
    ) -> GraphPlan:
        """Plan one graph. `scope` None is the main graph's, inferred on demand; `bound` None leaves parameters open."""
        plan = GraphPlan(path)
        given_out = functools.cache(functools.partial(_given_out, graph))
        joined = {} if self._has("Cast") else _indices_cast(graph)
        for index, node in enumerate(graph.node):
            if self.progress and path == "main" and index % 256 == 0:
                self.progress("plan", index, len(graph.node))
            where = f"{path}/{node_name(node, index)}"
            refused = len(self.refusals)
            if index in joined:
                change: Change | None = self._joined(graph.node[joined[index]], node, path, joined[index], opset, scope)
            elif index in joined.values():
                change = Drop()
            else:
                change = self._node(node, where, opset, scope, bound)
            if isinstance(change, Replace) and not (self._has("Identity") and self._has("Constant")):
                change = self._closed(change, node, given_out)
            if change is not None:
                plan.changes[index] = change
            hinting = self._hinting and len(self.refusals) > refused
            if hinting and (node.domain, node.op_type, node.overload) not in self.functions:
                for place in range(refused, len(self.refusals)):
                    self.refusals[place] = self._hinted(self.refusals[place], node, opset, scope, bound)
            if isinstance(graph, onnx.GraphProto) and (facts := self._untold(node, opset, scope)):
                plan.notes[node.output[0]] = facts
            for attribute, inner in subgraphs(node):
                inside = _Lazy(self, scope, node, attribute)
                found = self._graph(inner, f"{where}.{attribute}", opset, inside, bound)  # type: ignore[arg-type]
                plan.inner[index, attribute] = found
        return plan

    def _joined(
        self, node: onnx.NodeProto, cast: onnx.NodeProto, path: str, index: int, opset: int, scope: Scope | None
    ) -> Replace | None:
        """Say an index and the Cast behind it at once, for targets that have neither Cast nor integers."""
        where = f"{path}/{node_name(node, index)}"
        values = self.scope if scope is None else scope
        seen, to = view(node, values, opset), view(cast, values, opset).attributes["to"]
        lifted, label = self.plain.lift(seen), f"{seen.name}-{seen.since_version}"
        if isinstance(lifted, Reason):
            self._refuse(*_refused(Failure(lifted, lifted.missing), where, label))
            return None
        lifted = dataclasses.replace(lifted, meaning=dataclasses.replace(lifted.meaning, dtype=to))
        found = self.plain.derive(lifted)
        if isinstance(found, Failure):
            self._refuse(*_refused(found, where, label))
            return None
        why = str(self.legality.why_not(view(cast, values, opset)))
        written, narrows = tuple(leaf.name for leaf in found.nodes), tuple(sorted(found.narrows))
        step = Step(Action.LOWER, where, seen.name, seen.since_version, why, found.lowerings, written, narrows)
        self.steps.append(step)
        return Replace(found, operand_sources(lifted), seen, lifted, where, cast=to, inputs=tuple(node.input))

    def _closed(self, change: Replace, node: onnx.NodeProto, given_out: Callable[[], frozenset[str]]) -> Replace | None:
        """Do without the Identity or Constant that gives an output its name, on a target that does not have them.

        Where only nodes read the output, they read what it is instead; else the Identity is lowered like any node.
        """
        fragment = change.fragment
        nodes, outputs, renamed = list(fragment.nodes), list(fragment.outputs), []
        for place, (name, ref) in enumerate(zip(node.output, fragment.outputs, strict=True)):
            own = isinstance(ref, Output) and ref not in fragment.outputs[:place]
            if not name or own or (isinstance(ref, Constant) and self._has_constants()):
                continue
            facts: Facts | None = Facts()
            if isinstance(ref, Constant):
                facts = Facts(ref.dtype, ref.value.array.shape)
            elif isinstance(ref, Input):
                facts = change.lifted.operands[ref.operand]
            found = self._named(facts)
            if isinstance(found, Fragment) and not found.lowerings:
                continue
            if name not in given_out():
                renamed.append(place)
            elif isinstance(found, Failure):
                self._refuse(Code.NO_LOWERING, change.where, change.seen.name, f"{found.reason}.", "")
                return None
            else:
                nodes += [
                    dataclasses.replace(leaf, inputs=_behind(leaf.inputs, len(nodes), ref)) for leaf in found.nodes
                ]
                outputs[place] = Output(len(nodes) - 1, 0)
        closed = dataclasses.replace(fragment, nodes=tuple(nodes), outputs=tuple(outputs))
        return dataclasses.replace(change, fragment=closed, renamed=tuple(renamed))

    def _named(self, facts: Facts | None) -> Fragment | Failure:
        """Derive the node that gives a value another name."""
        schema = schema_at("", "Identity", self.legality.opset)
        node = Node("", "Identity", schema.since_version if schema else 1, {}, (facts,), (True,))
        lifted = self.plain.lift(node)
        return Failure(lifted) if isinstance(lifted, Reason) else self.plain.derive(lifted)

    def _hinted(
        self, refusal: Refusal, node: onnx.NodeProto, opset: int, scope: Scope | None, bound: Mapping[str, Any] | None
    ) -> Refusal:
        """Add to a refusal the nearest opset at which the node can be said, where another opset helps at all."""
        key = refusal.code, refusal.operator, refusal.reason
        if key not in self._hints:
            self._hints[key] = self._hint(refusal, node, opset, scope, bound)
        return dataclasses.replace(refusal, hint=self._hints[key])

    def _hint(
        self, refusal: Refusal, node: onnx.NodeProto, opset: int, scope: Scope | None, bound: Mapping[str, Any] | None
    ) -> str:
        if "opset" in refusal.hint:
            return refusal.hint
        down = self.legality.opset < opset
        between = range(self.legality.opset + 1, opset + 1) if down else range(self.legality.opset - 1, opset - 1, -1)
        found = next((other for other in between if self._goes(node, other, opset, scope, bound)), None)
        if found is None:
            if not refusal.hint and node.op_type in self.legality.decompose:
                return f"Leave {node.op_type} where it is: it is not to be decomposed."
            return refusal.hint
        take = f"ake opset {found} or {'newer' if down else 'older'}, if the runtime allows."
        return f"{refusal.hint.removesuffix('.')}, or t{take}" if refusal.hint else f"T{take}"

    def _goes(
        self, node: onnx.NodeProto, other: int, opset: int, scope: Scope | None, bound: Mapping[str, Any] | None
    ) -> bool:
        """Whether one node can be said at another opset."""
        if other not in self._others:
            legality = dataclasses.replace(self.legality, opset=other)
            plain = self.plain
            self._others[other] = Planner(
                self.model, legality, plain.semantics, plain.allow, runnable=False, alike=self, hinting=False
            )
        planner = self._others[other]
        before = len(planner.refusals)
        planner._node(node, "", opset, planner.scope if scope is None else scope, bound)
        return len(planner.refusals) == before

    def _untold(self, node: onnx.NodeProto, opset: int, scope: Scope | None) -> Facts | None:
        """Return the type of a value of which only newer versions tell the shape.

        onnx follows a shape that is computed since Reshape-14 only, and Scan of onnxruntime 1.31.1 asks for shapes.
        """
        if node.op_type != "Reshape" or default_domain(node.domain) or not self.legality.opset < 14 <= opset:
            return None
        facts = (self.scope if scope is None else scope)[node.output[0]]
        if facts is None or not facts.dtype or facts.shape is None:
            return None
        return Facts(facts.dtype, tuple(dim if isinstance(dim, int) else None for dim in facts.shape))

    def _node(
        self, node: onnx.NodeProto, where: str, opset: int, scope: Scope | None, bound: Mapping[str, Any] | None
    ) -> Change | None:
        domain = default_domain(node.domain)
        if self.functions and (key := (node.domain, node.op_type, node.overload)) in self.functions:
            return self._call(key, node, opset, scope, bound)
        if domain and domain != SPELLING:
            self.kept += 1
            return None
        if not domain and self._stays(node, opset):
            self.kept += 1
            return None
        alike = self._alike_to(node, where, opset, scope)
        if alike is None:
            return self._decided(node, where, opset, scope, bound)
        if alike in self._decisions:
            decision = self._decisions[alike]
            change, added = decision.at(where)
            self.steps += added
            self.kept += decision.kept
            return change
        steps, refusals, kept = len(self.steps), len(self.refusals), self.kept
        change = self._decided(node, where, opset, scope, bound)
        if len(self.refusals) == refusals and not _is_folded(change):
            self._decisions[alike] = Decision(change, tuple(self.steps[steps:]), self.kept - kept)
        return change

    def _alike_to(self, node: onnx.NodeProto, where: str, opset: int, scope: Scope | None) -> Hashable | None:
        """Return all that decides what becomes of a node; None where that is more than the node and its inputs."""
        attributes = []
        for attribute in node.attribute:
            if attribute.ref_attr_name or attribute.type in _LARGE:
                return None
            attributes.append(attribute.SerializeToString(deterministic=True))
        values = self.scope if scope is None else scope
        inputs = tuple([values[name] if name else None for name in node.input])
        if any(facts is not None and facts.dtype is None for facts in inputs):
            return None
        used = tuple(map(bool, node.output))
        inside = where.startswith("function "), self._uncalled
        return node.domain, node.op_type, opset, tuple(attributes), inputs, used, inside

    def _decided(
        self, node: onnx.NodeProto, where: str, opset: int, scope: Scope | None, bound: Mapping[str, Any] | None
    ) -> Change | None:
        """Decide what becomes of a node that does not stay as it is whatever is known of it."""
        domain = default_domain(node.domain)
        seen = _bind(view(node, self.scope if scope is None else scope, opset), node, bound)
        if self.legality.opset < 13 and any(facts and facts.dtype == TensorProto.BFLOAT16 for facts in seen.inputs):
            label = f"{seen.name}-{seen.since_version}"
            reason = "its input is bfloat16, which no operator takes below opset 13, not even Cast."
            self._refuse(
                Code.TYPE, where, label, reason, "Take opset 13 or newer, or convert the model to float first."
            )
            return None
        if not domain and seen.name == "Scan" and seen.since_version == 8:
            return self._nested(seen, where)
        operator = operator_for(domain, node.op_type)
        if domain == SPELLING and (operator is None or operator.domain != SPELLING):
            raise InvalidModelError(f"{node.op_type} at {where}: the domain opshift has HardmaxAxes only.")
        if operator is None:
            return self._relabelled(node, seen, where, opset, bound, scope)
        return self._rewritten(node, seen, operator, where, opset, bound, None, scope)

    def _stays(self, node: onnx.NodeProto, opset: int) -> bool:
        """Whether a node is legal whatever is known of it: same version, nothing that the target asks of it."""
        key = ("", node.op_type, opset)
        if key not in self._still:
            before, after = schema_at("", node.op_type, opset), schema_at("", node.op_type, self.legality.opset)
            target = self.legality.target
            self._still[key] = (
                before is not None
                and after is not None
                and before.since_version == after.since_version
                and node.op_type not in self.legality.decompose
                and not (self.optimize and node.op_type in RIVALLED)
                and not (
                    target
                    and (
                        node.op_type in target.without
                        or (target.operators is not None and node.op_type not in target.operators)
                        or any(limit.operator == node.op_type for limit in target.limits)
                    )
                )
                and not (
                    self.strict is not self.plain and opset != self.legality.opset and _has_lowerings(node.op_type)
                )
                and not self._loses(node.op_type, opset)
            )
        return self._still[key]

    def _loses(self, name: str, opset: int) -> bool:
        """Whether onnxruntime runs an operator at the model's opset, and at the target's only what its body says."""
        return self.strict is not self.plain and loses(name, opset, self.legality.opset)

    def _relabelled(
        self,
        node: onnx.NodeProto,
        seen: Node,
        where: str,
        opset: int,
        bound: Mapping[str, Any] | None,
        scope: Scope | None,
    ) -> Change | None:
        """Keep the node of an operator without a file, if the reviewed table lets it pass; else derive it."""
        found = self._relabelling(node, seen, where, opset)
        operator = operator_of("", seen.name)
        if operator and not isinstance(found, Refusal) and self._loses(seen.name, opset):
            return self._rewritten(node, seen, operator, where, opset, bound)
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
            known = f"there is no other way to say it: {known}" if known else "no lowering of it is known"
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
        if vague := sorted(open_parameters & bounded):
            reason = f"{', '.join(vague)} is a parameter of the function, and its values are not known."
            return Refusal(Code.MISSING_FACT, where, label, reason, "")
        if shrinks := self._shrinks(seen, before, after):
            return Refusal(Code.MISSING_FACT, where, label, shrinks, "Give the model's inputs element types.")
        drop = tuple(name for name in (row.new_attributes if row else ()) if name in seen.attributes)
        kept = {name: value for name, value in seen.attributes.items() if name not in drop}
        renewed = dataclasses.replace(seen, since_version=after.since_version, attributes=kept)
        carry = seen.name == "Loop" and after.since_version == 1 and len(node.input) == 2
        if carry and not self._has("Identity"):
            return Refusal(Code.NO_LOWERING, where, label, "Loop-1 carries a value by Identity.", "")
        if carry:
            renewed = dataclasses.replace(renewed, inputs=(*renewed.inputs, Facts(TensorProto.FLOAT, ())))
        if illegal := self.legality.why_not(renewed) or _output_type(renewed, after):
            code = Code.ABSENT_OPERATOR if seen.name in self.legality.decompose else Code.TYPE
            return Refusal(code, where, label, f"{illegal}, and no lowering of it is known.", "")
        return Carry() if carry else Relabel(drop) if drop else None

    def _nested(self, seen: Node, where: str) -> Nest | None:
        """Plan a Scan-8 inside of another Scan, unless its sequences have lengths of their own."""
        after = schema_at("", "Scan", self.legality.opset)
        attributes = {name: value for name, value in seen.attributes.items() if name != "directions"}
        outer = Node("", "Scan", after.since_version if after else 9, attributes, seen.inputs[1:], seen.used)
        why: str | None = self.legality.why_not(outer)
        if seen.inputs[0] is not None:
            why = "each entry of its batch has a length of its own, and since version 9 all have one"
        if why is not None:
            self._refuse(Code.NO_LOWERING, where, "Scan-8", f"{why}.", "")
            return None
        because = f"opset {self.legality.opset} has Scan-{outer.since_version}"
        self.steps.append(Step(Action.LOWER, where, "Scan", 8, because, ("batch",), ("Scan",)))
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
        scope: Scope | None = None,
    ) -> Replace | None:
        """Derive a node; `otherwise` is why it cannot be kept, told where ONNX has no body for the operator either."""
        label = f"{seen.name}-{seen.since_version}"
        before, after = schema_read_at("", seen.name, opset), schema_at("", seen.name, self.legality.opset)
        if not seen.domain and before is None:
            self._refuse(Code.UNKNOWN_OPERATOR, where, seen.name, f"opset {opset} has no {seen.name}.", "")
            return None
        why = self.legality.why_not(seen)
        if before and after and (shrinks := self._shrinks(seen, before, after)):
            self._refuse(Code.MISSING_FACT, where, label, shrinks, "Give the model's inputs element types.")
            return None
        slow = self.optimize and seen.name in RIVALLED
        if why is None and not slow and (self.strict is self.plain or self.strict.legality.why_not(seen) is None):
            self.kept += 1
            return None
        if not _open_parameters(node, bound) and (fault := _fault(seen, opset)):
            raise InvalidModelError(f"{label} at {where}: {fault}.")
        derived = self._derived(node, seen, where, bound, kept=why is None)
        if why is not None and self.legality.target and (folded := self._folded(seen, derived)):
            derived = folded
            values = self.scope if scope is None else scope
            for name, ref in zip(node.output, folded[1].outputs, strict=True):
                if name and isinstance(ref, Constant):
                    values.note(name, Facts(ref.dtype, ref.value.array.shape, ref.value))
        if derived is None:
            self.kept += 1
            return None
        if isinstance(derived, Failure):
            if otherwise and not has_body(seen.name):
                self.refusals.append(otherwise)
                return None
            self._refuse(*_refused(derived, where, label))
            return None
        lifted, found = derived
        if refused := self._unwritable(found, where):
            self._refuse(Code.TYPE, where, label, *refused)
            return None
        sources = operand_sources(lifted)
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
                tuple(sorted(found.narrows)),
            )
        )
        return Replace(found, sources, seen, lifted, where)

    def _folded(self, seen: Node, derived: tuple[Lifted, Fragment] | Failure | None) -> tuple[Lifted, Fragment] | None:
        """Return constants in the place of a node that the target does not have as it is, where they are known."""
        if isinstance(derived, tuple) and not derived[1].lowerings:
            return None
        lifted, inferred = self.plain.lift(seen), infer(seen)
        if isinstance(lifted, Reason) or isinstance(inferred, Reason):
            return None
        refs = [
            Constant(facts.value, facts.dtype) if facts.known is not None and facts.value and facts.dtype else None
            for facts in inferred
        ]
        if any(used and ref is None for used, ref in zip(seen.used, refs, strict=True)):
            return None
        return lifted, Fragment((), tuple(refs), ("folded",), 0.0)

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
        idle = lifted.operator.idle
        if not kept and not self._has("Identity") and idle and idle(lifted.meaning, lifted.operands):
            return lifted, Fragment((), (Input(0),), ("left_out",), 0.0)
        if not lifted.operator.lowerings and not has_body(lifted.operator.name):
            # What has no other way to be said stays as it is, also where onnxruntime has no kernel for its types.
            found = self.plain.derive(lifted)
            if isinstance(found, Fragment) and not found.lowerings:
                return lifted, found
        found = self.strict.derive(lifted)
        if isinstance(found, Failure) and bound is not None and self.strict is not self.plain:
            if kept:
                return None
            found = self.plain.derive(lifted)
        return found if isinstance(found, Failure) else (lifted, found)

    @functools.cached_property
    def _nowhere(self) -> frozenset[str]:
        """Rare element types that nothing in the model is declared to be: no value of unknown type is taken for one."""
        declared = {f"tensor({type_name(dtype)})" for dtype in dtypes(self.model)}
        return frozenset(f"tensor({type_name(dtype)})" for dtype in RARE) - declared

    def _shrinks(self, seen: Node, before: Schema, after: Schema) -> str:
        """Say which input of unknown type could have one that the target's version does not take, if any."""
        if self._uncalled:
            return ""
        for index, facts in enumerate(seen.inputs):
            old, new = before.input(index), after.input(index)
            if facts is not None and facts.dtype is None and old and new and (old.types - new.types - self._nowhere):
                return f"the type of {old.name} is unknown, and {seen.name}-{after.since_version} does not take all."
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
        needed = ("Constant", "Cast", "Mul", "Add") if wide and opset < 9 else ("Constant", "Cast")[: 2 - (opset >= 9)]
        lacking = next((name for name in needed if not self._has(name)), None)
        if dtypes and inside and lacking:
            return (
                f"a function needs {lacking} for a constant, and the target does not have it.",
                "Inline the function.",
            )
        target = self.legality.target
        if dtypes and not self._has("Constant") and target and target.ir_version and target.ir_version[1] < 4:
            return "constants are initializers only from ir_version 4 on, and the target has no Constant.", ""
        uncastable = dtypes & {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128}
        if uncastable and opset < 9 and (inside or self.model.ir_version < 4):
            kind = type_name(min(uncastable))
            reason = f"a function, or a model of ir_version 3, at opset {opset} cannot hold a constant of type {kind}."
            return reason, "Inline the function, or take opset 9 or newer."
        return None

    def _refuse(self, code: Code, where: str, operator: str, reason: str, hint: str) -> None:
        self.refusals.append(Refusal(code, where, operator, reason, hint))

    # --- functions ----------------------------------------------------------------------------------------------------

    def _call(
        self, key: FunctionKey, node: onnx.NodeProto, opset: int, scope: Scope | None, bound: Mapping[str, Any] | None
    ) -> Call | None:
        function = self.functions[key]
        if bound is None:
            if self._as_it_is(key) is None:
                self._refuse(Code.FUNCTION, function.name, "", "it cannot be planned without facts.", "")
            return None
        defaults = {item.name: freeze(attribute_value(item)) for item in function.attribute_proto}
        seen = _bind(view(node, self.scope if scope is None else scope, opset), node, bound)
        wanted = [*function.attribute, *defaults]
        attributes = {name: seen.attributes.get(name, defaults.get(name)) for name in wanted}
        return self._function(key, seen.inputs, attributes, called=True)

    def _function(
        self, key: FunctionKey, inputs: Sequence[Facts | None], attributes: Mapping[str, Any], *, called: bool
    ) -> Call | None:
        """Plan a function for one kind of call: as it is for all calls, if that needs no facts, else a copy of it."""
        function = self.functions[key]
        if self._as_it_is(key) is not None:
            return None
        made = self.copies.setdefault(key, [])
        kind = tuple(inputs), tuple(sorted((name, value) for name, value in attributes.items() if value is not None))
        for known, plan in made:
            if known == kind:
                return None if plan.name == function.name else Call(plan.name)
        # The first copy keeps the name, so that a function with one kind of call keeps it too.
        name = function.name if not made else self._free_name(function)
        bound = {name: value for name, value in attributes.items() if value is not None}
        if not called:
            bound = {item.name: freeze(attribute_value(item)) for item in function.attribute_proto}
        place = len(made)
        plan = FunctionPlan(key, name, bound, GraphPlan(f"function {function.name}"))
        made.append((kind, plan))
        if place >= COPIES:
            self._refuse(
                Code.FUNCTION,
                f"function {function.name}",
                "",
                f"it is called in more than {COPIES} different ways.",
                "Inline it.",
            )
            return None
        scope = self._scope_of(key, inputs, bound, known=called)
        opset = default_opset(function.opset_import) or self.source
        graph = self._graph(function, f"function {name}", opset, scope, bound)
        done = dataclasses.replace(plan, graph=graph)
        if not any(part.changes for part in graph.all()):
            done = FunctionPlan(key, function.name, {}, graph)
        # Calls of two kinds often come to the same function.
        alike = next((one for _, one in made[:place] if one.bound == done.bound and _same_work(one.graph, graph)), None)
        if alike is None and done.name != name and any(one.name == done.name for _, one in made[:place]):
            done = dataclasses.replace(plan, graph=graph)
        made[place] = (kind, alike or done)
        return None if made[place][1].name == function.name else Call(made[place][1].name)

    def _free_name(self, function: onnx.FunctionProto) -> str:
        taken = {key[1] for key in self.functions} | {plan.name for made in self.copies.values() for _, plan in made}
        return next(name for number in itertools.count(1) if (name := f"{function.name}__{number}") not in taken)

    def _as_it_is(self, key: FunctionKey) -> FunctionPlan | None:
        """Plan a function without facts, once; None, leaving no trace, where that meets any refusal."""
        if key not in self._generic:
            self._generic[key] = None  # a function that calls itself cannot be planned
            function = self.functions[key]
            before = len(self.steps), len(self.refusals), self.kept
            scope = self._scope_of(key, (), {}, known=False)
            opset = default_opset(function.opset_import) or self.source
            plan = self._graph(function, f"function {function.name}", opset, scope, None)
            if len(self.refusals) == before[1]:
                self._generic[key] = FunctionPlan(key, function.name, {}, plan)
            else:
                del self.steps[before[0] :], self.refusals[before[1] :]
                self.kept = before[2]
        return self._generic[key]


def _given_out(graph: onnx.GraphProto | onnx.FunctionProto) -> frozenset[str]:
    """Return the names that must stay what they are: outputs, also of graphs inside, and values that notes speak of."""
    if isinstance(graph, onnx.FunctionProto):
        names = set(graph.output)
    else:
        names = {value.name for value in graph.output}
        for note in graph.quantization_annotation:
            names.add(note.tensor_name)
            names.update(entry.value for entry in note.quant_parameter_tensor_names)
    return frozenset(names).union(*(_given_out(inner) for node in graph.node for _, inner in subgraphs(node)))


def _indices_cast(graph: onnx.GraphProto | onnx.FunctionProto) -> dict[int, int]:
    """Return the Casts that alone read an index, with the ArgMax that gives it."""
    makers = {
        node.output[0]: index
        for index, node in enumerate(graph.node)
        if node.op_type == "ArgMax" and not default_domain(node.domain)
    }
    if not makers:
        return {}
    names = _given_out(graph)
    inner = (name for node in graph.node for _, one in subgraphs(node) for name in _read_in(one))
    readers = Counter(itertools.chain((name for node in graph.node for name in node.input), inner))
    found = {
        index: makers[node.input[0]]
        for index, node in enumerate(graph.node)
        if node.op_type == "Cast" and not default_domain(node.domain) and node.input[0] in makers
    }
    return {
        cast: maker
        for cast, maker in found.items()
        if readers[graph.node[cast].input[0]] == 1 and graph.node[cast].input[0] not in names
        if not any(item.ref_attr_name for place in (cast, maker) for item in graph.node[place].attribute)
    }


def _read_in(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names that the nodes of a graph read, with those of graphs inside."""
    for node in graph.node:
        yield from node.input
        for _, inner in subgraphs(node):
            yield from _read_in(inner)


def _behind(inputs: Sequence[Ref], base: int, ref: Ref) -> tuple[Ref, ...]:
    """Move the inputs of a node that follows `base` others, and whose operand is `ref`."""
    return tuple(
        Output(one.node + base, one.place) if isinstance(one, Output) else ref if isinstance(one, Input) else one
        for one in inputs
    )


_LARGE = frozenset({AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.TENSOR, AttributeProto.SPARSE_TENSOR})
"""Types of attributes that are graphs, or may be as large as weights."""


def _is_folded(change: Change | None) -> bool:
    """Whether a node becomes a constant, of which the scope has been told."""
    return isinstance(change, Replace) and change.fragment.lowerings == ("folded",)


def _same_work(one: GraphPlan, other: GraphPlan) -> bool:
    """Whether two plans write the same into the same graph, whatever they were made for."""

    def work(change: Change) -> object:
        return (change.fragment, change.sources) if isinstance(change, Replace) else change

    return (
        {index: work(change) for index, change in one.changes.items()}
        == {index: work(change) for index, change in other.changes.items()}
        and one.inner.keys() == other.inner.keys()
        and all(_same_work(one.inner[key], other.inner[key]) for key in one.inner)
    )


class _Lazy:
    """The scope of a subgraph, looked up when a value is asked for: most graphs are never asked."""

    def __init__(self, planner: Planner, scope: Scope | None, node: onnx.NodeProto, attribute: str) -> None:
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


def _fault(node: Node, opset: int) -> str | None:
    """Say what breaks ONNX's rules in a node, which nobody could tell before its inputs were known: in a function."""
    if not node.domain and node.name in ("Hardmax", "ArgMax", "OneHot"):
        types = tuple(None if facts is None else TensorType(facts.dtype or 0, _numbers(facts)) for facts in node.inputs)
        return operator_fault(node.name, opset, node.attributes.get("axis"), types)
    if _takes_others(node):
        return None
    inferred = typed(node)
    return str(inferred) if isinstance(inferred, Reason) else None


def _takes_others(node: Node) -> bool:
    """Whether an input can be no tensor, so that nothing is known of it: a sequence, say."""
    schema = schema_at(node.domain, node.name, node.since_version)
    parameters = [] if schema is None else [schema.input(index) for index in range(len(node.inputs))]
    return any(one is not None and not any(kind.startswith("tensor(") for kind in one.types) for one in parameters)


def _numbers(facts: Facts) -> tuple[int | None, ...] | None:
    return None if facts.shape is None else tuple(dim if isinstance(dim, int) else None for dim in facts.shape)


def _output_type(node: Node, schema: Schema) -> Reason | None:
    """Ask onnx about a node of which an attribute, and no input, decides the type of an output."""
    given = {parameter.type_variable for parameter in schema.inputs}
    if all(parameter.type_variable in given for parameter in schema.outputs):
        return None
    inferred = typed(node)
    return inferred if isinstance(inferred, Reason) else None


def _has_lowerings(name: str) -> bool:
    operator = operator_for("", name)
    return operator is not None and bool(operator.lowerings)


def _open_parameters(node: onnx.NodeProto, bound: Mapping[str, Any] | None) -> list[str]:
    """Name the attributes that refer to a function's parameters, where these are not bound yet."""
    return [] if bound is not None else [attribute.name for attribute in node.attribute if attribute.ref_attr_name]


def _bind(seen: Node, node: onnx.NodeProto, bound: Mapping[str, Any] | None) -> Node:
    """Fill in attributes that refer to a function's parameters; one without a value is left out."""
    references = {item.name: item.ref_attr_name for item in node.attribute if item.ref_attr_name}
    if not references or not bound:
        return seen
    given = {name: bound[parameter] for name, parameter in references.items() if bound.get(parameter) is not None}
    return dataclasses.replace(seen, attributes={**seen.attributes, **given})


def _function_scope(
    model: onnx.ModelProto,
    function: onnx.FunctionProto,
    inputs: Sequence[Facts | None],
    bound: Mapping[str, Any],
    *,
    known: bool,
) -> Scope:
    """Describe a function as a graph with these inputs, its parameters bound; `known`: one left out is not there."""
    as_model = onnx.ModelProto(ir_version=max(model.ir_version, 8))
    as_model.opset_import.extend(function.opset_import or model.opset_import)
    for function_of_model in model.functions:
        if function_of_model is not function:
            as_model.functions.append(function_of_model)
    graph = as_model.graph
    graph.name = function.name
    graph.value_info.extend(function.value_info)
    for index, name in enumerate(function.input):
        facts = inputs[index] if index < len(inputs) else None
        value = graph.input.add(name=name)
        if facts is not None and facts.dtype:
            value.type.CopyFrom(type_of_facts(facts))
    graph.node.extend(function.node)
    for name in function.output:
        graph.output.add(name=name)
    bind_attributes(graph, bound)
    given = len(inputs)
    absent = [name for index, name in enumerate(function.input) if known and (index >= given or inputs[index] is None)]
    return describe(as_model, absent)


def bind_attributes(graph: onnx.GraphProto | onnx.FunctionProto, bound: Mapping[str, Any]) -> None:
    """Replace, in place, attributes that refer to parameters by their values; those without a value go."""
    for node in graph.node:
        kept: list[AttributeProto] = []
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                kept.append(attribute)
            elif attribute.ref_attr_name in bound:
                kept.append(make_attribute(attribute.name, bound[attribute.ref_attr_name]))
        if len(kept) != len(node.attribute) or any(item.ref_attr_name for item in node.attribute):
            copies = [AttributeProto.FromString(item.SerializeToString()) for item in kept]
            del node.attribute[:]
            node.attribute.extend(copies)
        for _, inner in subgraphs(node):
            bind_attributes(inner, bound)


def _unchanged(
    node: onnx.NodeProto, seen: Node, after: Schema, fragment: Fragment, sources: Sequence[int | Constant | None]
) -> bool:
    """Whether a fragment is the node as it stands: the same operator, inputs and, as `after` has them, attributes."""
    if len(fragment.nodes) != 1 or len(node.input) > after.raw.max_input:
        return False
    (leaf,) = fragment.nodes
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
    if failure.narrowing:
        return Code.NARROWING, reason, f"Allow it with --allow {failure.narrowing}."
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
