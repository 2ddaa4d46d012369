"""Plan one node: keep it, bump its version, derive it, or refuse it with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts, facts_of_attribute
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import SPELLING, Lifted, Node, Outputs, operator_for
from opshift.opsets.registry.schema import Schema, default_domain, schema_at, schema_read_at
from opshift.opsets.registry.schema_only import has_body, operator_of
from opshift.opsets.registry.structural import CONSTANT, IDENTITY, SCAN
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.inference import typed
from opshift.passes.analysis.operator_checks import operator_fault
from opshift.passes.analysis.scopes import Values
from opshift.passes.base.errors import InvalidModelError
from opshift.passes.base.plan import Action, Code, Refusal, Step
from opshift.passes.rewrite import foreign
from opshift.passes.rewrite.edits import Change, NestScan, Replace
from opshift.passes.rewrite.fragment import Constant, Failure, Fragment, Input, Output, operand_sources
from opshift.passes.rewrite.kernel_warnings import kept, kernel_warning, lacks_kernel
from opshift.passes.rewrite.ledger import Ledger
from opshift.passes.rewrite.lowering_search import Deriver
from opshift.passes.rewrite.missing_core_ops import constants_without_place, folded, pin, without_core_ops
from opshift.passes.rewrite.node_context import NodeContext
from opshift.passes.rewrite.op_type_decisions import OpTypeDecisions
from opshift.passes.rewrite.unknown_types import UnknownTypes
from opshift.passes.rewrite.version_bump import bumped


class NodeRefusedError(Exception):
    """A node cannot be converted."""

    def __init__(self, refusal: Refusal) -> None:
        """Store the refusal to record."""
        super().__init__(str(refusal))
        self.refusal = refusal


class NodePlanner:
    """Decides for one model and one target, and records the results in the ledger."""

    def __init__(
        self,
        plain: Deriver,
        strict: Deriver,
        decisions: OpTypeDecisions,
        ledger: Ledger,
        unknown: UnknownTypes,
        *,
        optimize: bool,
        ir_version: int,
    ) -> None:
        """Store the derivers: `plain` requires legal nodes, `strict` (possibly the same) also onnxruntime kernels."""
        self.legality = plain.legality
        self._target = self.legality.target.name if self.legality.target else ""
        self._plain = plain
        self._strict = strict
        self._decisions = decisions
        self._ledger = ledger
        self._unknown = unknown
        self._optimize = optimize
        self._ir_version = ir_version
        self.constants = _holds_constants(plain)

    def decide(self, context: NodeContext) -> Change | None:
        """Decide the change of a node that may not stay as it is."""
        try:
            return self._decided(context)
        except NodeRefusedError as refused:
            self._ledger.refusals.append(refused.refusal)
            return None

    def _decided(self, context: NodeContext) -> Change | None:
        node, domain = context.typed_node, default_domain(context.node.domain)
        if self.legality.opset < 13 and any(facts and facts.dtype == TensorProto.BFLOAT16 for facts in node.inputs):
            reason = "its input is bfloat16, which no operator accepts below opset 13, not even Cast."
            hint = _without_bfloat16(self.legality)
            raise _refused(context, Code.TYPE, reason, hint)
        if not domain and node.name == SCAN and node.since_version == 8:
            return self._nested(context)
        if any(isinstance(value, Outputs) for value in node.attributes.values()) and self.legality.computed(node):
            reason = f"{self._target} needs a constant input, which the model computes."
            raise _refused(context, Code.MISSING_FACT, reason, "Fold it into a constant first.")
        if limited := self._limited_parameters(context):
            reason = f"{limited} is a parameter of the function."
            raise _refused(context, Code.MISSING_FACT, reason, "Inline the function.")
        operator = operator_for(domain, context.node.op_type)
        if domain == SPELLING and (operator is None or operator.domain != SPELLING):
            name = context.node.op_type
            raise InvalidModelError(f"{name} at {context.where}: the domain opshift has HardmaxAxes only.")
        return self._version_bumped(context) if operator is None else self._rewritten(context)

    # --- nodes that may stay ------------------------------------------------------------------------------------------

    def _version_bumped(self, context: NodeContext) -> Change | None:
        """Keep the node of an operator without a file if the reviewed table permits; otherwise derive it."""
        node = context.typed_node
        found = bumped(context, self.legality, self._decisions, self._unknown)
        operator = operator_of("", node.name)
        if isinstance(found, Refusal):
            if operator is not None and self.legality.why_not(node) is not None:
                return self._rewritten(context, found)
            raise NodeRefusedError(found)
        if operator and self.legality.computed(node):
            return self._rewritten(context)
        lacks = self._lacks_kernel(context)
        if operator and (lacks or self._decisions.loses(node.name, context.opset)):
            return self._rewritten(context)
        if lacks:
            self._ledger.kernel_warnings.append(kept(node, context.opset, self.legality.opset, context.where))
        after = schema_at("", node.name, self.legality.opset)
        if after is None or after.since_version == node.since_version:
            self._ledger.kept += 1
            return None
        self._ledger.steps.append(self._bump(context))
        return found

    def _lacks_kernel(self, context: NodeContext) -> bool:
        """Return whether onnxruntime runs a node now but not unchanged at the target's version, if that matters."""
        asked = self._strict is not self._plain and not context.open_parameters
        return asked and lacks_kernel(context.typed_node, context.opset, self.legality.opset)

    def _bump(self, context: NodeContext) -> Step:
        node = context.typed_node
        return Step(Action.VERSION_BUMP, context.where, node.name, node.since_version, f"opset {self.legality.opset}")

    def _nested(self, context: NodeContext) -> NestScan:
        """Plan a Scan-8 inside another Scan, unless its sequences have individual lengths."""
        node = context.typed_node
        if asked := context.open_parameters:
            reason = f"{', '.join(asked)} is a parameter of the function."
            raise _refused(context, Code.MISSING_FACT, reason, "Inline the function.")
        if any(item.name == "body" and item.ref_attr_name for item in context.node.attribute):
            raise _refused(context, Code.NO_LOWERING, "its body is a parameter of the function.", "Inline it.")
        if "num_scan_inputs" not in node.attributes:
            raise _refused(context, Code.MISSING_FACT, "no call gives its num_scan_inputs.")
        after = schema_at("", SCAN, self.legality.opset)
        attributes = {name: value for name, value in node.attributes.items() if name != "directions"}
        outer = Node("", SCAN, after.since_version if after else 9, attributes, node.inputs[1:], node.used)
        why: str | None = self.legality.why_not(outer)
        if node.inputs[0] is not None:
            why = "each entry of its batch has a length of its own, and since version 9 all have one"
        if why is not None:
            raise _refused(context, Code.NO_LOWERING, f"{why}.")
        because = f"opset {self.legality.opset} has Scan-{outer.since_version}"
        self._ledger.steps.append(Step(Action.LOWER, context.where, SCAN, 8, because, ("batch",), (SCAN,)))
        return NestScan()

    def _limited_parameters(self, context: NodeContext) -> str:
        """Return the attributes that the target limits, and whose values depend on the function's call."""
        limits = self.legality.target.limits if self.legality.target and context.open_parameters else ()
        limited = {name for limit in limits if limit.operator == context.node.op_type for name in limit.attributes}
        return ", ".join(name for name in context.open_parameters if name in limited)

    # --- nodes that are derived ---------------------------------------------------------------------------------------

    def _rewritten(self, context: NodeContext, otherwise: Refusal | None = None) -> Replace | None:
        """Derive a node; `otherwise` is the refusal used if ONNX has no function body for the operator either."""
        node = context.typed_node
        before, after = _versions(context, self.legality.opset)
        if not node.domain and before is None:
            reason = f"opset {context.opset} has no {node.name}."
            raise NodeRefusedError(Refusal(Code.UNKNOWN_OPERATOR, context.where, node.name, reason, ""))
        why = self.legality.why_not(node)
        if before and after and (untaken := self._unknown.not_taken(node, before, after)):
            raise _refused(context, Code.MISSING_FACT, untaken, "Give the model's inputs element types.")
        if why is not None and why.missing and context.bound is None and context.in_function:
            # The facts of each call decide, as does a new plan of the result.
            hint = "Give the model's inputs element types and shapes."
            raise _refused(context, Code.MISSING_FACT, f"{why}.", hint)
        if why is None and self._stays(node):
            self._ledger.kept += 1
            return None
        if not context.open_parameters and (fault := _fault(node)):
            raise InvalidModelError(f"{context.label} at {context.where}: {fault}.")
        derived = self._derived(context, kept=why is None)
        if why is not None:
            derived = self._folded(context, derived) or derived
        if derived is None:
            if not node.domain and self._lacks_kernel(context):
                self._ledger.kernel_warnings.append(kept(node, context.opset, self.legality.opset, context.where))
            self._ledger.kept += 1
            return None
        if isinstance(derived, Failure):
            if otherwise and not has_body(node.name):
                raise NodeRefusedError(otherwise)
            if (missing := self.legality.absent_type(node)) is not None:
                raise _refused(context, Code.TYPE, f"{missing}.", "Change it with --types.")
            code, reason, hint, details = _refusal(derived)
            if node.domain and code in (Code.ABSENT_OPERATOR, Code.NO_LOWERING):
                code, hint = Code.FOREIGN_OPERATOR, hint or foreign.hint(node.domain)
            raise _refused(context, code, reason, hint, details)
        return self._replaced(context, *derived, why)

    def _stays(self, node: Node) -> bool:
        """Return whether a legal node may keep its form."""
        if (self._optimize and traits(node.name).rivals) or self.legality.computed(node):
            return False
        return self._strict is self._plain or self._strict.legality.why_not(node) is None

    def _derived(self, context: NodeContext, *, kept: bool) -> tuple[Lifted, Fragment] | Failure | None:
        """Derive a fragment that onnxruntime runs, else a legal one; return None if a legal node should stay."""
        if asked := context.open_parameters:
            return Failure(f"{', '.join(asked)} is a parameter of the function", missing=True)
        lifted = self._strict.lift(context.typed_node)
        if isinstance(lifted, Reason):
            if lifted.invalid:
                raise InvalidModelError(f"{context.label} at {context.where}: {lifted}.")
            return Failure(lifted, lifted.missing)
        if context.bound is None and (unsure := self._unsure(lifted)):
            return Failure(unsure, unsure.missing)
        idle = not kept and bool(lifted.operator.idle and lifted.operator.idle(lifted.meaning, lifted.operands))
        left_out = Fragment((), (Input(0),), ("left_out",), 0.0)
        if idle and not self._decisions.has(IDENTITY):
            return lifted, left_out
        if not lifted.operator.has_lowerings and not lifted.operator.domain and not has_body(lifted.operator.name):
            # A node without another form stays unchanged, even without an onnxruntime kernel for its types.
            found = self._plain.derive(lifted)
            if isinstance(found, Fragment) and not found.lowerings:
                return lifted, found
        found = self._strict.derive(lifted)
        if isinstance(found, Failure) and idle:
            return lifted, left_out
        if isinstance(found, Failure) and context.bound is not None and self._strict is not self._plain:
            if kept:
                return None
            found = self._plain.derive(lifted)
        return found if isinstance(found, Failure) else (lifted, found)

    def _unsure(self, lifted: Lifted) -> Reason | None:
        """Return the fact that a function needs from its call to guarantee the target's version."""
        schema = schema_at(lifted.operator.domain, lifted.operator.name, self.legality.opset)
        version = lifted.operator.version(schema.since_version) if schema else None
        return version.unsure(lifted.meaning, lifted.operands) if version and version.unsure else None

    def _folded(
        self, context: NodeContext, derived: tuple[Lifted, Fragment] | Failure | None
    ) -> tuple[Lifted, Fragment] | None:
        """Return constants in place of a node that must be replaced, if its outputs are known."""
        unwanted = self.legality.target is not None or self.legality.decomposes(
            context.typed_node.domain, context.typed_node.name
        )
        # The elements depend on the unbound parameter.
        if not unwanted or context.open_parameters:
            return None
        constants = folded(context.typed_node, derived, self._plain)
        if constants is None:
            return None
        for name, ref in zip(context.node.output, constants[1].outputs, strict=True):
            if name and isinstance(ref, Constant):
                context.scope.note(name, Facts(ref.dtype, ref.value.array.shape, ref.value))
        return constants

    def _replaced(self, context: NodeContext, lifted: Lifted, found: Fragment, why: Reason | None) -> Replace | None:
        """Replace a node by a fragment, unless the fragment is that node."""
        node, opset = context.typed_node, self.legality.opset
        inside = context.in_function
        if refused := constants_without_place(
            found, self.legality, self._decisions, ir_version=None if inside else self._ir_version
        ):
            raise _refused(context, Code.TYPE, *refused)
        if self._strict is not self._plain and isinstance(self._strict.derive(lifted), Failure):
            warned = kernel_warning(node, context.opset, opset, found, lifted.operands, context.where)
            self._ledger.kernel_warnings += [] if warned is None else [warned]
        before, after = _versions(context, self.legality.opset)
        sources, pinned = pin(found, lifted, node, self.legality)
        if pinned and not found.lowerings:
            found = dataclasses.replace(found, lowerings=("constant_inputs",))
            inputs = [after.input(index) for index in self.legality.computed(node)] if after else []
            names = ", ".join(one.name for one in inputs if one)
            why = why or Reason(f"{self._target} needs a constant {names}, which the model computes")
        if not found.lowerings:
            if why is None and before is after:
                self._ledger.kept += 1
                return None
            stands = after is not None and _stands(self.legality, node, after)
            if after is not None and stands and _unchanged(context, after, lifted, found, sources, self._plain):
                self._ledger.steps.append(self._bump(context))
                return None
        because = str(why or self._strict.legality.why_not(node) or "it is slower than what replaces it")
        self._lowered(context, because, found)
        return Replace(found, sources, node, lifted, context.where)

    def _lowered(self, context: NodeContext, because: str, found: Fragment) -> None:
        """Record that a fragment replaces a node."""
        written, assumes = tuple(leaf.name for leaf in found.nodes), tuple(sorted(found.assumes))
        node = context.typed_node
        self._ledger.steps.append(
            Step(
                Action.LOWER,
                context.where,
                context.operator,
                node.since_version,
                because,
                found.lowerings,
                written,
                assumes,
            )
        )

    # --- targets without Identity, Constant or Cast -------------------------------------------------------------------

    def joined(self, context: NodeContext, cast: NodeContext) -> Replace | None:
        """Fuse an index and the following Cast, for targets without Cast and integers."""
        try:
            return self._joined(context, cast)
        except NodeRefusedError as refused:
            self._ledger.refusals.append(refused.refusal)
            return None

    def _joined(self, context: NodeContext, cast: NodeContext) -> Replace:
        lifted, to = self._plain.lift(context.typed_node), cast.typed_node.attributes["to"]
        if isinstance(lifted, Reason):
            raise _refused(context, *_refusal(Failure(lifted, lifted.missing)))
        lifted = dataclasses.replace(lifted, meaning=dataclasses.replace(lifted.meaning, dtype=to))
        found = self._plain.derive(lifted)
        if isinstance(found, Failure):
            raise _refused(context, *_refusal(found))
        self._lowered(context, str(self.legality.why_not(cast.typed_node)), found)
        inputs = tuple(context.node.input)
        return Replace(
            found, operand_sources(lifted), context.typed_node, lifted, context.where, cast=to, inputs=inputs
        )

    def without_core_ops(
        self, change: Replace, node: onnx.NodeProto, fixed_names: Callable[[], frozenset[str]], values: Values
    ) -> Replace | None:
        """Replace the Identity or Constant that the target does not support."""
        found = without_core_ops(change, node, self._plain, fixed_names, constants=self.constants)
        if isinstance(found, Failure):
            self._ledger.refuse(Code.NO_LOWERING, change.where, change.typed_node.name, f"{found.explanation}.")
            return None
        for place, (name, ref) in enumerate(zip(node.output, found.fragment.outputs, strict=True)):
            if name and isinstance(ref, Constant) and place not in found.renamed and not self.constants:
                # An Identity names it: nodes that need a constant read the initializer.
                values.note(name, Facts(ref.dtype, facts_of_attribute(ref.value).shape, ref.value, computed=True))
        return found


def _refused(context: NodeContext, code: Code, reason: str, hint: str = "", details: str = "") -> NodeRefusedError:
    return NodeRefusedError(Refusal(code, context.where, context.label, reason, hint, details))


def _without_bfloat16(legality: Legality) -> str:
    """Return the fix if no operator accepts bfloat16: an opset that does, if the target loads one."""
    if legality.target is not None and legality.target.opset[1] < 13:
        return _TO_FLOAT
    return f"Use opset 13 or newer, or {_TO_FLOAT[0].lower()}{_TO_FLOAT[1:]}"


_TO_FLOAT = "Change it to float with --types bfloat16=float, and --io-types if it is that of inputs or outputs."


def _holds_constants(deriver: Deriver) -> bool:
    """Return whether the target supports a Constant of every type: below opset 9 only floats."""
    schema = schema_at("", CONSTANT, deriver.legality.opset)
    if schema is None or schema.since_version < 9:
        return False
    return deriver.legality.why_not(Node("", CONSTANT, schema.since_version, {}, (), (True,))) is None


def _fault(node: Node) -> str | None:
    """Return the ONNX rule that a node violates, if this became known only with its inputs, in a function."""
    if not node.domain and traits(node.name).checked:
        return operator_fault(node)
    if _takes_others(node):
        return None
    inferred = typed(node)
    return str(inferred) if isinstance(inferred, Reason) else None


def _takes_others(node: Node) -> bool:
    """Return whether an input may be a non-tensor, such as a sequence, without known facts."""
    schema = schema_at(node.domain, node.name, node.since_version)
    parameters = [] if schema is None else [schema.input(index) for index in range(len(node.inputs))]
    return any(
        one is not None and not any(type_text.startswith("tensor(") for type_text in one.types) for one in parameters
    )


_NEGATIVE = 11
"""The first opset whose versions permit a negative axis."""


def _stands(legality: Legality, node: Node, after: Schema) -> bool:
    """Return whether the target accepts an unchanged node of its own version: the axis may have to change."""
    renewed = dataclasses.replace(node, since_version=after.since_version)
    written = not legality.unwritten(node.name, node.attributes)
    return written and (legality.target is None or legality.why_not(renewed) is None)


def _unchanged(
    context: NodeContext,
    after: Schema,
    lifted: Lifted,
    fragment: Fragment,
    sources: Sequence[int | Constant | None],
    deriver: Deriver,
) -> bool:
    """Return whether a fragment is the unchanged node: the same operator, inputs and attributes of `after`.

    A negative axis may differ from the equivalent nonnegative one.
    """
    proto, node = context.node, context.typed_node
    if len(fragment.nodes) != 1 or len(proto.input) > after.raw.max_input:
        return False
    (leaf,) = fragment.nodes
    operator = operator_for(node.domain, node.name)
    version = operator.version(after.since_version) if operator else None
    if version and version.explicit - {attribute.name for attribute in proto.attribute}:
        return False
    defaults = {name: default for name, (_, default) in after.attributes.items()}
    places = tuple(sources[ref.operand] if isinstance(ref, Input) else -1 for ref in leaf.inputs)
    present = tuple(index if name else -1 for index, name in enumerate(proto.input))
    straight = fragment.outputs == tuple(Output(0, index) for index in range(len(proto.output)))
    same = places == present[: len(places)] and all(place == -1 for place in present[len(places) :])
    if leaf.name != node.name or not straight or not same:
        return False
    written, own = {**defaults, **leaf.attributes}, {**defaults, **node.attributes}
    if written == own:
        # LpPool-1 has a float p, and LpPool-2 an integer.
        return all(isinstance(value, float) == isinstance(own[name], float) for name, value in written.items())
    if (
        after.since_version < _NEGATIVE
        or written.keys() != own.keys()
        or any(written[name] != own[name] for name in own if name != "axis")
    ):
        return False
    there = deriver.lift(dataclasses.replace(node, since_version=after.since_version))
    return isinstance(there, Lifted) and (there.key, there.sources) == (lifted.key, lifted.sources)


def _refusal(failure: Failure) -> tuple[Code, str, str, str]:
    """Return a failure as code, reason, hint and details."""
    reason, details = f"{failure.explanation}.", f"{failure.details}."
    details = "" if details == reason else details
    if failure.missing:
        constant = "run time" in details or "run time" in reason
        hint = "Make it a constant." if constant else "Give the model's inputs element types and shapes."
        return Code.MISSING_FACT, reason, hint, details
    if failure.assumption:
        return Code.ASSUMPTION, reason, f"Accept it with --assume {failure.assumption}.", details
    return (Code.ABSENT_OPERATOR if failure.absent else Code.NO_LOWERING), reason, "", details


def _versions(context: NodeContext, target: int) -> tuple[Schema | None, Schema | None]:
    """Return the node's version of the operator and the target opset's; an opset has no foreign operators."""
    node = context.typed_node
    if node.domain:
        return schema_read_at(node.domain, node.name, node.since_version), None
    return schema_read_at("", node.name, context.opset), schema_at("", node.name, target)
