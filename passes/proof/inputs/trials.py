"""Trials: inputs that are drawn until enough of them are accepted by the original."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from opshift.opsets.registry.facts import Facts
from opshift.passes.base.effort import Pace
from opshift.passes.proof.inputs.generator import LONG, Draft
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.inputs.shape_search import Repair, Shapes, fits
from opshift.passes.runtime.ort_models import Feeds, RejectedError, RejectionKind

Outputs = tuple[Any, ...]
Result = Outputs | RejectedError
Values = Callable[[Shapes, int | str], Feeds]
"""Makes inputs of a turn, see `Draft.feeds`, or with 'spike' or 'trough' of one such value in each row."""


def overridden(values: Values, given: Feeds) -> Values:
    """Return what makes inputs of which some are given."""
    return lambda shapes, turn: {**values(shapes, turn), **given}


@dataclass(frozen=True)
class Budget:
    """How much is tried: shapes, inputs, elements of all inputs and outputs together, and inputs that are rejected.

    `long`: shapes with a long axis, besides.
    """

    shapes: int
    inputs: int
    elements: int
    rejections: int
    long: int = 100


@dataclass(frozen=True)
class Trials:
    """The inputs that the original accepts, each with its outputs, and why it rejected the last of the others."""

    accepted: tuple[tuple[Feeds, Outputs], ...]
    tried: int
    rejection: str
    fatal: tuple[str, ...] = ()
    """Why onnxruntime ended, or was ended, on some."""

    def __add__(self, other: Trials) -> Trials:
        """Return both."""
        accepted, fatal = self.accepted + other.accepted, self.fatal + other.fatal
        return Trials(accepted, self.tried + other.tried, other.rejection or self.rejection, fatal)

    @property
    def largest(self) -> int:
        """Return how many elements the largest input has."""
        return max((_elements(value) for feeds, _ in self.accepted for value in feeds.values()), default=0)


_FIRST = 8  # shapes that are tried with other values where none is accepted
_FATAL = 3  # inputs that end onnxruntime, after which no more are tried
_FATAL_AT_FIRST = 16  # the same where none is accepted yet and none took long to end it
_LARGEST = 2**28  # elements of all inputs together: they are held several times, in 8 bytes each
_AT_ONCE = 32  # inputs that are drawn while others run
_LONG = 1000  # elements along an axis, from which on inputs of a whole model are tried if they cost nothing


def _total(shapes: Shapes) -> int:
    """Return how many elements all inputs of these shapes have together."""
    return sum(map(math.prod, shapes.values()))


def _elements(value: Any) -> int:
    """Return how many elements an input or an output has."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_elements, value)) if isinstance(value, list) else int(getattr(value, "size", 0))


def find_trials(
    draft: Draft,
    values: Values,
    plain: Callable[[Sequence[Feeds]], Sequence[Result]],
    shapes: Iterable[Shapes],
    long: Callable[[Shapes], Iterable[Shapes]],
    budget: Budget,
    repair: Repair | None = None,
    pace: Pace | None = None,
) -> Trials:
    """Return inputs that the original accepts: one of each shape, then more of each distribution, then long ones.

    `long` yields shapes with long axes, given shapes that are accepted; `budget.long` says how many are tried.
    Where few shapes are accepted `repair` looks for others. A rejected index is followed by one that is not negative.
    Three inputs are found even where the first is larger than the budget. What the `pace` does not allow is left out,
    but for the least number of inputs, which have a small shape.
    """
    search = _Search(draft, values, plain, budget, repair, pace)
    search.fit(shapes)
    search.vary()
    search.reach_least()
    search.lengthen(long)
    return search.result()


_ROUNDS = 8
"""Rounds of all distributions that one shape is tried with, where the budget allows: few elements show little.

One without any element is tried in half as many.
"""


@dataclass
class _Search:
    """A search of inputs, and what it has found.

    Attributes:
        found: the inputs that are accepted, each with its outputs.
        fitting: the shapes of which an input is accepted.
        rejections: why others are not.
        fatal: of those, why onnxruntime ended.
        elements: how many elements the accepted inputs and their outputs have, and `most` of one of them.
        patience: how many rejections end the search.
        slow: an input went beyond a limit.
        early: how many inputs ended onnxruntime before the first was accepted.
    """

    draft: Draft
    values: Values
    plain: Callable[[Sequence[Feeds]], Sequence[Result]]
    budget: Budget
    repair: Repair | None
    pace: Pace | None
    found: list[tuple[Feeds, Outputs]] = field(default_factory=list)
    fitting: list[Shapes] = field(default_factory=list)
    rejections: list[str] = field(default_factory=list)
    fatal: list[str] = field(default_factory=list)
    elements: int = 0
    most: int = 0
    patience: int = 0
    slow: bool = False
    early: int = 0

    def __post_init__(self) -> None:
        """Be as patient as the budget says."""
        self.patience = self.budget.rejections

    def fit(self, shapes: Iterable[Shapes]) -> None:
        """Look for shapes that are accepted, with an input of each."""
        for shape in self._fitted(shapes) if not self._spent() else ():
            self.fitting.append(shape)
            if len(self.fitting) == self.budget.shapes or self._spent():
                break
        if self.fitting:  # shapes for which none are accepted leave room for values of those that are
            self.patience = max(self.patience, len(self.rejections) + self.budget.rejections // 4)

    def vary(self) -> None:
        """Try each shape with other values, as long as the budget lasts."""
        turns = range(1, _ROUNDS * self.draft.turns())
        further = (
            (shape, turn + position)
            for turn, (position, shape) in itertools.product(turns, enumerate(self.fitting))
            if self._affordable(shape) and (turn < _ROUNDS // 2 * self.draft.turns() or _total(shape))
        )
        while not self._spent():
            left = (self.budget.elements - self.elements) // max(1, self.most)
            room = min(_AT_ONCE, self.budget.inputs - len(self.found), left)
            batch = list(itertools.islice(further, max(1, room)))
            if not batch:
                break
            self._attempt(*batch)

    def reach_least(self) -> None:
        """Try the smallest shape until the least number of inputs is found."""
        small = sorted(self.fitting, key=lambda shape: (not _total(shape), _total(shape)))[:1]
        for turn, shape in itertools.product(range(1, _ROUNDS * self.draft.turns()), small):
            if len(self.found) < self._least and not self._spent():
                self._attempt((shape, turn))

    def lengthen(self, long: Callable[[Shapes], Iterable[Shapes]]) -> None:
        """Try shapes with long axes."""
        fitting, budget = self.fitting, self.budget
        full = [shape for shape in fitting if not any(0 in dims for dims in shape.values())]
        for shape in itertools.islice(long((full or fitting)[0]), budget.long) if fitting else ():
            tried = len(self.rejections) < self.patience + budget.long and not self._hopeless()
            further: tuple[int | str, ...] = (len(self.found),) if self.draft.allowed.whole else ()
            for turn in (*(LONG if further else LONG[:2]), *further):
                if tried and fits(self.draft.specs, shape) and self._cheap(shape) and self._affordable(shape):
                    self._attempt((shape, turn))

    def result(self) -> Trials:
        """Return what was found."""
        rejection = self.fatal[0] if self.fatal else (self.rejections or ["no shape was found"])[-1]
        return Trials(tuple(self.found), len(self.found) + len(self.rejections), rejection, tuple(self.fatal))

    @property
    def _least(self) -> int:
        return self.pace.least if self.pace else 3

    def _hopeless(self) -> bool:
        return len(self.fatal) >= (_FATAL_AT_FIRST if not (self.found or self.slow) else _FATAL + self.early)

    def _spent(self) -> bool:
        over = len(self.found) >= self.budget.inputs or self.elements >= self.budget.elements
        rejected = len(self.rejections) >= self.patience or self._hopeless()
        return rejected or (over and len(self.found) >= self._least)

    def _affordable(self, shape: Shapes) -> bool:
        """Return whether there is time for an input of a shape, and count it."""
        return not self.pace or self.pace.take(_total(shape))

    def _cheap(self, shape: Shapes) -> bool:
        """Return whether a shape of a whole model has no axis of thousands, or costs nothing all the same."""
        long = self.draft.allowed.whole and max(itertools.chain(*shape.values()), default=0) > _LONG
        return not long or not self.pace or self.pace.is_free(_total(shape))

    def _fitted(self, shapes: Iterable[Shapes]) -> Iterator[Shapes]:
        """Yield the shapes that are accepted, with an input of each already found."""
        repair, fitting = self.repair, self.fitting
        first: list[Shapes] = []
        for shape in shapes:
            if fitting and not self._affordable(shape):
                continue
            first += [shape] * (len(first) < _FIRST)
            # Of inputs without elements there is only one of each shape.
            turns = dict.fromkeys((len(fitting), 0, 1, 2)[: 1 if not _total(shape) else 2 if repair else 4])
            if any(self._attempt((shape, turn)) for turn in turns):
                yield shape
            elif self._spent() or (repair and len(self.rejections) > self.budget.rejections // (2 if fitting else 5)):
                break
        if repair:
            yield from repair(self._repaired, tuple(fitting))
        if (repair or self.draft.allowed.whole) and all(any(0 in dims for dims in one.values()) for one in fitting):
            # It may be the values that are rejected, and not the shapes; nothing is wrong with those of empty inputs.
            full = [shape for shape in first if not any(0 in dims for dims in shape.values())] or first
            tries = itertools.product(range(2, 8 * self.draft.turns()), full)
            accepted = (shape for turn, shape in tries if not self._spent() and self._attempt((shape, turn)))
            yield from itertools.islice(accepted, 1)

    def _repaired(self, shape: Shapes) -> bool:
        return not self._spent() and self._affordable(shape) and self._attempt((shape, len(self.fitting)))

    def _attempt(self, *batch: tuple[Shapes, int | str]) -> bool:
        """Try these, and what is rejected once more with values in range; return whether any was accepted."""
        accepted = self._run(batch)
        again = [
            (shape, -1 - turn)
            for (shape, turn), done in zip(batch, accepted, strict=False)
            if not done and _total(shape) and self.draft.in_range and isinstance(turn, int) and not self._spent()
        ]
        return any([*accepted, *(self._run(again) if again else ())])

    def _run(self, batch: Sequence[tuple[Shapes, int | str]]) -> list[bool]:
        """Return which of some tries are accepted; after one that ends onnxruntime come no others."""
        if (size := max(_total(shape) for shape, _ in batch)) > _LARGEST:
            self.rejections.append(f"inputs of these shapes have {size} elements, and at most {_LARGEST} are drawn")
            return [False] * len(batch)
        if not all(Facts(None, dims).holdable for shape, _ in batch for dims in shape.values()):
            # It has no empty ones either, with any dimension like that.
            self.rejections.append("numpy has no arrays of these shapes")
            return [False] * len(batch)
        if self.pace:
            self.pace.start()
        drawn = [self.values(shape, turn) for shape, turn in batch]
        results = self.plain(drawn)
        if self.pace and len(results) == 1 and not isinstance(results[0], RejectedError):
            for _ in range(2):
                if not self.pace.doubts(size):
                    break
                self.pace.again()
                self.plain(drawn)
            self.pace.ran(size)
        for feeds, result in zip(drawn, results, strict=False):
            self._count(feeds, result)
        return [not isinstance(result, RejectedError) for result in results]

    def _count(self, feeds: Feeds, result: Result) -> None:
        """Keep an input that is accepted, or the reason why it is not."""
        if isinstance(result, RejectedError):
            self.rejections.append(str(result))
            self.fatal.extend([str(result)] * (result.why in (RejectionKind.DEATH, RejectionKind.LIMIT)))
            self.slow = self.slow or result.why is RejectionKind.LIMIT
        else:
            self.early = self.early if self.found else len(self.fatal)
            self.found.append((feeds, result))
            size = sum(_elements(value) for value in (*feeds.values(), *result))
            self.elements, self.most = self.elements + size, max(self.most, size)


def whole_budget(weights: int, specs: Sequence[Spec], nodes: int, effort: float = 1.0) -> Budget:
    """Return the most to try on a whole model, by its size and the effort; its pace may allow less."""
    static = sum(math.prod(dim if isinstance(dim, int) else 2 for dim in spec.dims or ()) for spec in specs)
    cost = 1 + weights + 64 * static + 100_000 * nodes
    count = max(3, math.ceil(effort * min(160, max(3, 1_000_000_000 // cost))))
    elements = int(2**23 * max(1.0, effort))
    return Budget(min(10, count), count, elements, rejections=max(200, 4 * count), long=count // 8)
