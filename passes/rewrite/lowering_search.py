"""Search for lowerings: express the meaning of a node with the target's operators, at the least cost.

A lowering is an edge from a meaning to the nodes of its body, specialised for the known facts of the operands. The
nodes of a body are derived in turn until every leaf is legal. The search is a pure function of the node and the
target; it does not depend on models or names.
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
from opshift.passes.base.assumptions import APPROXIMATE, ASSUMPTIONS
from opshift.passes.base.cache import REMEMBERED
from opshift.passes.base.limits import Deadline
from opshift.passes.base.plan import Candidate
from opshift.passes.rewrite.failure_memo import FailureMemo
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
from opshift.passes.rewrite.specialiser import Specialised, Specialiser
from opshift.passes.rewrite.wider_candidates import WiderTypes, in_wider_types

DEPTH = 40
"""The maximum nesting of lowerings; known derivations nest at most half as deep."""

RETURNS = 2
"""The number of times that a derivation may return to an operator through others.

Without this limit, TopK by ReduceMax and ReduceMax by TopK, each of a larger tensor, would nest up to DEPTH.
"""

FASTER = 0.9
"""A lowering replaces a supported node if it costs at most this share of the kernel's cost."""

MUCH_FASTER = 0.5
"""The same share if a dim other than the batch is unknown: its cost is only that of a nominal length."""

LOOP_COST = 1e6
"""The cost of a Loop, so that it is chosen only if no other candidate applies."""

PASSES = 1 + 2**-8
"""The upper bound of a candidate's cost per node: passes over the data add only a small share."""

_VALID = "valid only under an assumption"
_UNDER = {APPROXIMATE: "an approximation, at most 2^-21 of each result off"}
"""Descriptions of replacements whose assumption is not about inputs."""


def _returns(stack: tuple[Any, ...], key: tuple[Any, ...]) -> int:
    """Return how often a derivation returns to the operator of `key` after other operators, including this time."""
    names: list[tuple[str, str]] = [one[:2] for one, _ in (*stack, key)]
    return sum(name == names[-1] != before for before, name in itertools.pairwise(names)) - (names[0] != names[-1])


class Deriver:
    """Derives nodes for one target, and caches the results: equal nodes are derived once."""

    def __init__(
        self,
        legality: Legality,
        specialiser: Specialiser | None = None,
        assume: frozenset[str] = frozenset(),
        *,
        optimize: bool = False,
        explains: bool = True,
        any_form: bool = False,
        deadline: Deadline | None = None,
    ) -> None:
        """Derive for this target until the deadline; `assume` holds the assumptions that the user accepts.

        Derivers with the same `dequantized` may share a specialiser, which then specialises equal nodes once. With
        `optimize`, a legal node is lowered too if that is faster for the known shapes. With `explains`, failures name
        an assumption that permits a derivation. With `any_form`, the first derivation is taken, whatever it costs.
        """
        self.optimize, self.explains, self.any_form = optimize, explains, any_form
        self.deadline = deadline
        self.legality = legality
        # Inputs that hold neither infinities nor NaN hold no NaN.
        self.assume = assume | {"no-nan"} if "finite-inputs" in assume else assume
        self._memo: dict[Any, Fragment | Failure] = {}
        self._nested: dict[Any, Fragment | Failure] = {}
        self._failed = FailureMemo(self._nested)
        self._costs: dict[Any, float] = {}
        self._native = NativeNodes(legality, optimize)
        self._specialiser = specialiser or Specialiser(dequantized=legality.dequantized)
        self._freer: dict[frozenset[str], Deriver] = {}

    def lift(self, node: Node) -> Lifted | Reason:
        """Return the meaning of a node, or the reason why opshift knows none."""
        return self._specialiser.lift(node)

    def derive(self, lifted: Lifted, stack: tuple[Any, ...] = (), limit: float = math.inf) -> Fragment | Failure:
        """Return the cheapest fragment that expresses a meaning on the target; its inputs are the operands.

        If every fragment costs the limit or more, the result may be a failure with a lower bound of the cost.

        Raises:
            DeadlineError: the time is over.
        """
        # A node of the model may rely on an error of onnxruntime, as it did before; a node of a lowering may not.
        key = lifted.key, bool(stack)
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
        if (failure := self._failed.find(key, stack, limit)) is not None:
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
            # A cycle through this node does not exclude the candidate elsewhere.
            found = dataclasses.replace(found, busy=found.busy - {key})
        if isinstance(found, Fragment) or not (found.busy or found.least):
            memo[key] = found
        else:
            self._failed.add(key, found)
        if not stack and len(self._nested) > REMEMBERED:
            self._nested.clear()
            self._costs.clear()
        if not stack:
            self._failed.clear()
        return found

    def _faster(self, lifted: Lifted, native: Fragment, stack: tuple[Any, ...], key: tuple[Any, ...]) -> Fragment:
        """Return a fragment that is faster than the legal node by a margin, or else the node itself."""
        most = (FASTER if _static(lifted) or _only_batch_unknown(lifted) else MUCH_FASTER) * native.cost
        other = self._cheapest(lifted, (*stack, key), Failure("it is legal"), most if stack else math.inf)
        if isinstance(other, Failure) or other.rounds or other.cost >= most or not self._pays(lifted, other, stack):
            return native
        return dataclasses.replace(other, ways=(*other.ways, Candidate("native", native.cost)))

    def _with_assumption(self, lifted: Lifted, found: Failure, native: Failure) -> Failure:
        """Return the failure with an assumption that permits a derivation, if there is one."""
        if not (enough := self._sufficient_assumption(lifted)):
            return dataclasses.replace(found, assumption="")
        reason = f"{native.reason}, and its replacement is {_UNDER.get(enough, _VALID)}"
        return dataclasses.replace(found, reason=reason, missing=False, assumption=enough, nearest=None)

    def _pays(self, lifted: Lifted, candidate: Fragment, stack: tuple[Any, ...]) -> bool:
        """Return whether a faster fragment is also chosen for a batch of one, if only the batch is unknown."""
        if stack or not _only_batch_unknown(lifted):
            return True
        one = self.derive(_with_batch_of_one(lifted))
        return isinstance(one, Fragment) and one.lowerings[:1] == candidate.lowerings[:1]

    def _sufficient_assumption(self, lifted: Lifted) -> str:
        """Return an assumption that permits a derivation, or an empty string if no single one does."""
        if not self.explains or not self._derives_with(frozenset(ASSUMPTIONS), lifted):
            return ""
        others = (assumption for assumption in ASSUMPTIONS if assumption not in self.assume)
        return next((one for one in others if self._derives_with(frozenset({one}), lifted)), "")

    def _derives_with(self, assumptions: frozenset[str], lifted: Lifted) -> bool:
        """Return whether a derivation exists with these additional assumptions."""
        if (freer := self._freer.get(assumptions)) is None:
            assume = self.assume | assumptions
            freer = Deriver(self.legality, self._specialiser, assume, explains=False, deadline=self.deadline)
            self._freer[assumptions] = freer
        return isinstance(freer.derive(lifted), Fragment)

    def _cheapest(
        self, lifted: Lifted, stack: tuple[Any, ...], native: Failure, most: float = math.inf
    ) -> Fragment | Failure:
        """Return the cheapest candidate, or a failure if none applies or each costs `most` or more.

        Reports list the candidates of a node of the model, with their costs or a lower bound of the cost.
        """
        nested = len(stack) > 1
        if isinstance(lifted.meaning, constants.Constant) and lifted.meaning.value is not None:
            return _constant(lifted.meaning.value, self.legality.opset)
        tried: list[tuple[Body | WiderTypes | Reason, Fragment | Failure]] = []
        for candidates in _candidate_groups(lifted, self._specialiser, optimize=self.optimize):
            best, found = self._best(tuple(candidates), lifted, stack, most)
            tried += found
            if best:
                return best if nested else dataclasses.replace(best, ways=tuple(starmap(_reported, tried)))
            if any(isinstance(one, Failure) and one.least for _, one in found):
                break
        absent = schema_at("", lifted.operator.name, self.legality.opset) is None
        failures = [
            *_for_another_type(lifted, self._specialiser),
            *(one for _, one in tried if isinstance(one, Failure)),
        ]
        return _failed(lifted, native, failures, absent=absent)

    def _best(
        self, candidates: Sequence[Body | WiderTypes | Reason], lifted: Lifted, stack: tuple[Any, ...], most: float
    ) -> tuple[Fragment | None, list[tuple[Body | WiderTypes | Reason, Fragment | Failure]]]:
        """Return the best of these candidates, the first of equal ones, and the result of each.

        The search drops a candidate as soon as it costs more than the best so far. If a node differs from an earlier
        one only in the lengths of its dims, it probably becomes as many nodes: candidates that had more nodes than
        another are then dropped at once.
        """
        like = _apart_from_lengths(lifted)
        least = [
            0.0 if isinstance(candidate, Reason) else self._costs.get((like, candidate.name), 0.0)
            for candidate in candidates
        ]
        rounds = [not isinstance(candidate, Reason) and candidate.rounds for candidate in candidates]
        found: dict[int, Fragment | Failure] = {}
        best: Fragment | None = None
        chosen, limit = 0, most
        for place in sorted(range(len(candidates)), key=lambda place: (rounds[place], least[place])):
            candidate = candidates[place]
            # The first of two candidates with equal costs is chosen.
            within = limit if best is None or place > chosen else math.nextafter(limit, math.inf)
            if best and self.any_form:
                found[place] = Failure("it was not looked at")
                continue
            if best and not best.rounds and rounds[place]:
                found[place] = Failure("it rounds otherwise")
                continue
            if least[place] >= within:
                found[place] = Failure("it costs more", least=least[place])
                continue
            one = found[place] = self._derive_by(candidate, lifted, stack, within)
            cost = one.cost if isinstance(one, Fragment) else one.least
            if cost and not self.optimize and not isinstance(candidate, Reason):
                self._costs[like, candidate.name] = cost / PASSES
            if isinstance(one, Fragment) and (
                best is None or (one.rounds, one.cost, place) < (best.rounds, best.cost, chosen)
            ):
                best, chosen = one, place
                limit = min(most, best.cost) if (stack[1:] or not self.optimize) and not best.rounds else most
        if best and best.rounds and any(isinstance(one, Failure) and one.least for one in found.values()):
            best = None  # a candidate that was dropped for its cost may not round
        return best, [(candidate, found[place]) for place, candidate in enumerate(candidates)]

    def _derive_by(
        self, candidate: Body | WiderTypes | Reason, lifted: Lifted, stack: tuple[Any, ...], limit: float
    ) -> Fragment | Failure:
        """Derive a meaning by one candidate, below the limit and with the accepted assumptions."""
        if isinstance(candidate, Reason):
            return _inapplicable(candidate)
        if isinstance(candidate, WiderTypes):
            found = self._in_wider_type(candidate, stack, limit)
        elif refused := candidate.assumes - self.assume:
            asked = ", ".join(sorted(refused))
            return Failure(f"it is valid only with --assume {asked}", assumption=asked, name=candidate.name)
        elif candidate.carries is not None:
            found = self._looped(candidate, candidate.carries, lifted, stack, limit)
        else:
            found = self._specialise(candidate, lifted, stack, limit)
        return dataclasses.replace(found, name=candidate.name) if isinstance(found, Failure) else found

    def _looped(
        self, body: Body, carries: int, lifted: Lifted, stack: tuple[Any, ...], limit: float
    ) -> Fragment | Failure:
        """Derive one iteration, and put it into a Loop, which the target must support."""
        if limit <= LOOP_COST:
            return Failure("it costs more", least=LOOP_COST)
        opset, count, others = self.legality.opset, lifted.operands[0], lifted.operands[1:]
        # Carried values keep their type and shape, and change from one iteration to the next.
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
        known = lifted.operator.facts(lifted.meaning, lifted.operands) if lifted.operator.facts else ()
        rows = tuple(Facts(facts.dtype, None if facts.shape is None else facts.shape[1:]) for facts in known[carries:])
        loop = FragmentNode(LOOP, {}, (refs[0], None, *refs[1:]), len(lifted.used), LoopBody(found, carried, rows))
        outputs = tuple(Output(0, index) for index in range(len(lifted.used)))
        if (cost := found.cost + LOOP_COST) >= limit:
            return Failure("it costs more", least=cost)
        return dataclasses.replace(found, nodes=(loop,), outputs=outputs, cost=cost)

    def _in_wider_type(self, wide: WiderTypes, stack: tuple[Any, ...], limit: float) -> Fragment | Failure:
        """Derive a meaning in a wider type, between two Casts, which the target must support."""
        schema = schema_at("", CAST, self.legality.opset)
        for dtype, to in ((wide.dtype, wide.wider), (wide.wider, wide.dtype)):
            node = Node("", CAST, schema.since_version if schema else 1, {"to": to}, (Facts(dtype),), (True,))
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
        """Keep the legal nodes of a body unchanged, and derive the others within the remaining cost."""
        pending, needed = specialised.pending, specialised.needed
        # A measured cost has no lower bound, and a node of an unsupported operator may become a constant.
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
        """Derive a node of a body that is not legal; return its fragment, and the source of each operand."""
        lifted = self.lift(node)
        if isinstance(lifted, Reason):
            return Failure(f"{self.legality.why_not(node)}", lifted.missing, nearest=Failure(lifted, lifted.missing))
        found = self.derive(lifted, stack, limit)
        return found if isinstance(found, Failure) else (found, operand_sources(lifted))


_Derived = tuple[Fragment, Sequence[int | Constant | None]]
"""The fragment of a body's node, and for each of its operands an input index of the node, or a constant."""


def _assembled(body: Body, specialised: Specialised, derived: Sequence[_Derived]) -> Fragment:
    """Join the fragments of the nodes of a body."""
    written: list[FragmentNode] = []
    at = dict(specialised.values)
    lowerings = [body.name]
    spent, assumes, rounds = body.cost, body.assumes, body.rounds
    for (_, inputs, names, _), (fragment, refs) in zip(specialised.pending, derived, strict=True):
        operands = tuple(None if ref is None else ref if isinstance(ref, Constant) else at[inputs[ref]] for ref in refs)
        base = len(written)
        written.extend(
            FragmentNode(
                leaf.name,
                leaf.attributes,
                tuple([moved(ref, base, operands) for ref in leaf.inputs]),
                leaf.outputs,
                leaf.body,
            )
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
        # A function holds these as floats and a Cast, which needs the elements.
        return Failure(f"opset {opset} has constants of floats only, and its elements are in a file")
    return Fragment((), (Constant(value, dtype),), ("initializer",), 0.0)


def _failed(lifted: Lifted, native: Failure, failures: Sequence[Failure], *, absent: bool) -> Failure:
    """Return why nothing expresses a meaning: the reason of the operator itself, and the nearest candidate.

    A fact or an assumption is easier to provide than another operator, and of other operators those that do not need
    the node itself. Candidates for other forms of the node come last.
    """
    nearest = min(
        (one for one in failures if not one.least),
        key=lambda one: (not one.missing, not one.assumption, one.beside, bool(one.busy), not one.reason),
        default=None,
    )
    return Failure(
        native.reason,
        missing=native.missing or any(failure.missing for failure in failures) or _follows_from_shapes(lifted),
        assumption=next((failure.assumption for failure in failures if failure.assumption), ""),
        busy=frozenset().union(*(failure.busy for failure in failures)),
        absent=absent,
        least=min((failure.least for failure in failures if failure.least), default=0.0),
        nearest=nearest,
    )


def _inapplicable(why: Reason) -> Failure:
    """Return the failure of a lowering that does not apply, from a reason after its name."""
    name, _, reason = why.partition(": ")
    return Failure(reason, why.missing, beside=True, name=name)


def _reported(candidate: Body | WiderTypes | Reason, found: Fragment | Failure) -> Candidate:
    """Return the cost of a candidate, or the reason why it is not chosen; reasons begin with its name."""
    if isinstance(found, Fragment):
        return Candidate(found.lowerings[0], found.cost)
    name = candidate.partition(": ")[0] if isinstance(candidate, Reason) else candidate.name
    if found.least:
        return Candidate(name, found.least, "it was followed no further")
    return Candidate(name, None, found.details.removeprefix(name).lstrip(": "))


def _candidate_groups(
    lifted: Lifted, specialiser: Specialiser, *, optimize: bool
) -> Iterator[Iterable[Body | WiderTypes | Reason]]:
    """Yield groups of candidates; a group is tried only if no group before it has a result.

    The first groups have candidates that are preferred for their form or their speed, at any cost.
    """
    if specialiser.dequantized:
        yield specialiser.bodies(lifted, (one for one in lifted.operator.lowerings if one.dequantizes))
    faster: tuple[Lowering, ...] = ()
    if optimize and not lifted.operator.domain:
        # Without measured costs these are useless, and not loaded.
        module = importlib.import_module("opshift.opsets.faster")
        faster = module.LOWERINGS.get(lifted.operator.name, ())
        yield specialiser.bodies(lifted, (one for one in faster if one in module.AT_RUN_TIME))
        faster = tuple(one for one in faster if one not in module.AT_RUN_TIME)
    yield from _groups(lifted, (*lifted.operator.lowerings, *faster), specialiser)


def _groups(
    lifted: Lifted, lowerings: Iterable[Lowering], specialiser: Specialiser
) -> Iterator[Iterable[Body | WiderTypes | Reason]]:
    """Yield an operator's lowerings and its meaning in wider types, then ONNX's own bodies.

    Some bodies lose digits, such as a variance by squares: for narrow types, wider types are tried before them. For
    float they are tried last, because a Cast to double and back is no better than the body that a person would write.
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
    """Yield the reasons of lowerings that would apply if the operands of the first one's type were float."""
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
    pairs = zip(specialiser.bodies(lifted, lowerings), specialiser.bodies(of_floats, lowerings), strict=True)
    for reason, other in pairs:
        if isinstance(reason, Reason) and not isinstance(other, Reason):
            yield _inapplicable(reason)


def _follows_from_shapes(lifted: Lifted) -> bool:
    """Return whether the outputs would be constants if the shapes of the operands were known."""
    dropped = traits(lifted.operator.name).flow is Flow.DROPPED
    return dropped and any(facts is not None and facts.size is None for facts in lifted.operands)


def _apart_from_lengths(lifted: Lifted) -> tuple[Any, ...]:
    """Return a key that ignores the names of dims, and the lengths of dims within one class."""
    names: dict[str, str] = {}
    operands = tuple(
        facts and (facts.type, facts.value, facts.shape and tuple(_length_class(dim, names) for dim in facts.shape))
        for facts in lifted.operands
    )
    return lifted.operator.domain, lifted.operator.name, lifted.text, operands, lifted.used


def _length_class(dim: Dim, names: dict[str, str]) -> Dim:
    """Return 0 and 1 unchanged, the negative number of bytes of other lengths, and a number for each name."""
    if isinstance(dim, str):
        return names.setdefault(dim, str(len(names)))
    return -(dim.bit_length() // 8) - 1 if isinstance(dim, int) and dim > 1 else dim


def _static(lifted: Lifted) -> bool:
    """Return whether all dimensions of the first operand are known."""
    data = lifted.operands[0] if lifted.operands else None
    return data is not None and data.size is not None


def _named(lifted: Lifted) -> Lifted:
    """Name the unnamed dims, because dims that a lowering computes have no name either."""
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
    """Return whether only the first dim of the first operand is unknown, and the operator does not search along it."""
    data = lifted.operands[0] if lifted.operands else None
    shape = (data and data.shape) or ()
    # The axes of a reduction may be an operand, which is ignored here.
    along = getattr(lifted.meaning, "axes", None) or (getattr(lifted.meaning, "axis", 0),)
    known = all(isinstance(dim, int) for dim in shape[1:]) and not isinstance(shape[0] if shape else 0, int)
    return len(shape) > 1 and known and not {*along} & {0, -len(shape)}


def _with_batch_of_one(lifted: Lifted) -> Lifted:
    """Return the same where the first dimension of the first operand is 1."""
    data, *others = lifted.operands
    one = data and dataclasses.replace(data, shape=(1, *(data.shape or ())[1:]))
    return dataclasses.replace(lifted, operands=(one, *others))
