"""Draw inputs until the original has accepted enough of them."""

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
"""Returns the inputs of a turn, see `Draft.feeds`, or with 'spike' or 'trough' with one such value in each row."""


def overridden(values: Values, fixed: Feeds) -> Values:
    """Return a function that generates inputs with some of them fixed."""
    return lambda shapes, turn: {**values(shapes, turn), **fixed}


@dataclass(frozen=True)
class Budget:
    """The limits of a search: shapes, inputs, elements of all inputs and outputs, and rejected inputs.

    `long`: additional shapes with a long axis.
    """

    shapes: int
    inputs: int
    elements: int
    rejections: int
    long: int = 100


@dataclass(frozen=True)
class Trials:
    """The accepted inputs with their outputs, and the reason of the last rejection."""

    accepted: tuple[tuple[Feeds, Outputs], ...]
    tried: int
    rejection: str
    fatal: tuple[str, ...] = ()
    """The reasons why onnxruntime ended, or was ended, on some inputs."""

    def __add__(self, other: Trials) -> Trials:
        """Return the union."""
        accepted, fatal = self.accepted + other.accepted, self.fatal + other.fatal
        return Trials(accepted, self.tried + other.tried, other.rejection or self.rejection, fatal)

    @property
    def largest(self) -> int:
        """Return the number of elements of the largest input."""
        return max((_elements(value) for feeds, _ in self.accepted for value in feeds.values()), default=0)


_FIRST = 8  # shapes that are tried with other values if none is accepted
_FATAL = 3  # maximum number of inputs that end onnxruntime
_FATAL_AT_FIRST = 16  # the same before the first accepted input, if none took long
_LARGEST = 2**28  # elements of all inputs together: several copies exist, with 8 bytes for each
_AT_ONCE = 32  # inputs that are drawn while others run
_LONG = 1000  # axis length above which inputs of a whole model are tried only if they cost nothing


def _total(shapes: Shapes) -> int:
    """Return the number of elements of all inputs with these shapes."""
    return sum(map(math.prod, shapes.values()))


def _elements(value: Any) -> int:
    """Return the number of elements of an input or an output."""
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
    """Return accepted inputs: one of each shape, then more of each distribution, then long ones.

    `long` yields shapes with long axes, given accepted shapes; `budget.long` limits their number. If few shapes are
    accepted, `repair` searches others. A rejected index is followed by a nonnegative one. Three inputs are found even
    if the first is larger than the budget. Inputs beyond the `pace` are skipped, except the minimum number of inputs,
    which have a small shape.
    """
    search = _Search(draft, values, plain, budget, repair, pace)
    search.fit(shapes)
    search.vary()
    search.reach_least()
    search.lengthen(long)
    return search.result()


_ROUNDS = 8
"""The maximum number of rounds of all distributions for one shape: small shapes show little in one round.

A shape without elements gets half as many rounds.
"""


@dataclass
class _Search:
    """A search for inputs, with its results.

    Attributes:
        found: the accepted inputs, each with its outputs.
        fitting: the shapes with an accepted input.
        rejections: the reasons why others are rejected.
        fatal: the reasons why onnxruntime ended.
        elements: the total number of elements of the accepted inputs and their outputs; `most` is the largest of one.
        patience: the number of rejections that ends the search.
        slow: whether an input exceeded a limit.
        early: the number of inputs that ended onnxruntime before the first accepted one.
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
        """Set the patience from the budget."""
        self.patience = self.budget.rejections

    def fit(self, shapes: Iterable[Shapes]) -> None:
        """Search for accepted shapes, with one input of each."""
        for shape in self._fitted(shapes) if not self._spent() else ():
            self.fitting.append(shape)
            if len(self.fitting) == self.budget.shapes or self._spent():
                break
        if self.fitting:  # limit the shapes without accepted inputs, for values of accepted shapes
            self.patience = max(self.patience, len(self.rejections) + self.budget.rejections // 4)

    def vary(self) -> None:
        """Try each shape with other values within the budget."""
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
        """Try the smallest shape until the minimum number of inputs is found."""
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
        """Return the found inputs."""
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
        """Return whether a shape of a whole model has no axis of thousands, or costs nothing anyway."""
        long = self.draft.allowed.whole and max(itertools.chain(*shape.values()), default=0) > _LONG
        return not long or not self.pace or self.pace.is_free(_total(shape))

    def _fitted(self, shapes: Iterable[Shapes]) -> Iterator[Shapes]:
        """Yield the accepted shapes, after one input of each is found."""
        repair, fitting = self.repair, self.fitting
        first: list[Shapes] = []
        for shape in shapes:
            if fitting and not self._affordable(shape):
                continue
            first += [shape] * (len(first) < _FIRST)
            # Without elements, there is only one input of each shape.
            turns = dict.fromkeys((len(fitting), 0, 1, 2)[: 1 if not _total(shape) else 2 if repair else 4])
            if any(self._attempt((shape, turn)) for turn in turns):
                yield shape
            elif self._spent() or (repair and len(self.rejections) > self.budget.rejections // (2 if fitting else 5)):
                break
        if repair:
            yield from repair(self._repaired, tuple(fitting))
        if (repair or self.draft.allowed.whole) and all(any(0 in dims for dims in one.values()) for one in fitting):
            # The values may be rejected instead of the shapes; empty inputs have no wrong values.
            full = [shape for shape in first if not any(0 in dims for dims in shape.values())] or first
            tries = itertools.product(range(2, 8 * self.draft.turns()), full)
            accepted = (shape for turn, shape in tries if not self._spent() and self._attempt((shape, turn)))
            yield from itertools.islice(accepted, 1)

    def _repaired(self, shape: Shapes) -> bool:
        return not self._spent() and self._affordable(shape) and self._attempt((shape, len(self.fitting)))

    def _attempt(self, *batch: tuple[Shapes, int | str]) -> bool:
        """Try a batch, and retry rejected inputs with values in range; return whether any was accepted."""
        accepted = self._run(batch)
        again = [
            (shape, -1 - turn)
            for (shape, turn), done in zip(batch, accepted, strict=False)
            if not done and _total(shape) and self.draft.in_range and isinstance(turn, int) and not self._spent()
        ]
        return any([*accepted, *(self._run(again) if again else ())])

    def _run(self, batch: Sequence[tuple[Shapes, int | str]]) -> list[bool]:
        """Return whether each input was accepted; the list ends after an input that ends onnxruntime."""
        if (size := max(_total(shape) for shape, _ in batch)) > _LARGEST:
            self.rejections.append(f"inputs of these shapes have {size} elements, and at most {_LARGEST} are drawn")
            return [False] * len(batch)
        if not all(Facts(None, dims).holdable for shape, _ in batch for dims in shape.values()):
            # numpy has no empty arrays either, with such a dimension.
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
        """Store an accepted input, or the reason of a rejection."""
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
    """Return the budget for a whole model, by its size and the effort; its pace may permit less."""
    static = sum(math.prod(dim if isinstance(dim, int) else 2 for dim in spec.dims or ()) for spec in specs)
    cost = 1 + weights + 64 * static + 100_000 * nodes
    count = max(3, math.ceil(effort * min(160, max(3, 1_000_000_000 // cost))))
    elements = int(2**23 * max(1.0, effort))
    return Budget(min(10, count), count, elements, rejections=max(200, 4 * count), long=count // 8)
