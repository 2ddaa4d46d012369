"""Emit nodes of the target's own operator versions, and compute their cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Lifted, Node, write_native
from opshift.opsets.registry.schema import Schema, schema_at
from opshift.opsets.registry.schema_only import operator_of
from opshift.opsets.runtimes.costs import cost, simplicity
from opshift.opsets.runtimes.kernels import computes_wrongly
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.inference import typed
from opshift.passes.rewrite.fragment import Failure, Fragment, FragmentNode, Input, Output, ValueRef


@dataclass(frozen=True)
class NativeNodes:
    """The nodes of one target; with `optimize`, their costs are measured times."""

    legality: Legality
    optimize: bool = False

    def of(self, lifted: Lifted, *, nested: bool) -> Fragment | Failure:
        """Return the node of the target's own version that expresses a meaning."""
        operator = lifted.operator
        if operator.domain:  # no opset has it: its lowerings report what is missing
            is_step = operator.domain.startswith("opshift")
            return Failure("" if is_step else self.legality.why_not_foreign(operator.domain, operator.name) or "")
        native = write_native(lifted, self.legality.opset)
        if isinstance(native, Reason):
            return Failure(self._lacks(operator.name) or native, native.missing)
        attributes = self.legality.spelled_out(operator.name, native.attributes, lifted.meaning)
        inputs = tuple(None if index is None else lifted.operands[index] for index in native.inputs)
        schema = schema_at("", operator.name, native.since_version)
        count = _count(lifted, schema)
        # In the emitted form: an Attention with nonpad_kv_seqlen must not name the updated past.
        optional = [parameter.optional for parameter in schema.outputs] if schema else []
        named = tuple(
            used or (index < count and not (index < len(optional) and optional[index]))
            for index, used in enumerate(lifted.used)
        )
        node = Node("", operator.name, native.since_version, attributes, inputs, named)
        if reason := self.why_not(node, nested=nested):
            return Failure(reason, reason.missing)
        types = typed(node, written=True)
        if isinstance(types, Reason):
            return Failure(types, types.missing)
        refs: tuple[ValueRef, ...] = tuple(None if index is None else Input(index) for index in native.inputs)
        written = FragmentNode(operator.name, attributes, refs, count)
        outputs = tuple(Output(0, index) if index < count else None for index in range(len(lifted.used)))
        return Fragment((written,), outputs, (), self._cost(node, types, operator.weight))

    def _lacks(self, name: str) -> Reason | None:
        """Return that the target does not support an operator; then the limits of its version are irrelevant."""
        target = self.legality.target
        if target is None or target.release or target.has(name) or schema_at("", name, self.legality.opset) is None:
            return None
        return Reason(f"{target.name} does not support {name}")

    def _cost(self, node: Node, outputs: Sequence[Facts], weight: float) -> float:
        """Return the cost of a node; unsupported operators cost more than any other candidate."""
        spent = cost(node, outputs, weight) if self.optimize else simplicity(node, outputs)
        return spent * (1000 if self.legality.doubtful(node) else 1)

    def why_not(self, node: Node, *, nested: bool) -> Reason | None:
        """Return why the target does not support a node, in a lowering if `nested`."""
        reason = self.legality.why_not(node)
        if reason is None and nested and self.legality.runnable and (wrong := computes_wrongly(node)):
            return Reason(f"in onnxruntime {wrong}")
        return reason

    def unchanged(self, node: Node, made: Sequence[Facts], outputs: int) -> Fragment | None:
        """Return an unchanged node of a lowering, if the target supports it."""
        if self.why_not(node, nested=True) is not None:
            return None
        refs = tuple(None if facts is None else Input(index) for index, facts in enumerate(node.inputs))
        operator = operator_of(node.domain, node.name)
        spent = self._cost(node, made, operator.weight if operator else 1.0)
        written = FragmentNode(node.name, node.attributes, refs, outputs)
        return Fragment((written,), tuple(Output(0, index) for index in range(outputs)), (), spent)


def _count(lifted: Lifted, schema: Schema | None) -> int:
    """Return the number of the node's outputs."""
    if schema and schema.outputs and schema.outputs[-1].variadic:
        # The number is part of the meaning: Split-13 without sizes has as many parts as outputs.
        return len(lifted.used)
    # Unused trailing outputs are omitted, because requesting one may change the meaning (BatchNormalization).
    count = max((index + 1 for index, used in enumerate(lifted.used) if used), default=1)
    return max(count, schema.raw.min_output) if schema else count
