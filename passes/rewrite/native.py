"""Nodes of the target's own operator versions, as they are, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Lifted, Node, write_native
from opshift.opsets.registry.schema import schema_at
from opshift.opsets.registry.schema_only import operator_of
from opshift.opsets.runtimes.costs import cost, simplicity
from opshift.opsets.runtimes.kernels import computes_wrongly
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.inference import typed
from opshift.passes.rewrite.fragment import Failure, Fragment, Input, Output, Ref, Written


@dataclass(frozen=True)
class NativeNodes:
    """The nodes of one target; with `optimize` they cost measured times."""

    legality: Legality
    optimize: bool = False

    def of(self, lifted: Lifted, *, nested: bool) -> Fragment | Failure:
        """Return the node of the target's own version that expresses a meaning."""
        operator = lifted.operator
        if operator.domain:  # no opset has it: what it lacks is told by its lowerings
            return Failure(self.legality.why_not_foreign(operator.domain, operator.name) or "")
        native = write_native(lifted, self.legality.opset)
        if isinstance(native, Reason):
            return Failure(native, native.missing)
        inputs = tuple(None if index is None else lifted.operands[index] for index in native.inputs)
        # Last outputs that nobody names are left out, since to ask for one may change the meaning (BatchNormalization).
        count = max((index + 1 for index, used in enumerate(lifted.used) if used), default=1)
        schema = schema_at("", operator.name, native.since_version)
        count = max(count, schema.raw.min_output) if schema else count
        # As it is written: an Attention with nonpad_kv_seqlen is invalid where it names what the past becomes.
        optional = [parameter.optional for parameter in schema.outputs] if schema else []
        named = tuple(
            used or (index < count and not (index < len(optional) and optional[index]))
            for index, used in enumerate(lifted.used)
        )
        node = Node("", operator.name, native.since_version, native.attributes, inputs, named)
        if reason := self.why_not(node, nested=nested):
            return Failure(reason, reason.missing)
        types = typed(node, written=True)
        if isinstance(types, Reason):
            return Failure(types, types.missing)
        refs: tuple[Ref, ...] = tuple(None if index is None else Input(index) for index in native.inputs)
        written = Written(operator.name, native.attributes, refs, count)
        outputs = tuple(Output(0, index) if index < count else None for index in range(len(lifted.used)))
        return Fragment((written,), outputs, (), self._cost(node, types, operator.weight))

    def _cost(self, node: Node, outputs: Sequence[Facts], weight: float) -> float:
        """Return the cost of a node; if the target may not have it, so much that any other candidate comes first."""
        spent = cost(node, outputs, weight) if self.optimize else simplicity(node, outputs)
        return spent * (1000 if self.legality.doubtful(node) else 1)

    def why_not(self, node: Node, *, nested: bool) -> Reason | None:
        """Return why the target does not support a node, in a lowering if `nested`."""
        reason = self.legality.why_not(node)
        if reason is None and nested and self.legality.runnable and (wrong := computes_wrongly(node)):
            return Reason(f"in onnxruntime {wrong}")
        return reason

    def unchanged(self, node: Node, made: Sequence[Facts], outputs: int) -> Fragment | None:
        """Return a node of a lowering as it is, if the target supports it."""
        if self.why_not(node, nested=True) is not None:
            return None
        refs = tuple(None if facts is None else Input(index) for index, facts in enumerate(node.inputs))
        operator = operator_of(node.domain, node.name)
        spent = self._cost(node, made, operator.weight if operator else 1.0)
        written = Written(node.name, node.attributes, refs, outputs)
        return Fragment((written,), tuple(Output(0, index) for index in range(outputs)), (), spent)
