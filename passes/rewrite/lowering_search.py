"""Derivations: how the meaning of a node is said with what the target has, by the cheapest way.

A lowering is an edge from a meaning to the nodes of its body, specialised to what is known of the operands. A body's
nodes are derived in turn until every leaf is legal. This is a pure function of the node and the target; models and
names are not in it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.operators import constant as constants
from opshift.opsets.registry.facts import (
    FLOATS,
    Elsewhere,
    Facts,
    Tensor,
    constant,
    exact,
    facts_of_attribute,
    type_name,
)
from opshift.opsets.registry.lowering import Body, Call, Function, Lowering, Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import SPELLING, Lifted, Node, lift, write_native
from opshift.opsets.registry.schema import NEWEST, schema_at
from opshift.opsets.registry.schema_only import operator_of
from opshift.opsets.registry.structural import CAST, CONSTANT, IDENTITY, LOOP
from opshift.opsets.registry.wider_types import COMPUTED
from opshift.opsets.runtimes.costs import cost, simplicity
from opshift.opsets.runtimes.kernels import computes_wrongly
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.inference import form, infer, typed
from opshift.passes.analysis.schema_bodies import bodies
from opshift.passes.base.limits import Deadline
from opshift.passes.base.results import ASSUMPTIONS, Way

DEPTH = 24
"""Lowerings within lowerings; none is known that nests more than half as deep."""

FASTER = 0.9
"""The share of a kernel's cost that a lowering may have at most, to go in its place."""

MUCH_FASTER = 0.5
"""The same where more dimensions are unknown than that of a batch: costs are those of dimensions of nominal lengths."""


OF_A_LOOP = 1e6
"""What a Loop costs, so that it is taken only where nothing else is."""

REMEMBERED = 4096
"""Nodes of bodies that are remembered, and what is derived of them: more would be as many as a model has shapes."""


class Input(NamedTuple):
    """The operand of the node that is replaced."""

    operand: int


class Constant(NamedTuple):
    """A constant and its element type."""

    value: Tensor
    dtype: int


class Output(NamedTuple):
    """An output of a node of the fragment."""

    node: int
    place: int


Ref = Input | Constant | Output | None
"""Where a value comes from; None is an input left out."""


@dataclass(frozen=True)
class Iteration:
    """The body of a Loop: input 0 is the number of the iteration, then come those carried; all others are outside."""

    fragment: Fragment
    carries: tuple[Facts, ...]
    rows: tuple[Facts, ...]
    """What each iteration gives besides: for none of them, onnxruntime 1.32.0 reads the rank off what is declared."""


@dataclass(frozen=True)
class Written:
    """A node of a fragment.

    A Loop has a `body`, and besides its own inputs those values from outside that its body reads.
    """

    name: str
    attributes: Mapping[str, Any]
    inputs: tuple[Ref, ...]
    outputs: int
    body: Iteration | None = None

    @functools.cached_property
    def form(self) -> tuple[onnx.NodeProto, Any, Any]:
        """The node to be filled in, and its lists of inputs and outputs."""
        return form(self.name, self.attributes)


@dataclass(frozen=True)
class Fragment:
    """The nodes that say a meaning on the target, in order, and where each output comes from."""

    nodes: tuple[Written, ...]
    outputs: tuple[Ref, ...]
    lowerings: tuple[str, ...]
    cost: float
    assumes: frozenset[str] = frozenset()
    rounds: bool = False
    """Whether it computes the same only but for rounding."""
    ways: tuple[Way, ...] = field(default=(), compare=False)
    """What it was chosen from, itself among them."""

    @functools.cached_property
    def made(self) -> tuple[tuple[tuple[Output, str], ...], ...]:
        """What each node makes, and how the names of new values end."""
        return tuple(
            tuple(
                (Output(place, position), f"/{leaf.name}:{position}" if leaf.outputs > 1 else f"/{leaf.name}.out")
                for position in range(leaf.outputs)
            )
            for place, leaf in enumerate(self.nodes)
        )


@dataclass(frozen=True)
class Failure:
    """Why there is no derivation: the operator's own reason, then the nearest lowering's, and what is missing."""

    reason: str
    missing: bool = False
    assumption: str = ""
    busy: frozenset[Hashable] = frozenset()
    """Meanings that were being derived already, on which it leaned: where they are not, it says nothing."""
    beside: bool = False
    """It does not apply, whatever the target has."""
    absent: bool = False
    """The target's opset does not have the operator."""
    dear: bool = False
    """It costs as much as another way, or more; how much is not known."""


class Deriver:
    """Derives nodes for one target, and remembers what it has found; equal nodes are derived once."""

    def __init__(
        self,
        legality: Legality,
        semantics: str = "runtime",
        assume: frozenset[str] = frozenset(),
        *,
        optimize: bool = False,
        explains: bool = True,
        deadline: Deadline | None = None,
    ) -> None:
        """Derive for this target until the deadline; `assume` holds the assumptions that the user accepts.

        With `optimize` a node that is legal is lowered too, where that is faster for the shapes known. Unless it
        `explains`, failures do not name an assumption with which there is a derivation.
        """
        self.optimize = optimize
        self.explains = explains
        self.deadline = deadline
        self.legality = legality
        self.semantics = semantics
        # Inputs that hold neither infinities nor NaN hold no NaN.
        self.assume = assume | {"no-nan"} if "finite-inputs" in assume else assume
        self._memo: dict[Any, Fragment | Failure] = {}
        self._nested: dict[Any, Fragment | Failure] = {}
        self._failed: dict[Any, list[Failure]] = {}
        self._seen: dict[Hashable, tuple[Node, tuple[Facts, ...] | Reason, int | None]] = {}
        self._freer: dict[frozenset[str], Deriver] = {}

    def lift(self, node: Node) -> Lifted | Reason:
        """Return the meaning of a node, or why it has none that is known."""
        operator = operator_of(node.domain, node.name)
        if operator is None:
            return Reason(f"no lowering is known for {node.name}")
        return lift(operator, node, self.semantics)

    def derive(self, lifted: Lifted, stack: tuple[Any, ...] = ()) -> Fragment | Failure:
        """Return the cheapest way to say a meaning on the target; inputs are numbered as its operands are.

        Raises:
            DeadlineError: there is no time left to find it.
        """
        # A node that the model has may rely on what onnxruntime gets wrong, as it did before; a lowering may not.
        key = *lifted.key, bool(stack)
        memo = self._nested if stack else self._memo
        if (known := memo.get(key)) is not None:
            return known
        if self.deadline:
            self.deadline.check()
        if key in stack:
            return Failure(f"{lifted.operator.name} leads back to itself", busy=frozenset({key}))
        if len(stack) >= DEPTH:
            return Failure("lowerings nest too deep", busy=frozenset({DEPTH}))
        for failure in self._failed.get(key, ()):
            if all(other in stack for other in failure.busy):
                return failure
        found = native = self._native(lifted, nested=bool(stack))
        if not all(facts is None or facts.holdable for facts in lifted.operands):
            return Failure("an input has more elements than memory holds")
        rivalled = self.optimize and traits(lifted.operator.name).rivals
        if isinstance(found, Failure):
            found = self._cheapest(lifted, (*stack, key), found)
        elif rivalled:
            lifted = lifted if stack else _named(lifted)
            most = (FASTER if _static(lifted) or _of_a_batch(lifted) else MUCH_FASTER) * found.cost
            other = self._cheapest(lifted, (*stack, key), Failure("it is legal"), most if stack else math.inf)
            if (
                isinstance(other, Fragment)
                and not other.rounds
                and other.cost < most
                and self._pays(lifted, other, stack)
            ):
                found = dataclasses.replace(other, ways=(*other.ways, Way("native", found.cost)))
        if isinstance(found, Failure) and isinstance(native, Failure) and found.assumption and not stack:
            if enough := self._enough(lifted):
                reason = f"{native.reason}, and what can replace it is valid only under an assumption"
                found = dataclasses.replace(found, reason=reason, missing=False, assumption=enough)
            else:
                found = dataclasses.replace(found, assumption="")
        if isinstance(found, Failure) and key in found.busy:
            found = dataclasses.replace(found, busy=found.busy - {key})  # no way around itself is no reason elsewhere
        if isinstance(found, Fragment) or not found.busy:
            memo[key] = found
        else:
            self._failed.setdefault(key, []).append(found)
        if not stack and len(self._nested) > REMEMBERED:
            self._nested.clear()
        if not stack:
            self._failed.clear()
        return found

    def _pays(self, lifted: Lifted, way: Fragment, stack: tuple[Any, ...]) -> bool:
        """Return whether a way pays whatever the size of a batch: for one of it too, as far as the rest is known."""
        if stack or not _of_a_batch(lifted):
            return True
        one = self.derive(_one_of(lifted))
        return isinstance(one, Fragment) and one.lowerings[:1] == way.lowerings[:1]

    def _enough(self, lifted: Lifted) -> str:
        """Return the assumption with which there is a derivation, the empty string where none is enough."""
        if not self.explains or not self._derives_with(frozenset(ASSUMPTIONS), lifted):
            return ""
        others = (assumption for assumption in ASSUMPTIONS if assumption not in self.assume)
        return next((one for one in others if self._derives_with(frozenset({one}), lifted)), "")

    def _derives_with(self, assumptions: frozenset[str], lifted: Lifted) -> bool:
        """Return whether there is a derivation with these assumptions too."""
        freer = self._freer.get(assumptions)
        if freer is None:
            assume = self.assume | assumptions
            freer = Deriver(self.legality, self.semantics, assume, explains=False, deadline=self.deadline)
            self._freer[assumptions] = freer
        return isinstance(freer.derive(lifted), Fragment)

    def _native(self, lifted: Lifted, *, nested: bool) -> Fragment | Failure:
        operator = lifted.operator
        if operator.domain:
            return Failure(f"no runtime has {operator.domain}::{operator.name}")
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
        if reason := self._why_not(node, nested=nested):
            return Failure(reason, reason.missing)
        types = typed(node, written=True)
        if isinstance(types, Reason):
            return Failure(types, types.missing)
        refs: tuple[Ref, ...] = tuple(None if index is None else Input(index) for index in native.inputs)
        written = Written(operator.name, native.attributes, refs, count)
        outputs = tuple(Output(0, index) if index < count else None for index in range(len(lifted.used)))
        return Fragment((written,), outputs, (), self._cost(node, types, operator.weight))

    def _cost(self, node: Node, outputs: Sequence[Facts], weight: float) -> float:
        """Return what a node costs; so much where the target may not have it that any other way is taken first."""
        spent = cost(node, outputs, weight) if self.optimize else simplicity(node, outputs)
        return spent * (1000 if self.legality.doubtful(node) else 1)

    def _why_not(self, node: Node, *, nested: bool) -> Reason | None:
        reason = self.legality.why_not(node)
        if reason is None and nested and self.legality.runnable and (wrong := computes_wrongly(node)):
            return Reason(f"in onnxruntime {wrong}")
        return reason

    def _cheapest(
        self, lifted: Lifted, stack: tuple[Any, ...], native: Failure, most: float = math.inf
    ) -> Fragment | Failure:
        """Take the way that costs least; a failure too where each costs `most` or more.

        Ways to say a node of the model are told in reports, with their costs. Of others none is followed beyond what
        the best so far costs.
        """
        nested = len(stack) > 1
        if isinstance(lifted.meaning, constants.Constant) and lifted.meaning.value is not None:
            value = lifted.meaning.value
            dtype = facts_of_attribute(value).dtype or 0
            if isinstance(value, Elsewhere) and self.legality.opset < 9 and dtype not in FLOATS:
                # A function says these as floats and a Cast, of which the elements must be known.
                return Failure(
                    f"opset {self.legality.opset} has constants of floats only, and its elements are in a file"
                )
            return Fragment((), (Constant(value, dtype),), ("initializer",), 0.0)
        tried: list[tuple[Body | _Wide | Reason, Fragment | Failure]] = []
        for ways in self._ways(lifted):
            best: Fragment | None = None
            limit = most
            for way in ways:
                if best and not best.rounds and not isinstance(way, Reason) and way.rounds:
                    tried.append((way, Failure("it rounds otherwise")))
                    continue
                found = self._by(way, lifted, stack, limit)
                tried.append((way, found))
                if isinstance(found, Fragment) and (
                    best is None or (found.rounds, found.cost) < (best.rounds, best.cost)
                ):
                    best = found
                    limit = min(most, best.cost) if nested and not best.rounds else most
            if best:
                return best if nested else dataclasses.replace(best, ways=tuple(starmap(_told, tried)))
            if any(isinstance(found, Failure) and found.dear for _, found in tried):
                break
        failures = [found for _, found in tried if isinstance(found, Failure)]
        nearest = min(
            failures,
            key=lambda failure: (not failure.missing, not failure.assumption, failure.beside, bool(failure.busy)),
            default=None,
        )
        return Failure(
            _joined(native.reason, nearest.reason if nearest else ""),
            missing=native.missing or any(failure.missing for failure in failures),
            assumption=next((failure.assumption for failure in failures if failure.assumption), ""),
            busy=frozenset().union(*(failure.busy for failure in failures)),
            absent=schema_at("", lifted.operator.name, self.legality.opset) is None,
        )

    def _ways(self, lifted: Lifted) -> Iterator[Iterator[Body | _Wide | Reason]]:
        """Yield groups of ways, each of which is only for what none before it can say.

        They are those that are taken for their speed whatever others cost, the operator's lowerings and its meaning in
        wider element types, and ONNX's own bodies: some lose digits, such as a variance by squares.
        """
        faster: tuple[Lowering, ...] = ()
        if self.optimize and not lifted.operator.domain:
            # Of no use without measured costs, and not loaded then.
            module = importlib.import_module("opshift.opsets.faster")
            faster = module.LOWERINGS.get(lifted.operator.name, ())
            yield _bodies(lifted, (one for one in faster if one in module.AT_RUN_TIME))
            faster = tuple(one for one in faster if one not in module.AT_RUN_TIME)
        yield itertools.chain(_bodies(lifted, (*lifted.operator.lowerings, *faster)), _wider(lifted))
        yield bodies(lifted)

    def _by(
        self, way: Body | _Wide | Reason, lifted: Lifted, stack: tuple[Any, ...], limit: float
    ) -> Fragment | Failure:
        """Derive a meaning in this way, unless it costs as much as the limit or needs an assumption not made."""
        if isinstance(way, Reason):
            return Failure(way, way.missing, beside=True)
        if isinstance(way, _Wide):
            found = self._around(way, stack)
        elif refused := way.assumes - self.assume:
            return Failure(f"{way.name} needs an assumption", assumption=", ".join(sorted(refused)))
        elif way.carries is not None:
            found = self._looped(way, way.carries, lifted, stack)
        else:
            found = self._specialise(way, lifted, stack, limit)
        return dataclasses.replace(found, reason=f"{way.name}: {found.reason}") if isinstance(found, Failure) else found

    def _looped(self, body: Body, carries: int, lifted: Lifted, stack: tuple[Any, ...]) -> Fragment | Failure:
        """Derive one iteration, and put it into a Loop, which the target must have too."""
        opset, count, others = self.legality.opset, lifted.operands[0], lifted.operands[1:]
        # What is carried is of one type and shape, and differs from one iteration to the next.
        carried = tuple(Facts(facts.dtype, facts.shape) if facts else Facts() for facts in others[:carries])
        going = Facts(TensorProto.BOOL, ())
        for name, inputs, made in ((LOOP, (count, None, *carried), len(lifted.used)), (IDENTITY, (going,), 1)):
            schema = schema_at("", name, opset)
            node = Node("", name, schema.since_version if schema else 1, {}, inputs, (True,) * made)
            if reason := self._why_not(node, nested=True):
                return Failure(reason)
        inside = (Facts(TensorProto.INT64, ()), *carried, *others[carries:])
        whole = dataclasses.replace(lifted, operands=inside, used=(True,) * len(lifted.used))
        found = self._specialise(body, whole, stack, math.inf)
        if isinstance(found, Failure):
            return found
        refs = tuple(None if facts is None else Input(index) for index, facts in enumerate(lifted.operands))
        given = lifted.operator.facts(lifted.meaning, lifted.operands) if lifted.operator.facts else ()
        rows = tuple(Facts(facts.dtype, None if facts.shape is None else facts.shape[1:]) for facts in given[carries:])
        loop = Written(LOOP, {}, (refs[0], None, *refs[1:]), len(lifted.used), Iteration(found, carried, rows))
        outputs = tuple(Output(0, index) for index in range(len(lifted.used)))
        return dataclasses.replace(found, nodes=(loop,), outputs=outputs, cost=found.cost + OF_A_LOOP)

    def _around(self, wide: _Wide, stack: tuple[Any, ...]) -> Fragment | Failure:
        """Derive a meaning in a carrier, between two casts that the target must have too."""
        schema = schema_at("", CAST, self.legality.opset)
        for source, to in ((wide.dtype, wide.carrier), (wide.carrier, wide.dtype)):
            node = Node("", CAST, schema.since_version if schema else 1, {"to": to}, (Facts(source),), (True,))
            if reason := self._why_not(node, nested=True):
                return Failure(reason)
        found = self.derive(wide.lifted, stack)
        return found if isinstance(found, Failure) else wide.around(found)

    def _specialise(self, body: Body, lifted: Lifted, stack: tuple[Any, ...], limit: float) -> Fragment | Failure:
        """Derive a lowering's body: infer and fold from the top, drop what nobody needs, then derive each node."""
        function = body.function
        values: dict[str, tuple[Ref, Facts | None]] = dict.fromkeys(("", *function.inputs), (None, None))
        for name, index in zip(function.inputs, body.inputs, strict=False):
            facts = None if index is None else lifted.operands[index]
            if index is not None and facts is not None:
                values[name] = _operand(Input(index), facts)
        pending: list[tuple[Node, Sequence[str], Sequence[str], Sequence[Facts]]] = []
        same: dict[str, str] = {}
        # The lowerings of what does nothing are for targets that do not have it: they write what does nothing as well.
        own_idle = _repeats(lifted) is not None
        wanted, more = _outputs(function, len(lifted.used))
        for call in function.calls:
            inputs = tuple([same.get(name, name) for name in call.inputs])
            if inputs and inputs[0] and values[inputs[0]] == (None, None):
                same.update(dict.fromkeys(call.outputs, ""))  # of an operand left out nothing is made
                continue
            made = (*call.outputs, *more) if more and function.outputs[-1] in call.outputs else call.outputs
            seen = tuple([values[name][1] for name in inputs])
            node, inferred, idle = self._look(call, body, seen, len(made), lifted)
            if isinstance(inferred, Reason):
                return Failure(inferred, inferred.missing)
            if idle is not None and not own_idle:
                same[call.outputs[0]] = inputs[idle]
                continue
            pending.append((node, inputs, made, inferred))
            for position, (name, known) in enumerate(zip(made, inferred, strict=True)):
                if name:
                    values[name] = _held(node, known) or _operand(Output(len(pending) - 1, position), known)
        outputs = tuple(same.get(name, name) if used else "" for name, used in zip(wanted, lifted.used, strict=True))
        return self._assemble(body, pending, values, outputs, stack, limit)

    def _look(
        self, call: Call, body: Body, inputs: tuple[Facts | None, ...], outputs: int, lifted: Lifted
    ) -> tuple[Node, tuple[Facts, ...] | Reason, int | None]:
        """Return a node of a body, what is inferred of it, and which input its output repeats, if it does nothing.

        Bodies have much in common, and nodes that are equal are looked at once.
        """
        name, attributes = _bound(call, body, lifted)
        said = call.said if attributes is call.attributes else exact(attributes)
        key = call.domain, name, body.opset, said, inputs, outputs
        if key not in self._seen:
            if len(self._seen) >= REMEMBERED:
                self._seen.clear()
            # onnxscript writes CastLike for a literal at any opset; it is folded, or cast, wherever the type is known.
            schema = None if call.domain else schema_at("", name, body.opset) or schema_at("", name, NEWEST)
            since = schema.since_version if schema else 1
            node = Node(call.domain, name, since, attributes, inputs, (True,) * outputs)
            inferred = infer(node)
            self._seen[key] = node, inferred, None if isinstance(inferred, Reason) else self._idle(node, inferred)
        return self._seen[key]

    def _idle(self, node: Node, outputs: Sequence[Facts]) -> int | None:
        operator = operator_of(node.domain, node.name)
        if operator is None or not (operator.idle or operator.neutral) or not node.inputs or node.inputs[0] is None:
            return None
        lifted = self.lift(node)
        place = None if isinstance(lifted, Reason) else _repeats(lifted, outputs[0])
        return None if isinstance(lifted, Reason) or place is None else lifted.sources[place]

    def _assemble(
        self,
        body: Body,
        pending: Sequence[tuple[Node, Sequence[str], Sequence[str], Sequence[Facts]]],
        values: Mapping[str, tuple[Ref, Facts | None]],
        outputs: Sequence[str],
        stack: tuple[Any, ...],
        limit: float,
    ) -> Fragment | Failure:
        needed = set(outputs)
        live: list[int] = []
        for index in range(len(pending) - 1, -1, -1):
            _, inputs, names, _ = pending[index]
            if any(name in needed and isinstance(values[name][0], Output) for name in names):
                live.append(index)
                needed.update(inputs)
        written: list[Written] = []
        at: dict[str, Ref] = {name: ref for name, (ref, _) in values.items() if not isinstance(ref, Output)}
        lowerings = [body.name]
        spent, assumes, rounds = body.cost, body.assumes, body.rounds
        for index in reversed(live):
            node, inputs, names, made = pending[index]
            found = self._derive_node(node, made, tuple(name in needed for name in names), stack)
            if isinstance(found, Failure):
                return found
            fragment, refs = found
            operands = tuple(
                None if source is None else source if isinstance(source, Constant) else at[inputs[source]]
                for source in refs
            )
            base = len(written)
            written.extend(
                dataclasses.replace(leaf, inputs=tuple(_moved(ref, base, operands) for ref in leaf.inputs))
                for leaf in fragment.nodes
            )
            for name, ref in zip(names, fragment.outputs, strict=True):
                if isinstance(values[name][0], Output):
                    at[name] = _moved(ref, base, operands)
            lowerings += fragment.lowerings
            spent, assumes, rounds = spent + fragment.cost, assumes | fragment.assumes, rounds or fragment.rounds
            if spent >= limit:
                return Failure("it costs more than another way", dear=True)
        unique = tuple(dict.fromkeys(lowerings))
        return _pruned(Fragment(tuple(written), tuple(at[name] for name in outputs), unique, spent, assumes, rounds))

    def _derive_node(
        self, node: Node, made: Sequence[Facts], used: tuple[bool, ...], stack: tuple[Any, ...]
    ) -> tuple[Fragment, tuple[int | Constant | None, ...]] | Failure:
        """Keep a body's node where it is legal as it stands, else derive it; with where each operand comes from."""
        everything = tuple(range(len(node.inputs)))
        if self._why_not(node, nested=True) is None:
            refs: tuple[Ref, ...] = tuple(
                None if facts is None else Input(index) for index, facts in enumerate(node.inputs)
            )
            outputs = tuple(Output(0, index) for index in range(len(used)))
            operator = operator_of(node.domain, node.name)
            weight = operator.weight if operator else 1.0
            spent = self._cost(node, made, weight)
            return Fragment((Written(node.name, node.attributes, refs, len(used)),), outputs, (), spent), everything
        lifted = self.lift(dataclasses.replace(node, used=used))
        if isinstance(lifted, Reason):
            return Failure(f"{self.legality.why_not(node)}; {lifted}", lifted.missing)
        found = self.derive(lifted, stack)
        return found if isinstance(found, Failure) else (found, operand_sources(lifted))


@dataclass(frozen=True)
class _Wide:
    """A meaning in a carrier: which operands are cast to it, and which outputs are cast back."""

    lifted: Lifted
    operands: tuple[int, ...]
    folded: Mapping[int, Constant]
    outputs: tuple[int, ...]
    dtype: int
    carrier: int
    rounds: bool

    @property
    def name(self) -> str:
        return f"through_{type_name(self.carrier)}"

    @property
    def cost(self) -> float:
        return float(len(self.operands) + len(self.outputs))

    def around(self, found: Fragment) -> Fragment:
        """Put the casts around what the meaning in the carrier is said with."""
        into = tuple(Written(CAST, {"to": self.carrier}, (Input(index),), 1) for index in self.operands)
        operands = tuple(
            Output(self.operands.index(index), 0) if index in self.operands else self.folded.get(index, Input(index))
            for index in range(len(self.lifted.operands))
        )
        inner = tuple(
            dataclasses.replace(leaf, inputs=tuple(_moved(ref, len(into), operands) for ref in leaf.inputs))
            for leaf in found.nodes
        )
        given = tuple(_moved(ref, len(into), operands) for ref in found.outputs)
        back = tuple(Written(CAST, {"to": self.dtype}, (given[index],), 1) for index in self.outputs)
        base = len(into) + len(inner)
        outputs = tuple(
            Output(base + self.outputs.index(index), 0) if index in self.outputs else ref
            for index, ref in enumerate(given)
        )
        return dataclasses.replace(
            found,
            nodes=(*into, *inner, *back),
            outputs=outputs,
            lowerings=(self.name, *found.lowerings),
            cost=found.cost + self.cost,
            rounds=found.rounds or self.rounds,
        )


def _told(way: Body | _Wide | Reason, found: Fragment | Failure) -> Way:
    """Say what a way costs, or why it was not taken; failures begin with its name."""
    if isinstance(found, Fragment):
        return Way(found.lowerings[0], found.cost)
    name = way.partition(": ")[0] if isinstance(way, Reason) else way.name
    return Way(name, None, found.reason.removeprefix(name).lstrip(": "))


def _joined(native: str, nearest: str) -> str:
    """Return why a node stays, with what the nearest way lacks, each reason once."""
    said = set(native.split("; "))
    more = [part for part in nearest.split("; ") if part and part.split(": ", 1)[-1] not in said]
    return "; ".join((native, *more))


def _bodies(lifted: Lifted, lowerings: Iterable[Lowering]) -> Iterator[Body | Reason]:
    for lowering in lowerings:
        yield lowering.body_for(lifted.meaning, lifted.operands)


def _wider(lifted: Lifted) -> Iterator[_Wide]:
    """Yield the meaning in each carrier of each of its element types; types are called what the newest version does."""
    operator = lifted.operator
    schema = schema_at(operator.domain, operator.name, NEWEST)
    if not operator.carriers or schema is None:
        return
    formal = {parameter.name: parameter for parameter in schema.inputs}
    parameters = [
        schema.input(index) if operator.variadic else formal.get(operator.operands[index])
        for index in range(len(lifted.operands))
    ]
    bound: dict[str, list[int]] = {}
    for index, (facts, parameter) in enumerate(zip(lifted.operands, parameters, strict=True)):
        if facts is not None and parameter is not None:
            bound.setdefault(parameter.type_variable, []).append(index)
    for variable, operands in bound.items():
        dtype = next((facts.dtype for index in operands if (facts := lifted.operands[index]) and facts.dtype), None)
        outputs = tuple(
            index
            for index, used in enumerate(lifted.used)
            if used and schema.outputs[min(index, len(schema.outputs) - 1)].type_variable == variable
        )
        allowed = next(parameters[index] for index in operands)
        for carrier in operator.carriers.get(dtype or 0, ()):
            if allowed is None or f"tensor({type_name(carrier)})" not in allowed.types:
                continue
            changed = list(lifted.operands)
            folded: dict[int, Constant] = {}
            for index in operands:
                one = lifted.operands[index] or Facts()
                changed[index] = Facts(carrier, one.shape)
                if one.known is not None:
                    value = one.known.astype(onnx.helper.tensor_dtype_to_np_dtype(carrier))
                    changed[index] = constant(value)
                    folded[index] = Constant(Tensor(value), carrier)
            wide = dataclasses.replace(lifted, operands=tuple(changed))
            cast = tuple(index for index in operands if index not in folded)
            yield _Wide(wide, cast, folded, outputs, dtype or 0, carrier, operator.carriers is COMPUTED)


def _pruned(fragment: Fragment) -> Fragment:
    """Drop nodes that nobody reads: a lowering may find that it needs no run-time shape after all."""
    read = {ref.node for ref in fragment.outputs if isinstance(ref, Output)}
    for index in range(len(fragment.nodes) - 1, -1, -1):
        if index in read:
            read.update(ref.node for ref in fragment.nodes[index].inputs if isinstance(ref, Output))
    if len(read) == len(fragment.nodes):
        return fragment
    place = {old: new for new, old in enumerate(sorted(read))}

    def moved(ref: Ref) -> Ref:
        return Output(place[ref.node], ref.place) if isinstance(ref, Output) else ref

    nodes = tuple(
        dataclasses.replace(fragment.nodes[old], inputs=tuple(moved(ref) for ref in fragment.nodes[old].inputs))
        for old in sorted(read)
    )
    return dataclasses.replace(fragment, nodes=nodes, outputs=tuple(moved(ref) for ref in fragment.outputs))


def _repeats(lifted: Lifted, output: Facts | None = None) -> int | None:
    """Return the operand that the output is as it stands, where the node does nothing; None where it does something.

    Without the facts of the output, the node does nothing whatever its constants are.
    """
    operator = lifted.operator
    if operator.idle and operator.idle(lifted.meaning, lifted.operands):
        return 0
    place = operator.neutral(lifted.meaning, lifted.operands) if operator.neutral and output else None
    one = None if place is None else lifted.operands[place]
    if output is None or one is None or one.shape is None or None in one.shape or one.shape != output.shape:
        return None
    return place


def _static(lifted: Lifted) -> bool:
    """Return whether all dimensions of the first operand are known."""
    data = lifted.operands[0] if lifted.operands else None
    return data is not None and data.size is not None


def _named(lifted: Lifted) -> Lifted:
    """Name the dimensions that have no name, as those have none that a lowering computes."""
    operands = tuple(
        facts
        and dataclasses.replace(
            facts,
            shape=facts.shape
            and tuple(f"{place}:{axis}" if dim is None else dim for axis, dim in enumerate(facts.shape)),
        )
        for place, facts in enumerate(lifted.operands)
    )
    return dataclasses.replace(lifted, operands=operands)


def _of_a_batch(lifted: Lifted) -> bool:
    """Return whether of the first operand only the first dimension is unknown, along which nothing is searched."""
    data = lifted.operands[0] if lifted.operands else None
    shape = (data and data.shape) or ()
    # A reduction has its axes as an operand, which are not looked at.
    along = getattr(lifted.meaning, "axes", None) or (getattr(lifted.meaning, "axis", 0),)
    known = all(isinstance(dim, int) for dim in shape[1:]) and not isinstance(shape[0] if shape else 0, int)
    return len(shape) > 1 and known and not {*along} & {0, -len(shape)}


def _one_of(lifted: Lifted) -> Lifted:
    """Return the same where the first dimension of the first operand is 1."""
    data, *others = lifted.operands
    one = data and dataclasses.replace(data, shape=(1, *(data.shape or ())[1:]))
    return dataclasses.replace(lifted, operands=(one, *others))


def operand_sources(lifted: Lifted) -> tuple[int | Constant | None, ...]:
    """Say for each operand which input of the node it is, or the constant that it is instead."""
    return tuple(
        source
        if source is not None or facts is None
        else Constant(facts.value or Tensor(np.zeros(0)), facts.dtype or 0)
        for source, facts in zip(lifted.sources, lifted.operands, strict=True)
    )


def _operand(ref: Ref, facts: Facts) -> tuple[Ref, Facts]:
    """A value whose elements are known is a constant, wherever it came from; an input stays the input that it is."""
    if isinstance(ref, Output) and facts.known is not None and facts.value is not None:
        return Constant(facts.value, facts.dtype or 0), facts
    return ref, facts


def _held(node: Node, facts: Facts) -> tuple[Ref, Facts] | None:
    """A constant of the body that is too large to be looked into is one of the fragment all the same."""
    value = constants.tensor(node.attributes) if node.name == CONSTANT and not node.domain else None
    return None if value is None or facts.known is not None else (Constant(value, facts.dtype or 0), facts)


def _moved(ref: Ref, base: int, operands: Sequence[Ref]) -> Ref:
    if isinstance(ref, Output):
        return Output(ref.node + base, ref.place)
    return operands[ref.operand] if isinstance(ref, Input) else ref


def _outputs(function: Function, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the outputs of a body, as many as are wanted, and those that its last one stands for besides itself.

    The last output of a body stands for all that follow, so that one body serves any number of them.
    """
    more = tuple(f"{function.outputs[-1]}:{index}" for index in range(count - len(function.outputs)))
    return (*function.outputs, *more)[:count], more


def _bound(call: Call, body: Body, lifted: Lifted) -> tuple[str, Mapping[str, Any]]:
    """Return the operator of a body's node and its attributes, parameters replaced by what was bound."""
    # `Itself` is the operator with the fields given, `Same` the operator with the fields of this meaning but those.
    itself = call.domain == SPELLING and call.name in ("Itself", "Same")
    name = lifted.operator.name if itself else call.name
    if not call.parameters and not (itself and call.name == "Same"):
        return name, call.attributes
    attributes = {**(_told_fields(lifted.meaning) if itself and call.name == "Same" else {}), **call.attributes}
    for attribute, parameter in call.parameters.items():
        value = body.bound[parameter]
        if isinstance(value, Tensor):
            # onnxscript has no parameters for tensors: one may be bound where the body has a list of numbers.
            attributes["value"] = value
        elif value is not None:
            attributes[attribute] = value
        else:
            attributes.pop(attribute, None)
    return name, attributes


def _told_fields(meaning: Any) -> dict[str, Any]:
    """The fields of a meaning that are not at their defaults."""
    values = {field.name: (getattr(meaning, field.name), field.default) for field in dataclasses.fields(meaning)}
    return {name: value for name, (value, default) in values.items() if value != default}
