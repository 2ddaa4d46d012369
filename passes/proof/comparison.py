"""Define equality of outputs, and search for an input on which two models differ."""

from __future__ import annotations

import functools
import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opshift.passes.base.effort import Allowance
from opshift.passes.base.report import Counterexample
from opshift.passes.proof.coverage import CoverageCounter
from opshift.passes.proof.equality import DifferenceKind, deviation, differences_by_kind, differs, differs_in_rank
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.rounding.bound import EXACT, FACTOR, Bound, Enough
from opshift.passes.proof.shrink import shrink
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime.ort_models import Feeds, RejectedError, RejectionKind

Outputs = tuple[Any, ...]
_SHOWN = 64  # maximum number of elements that a counterexample lists in full
_HOPELESS = 8  # inputs at a limit of onnxruntime after which a rewritten model that ran on none is given up
_FIRST_RUNS = 2  # inputs that run before the first check of the time
_LEAST_MEASURED = 1  # minimum number of inputs with measured rounding, whatever the time
_MOST_MEASURED = 8  # maximum number of tried inputs for that: an input with an undefined original result does not count
_LIKELY = 4  # factor over other inputs' distances that is likely without a measurement of rounding
_WORST = 2  # inputs beyond that factor that are measured anyway, for each kind of difference
_KNOWN = 256  # number of inputs with cached bounds
_NEAR = 4  # number of stored inputs on which two models differ within the bounds


class Executor(Protocol):
    """Computes the outputs of a model: in onnxruntime sessions, node by node, or with an oracle."""

    @property
    def name(self) -> str:
        """The name of the executor."""

    @property
    def modes(self) -> tuple[bool, ...]:
        """Whether graph optimizations can be off and on, or only off."""

    def run(self, feeds: Feeds, optimised: bool) -> Outputs:
        """Return the outputs in the model's order, or raise RejectedError."""

    def run_all(self, batch: Sequence[Feeds], optimised: bool) -> list[Outputs | RejectedError]:
        """Return, for each input, the result of `run`; the list ends after an input that ends onnxruntime."""

    def close(self) -> None:
        """Release open sessions."""


@dataclass(frozen=True)
class Reference:
    """The reference: the expected outputs, and the allowed distance from them.

    Attributes:
        executor: computes them.
        outputs: their names.
        note: a note on the executor.
        bounds: the accepted differences of outputs by arithmetic in another order; None: no differences.
        lean: whether the executor is closed after each answer, to free memory.
        opening: the CPU seconds that it took to open the model.
    """

    executor: Executor
    outputs: tuple[str, ...]
    note: str = ""
    bounds: Callable[[Feeds, Outputs, Enough], Sequence[Bound]] | None = None
    lean: bool = False
    opening: float = 0.0

    def plain(self, feeds: Feeds) -> Outputs:
        """Return the outputs with graph optimizations off."""
        return self.executor.run(feeds, False)

    def plain_all(self, batch: Sequence[Feeds]) -> list[Outputs | RejectedError]:
        """Return, for each input, the result of `plain`; the list ends after an input that ends onnxruntime."""
        return self.executor.run_all(batch, False)

    def optimised(self, feeds: Sequence[Feeds], plain: Sequence[Outputs]) -> list[Outputs]:
        """Return the outputs with optimizations on; where these do not run, the plain outputs."""
        if True not in self.executor.modes:
            return list(plain)
        found: list[Outputs | RejectedError] = []
        try:
            while len(found) < len(feeds) and not (found and _ended(found[-1])):
                found += self.executor.run_all(feeds[len(found) :], True)
        except RejectedError:
            return list(plain)
        ran = [one if isinstance(other, RejectedError) else other for one, other in zip(plain, found, strict=False)]
        return [*ran, *plain[len(ran) :]]


def _ended(result: Outputs | RejectedError) -> bool:
    """Return whether onnxruntime ended on an input, or refuses further inputs."""
    return isinstance(result, RejectedError) and result.why in (RejectionKind.DEATH, RejectionKind.LIMIT)


# --- the comparison -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A differing output: the expected and the actual value, the reason, and the element's index."""

    output: str
    expected: Any
    actual: Any
    what: str
    index: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Mismatch:
    """An input on which two models differ, with graph optimizations off or on."""

    feeds: Feeds
    difference: Difference
    optimised: bool

    @property
    def reason(self) -> str:
        """Return a description of the difference."""
        way = "on" if self.optimised else "off"
        return f"output {self.difference.output}: {self.difference.what}, with graph optimisations {way}"

    def counterexample(self, node: str = "", command: str = "") -> Counterexample:
        """Return the counterexample in plain lists and numbers."""
        found = self.difference
        types = [value.dtype for value in (found.expected, found.actual) if isinstance(value, np.ndarray)]
        mark = [f"{dtype}: " if len(set(types)) > 1 else "" for dtype in (*types, "", "")]
        expected, actual = readable(found.expected, found.index), readable(found.actual, found.index)
        return Counterexample(
            {name: readable(value) for name, value in self.feeds.items()},
            found.output,
            f"{mark[0]}{expected}" if mark[0] else expected,
            f"{mark[1]}{actual}" if mark[1] else actual,
            node,
            command,
        )


@dataclass(frozen=True)
class Excluded:
    """What does not count on an input: outputs, and elements of others."""

    outputs: frozenset[str] = frozenset()
    elements: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    ranks: bool = False
    """Whether the ranks of these outputs do not count either."""

    def __bool__(self) -> bool:
        """Return whether anything does not count."""
        return bool(self.outputs or self.elements)

    def __or__(self, other: Excluded) -> Excluded:
        """Return what does not count in one of two runs of a model."""
        outputs, elements = self.outputs | other.outputs, dict(self.elements)
        for name, places in other.elements.items():
            known = elements.setdefault(name, places)
            if known.shape != places.shape:
                outputs |= {name}
            else:
                elements[name] = known | places
        left = {name: places for name, places in elements.items() if name not in outputs}
        return Excluded(outputs, left, self.ranks or other.ranks)

    def counting(self, name: str, expected: Any, actual: Any) -> Any:
        """Return an actual output with the expected elements where these do not count."""
        places = self.elements.get(name)
        if places is None or not np.shape(expected) == np.shape(actual) == places.shape:
            return actual
        return np.where(places, expected, actual).astype(actual.dtype)


@dataclass(frozen=True)
class Comparison:
    """The comparison of a rewritten model with its reference.

    `excluded` returns what does not count on an input, with graph optimizations off or on.

    `near` collects inputs with differences within the bounds. `beyond` collects inconclusive inputs: the rewritten
    model exceeds a limit, or the difference exceeds the estimate of a rounding that could not be measured, in less than
    half of the digits. `unoptimised` collects the errors with which neither model runs with graph optimizations on:
    onnxruntime 1.32.0 crashes while it optimizes a LayerNormalization of float16 whose third input is "". `undefined`
    collects the inputs on which no output counts. `covered` adds up the compared elements.

    An `allowance` limits the work: `untried` inputs are not run, those of `without` run only with graph optimizations
    off, and the differences of `unmeasured` may be rounding. `known` are the bounds of inputs.
    """

    reference: Reference
    rewritten: Executor
    excluded: Callable[[Feeds, bool], Excluded] = lambda feeds, optimised: Excluded()
    near: list[Feeds] = field(default_factory=list)
    beyond: list[tuple[Feeds, RejectedError]] = field(default_factory=list)
    unoptimised: list[RejectedError] = field(default_factory=list)
    undefined: list[Feeds] = field(default_factory=list)
    covered: CoverageCounter = field(default_factory=CoverageCounter)
    allowance: Allowance | None = None
    untried: list[Feeds] = field(default_factory=list)
    without: list[Feeds] = field(default_factory=list)
    unmeasured: list[Feeds] = field(default_factory=list)
    known: dict[int, tuple[Feeds, Sequence[Bound]]] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """Return a note if some results were compared only with graph optimizations off."""
        if self.unoptimised:
            return f"with graph optimisations on, neither model runs: {self.unoptimised[0]}"
        if self.without:
            return f"{len(self.without)} inputs were compared only with graph optimisations off: the budget was used up"
        return ""

    @property
    def _runs_original(self) -> bool:
        """Whether onnxruntime runs the whole original."""
        return True in self.reference.executor.modes

    def decided(self, trials: Sequence[tuple[Feeds, Outputs]]) -> list[Feeds]:
        """Return the inputs that were compared completely: they ran, and their rounding was measured."""
        lost = {id(feeds) for feeds in (*self.untried, *self.unmeasured)}
        return [feeds for feeds, _ in trials if id(feeds) not in lost]

    def compared(self, trials: Sequence[tuple[Feeds, Outputs]]) -> bool:
        """Return whether some output counted on some input."""
        undefined = {id(feeds) for feeds in self.undefined}
        return not all(id(feeds) in undefined for feeds in self.decided(trials))

    def run(
        self, trials: Sequence[tuple[Feeds, Outputs]], progress: Callable[[], None] = lambda: None
    ) -> Mismatch | None:
        """Return an input on which the two differ; None if there is none.

        Raises:
            RejectedError: onnxruntime does not load the rewritten model, or it exceeds a limit on every input.
        """
        began = self.allowance.used() if self.allowance else 0.0
        ran = False
        for optimised in self.rewritten.modes:
            rest, apart, step = list(trials), list[_Apart](), _FIRST_RUNS
            while rest and (ran or len(self.beyond) < _HOPELESS):
                if step > _FIRST_RUNS and self.allowance and self.allowance.left() < 0:
                    (self.without if optimised else self.untried).extend(feeds for feeds, _ in rest)
                    break
                if self.reference.lean:
                    self.reference.executor.close()
                # The results end after an input that ends onnxruntime.
                try:
                    results = self.rewritten.run_all([feeds for feeds, _ in rest[:step]], optimised)
                except RejectedError as error:
                    if optimised and self._shared(rest[0][0], error):
                        break
                    raise
                if not optimised:
                    self.covered.add(rest, results, self.reference.outputs)
                for _ in results:
                    progress()
                if self.reference.lean:
                    self.rewritten.close()
                differing = _apart(rest, results)
                found = self._first([one for one in differing if one.rejected], optimised)
                if found is not None:
                    return found
                apart += [one for one in differing if not one.rejected]
                ran = ran or not all(isinstance(one, RejectedError) for one in results)
                rest, step = rest[len(results) :], 2 * step
            again = self.allowance.used() - began if self.allowance and not optimised else 0.0
            found = self._first(apart, optimised, again)
            if found is not None:
                return found
        if not ran and len(self.beyond) >= _HOPELESS:
            raise self.beyond[0][1]
        # An input without enough allowance is as inconclusive as one beyond a limit.
        lost = {id(feeds) for feeds in (*(feeds for feeds, _ in self.beyond), *self.untried)}
        if self.beyond and all(id(feeds) in lost for feeds, _ in trials):
            raise self.beyond[0][1]
        return None

    def _first(self, apart: Sequence[_Apart], optimised: bool, reserved: float = 0.0) -> Mismatch | None:
        """Return the first difference. Outputs that equal the plain ones are right, whatever optimizations return.

        If there is no time to measure the rounding on every input and keep `reserved` seconds, it is measured on the
        first input, on further small ones, and on inputs with unusually large differences.
        """
        best = [one.plain for one in apart]
        if optimised:
            best = self.reference.optimised([one.feeds for one in apart], best)
        pairs = list(zip(apart, best, strict=True))
        if self.allowance is None:
            return self._measured(pairs, optimised)
        cost, counted = 0.0, 0
        left, most = list[tuple[_Apart, Outputs]](), Counter[DifferenceKind]()
        for place, (one, expected) in enumerate(pairs):
            enough = counted >= _LEAST_MEASURED or place >= _MOST_MEASURED
            if enough and self.allowance.left() - reserved < cost * one.size:
                left.append((one, expected))
                continue
            began, undefined = self.allowance.used(), len(self.undefined)
            found = self._measured([(one, expected)], optimised)
            if found is not None:
                return found
            cost = (self.allowance.used() - began) / max(1, one.size)
            if len(self.undefined) == undefined:
                counted, most = counted + 1, most | one.kinds
        doubtful = _doubtful(left, most)
        for one, _ in left:
            if id(one.feeds) not in doubtful:
                self.unmeasured.append(one.feeds)
                self.covered.drop(one.feeds)
        return self._measured(list(doubtful.values()), optimised)

    def _measured(self, pairs: Sequence[tuple[_Apart, Outputs]], optimised: bool) -> Mismatch | None:
        """Return the first of these differences that exceeds rounding."""
        for one, expected in pairs:
            found = self._counting(one.feeds, one.plain, expected, one.result, optimised)
            if found is not None:
                return Mismatch(one.feeds, found, optimised)
        return None

    def on(self, feeds: Feeds, optimised: bool) -> Difference | None:
        """Return the difference on an input, unless the original's result is undefined for it."""
        try:
            plain = self.reference.plain(feeds)
            (best,) = self.reference.optimised([feeds], [plain]) if optimised else (plain,)
        except RejectedError:
            return None
        result: Outputs | RejectedError
        try:
            result = self.rewritten.run(feeds, optimised)
        except RejectedError as error:
            result = error
        try:
            return self._counting(feeds, plain, best, result, optimised)
        except RejectedError:
            return None  # it exceeds a limit, which is inconclusive

    def _counting(
        self, feeds: Feeds, plain: Outputs, best: Outputs, result: Outputs | RejectedError, optimised: bool
    ) -> Difference | None:
        """Return the first difference that counts."""
        found = self._difference(feeds, plain, best, result, optimised)
        if found is None:
            return None
        excluded = self.excluded(feeds, optimised)
        if not excluded:
            return found
        self.covered.leave_out(feeds, excluded.outputs)
        if excluded.outputs == frozenset(self.reference.outputs):
            self.undefined.append(feeds)
        if excluded.ranks or isinstance(result, RejectedError):
            return None  # an undefined intermediate value may be the reason why it does not run
        expected = best if optimised else plain
        for place, name in enumerate(self.reference.outputs):
            # Even for undefined numbers, the type and the rank of the tensor are defined.
            if name in excluded.outputs and (what := differs_in_rank(feeds, expected[place], result[place])):
                return Difference(name, expected[place], result[place], what)
        named = zip(self.reference.outputs, expected, result, strict=True)
        counting = tuple(excluded.counting(name, one, other) for name, one, other in named)
        for place, name in enumerate(self.reference.outputs):
            if counting[place] is not result[place] and not optimised:
                count = int(excluded.elements[name].sum())
                self.covered.leave_out_elements(feeds, name, expected[place], counting[place], count)
        return self._difference(feeds, plain, best, counting, optimised, excluded.outputs)

    def _difference(
        self,
        feeds: Feeds,
        plain: Outputs,
        best: Outputs,
        result: Outputs | RejectedError,
        optimised: bool,
        excluded: frozenset[str] = frozenset(),
    ) -> Difference | None:
        expected = best if optimised else plain
        if isinstance(result, RejectedError):
            # If onnxruntime does not run the original, it may crash on the result: in a Loop with numbers of 2 bits
            # (1.32.0).
            lost = (RejectionKind.LIMIT,) if self._runs_original else (RejectionKind.LIMIT, RejectionKind.DEATH)
            if result.why in lost:
                self.beyond.append((feeds, RejectedError(str(result), RejectionKind.LIMIT)))
                return None
            if result.why in (RejectionKind.MISSING_KERNEL, RejectionKind.TOO_NEW):
                raise result
            if optimised and self._shared(feeds, result):
                return None
            return Difference(self.reference.outputs[0], expected[0], f"error: {result}", f"does not run: {result}")
        apart = {
            place: name
            for place, name in enumerate(self.reference.outputs)
            if name not in excluded
            and differs(expected[place], result[place])
            and not (optimised and differs(plain[place], result[place]) is None)
        }
        if not apart:
            return None

        def wider(bound: Bound, place: int) -> Bound:
            if not optimised and not self.reference.bounds:
                return bound
            return bound.plus(FACTOR * deviation(plain[place], best[place]))

        def enough(found: Sequence[Bound]) -> bool:
            return not any(differs(expected[place], result[place], wider(found[place], place)) for place in apart)

        bounds = self._bounds(feeds, plain, enough, optimised)
        for place, name in apart.items():
            bound = wider(bounds[place], place)
            found = differs(expected[place], result[place], bound)
            if found is None or not bound.estimated:
                pass
            elif not differs(expected[place], result[place], bound.plus(bound.estimated)):
                unknown = f"output {name}: {found[0]}, and how much of it is rounding cannot be measured on this input"
                self.beyond.append((feeds, RejectedError(unknown, RejectionKind.LIMIT)))
                return None
            if found is not None:
                return Difference(name, expected[place], result[place], *found)
            if not optimised and len(self.near) < _NEAR:
                self.near.append(feeds)
        return None

    def _bounds(self, feeds: Feeds, plain: Outputs, enough: Enough, optimised: bool) -> Sequence[Bound]:
        """Return the bound of each output; a cached or empty bound if that suffices."""
        exact = (EXACT,) * len(plain)
        if not self.reference.bounds or (optimised and enough(exact)):
            return exact
        _, bounds = self.known.get(id(feeds), (feeds, exact))
        if bounds is not exact and enough(bounds):
            return bounds
        bounds = self.reference.bounds(feeds, plain, enough)
        if len(self.known) < _KNOWN:
            self.known[id(feeds)] = feeds, bounds
        return bounds

    def _shared(self, feeds: Feeds, error: RejectedError) -> bool:
        """Return whether the original too, with graph optimizations on, ends with such an error on an input."""
        if error.why is RejectionKind.LIMIT or not self._runs_original:
            return False
        try:
            self.reference.executor.run(feeds, True)
        except RejectedError as own:
            if own.why is error.why:
                self.unoptimised.append(error)
                return True
        return False

    def shrunk(self, mismatch: Mismatch, specs: Sequence[Spec], attempts: int) -> Mismatch:
        """Return a mismatch with a smaller input, after at most this many attempts: smaller dims, then simpler values.

        After an attempt on which the rewritten model exceeds a limit, such as an endless Loop, it stops. It takes no
        longer than the allowance of the whole comparison.
        """
        limits, allowance = len(self.beyond), self.allowance
        end = allowance.used() + allowance.total if allowance else math.inf

        def fails(feeds: Feeds) -> Difference | None:
            late = allowance is not None and allowance.used() > end
            return self.on(feeds, mismatch.optimised) if len(self.beyond) == limits and not late else None

        feeds, difference = shrink(specs, mismatch.feeds, mismatch.difference, fails, attempts)
        return Mismatch(feeds, difference, mismatch.optimised)


@dataclass(frozen=True)
class _Apart:
    """An input on which the outputs of the two models are not bit-identical, or the rewritten one has none."""

    feeds: Feeds
    plain: Outputs
    result: Outputs | RejectedError

    @property
    def rejected(self) -> bool:
        """Whether the rewritten model does not run."""
        return isinstance(self.result, RejectedError)

    @property
    def size(self) -> int:
        """Return the number of elements of the input."""
        return sum(value.size for value in self.feeds.values() if isinstance(value, np.ndarray))

    @functools.cached_property
    def kinds(self) -> Counter[DifferenceKind]:
        """The distances of the outputs, by kind; empty if the rewritten model does not run."""
        pairs = () if isinstance(self.result, RejectedError) else zip(self.plain, self.result, strict=True)
        found = (Counter(differences_by_kind(one, other)) for one, other in pairs)
        return functools.reduce(Counter.__or__, found, Counter())


def _apart(trials: Sequence[tuple[Feeds, Outputs]], results: Sequence[Outputs | RejectedError]) -> list[_Apart]:
    """Return the inputs whose results are not bit-identical."""
    return [
        _Apart(feeds, plain, result)
        for (feeds, plain), result in zip(trials, results, strict=False)
        if isinstance(result, RejectedError) or any(map(differs, plain, result))
    ]


def _doubtful(
    left: Sequence[tuple[_Apart, Outputs]], most: Mapping[DifferenceKind, float]
) -> dict[int, tuple[_Apart, Outputs]]:
    """Return, by input id, the inputs with unusually large differences, the worst of each kind.

    `most` has the largest distances that were measured as rounding. An infinity or a -0.0 has no meaningful distance.
    """
    return {
        id(one.feeds): (one, expected)
        for kind in DifferenceKind
        for one, expected in heapq.nlargest(_WORST, left, lambda pair: pair[0].kinds[kind])  # noqa: B023 (called at once)
        if one.kinds[kind] > _LIKELY * most[kind]
    }


def readable(value: Any, index: tuple[int, ...] | None = None) -> Any:
    """Return a value as nested lists of plain numbers and strings; a large one as a description."""
    if isinstance(value, list):
        return [readable(item) for item in value[:_SHOWN]]
    if isinstance(value, dict):
        return {str(key): readable(item) for key, item in list(value.items())[:_SHOWN]}
    if not isinstance(value, np.ndarray | np.generic):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "V":  # types of ml_dtypes print as bytes
        array = array.astype(np.float32 if is_float(array.dtype) else np.int8)
    typed_shape = f"{value.dtype}{list(array.shape)}"
    if array.ndim > 1 and not array.size:
        return f"{typed_shape}, empty"
    if array.size <= _SHOWN:
        return array.tolist()
    if index is not None:
        return f"{typed_shape}, {array[index]} at {list(index)}"
    zero: Any = "" if array.dtype == np.object_ else 0
    others = np.argwhere(array != zero)
    listed = ", ".join(f"{array[tuple(at)]} at {at.tolist()}" for at in others[:8])
    more = f" and {len(others) - 8} more" if len(others) > 8 else ""
    return f"{typed_shape}, zero but for {listed}{more}" if len(others) else f"{typed_shape}, all zero"


def sentence(*parts: str) -> str:
    """Join the nonempty parts of a message."""
    return "; ".join(filter(None, parts))
