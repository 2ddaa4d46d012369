"""Search for lowerings: express the meaning of a node with the target's operators, at the least cost.

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
from opshift.opsets.registry.facts import FLOATS, Dim, ExternalTensor, Facts, Tensor, facts_of_attribute
from opshift.opsets.registry.lowering import Body, Lowering, Reason
from opshift.opsets.registry.node_traits import traits
from opshift.opsets.registry.operator import Lifted, Node
from opshift.opsets.registry.schema import schema_at
from opshift.opsets.registry.structural import CAST, IDENTITY, LOOP
from opshift.opsets.registry.traits import Flow
from opshift.opsets.runtimes.target import Legality
from opshift.passes.base.limits import Deadline
from opshift.passes.base.results import APPROXIMATE, ASSUMPTIONS, Candidate
from opshift.passes.rewrite.fragment import (
    Constant,
    Failure,
    Fragment,
    FragmentNode,
    Input,
    LoopBody,
    Output,
    moved,
    operand_sources,
    pruned,
)
from opshift.passes.rewrite.native import NativeNodes
from opshift.passes.rewrite.specialiser import REMEMBERED, Specialised, Specialiser
from opshift.passes.rewrite.wider_candidates import WiderTypes, in_wider_types

DEPTH = 40
"""Lowerings within lowerings; none is known that nests more than half as deep."""

RETURNS = 2
"""How often lowerings may come back to an operator by way of others: TopK by ReduceMax, and ReduceMax by TopK, each of
a larger tensor, would go on until they nest too deep."""

FASTER = 0.9
"""The share of a kernel's cost that a lowering may have at most, to go in its place."""

MUCH_FASTER = 0.5
"""The same where more dimensions are unknown than that of a batch: costs are those of dimensions of nominal lengths."""


LOOP_COST = 1e6
"""The cost of a Loop, so that it is chosen only if no other candidate applies."""

PASSES = 1 + 2**-8
"""How many times its number of nodes a candidate may cost: passes over the data are a small share of it."""


_VALID = "valid only under an assumption"
_UNDER = {APPROXIMATE: "an approximation, at most 2^-21 of each result off"}
"""What a replacement is that an assumption allows, where it is not about inputs."""


def _returns(stack: tuple[Any, ...], key: tuple[Any, ...]) -> int:
    """Count how often nodes of this one's operator come after nodes of others in the stack, with this one."""
    names = [(domain, name) for domain, name, *_ in (*stack, key)]
    return sum(name == names[-1] != before for before, name in itertools.pairwise(names)) - (names[0] != names[-1])


class Deriver:
    """Derives nodes for one target, and remembers what it has found; equal nodes are derived once."""

    def __init__(
        self,
        legality: Legality,
        specialiser: Specialiser | None = None,
        assume: frozenset[str] = frozenset(),
        *,
        optimize: bool = False,
        explains: bool = True,
        deadline: Deadline | None = None,
    ) -> None:
        """Derive for this target until the deadline; `assume` holds the assumptions that the user accepts.

        The specialiser may be that of other derivers of one `dequantized`, which then look at equal nodes once. With
        `optimize` a node that is legal is lowered too, where that is faster for the shapes known. Unless it
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
        self._costs: dict[Any, float] = {}
        self._native = NativeNodes(legality, optimize)
        self._specialiser = specialiser or Specialiser(dequantized=legality.dequantized)
        self._freer: dict[frozenset[str], Deriver] = {}

    def lift(self, node: Node) -> Lifted | Reason:
        """Return the meaning of a node, or why it has none that is known."""
        return self._specialiser.lift(node)

    def derive(self, lifted: Lifted, stack: tuple[Any, ...] = (), limit: float = math.inf) -> Fragment | Failure:
        """Return the cheapest way to express a meaning on the target; inputs are numbered as its operands are.

        What costs the limit or more may be a failure that tells what it costs at least.

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
        circular = f"every decomposition of {lifted.operator.name} needs {lifted.operator.name} again"
        if key in stack:
            return Failure(circular, busy=frozenset({key}))
        if len(stack) >= DEPTH:
            return Failure("lowerings nest too deep", busy=frozenset({DEPTH}))
        if _returns(stack, key) > RETURNS:
            return Failure(circular, busy=frozenset(stack))
        for failure in self._failed.get(key, ()):
            if all(other in stack for other in failure.busy) and not 0 < failure.least < limit:
                return failure
        found = native = self._native.of(lifted, nested=bool(stack))
        if not all(facts is None or facts.holdable for facts in lifted.operands):
            return Failure("an input has more elements than fit in memory")
        if isinstance(found, Failure):
            found = self._cheapest(lifted, (*stack, key), found, limit)
        elif self.optimize and traits(lifted.operator.name).rivals:
            found = self._faster(lifted if stack else _named(lifted), found, stack, key)
        if isinstance(found, Failure) and isinstance(native, Failure) and found.assumption and not stack:
            found = self._with_assumption(lifted, found, native)
        if isinstance(found, Failure) and key in found.busy:
            found = dataclasses.replace(found, busy=found.busy - {key})  # no way around itself is no reason elsewhere
        if isinstance(found, Fragment) or not (found.busy or found.least):
            memo[key] = found
        else:
            self._failed.setdefault(key, []).append(found)
        if not stack and len(self._nested) > REMEMBERED:
            self._nested.clear()
            self._costs.clear()
        if not stack:
            self._failed.clear()
        return found

    def _faster(self, lifted: Lifted, native: Fragment, stack: tuple[Any, ...], key: tuple[Any, ...]) -> Fragment:
        """Return a fragment that is faster than the legal node by a margin, or the node."""
        most = (FASTER if _static(lifted) or _only_batch_unknown(lifted) else MUCH_FASTER) * native.cost
        other = self._cheapest(lifted, (*stack, key), Failure("it is legal"), most if stack else math.inf)
        if isinstance(other, Failure) or other.rounds or other.cost >= most or not self._pays(lifted, other, stack):
            return native
        return dataclasses.replace(other, ways=(*other.ways, Candidate("native", native.cost)))

    def _with_assumption(self, lifted: Lifted, found: Failure, native: Failure) -> Failure:
        """Return a failure with the assumption that is sufficient for a derivation, if there is one."""
        if not (enough := self._sufficient_assumption(lifted)):
            return dataclasses.replace(found, assumption="")
        reason = f"{native.reason}, and its replacement is {_UNDER.get(enough, _VALID)}"
        return dataclasses.replace(found, reason=reason, missing=False, assumption=enough)

    def _pays(self, lifted: Lifted, way: Fragment, stack: tuple[Any, ...]) -> bool:
        """Return whether a way pays whatever the size of a batch: for one of it too, as far as the rest is known."""
        if stack or not _only_batch_unknown(lifted):
            return True
        one = self.derive(_with_batch_of_one(lifted))
        return isinstance(one, Fragment) and one.lowerings[:1] == way.lowerings[:1]

    def _sufficient_assumption(self, lifted: Lifted) -> str:
        """Return the assumption with which there is a derivation, the empty string where none is enough."""
        if not self.explains or not self._derives_with(frozenset(ASSUMPTIONS), lifted):
            return ""
        others = (assumption for assumption in ASSUMPTIONS if assumption not in self.assume)
        return next((one for one in others if self._derives_with(frozenset({one}), lifted)), "")

    def _derives_with(self, assumptions: frozenset[str], lifted: Lifted) -> bool:
        """Return whether there is a derivation with these assumptions too."""
        if (freer := self._freer.get(assumptions)) is None:
            assume = self.assume | assumptions
            freer = Deriver(self.legality, self._specialiser, assume, explains=False, deadline=self.deadline)
            self._freer[assumptions] = freer
        return isinstance(freer.derive(lifted), Fragment)

    def _cheapest(
        self, lifted: Lifted, stack: tuple[Any, ...], native: Failure, most: float = math.inf
    ) -> Fragment | Failure:
        """Take the way that costs least; a failure too where each costs `most` or more.

        Ways to say a node of the model are told in reports, with their costs, or the least that they would be.
        """
        nested = len(stack) > 1
        if isinstance(lifted.meaning, constants.Constant) and lifted.meaning.value is not None:
            return _constant(lifted.meaning.value, self.legality.opset)
        tried: list[tuple[Body | WiderTypes | Reason, Fragment | Failure]] = []
        for ways in _candidate_groups(lifted, self._specialiser, self.legality, optimize=self.optimize):
            best, found = self._best(tuple(ways), lifted, stack, most)
            tried += found
            if best:
                return best if nested else dataclasses.replace(best, ways=tuple(starmap(_candidate, tried)))
            if any(isinstance(one, Failure) and one.least for _, one in found):
                break
        absent = schema_at("", lifted.operator.name, self.legality.opset) is None
        failures = [
            *_for_another_type(lifted, self._specialiser),
            *(found for _, found in tried if isinstance(found, Failure)),
        ]
        return _failed(lifted, native, failures, absent=absent)

    def _best(
        self, ways: Sequence[Body | WiderTypes | Reason], lifted: Lifted, stack: tuple[Any, ...], most: float
    ) -> tuple[Fragment | None, list[tuple[Body | WiderTypes | Reason, Fragment | Failure]]]:
        """Return the best of these ways, the first one of equals, and what became of each.

        None is followed beyond what the best so far costs. A node like others, but for the lengths of its dimensions,
        is likely to become as many nodes as they have: ways that take more than another then are not followed at all.
        """
        like = _apart_from_lengths(lifted)
        least = [0.0 if isinstance(way, Reason) else self._costs.get((like, way.name), 0.0) for way in ways]
        rounds = [not isinstance(way, Reason) and way.rounds for way in ways]
        found: dict[int, Fragment | Failure] = {}
        best: Fragment | None = None
        chosen, limit = 0, most
        for place in sorted(range(len(ways)), key=lambda place: (rounds[place], least[place])):
            way = ways[place]
            # Of two that cost the same, the first one is taken.
            within = limit if best is None or place > chosen else math.nextafter(limit, math.inf)
            if best and not best.rounds and rounds[place]:
                found[place] = Failure("it rounds otherwise")
                continue
            if least[place] >= within:
                found[place] = Failure("it costs more", least=least[place])
                continue
            one = found[place] = self._derive_by(way, lifted, stack, within)
            cost = one.cost if isinstance(one, Fragment) else one.least
            if cost and not self.optimize and not isinstance(way, Reason):
                self._costs[like, way.name] = cost / PASSES
            if isinstance(one, Fragment) and (
                best is None or (one.rounds, one.cost, place) < (best.rounds, best.cost, chosen)
            ):
                best, chosen = one, place
                limit = min(most, best.cost) if (stack[1:] or not self.optimize) and not best.rounds else most
        if best and best.rounds and any(isinstance(one, Failure) and one.least for one in found.values()):
            best = None  # what costs more may not round
        return best, [(way, found[place]) for place, way in enumerate(ways)]

    def _derive_by(
        self, way: Body | WiderTypes | Reason, lifted: Lifted, stack: tuple[Any, ...], limit: float
    ) -> Fragment | Failure:
        """Derive a meaning in this way, unless it costs as much as the limit or needs an assumption not made."""
        if isinstance(way, Reason):
            return Failure(way, way.missing, beside=True)
        if isinstance(way, WiderTypes):
            found = self._in_wider_type(way, stack, limit)
        elif refused := way.assumes - self.assume:
            asked = ", ".join(sorted(refused))
            return Failure(f"{way.name}: it is valid only with --assume {asked}", assumption=asked)
        elif way.carries is not None:
            found = self._looped(way, way.carries, lifted, stack, limit)
        else:
            found = self._specialise(way, lifted, stack, limit)
        return dataclasses.replace(found, reason=f"{way.name}: {found.reason}") if isinstance(found, Failure) else found

    def _looped(
        self, body: Body, carries: int, lifted: Lifted, stack: tuple[Any, ...], limit: float
    ) -> Fragment | Failure:
        """Derive one iteration, and put it into a Loop, which the target must have too."""
        if limit <= LOOP_COST:
            return Failure("it costs more", least=LOOP_COST)
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
        loop = FragmentNode(LOOP, {}, (refs[0], None, *refs[1:]), len(lifted.used), LoopBody(found, carried, rows))
        outputs = tuple(Output(0, index) for index in range(len(lifted.used)))
        if (cost := found.cost + LOOP_COST) >= limit:
            return Failure("it costs more", least=cost)
        return dataclasses.replace(found, nodes=(loop,), outputs=outputs, cost=cost)

    def _in_wider_type(self, wide: WiderTypes, stack: tuple[Any, ...], limit: float) -> Fragment | Failure:
        """Derive a meaning in a carrier, between two casts that the target must have too."""
        schema = schema_at("", CAST, self.legality.opset)
        for source, to in ((wide.dtype, wide.wider), (wide.wider, wide.dtype)):
            node = Node("", CAST, schema.since_version if schema else 1, {"to": to}, (Facts(source),), (True,))
            if reason := self._native.why_not(node, nested=True):
                return Failure(reason)
        found = self.derive(wide.lifted, stack, limit)
        if isinstance(found, Failure):
            return found
        found = wide.around(found)
        return found if found.cost < limit else Failure("it costs more", least=found.cost)

    def _specialise(self, body: Body, lifted: Lifted, stack: tuple[Any, ...], limit: float) -> Fragment | Failure:
        """Derive the nodes of a lowering's body."""
        specialised = self._specialiser.specialised(body, lifted)
        if isinstance(specialised, Reason):
            return Failure(specialised, specialised.missing)
        found = self._derive_nodes(body, specialised, stack, limit)
        return found if isinstance(found, Failure) else _assembled(body, specialised, found)

    def _derive_nodes(
        self, body: Body, specialised: Specialised, stack: tuple[Any, ...], limit: float
    ) -> Sequence[_Derived] | Failure:
        """Keep the nodes of a body that are legal as they stand, and derive the others with what is left."""
        pending, needed = specialised.pending, specialised.needed
        # Under measured costs a node can cost anything; one of an operator that the target lacks may become a constant.
        each = [int(not self.optimize and self.legality.has(one.node.domain, one.node.name)) for one in pending]
        least = body.cost + sum(each)
        derived: list[_Derived | None] = []
        for place, (node, _, names, made) in enumerate(pending):
            if least >= limit:
                return Failure("it costs more", least=least)
            unchanged = self._native.unchanged(node, made, len(names))
            derived.append((unchanged, range(len(node.inputs))) if unchanged else None)
            least += unchanged.cost - each[place] if unchanged else 0.0
        for place, (node, _, names, _) in enumerate(pending):
            if least >= limit:
                return Failure("it costs more", least=least)
            if derived[place] is not None:
                continue
            used = tuple(name in needed for name in names)
            left = math.inf if self.optimize else limit - least + each[place]
            found = self._derive_node(dataclasses.replace(node, used=used), stack, left)
            if isinstance(found, Failure):
                return dataclasses.replace(found, least=found.least and found.least + least - each[place])
            derived[place] = found
            least += found[0].cost - each[place]
        if least >= limit:
            return Failure("it costs more", least=least)
        return list(filter(None, derived))

    def _derive_node(self, node: Node, stack: tuple[Any, ...], limit: float) -> _Derived | Failure:
        """Derive a body's node that is not legal as it stands, with where each operand comes from."""
        lifted = self.lift(node)
        if isinstance(lifted, Reason):
            return Failure(f"{self.legality.why_not(node)}; {lifted}", lifted.missing)
        found = self.derive(lifted, stack, limit)
        return found if isinstance(found, Failure) else (found, operand_sources(lifted))


_Derived = tuple[Fragment, Sequence[int | Constant | None]]
"""What becomes of a body's node, and for each operand the index of the node's input, or its constant."""


def _assembled(body: Body, specialised: Specialised, derived: Sequence[_Derived]) -> Fragment:
    """Put together what becomes of the nodes of a body."""
    written: list[FragmentNode] = []
    at = dict(specialised.values)
    lowerings = [body.name]
    spent, assumes, rounds = body.cost, body.assumes, body.rounds
    for (_, inputs, names, _), (fragment, refs) in zip(specialised.pending, derived, strict=True):
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
    outputs = tuple(at[name] for name in specialised.outputs)
    return pruned(Fragment(tuple(written), outputs, tuple(dict.fromkeys(lowerings)), spent, assumes, rounds))


def _constant(value: Tensor, opset: int) -> Fragment | Failure:
    """Return a constant as an initializer."""
    dtype = facts_of_attribute(value).dtype or 0
    if isinstance(value, ExternalTensor) and opset < 9 and dtype not in FLOATS:
        # A function says these as floats and a Cast, of which the elements must be known.
        return Failure(f"opset {opset} has constants of floats only, and its elements are in a file")
    return Fragment((), (Constant(value, dtype),), ("initializer",), 0.0)


def _failed(lifted: Lifted, native: Failure, failures: Sequence[Failure], *, absent: bool) -> Failure:
    """Return why nothing expresses a meaning: why the operator itself does not, and what comes nearest."""
    nearest = min(
        failures,
        key=lambda one: (not one.missing, not one.assumption, bool(one.busy), one.beside, not one.reason),
        default=None,
    )
    return Failure(
        _without_repeats(native.reason, nearest.reason if nearest else ""),
        missing=native.missing or any(failure.missing for failure in failures) or _follows_from_shapes(lifted),
        assumption=next((failure.assumption for failure in failures if failure.assumption), ""),
        busy=frozenset().union(*(failure.busy for failure in failures)),
        absent=absent,
        least=min((failure.least for failure in failures if failure.least), default=0.0),
    )


def _candidate(way: Body | WiderTypes | Reason, found: Fragment | Failure) -> Candidate:
    """Return what a way costs, or why it was not taken; failures begin with its name."""
    if isinstance(found, Fragment):
        return Candidate(found.lowerings[0], found.cost)
    name = way.partition(": ")[0] if isinstance(way, Reason) else way.name
    if found.least:
        return Candidate(name, found.least, "it was followed no further")
    return Candidate(name, None, found.reason.removeprefix(name).lstrip(": "))


def _without_repeats(native: str, nearest: str) -> str:
    """Return why a node stays, with what the nearest way lacks, each reason once."""
    mentioned = set(native.split("; "))
    more = [part for part in nearest.split("; ") if part and part.split(": ", 1)[-1] not in mentioned]
    return "; ".join(filter(None, (native, *more)))


def _candidate_groups(
    lifted: Lifted, specialiser: Specialiser, legality: Legality, *, optimize: bool
) -> Iterator[Iterable[Body | WiderTypes | Reason]]:
    """Yield groups of ways, each of which is only for what none before it can express.

    The first are those that are taken for their form, or for their speed, whatever others cost.
    """
    if legality.dequantized:
        yield specialiser.bodies(lifted, (one for one in lifted.operator.lowerings if one.dequantizes))
    faster: tuple[Lowering, ...] = ()
    if optimize and not lifted.operator.domain:
        # Of no use without measured costs, and not loaded then.
        module = importlib.import_module("opshift.opsets.faster")
        faster = module.LOWERINGS.get(lifted.operator.name, ())
        yield specialiser.bodies(lifted, (one for one in faster if one in module.AT_RUN_TIME))
        faster = tuple(one for one in faster if one not in module.AT_RUN_TIME)
    yield from _groups(lifted, (*lifted.operator.lowerings, *faster), specialiser)


def _groups(
    lifted: Lifted, lowerings: Iterable[Lowering], specialiser: Specialiser
) -> Iterator[Iterable[Body | WiderTypes | Reason]]:
    """Yield an operator's lowerings and its meaning in wider types, then ONNX's own bodies.

    Some bodies lose digits, such as a variance by squares, so that a wider type goes before them for narrow types. For
    float it comes last: a Cast to double and back is no better than the body that a person would write.
    """
    own, wider = specialiser.bodies(lifted, lowerings), in_wider_types(lifted)
    if TensorProto.FLOAT in (facts.dtype for facts in lifted.operands if facts):
        yield own
        yield specialiser.schema_bodies(lifted)
        yield wider
    else:
        yield itertools.chain(own, wider)
        yield specialiser.schema_bodies(lifted)


def _for_another_type(lifted: Lifted, specialiser: Specialiser) -> Iterator[Failure]:
    """Yield why lowerings do not apply that would if the first operand, and those of its type, were of float."""
    dtype = lifted.operands[0].dtype if lifted.operands and lifted.operands[0] else None
    if dtype in (None, TensorProto.FLOAT):
        return
    floats = tuple(
        dataclasses.replace(facts, dtype=TensorProto.FLOAT)
        if facts and facts.dtype == dtype and facts.known is None
        else facts
        for facts in lifted.operands
    )
    lowerings, of_floats = lifted.operator.lowerings, dataclasses.replace(lifted, operands=floats)
    for reason, other in zip(
        specialiser.bodies(lifted, lowerings), specialiser.bodies(of_floats, lowerings), strict=True
    ):
        if isinstance(reason, Reason) and not isinstance(other, Reason):
            yield Failure(reason, reason.missing, beside=True)


def _follows_from_shapes(lifted: Lifted) -> bool:
    """Return whether the outputs would be constants if the shapes of the operands were known."""
    dropped = traits(lifted.operator.name).flow is Flow.DROPPED
    return dropped and any(facts is not None and facts.size is None for facts in lifted.operands)


def _apart_from_lengths(lifted: Lifted) -> tuple[Any, ...]:
    """Return a key that nodes share whose dimensions differ in names only, and in lengths within a range."""
    names: dict[str, str] = {}
    operands = tuple(
        facts and (facts.type, facts.value, facts.shape and tuple(_length_class(dim, names) for dim in facts.shape))
        for facts in lifted.operands
    )
    return lifted.operator.domain, lifted.operator.name, repr(lifted.meaning), operands, lifted.used


def _length_class(dim: Dim, names: dict[str, str]) -> Dim:
    """Return how many bytes a length takes, as a negative number, but 0 and 1 as they are; number the names."""
    if isinstance(dim, str):
        return names.setdefault(dim, str(len(names)))
    return -(dim.bit_length() // 8) - 1 if isinstance(dim, int) and dim > 1 else dim


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


def _only_batch_unknown(lifted: Lifted) -> bool:
    """Return whether of the first operand only the first dimension is unknown, along which nothing is searched."""
    data = lifted.operands[0] if lifted.operands else None
    shape = (data and data.shape) or ()
    # A reduction has its axes as an operand, which are not looked at.
    along = getattr(lifted.meaning, "axes", None) or (getattr(lifted.meaning, "axis", 0),)
    known = all(isinstance(dim, int) for dim in shape[1:]) and not isinstance(shape[0] if shape else 0, int)
    return len(shape) > 1 and known and not {*along} & {0, -len(shape)}


def _with_batch_of_one(lifted: Lifted) -> Lifted:
    """Return the same where the first dimension of the first operand is 1."""
    data, *others = lifted.operands
    one = data and dataclasses.replace(data, shape=(1, *(data.shape or ())[1:]))
    return dataclasses.replace(lifted, operands=(one, *others))
