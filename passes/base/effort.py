"""The CPU time of a comparison: a multiple of the time in which onnxruntime opens both models and runs each once.

The generated inputs depend only on the seed. The number of inputs that are run depends on measured times. These are
first rounded up to a power of two, so that two comparisons of the same models nearly always try the same inputs; the
report counts them. Small models, for which the minimum allowance is enough, are tried on all generated inputs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from opshift.passes.base.arguments import EFFORTS

TIMES, TIMES_LARGE = 9.0, 2.5
"""Normal effort may take this many times the bare time: for most models, and for models with large weights.

With the time that is measured too late, the end of the last run, these become 10 and 3.
"""

LARGE = 10**8
"""Bytes of weights above which weights count as large."""

LEAST = 1.8
"""The minimum allowance of CPU seconds for a comparison of whole models with normal effort."""

LEAST_OF_NODE, LEAST_OF_REPEATED = 0.6, 0.03
"""The minimum allowance for a rewritten node, and for a node that differs from an earlier one only in its weights."""

_SHARE = 0.6
"""The share of the allowance that is spent on runs of both models. The other part is for the measurement of rounding.
"""

_RUNS = 3
"""The runs per input: the original, and the rewritten model with graph optimizations off and on."""

_LEAST_COST = 1 / 4096
"""The lower bound on the measured CPU seconds of one run."""

_LEAP, _MANY = 32, 2**16
"""Inputs of more than `_MANY` elements are extrapolated by the square of their size, as for attention.

This applies only if they are more than `_LEAP` times as large as the nearest measured one.
"""

_FREE = 1 / 256
"""CPU seconds up to which an input costs nothing, so that small models always get the same inputs.

For a comparison with a share of the allowance, this limit is multiplied by the share.
"""

_ONCE, _ONCE_OF_ORACLES = 1 / 2, 1.0
"""CPU seconds up to which the first input of a size is measured again, twice.

The first run may include one-time work or a pass of the garbage collector. The limit is higher if no model was opened:
the first input then imports the oracles.
"""


def rounded(seconds: float) -> float:
    """Return the next power of two: a repeated measurement differs by less."""
    return float(2.0 ** math.ceil(math.log2(max(seconds, _LEAST_COST))))


@dataclass
class Allowance:
    """The CPU time of a comparison.

    Attributes:
        used: returns the CPU seconds used so far by all processes.
        effort: one of EFFORTS.
        max_time: seconds after which only the minimum number of inputs is still run; None: no such limit.
        large: whether the weights are large.
        least: the minimum allowance of CPU seconds with normal effort.
        share: the part of the usual allowance and of `least` that this comparison gets.
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
        """Start the clock."""
        self._start = self.used()
        self.total = self.least * self.share * self.factor
        if self.max_time is not None and self._end == math.inf:
            self._end = time.monotonic() + self.max_time

    def part(self, least: float, share: float = 1.0, *, large: bool = False) -> Allowance:
        """Return the allowance of a separate comparison that starts now and ends no later than this one."""
        return replace(self, large=large, least=least, share=share, _late=self.late)

    @property
    def factor(self) -> float:
        """The factor of the effort."""
        return EFFORTS[self.effort]

    @property
    def late(self) -> bool:
        """Whether `max_time` is over; once true, it stays true."""
        self._late = self._late or time.monotonic() > self._end
        return self._late

    def measure(self, bare: float) -> None:
        """Set the measured time in which onnxruntime opens both models and runs each once."""
        times = max(1.0, self.share * (TIMES_LARGE if self.large else TIMES))
        self.total = max(self.total, self.factor * times * bare)

    def forgive(self, seconds: float) -> None:
        """Exclude CPU seconds from the time used so far."""
        self._start += seconds

    def left(self) -> float:
        """Return the remaining CPU seconds, which may be negative."""
        return self.total - (self.used() - self._start)

    def pace(self, opening: float) -> Pace:
        """Return the budget of inputs, based on the time to open one of the models."""
        return Pace(self, opening)


@dataclass
class Pace:
    """The budget of inputs that may still be run, by their size; see `find_trials`.

    The first input of each size is measured, and its time is used for all inputs of that size. The first input of all,
    with the time to open a model, determines the allowance of the whole comparison.
    """

    allowance: Allowance
    opening: float
    left: float = math.inf
    _costs: dict[int, float] = field(default_factory=dict)
    _spent: dict[int, float] = field(default_factory=dict)
    _began: float = 0.0

    @property
    def least(self) -> int:
        """Return the minimum number of inputs, which are run whatever their cost."""
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
        """Start a batch of inputs."""
        self._began = self.allowance.used()

    def again(self) -> None:
        """Restart a batch; the time of the very first input is not counted, because its one-time work is over."""
        if not self._costs:
            self.allowance.forgive(self.allowance.used() - self._began)
        self.start()

    def doubts(self, elements: int) -> bool:
        """Return whether the time of an input of this size is a poor estimate for other inputs."""
        most = _ONCE if self._costs or self.opening else _ONCE_OF_ORACLES
        return elements not in self._costs and _FREE < self.allowance.used() - self._began < most

    def ran(self, elements: int) -> None:
        """Record that an input of this size was run alone since the start of the batch, and accepted."""
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
        """Set the allowance for all inputs; opening the rewritten model with optimizations off and on is extra."""
        allowance = self.allowance
        allowance.measure(2 * (self.opening + first))
        spent = rounded(allowance.total - allowance.left()) + 3 * self.opening
        least = allowance.least * allowance.share * allowance.factor * _SHARE / 2
        self.left = max(least, (allowance.total - spent) * _SHARE) / _RUNS

    def _cost(self, elements: int) -> float:
        """Return the cost of an input: measured, or in proportion to the nearest measured size."""
        if not self._costs:
            return 0.0
        if elements in self._costs:
            return self._costs[elements]
        near = min(self._costs, key=lambda size: abs(math.log((size + 1) / (elements + 1))))
        times = max(1.0, elements / max(near, 1))
        leaps = times > _LEAP and elements > _MANY
        return max(self._costs[near] * times, self._spent[near] * times**2 * leaps)
