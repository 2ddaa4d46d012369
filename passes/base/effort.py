"""The CPU time of a comparison: a multiple of the time in which onnxruntime opens both models and runs each once.

What is drawn depends on the seed alone. How much of it is run depends on measured times, which are rounded up to a
power of two first, so that two comparisons of the same models nearly always try the same inputs; the report counts
them. Small models, for which the least allowance is enough, are tried on all inputs that there are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from opshift.passes.base.arguments import EFFORTS

TIMES, TIMES_LARGE = 9.0, 2.5
"""So many times the bare time is spent with normal effort: by most models, and by those with large weights. What is
measured too late, the end of the last run, makes them 10 and 3."""

LARGE = 10**8
"""Bytes of weights from which on they are large."""

LEAST = 1.8
"""CPU seconds that a comparison of whole models may take with normal effort, however small they are."""

LEAST_OF_NODE, LEAST_OF_REPEATED = 0.6, 0.03
"""The same for the comparison of a rewritten node, and of one that differs from an earlier one in its weights alone."""

_SHARE = 0.6
"""The share of the allowance for runs of both models. The rest is for the measurement of rounding."""

_RUNS = 3
"""Every input runs through the original, and through the rewritten model with graph optimisations off and on."""

_LEAST_COST = 1 / 4096
"""CPU seconds of a run of which no less is believed."""

_LEAP, _MANY = 32, 2**16
"""The time of an input of more than `_MANY` elements is extrapolated by the square of its size, as for attention, if it
is more than `_LEAP` times as large as the nearest one measured."""

_FREE = 1 / 256
"""CPU seconds up to which an input costs nothing, so that small models always get the same inputs; of a comparison
that gets a share, that part of them."""

_ONCE, _ONCE_OF_ORACLES = 1 / 2, 1.0
"""CPU seconds up to which the first input of a size is measured again, twice: it may include work that is done once,
or a pass of the garbage collector. The limit is higher if no model was opened: the first input then imports the
oracles."""


def rounded(seconds: float) -> float:
    """Return the next power of two: what is measured again differs by less."""
    return float(2.0 ** math.ceil(math.log2(max(seconds, _LEAST_COST))))


@dataclass
class Allowance:
    """The CPU time of a comparison.

    Attributes:
        used: tells the CPU seconds used so far, of all processes.
        effort: one of EFFORTS.
        max_time: seconds after which nothing more is begun that is not the least; None: no such limit.
        large: whether the weights are.
        least: CPU seconds that it may take with normal effort in any case.
        share: the part of what is usual that it gets, of both.
    """

    used: Callable[[], float]
    effort: str = "normal"
    max_time: float | None = None
    large: bool = False
    least: float = LEAST
    share: float = 1.0
    total: float = 0.0
    _start: float = 0.0
    _end: float = math.inf
    _late: bool = False

    def __post_init__(self) -> None:
        """Begin to count."""
        self._start = self.used()
        self.total = self.least * self.share * self.factor
        if self.max_time is not None and self._end == math.inf:
            self._end = time.monotonic() + self.max_time

    def part(self, least: float, share: float = 1.0, *, large: bool = False) -> Allowance:
        """Return the allowance of a comparison of its own, beginning now, which ends when this one does."""
        return replace(self, large=large, least=least, share=share, _late=self.late)

    @property
    def factor(self) -> float:
        """By what the effort multiplies."""
        return EFFORTS[self.effort]

    @property
    def late(self) -> bool:
        """Whether `max_time` is over; once it was, it stays so."""
        self._late = self._late or time.monotonic() > self._end
        return self._late

    def measure(self, bare: float) -> None:
        """Take over what onnxruntime needs to open both models and to run each once."""
        times = max(1.0, self.share * (TIMES_LARGE if self.large else TIMES))
        self.total = max(self.total, self.factor * times * bare)

    def forgive(self, seconds: float) -> None:
        """Leave CPU seconds out of those used so far."""
        self._start += seconds

    def left(self) -> float:
        """Return the CPU seconds that are left, which may be less than none."""
        return self.total - (self.used() - self._start)

    def pace(self, opening: float) -> Pace:
        """Return how fast inputs may be tried, given what it takes to open one of the models."""
        return Pace(self, opening)


@dataclass
class Pace:
    """The budget of inputs that may still be run, by their size; see `find_trials`.

    The first input of each size is measured, and stands for all of that size. The first one of all decides, with the
    time to open a model, what the whole comparison may take.
    """

    allowance: Allowance
    opening: float
    left: float = math.inf
    _costs: dict[int, float] = field(default_factory=dict)
    _spent: dict[int, float] = field(default_factory=dict)
    _began: float = 0.0

    @property
    def least(self) -> int:
        """Return how many inputs are run whatever they take."""
        return 2 if self.allowance.large else 3

    def take(self, elements: int) -> bool:
        """Return whether an input with so many elements may be run, and count it if so."""
        cost = self._cost(elements)
        if self.allowance.late or (self._costs and cost > self.left):
            return False
        self.left -= cost
        return True

    def is_free(self, elements: int) -> bool:
        """Return whether an input with so many elements is expected to cost nothing."""
        return self._cost(elements) == 0

    def start(self) -> None:
        """Note that a batch of inputs begins."""
        self._began = self.allowance.used()

    def again(self) -> None:
        """Begin a batch once more. What the first input of all took does not count: the work is not done again."""
        if not self._costs:
            self.allowance.forgive(self.allowance.used() - self._began)
        self.start()

    def doubts(self, elements: int) -> bool:
        """Return whether an input of so many elements that ran since the start says little of what others will take."""
        most = _ONCE if self._costs or self.opening else _ONCE_OF_ORACLES
        return elements not in self._costs and _FREE < self.allowance.used() - self._began < most

    def ran(self, elements: int) -> None:
        """Take over that an input of so many elements was run alone since the start of the batch, and accepted."""
        if elements in self._costs:
            return
        expected, spent = self._cost(elements), self.allowance.used() - self._began
        first = not self._costs
        self._costs[elements] = 0.0 if spent <= _FREE * self.allowance.share else rounded(spent)
        self._spent[elements] = rounded(spent)
        if first:
            self._measure(spent)
        self.left -= self._costs[elements] - expected * (not first)

    def _measure(self, first: float) -> None:
        """Set what all inputs may take, beside the opening of the rewritten model with optimisations off and on."""
        allowance = self.allowance
        allowance.measure(2 * (self.opening + first))
        spent = rounded(allowance.total - allowance.left()) + 3 * self.opening
        least = allowance.least * allowance.share * allowance.factor * _SHARE / 2
        self.left = max(least, (allowance.total - spent) * _SHARE) / _RUNS

    def _cost(self, elements: int) -> float:
        """Return what an input takes: as measured, or in proportion to the nearest size that was."""
        if not self._costs:
            return 0.0
        if elements in self._costs:
            return self._costs[elements]
        near = min(self._costs, key=lambda size: abs(math.log((size + 1) / (elements + 1))))
        times = max(1.0, elements / max(near, 1))
        leaps = times > _LEAP and elements > _MANY
        return max(self._costs[near] * times, self._spent[near] * times**2 * leaps)
