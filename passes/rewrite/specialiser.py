"""Specialize the body of a lowering: infer, fold, and remove unused and redundant nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from opshift.opsets.operators import constant as constants
from opshift.opsets.registry.facts import Facts, exact
from opshift.opsets.registry.lowering import Body, BodyNode, Function, Lowering, Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Lifted, Node, bound, lift
from opshift.opsets.registry.schema import NEWEST, schema_at
from opshift.opsets.registry.schema_only import operator_of
from opshift.opsets.registry.structural import CONSTANT
from opshift.passes.analysis import schema_bodies
from opshift.passes.analysis.inference import infer
from opshift.passes.base.cache import Cache
from opshift.passes.rewrite.fragment import Constant, Input, Output, ValueRef


class Pending(NamedTuple):
    """A node of a body that must be derived, with the names and facts of its inputs and outputs."""

    node: Node
    inputs: Sequence[str]
    outputs: Sequence[str]
    made: Sequence[Facts]


@dataclass(frozen=True)
class Specialised:
    """The body of a lowering for certain operands.

    Attributes:
        pending: its nodes in order.
        needed: the names of used values and outputs.
        values: the sources of values that are not a node's output, by name.
        outputs: the names of the outputs.
    """

    pending: Sequence[Pending]
    needed: frozenset[str]
    values: Mapping[str, ValueRef]
    outputs: Sequence[str]


_Seen = tuple[Node, tuple[Facts, ...] | Reason, int | None]
"""A node of a body, its inferred facts, and the input that its output repeats, if any."""


class Specialiser:
    """Specializes bodies, and caches their nodes: bodies have many nodes in common."""

    def __init__(self, semantics: str = "runtime", *, dequantized: bool = False) -> None:
        """Store the semantics for lifting; `dequantized` nodes are not folded, and constants stay narrow."""
        self.semantics = semantics
        self.dequantized = dequantized
        self._seen = Cache[_Seen]()
        self._bodies = Cache[tuple[Lowering, Body | Reason]]()
        self._schema_bodies = Cache[Sequence[Body | Reason]]()
        self._specialised = Cache[tuple[Body, Specialised | Reason]]()

    def lift(self, node: Node) -> Lifted | Reason:
        """Return the meaning of a node, or the reason why its meaning is unknown."""
        operator = operator_of(node.domain, node.name)
        if operator is None:
            return Reason(f"no lowering is known for {node.name}")
        return lift(operator, node, self.semantics)

    def bodies(self, lifted: Lifted, lowerings: Iterable[Lowering]) -> Iterator[Body | Reason]:
        """Yield the bodies of lowerings for a meaning, or the reasons why they do not apply."""
        return (self._body(one, lifted) for one in lowerings)

    def _body(self, lowering: Lowering, lifted: Lifted) -> Body | Reason:
        def compute() -> tuple[Lowering, Body | Reason]:
            return lowering, lowering.body_for(lifted.meaning, lifted.operands)

        # The lowering is kept alive, so that its id stays unique.
        return self._bodies.get((id(lowering), lifted.key), compute)[1]

    def schema_bodies(self, lifted: Lifted) -> Sequence[Body | Reason]:
        """Return ONNX's own bodies for a meaning, or the reasons why they do not apply."""
        return self._schema_bodies.get(lifted.key, lambda: tuple(schema_bodies.bodies(lifted)))

    def specialised(self, body: Body, lifted: Lifted) -> Specialised | Reason:
        """Return the nodes of a lowering's body: inferred and folded in order, without unused ones.

        Equal meanings, which plans for several targets share, are analyzed once.
        """
        # The body is kept alive, so that its id stays unique.
        return self._specialised.get((id(body), lifted.key), lambda: (body, self._analyzed(body, lifted)))[1]

    def _analyzed(self, body: Body, lifted: Lifted) -> Specialised | Reason:
        function = body.function
        values: dict[str, tuple[ValueRef, Facts | None]] = dict.fromkeys(("", *function.inputs), (None, None))
        for name, index in zip(function.inputs, body.inputs, strict=False):
            facts = None if index is None else lifted.operands[index]
            if index is not None and facts is not None:
                values[name] = _operand(Input(index), facts)
        pending: list[Pending] = []
        same: dict[str, str] = {}
        # Lowerings of identity operators are for targets without these operators, so they keep such nodes.
        own_idle = _repeats(lifted) is not None
        wanted, more = _outputs(function, len(lifted.used))
        for call in function.calls:
            inputs = tuple([same.get(name, name) for name in call.inputs])
            if inputs and call.inputs[0] and values[inputs[0]] == (None, None):
                same.update(dict.fromkeys(call.outputs, ""))  # an omitted operand has no outputs
                continue
            while inputs and values[inputs[-1]] == (None, None):
                inputs = inputs[:-1]  # a trailing omitted input crashes onnxruntime 1.32.0 (LayerNormalization)
            made = (*call.outputs, *more) if more and function.outputs[-1] in call.outputs else call.outputs
            seen = tuple([values[name][1] for name in inputs])
            node, inferred, idle = self._look(call, body, seen, len(made), lifted)
            if isinstance(inferred, Reason):
                return inferred
            if idle is not None and not own_idle:
                same[call.outputs[0]] = inputs[idle]
                continue
            pending.append(Pending(node, inputs, made, inferred))
            for position, (name, known) in enumerate(zip(made, inferred, strict=True)):
                if name:
                    values[name] = _held(node, known) or _operand(Output(len(pending) - 1, position), known)
        outputs = tuple(same.get(name, name) if used else "" for name, used in zip(wanted, lifted.used, strict=True))
        return _live(pending, values, outputs)

    def _look(
        self, call: BodyNode, body: Body, inputs: tuple[Facts | None, ...], outputs: int, lifted: Lifted
    ) -> _Seen:
        """Return a node of a body, its inferred facts, and the input that its output repeats, if any.

        Equal nodes, which bodies often share, are analyzed once.
        """
        name, attributes = bound(call, body, lifted)
        attribute_key = call.attribute_key if attributes is call.attributes else exact(attributes)
        key = call.domain, name, body.opset, attribute_key, inputs, outputs
        return self._seen.get(key, lambda: self._looked(call, body, name, attributes, inputs, outputs))

    def _looked(
        self,
        call: BodyNode,
        body: Body,
        name: str,
        attributes: Mapping[str, Any],
        inputs: tuple[Facts | None, ...],
        outputs: int,
    ) -> _Seen:
        # onnxscript emits CastLike for a literal at every opset; it is folded or cast if the type is known.
        schema = None if call.domain else schema_at("", name, body.opset) or schema_at("", name, NEWEST)
        since = schema.since_version if schema else 1
        node = Node(call.domain, name, since, attributes, inputs, (True,) * outputs)
        inferred = infer(node)
        own = traits(name, call.domain)
        packed = own.reads_packed and own.reads_packed(attributes)
        if (packed or (self.dequantized and own.marks_quantization)) and not isinstance(inferred, Reason):
            inferred = tuple(Facts(facts.dtype, facts.shape) for facts in inferred)
        return node, inferred, None if isinstance(inferred, Reason) else self._idle(node, inferred)

    def _idle(self, node: Node, outputs: Sequence[Facts]) -> int | None:
        operator = operator_of(node.domain, node.name)
        if operator is None or not (operator.idle or operator.neutral) or not node.inputs or node.inputs[0] is None:
            return None
        lifted = self.lift(node)
        place = None if isinstance(lifted, Reason) else _repeats(lifted, outputs[0])
        return None if isinstance(lifted, Reason) or place is None else lifted.sources[place]


class Specialisers:
    """The specialisers of one model, which all its plans share: they do not depend on a target."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: dict[tuple[str, bool], Specialiser] = {}

    def of(self, semantics: str, *, dequantized: bool) -> Specialiser:
        """Return the specialiser for these semantics."""
        if (semantics, dequantized) not in self._known:
            self._known[semantics, dequantized] = Specialiser(semantics, dequantized=dequantized)
        return self._known[semantics, dequantized]


def _live(
    pending: Sequence[Pending], values: Mapping[str, tuple[ValueRef, Facts | None]], outputs: Sequence[str]
) -> Specialised:
    """Return a body without unused nodes."""
    needed = set(outputs)
    live: list[Pending] = []
    for one in reversed(pending):
        if any(name in needed and isinstance(values[name][0], Output) for name in one.outputs):
            live.append(one)
            needed.update(one.inputs)
    known = {name: ref for name, (ref, _) in values.items() if not isinstance(ref, Output)}
    return Specialised(live[::-1], frozenset(needed), known, outputs)


def _repeats(lifted: Lifted, output: Facts | None = None) -> int | None:
    """Return the operand that a node returns unchanged; None if it changes its operands.

    Without the facts of the output, the result holds for all constants.
    """
    operator = lifted.operator
    if operator.idle and operator.idle(lifted.meaning, lifted.operands):
        return 0
    place = operator.neutral(lifted.meaning, lifted.operands) if operator.neutral and output else None
    one = None if place is None else lifted.operands[place]
    if output is None or one is None or one.shape is None or None in one.shape or one.shape != output.shape:
        return None
    return place


def _operand(ref: ValueRef, facts: Facts) -> tuple[ValueRef, Facts]:
    """Return a constant for a value with known elements, whatever its source; an input stays an input."""
    if isinstance(ref, Output) and facts.known is not None and facts.value is not None:
        return Constant(facts.value, facts.dtype or 0), facts
    return ref, facts


def _held(node: Node, facts: Facts) -> tuple[ValueRef, Facts] | None:
    """Return a large constant of the body as a constant of the fragment."""
    value = constants.tensor(node.attributes) if node.name == CONSTANT and not node.domain else None
    return None if value is None or facts.known is not None else (Constant(value, facts.dtype or 0), facts)


def _outputs(function: Function, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of this number of a body's outputs, and the names that the last output represents.

    The last output of a body represents all following ones, so that one body serves any number of them.
    """
    more = tuple(f"{function.outputs[-1]}:{index}" for index in range(count - len(function.outputs)))
    return (*function.outputs, *more)[:count], more
