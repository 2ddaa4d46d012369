"""Derivations: how the meaning of a node is said with what the target has, by the cheapest way.

A lowering is an edge from a meaning to the nodes of its body, specialised to what is known of the operands. A body's
nodes are derived in turn until every leaf is legal. This is a pure function of the node and the target; models and
names are not in it.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from typing import Any

from onnx import TensorProto

from opshift.opsets.operators import constant as constants
from opshift.opsets.registry.facts import FLOATS, Elsewhere, Facts, facts_of_attribute
from opshift.opsets.registry.lowering import Body, Lowering, Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Lifted, Node
from opshift.opsets.registry.schema import schema_at
from opshift.opsets.registry.structural import CAST, IDENTITY, LOOP
from opshift.opsets.runtimes.target import Legality
from opshift.passes.analysis.schema_bodies import bodies
from opshift.passes.base.limits import Deadline
from opshift.passes.base.results import ASSUMPTIONS, Candidate
from opshift.passes.rewrite.fragment import (
    Constant,
    Failure,
    Fragment,
    Input,
    Iteration,
    Output,
    Written,
    moved,
    operand_sources,
    pruned,
)
from opshift.passes.rewrite.native import NativeNodes
from opshift.passes.rewrite.specialiser import REMEMBERED, Specialised, Specialiser
from opshift.passes.rewrite.wider_candidates import WiderTypes, in_wider_types

DEPTH = 24
"""Lowerings within lowerings; none is known that nests more than half as deep."""

FASTER = 0.9
"""The share of a kernel's cost that a lowering may have at most, to go in its place."""

MUCH_FASTER = 0.5
"""The same where more dimensions are unknown than that of a batch: costs are those of dimensions of nominal lengths."""


OF_A_LOOP = 1e6
"""What a Loop costs, so that it is taken only where nothing else is."""


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
        # Inputs that hold neither infinities nor NaN hold no NaN.
        self.assume = assume | {"no-nan"} if "finite-inputs" in assume else assume
        self._memo: dict[Any, Fragment | Failure] = {}
        self._nested: dict[Any, Fragment | Failure] = {}
        self._failed: dict[Any, list[Failure]] = {}
        self._native = NativeNodes(legality, optimize)
        self._specialiser = Specialiser(semantics)
        self._freer: dict[frozenset[str], Deriver] = {}

    def lift(self, node: Node) -> Lifted | Reason:
        """Return the meaning of a node, or why it has none that is known."""
        return self._specialiser.lift(node)

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
        found = native = self._native.of(lifted, nested=bool(stack))
        if not all(facts is None or facts.holdable for facts in lifted.operands):
            return Failure("an input has more elements than fit in memory")
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
                found = dataclasses.replace(other, ways=(*other.ways, Candidate("native", found.cost)))
        if isinstance(found, Failure) and isinstance(native, Failure) and found.assumption and not stack:
            if enough := self._enough(lifted):
                reason = f"{native.reason}, and its replacement is valid only under an assumption"
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
            freer = Deriver(self.legality, self._specialiser.semantics, assume, explains=False, deadline=self.deadline)
            self._freer[assumptions] = freer
        return isinstance(freer.derive(lifted), Fragment)

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
        tried: list[tuple[Body | WiderTypes | Reason, Fragment | Failure]] = []
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
            if any(isinstance(found, Failure) and found.too_costly for _, found in tried):
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

    def _ways(self, lifted: Lifted) -> Iterator[Iterator[Body | WiderTypes | Reason]]:
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
        yield itertools.chain(_bodies(lifted, (*lifted.operator.lowerings, *faster)), in_wider_types(lifted))
        yield bodies(lifted)

    def _by(
        self, way: Body | WiderTypes | Reason, lifted: Lifted, stack: tuple[Any, ...], limit: float
    ) -> Fragment | Failure:
        """Derive a meaning in this way, unless it costs as much as the limit or needs an assumption not made."""
        if isinstance(way, Reason):
            return Failure(way, way.missing, beside=True)
        if isinstance(way, WiderTypes):
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
            if reason := self._native.why_not(node, nested=True):
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

    def _around(self, wide: WiderTypes, stack: tuple[Any, ...]) -> Fragment | Failure:
        """Derive a meaning in a carrier, between two casts that the target must have too."""
        schema = schema_at("", CAST, self.legality.opset)
        for source, to in ((wide.dtype, wide.wider), (wide.wider, wide.dtype)):
            node = Node("", CAST, schema.since_version if schema else 1, {"to": to}, (Facts(source),), (True,))
            if reason := self._native.why_not(node, nested=True):
                return Failure(reason)
        found = self.derive(wide.lifted, stack)
        return found if isinstance(found, Failure) else wide.around(found)

    def _specialise(self, body: Body, lifted: Lifted, stack: tuple[Any, ...], limit: float) -> Fragment | Failure:
        """Derive the nodes of a lowering's body."""
        found = self._specialiser.specialised(body, lifted)
        if isinstance(found, Reason):
            return Failure(found, found.missing)
        return self._assembled(body, found, stack, limit)

    def _assembled(
        self, body: Body, specialised: Specialised, stack: tuple[Any, ...], limit: float
    ) -> Fragment | Failure:
        written: list[Written] = []
        at = dict(specialised.values)
        lowerings = [body.name]
        spent, assumes, rounds = body.cost, body.assumes, body.rounds
        for node, inputs, names, made in specialised.pending:
            found = self._derive_node(node, made, tuple(name in specialised.needed for name in names), stack)
            if isinstance(found, Failure):
                return found
            fragment, refs = found
            operands = tuple(
                None if source is None else source if isinstance(source, Constant) else at[inputs[source]]
                for source in refs
            )
            base = len(written)
            written.extend(
                dataclasses.replace(leaf, inputs=tuple(moved(ref, base, operands) for ref in leaf.inputs))
                for leaf in fragment.nodes
            )
            for name, ref in zip(names, fragment.outputs, strict=True):
                if name not in specialised.values:
                    at[name] = moved(ref, base, operands)
            lowerings += fragment.lowerings
            spent, assumes, rounds = spent + fragment.cost, assumes | fragment.assumes, rounds or fragment.rounds
            if spent >= limit:
                return Failure("it costs more than another candidate", too_costly=True)
        unique = tuple(dict.fromkeys(lowerings))
        outputs = tuple(at[name] for name in specialised.outputs)
        return pruned(Fragment(tuple(written), outputs, unique, spent, assumes, rounds))

    def _derive_node(
        self, node: Node, made: Sequence[Facts], used: tuple[bool, ...], stack: tuple[Any, ...]
    ) -> tuple[Fragment, tuple[int | Constant | None, ...]] | Failure:
        """Keep a body's node where it is legal as it stands, else derive it; with where each operand comes from."""
        unchanged = self._native.unchanged(node, made, len(used))
        if unchanged is not None:
            return unchanged, tuple(range(len(node.inputs)))
        lifted = self.lift(dataclasses.replace(node, used=used))
        if isinstance(lifted, Reason):
            return Failure(f"{self.legality.why_not(node)}; {lifted}", lifted.missing)
        found = self.derive(lifted, stack)
        return found if isinstance(found, Failure) else (found, operand_sources(lifted))


def _told(way: Body | WiderTypes | Reason, found: Fragment | Failure) -> Candidate:
    """Say what a way costs, or why it was not taken; failures begin with its name."""
    if isinstance(found, Fragment):
        return Candidate(found.lowerings[0], found.cost)
    name = way.partition(": ")[0] if isinstance(way, Reason) else way.name
    return Candidate(name, None, found.reason.removeprefix(name).lstrip(": "))


def _joined(native: str, nearest: str) -> str:
    """Return why a node stays, with what the nearest way lacks, each reason once."""
    said = set(native.split("; "))
    more = [part for part in nearest.split("; ") if part and part.split(": ", 1)[-1] not in said]
    return "; ".join(filter(None, (native, *more)))


def _bodies(lifted: Lifted, lowerings: Iterable[Lowering]) -> Iterator[Body | Reason]:
    for lowering in lowerings:
        yield lowering.body_for(lifted.meaning, lifted.operands)


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
