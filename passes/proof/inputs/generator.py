"""Inputs for a comparison: values that tell near misses apart, and which of them a model accepts.

Random floats hardly ever tie, overflow or meet an infinity, so values are drawn from small palettes, one palette per
*mood*: ties, signs, both zeros, infinities, the extremes of the type, the integers around 2^31, 2^32 and 2^53; and for
what the model does with an input: indices around 0 and the end, numbers inside what an operator permits, the constants
that the model compares with and their neighbours.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.passes.analysis.scopes import Array, Shape, graph_inputs
from opshift.passes.base.effort import Pace
from opshift.passes.proof.inputs.data_flow import (
    NOTHING,
    Axis,
    Drawn,
    Fill,
    Length,
    Say,
    Use,
    divides,
    fills,
    says,
    steering,
    uses,
)
from opshift.passes.proof.inputs.distributions import (
    STYLES,
    Allowed,
    Mood,
    Rng,
    bounded,
    boxes,
    draw,
    indices,
    limits,
    moods,
    ones,
    some,
)
from opshift.passes.proof.inputs.input_specs import Spec, UntestableError, Value, guesses, np_dtype, specs
from opshift.passes.proof.inputs.shape_search import Repair, Shapes, beyond, fits, long_sizes, sizes, with_shapes
from opshift.passes.proof.inputs.value_classes import counted, summed
from opshift.passes.runtime.ort_session import Feeds, RejectedError, Why

__all__ = [
    "Allowed",
    "Array",
    "Budget",
    "Draft",
    "Outputs",
    "Result",
    "Rng",
    "Shape",
    "Spec",
    "Trials",
    "UntestableError",
    "Value",
    "Values",
    "beyond",
    "counted",
    "divides",
    "fills",
    "fits",
    "graph_inputs",
    "guesses",
    "long_sizes",
    "np_dtype",
    "overridden",
    "says",
    "sizes",
    "specs",
    "steering",
    "summed",
    "trials",
    "uses",
    "whole_budget",
    "with_shapes",
]


# --- values ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draft:
    """How the inputs of a model are drawn.

    `steer` names inputs that get small numbers only, `uses` says what for; `says` change inputs in every fourth turn.
    `fills` make shapes of inputs that must multiply up to something, in three of four; in half of the others one
    size is -1 instead, which infers it.
    """

    specs: tuple[Spec, ...]
    steer: frozenset[str]
    allowed: Allowed
    uses: Mapping[str, Use] = field(default_factory=dict)
    says: tuple[Say, ...] = ()
    fills: tuple[Fill, ...] = ()

    def feeds(self, rng: Rng, shapes: Shapes, turn: int) -> dict[str, Any]:
        """Return values for all inputs; `turn` picks the moods, and every combination comes with enough turns.

        A negative turn is the gentle version of `-1 - turn`: its indices are inside, and not negative; its sizes and
        counts are ones.
        """
        number = turn if turn >= 0 else -1 - turn

        def pick(position: int, count: int) -> int:
            return (number + position * (number // count)) % count

        values = [
            None
            if self._indexes(spec)
            else ones(np_dtype(spec.element_type), self.allowed)
            if turn < 0 and self._use(spec).counts
            else (found := self._moods(spec))[pick(position, len(found))].of_round(number // len(found))
            for position, spec in enumerate(self.specs)
        ]
        styles = ["inside" if turn < 0 else STYLES[pick(position, len(STYLES))] for position in range(len(self.specs))]
        drawn = self._drawn(rng, shapes, values, styles, number if self.allowed.whole else None)
        inferred = turn >= 0 and turn % 4 == 3
        for fill in self.fills:
            if not inferred or rng.integers(2):
                drawn = _filled(rng, fill, shapes, drawn, inferred=inferred)
        for say in self.says if turn >= 0 and turn % 4 == 3 else ():
            drawn = say.changed(rng, drawn)
        return drawn

    def peaks(self, rng: Rng, shapes: Shapes, manner: str) -> dict[str, Any]:
        """Return values of which one in each row of the longest axis is a peak, or with 'dip' is the least."""
        values = [None if self._indexes(spec) else replace(self._several(spec), manner=manner) for spec in self.specs]
        return self._drawn(rng, shapes, values, ["inside"] * len(values))

    def turns(self) -> int:
        """Return how many turns show every mood of every input once."""
        return max(map(self._choices, self.specs), default=1)

    def _choices(self, spec: Spec) -> int:
        """Return how many moods an input has, or ways to draw an index."""
        return len(STYLES) if self._indexes(spec) else len(self._moods(spec))

    @property
    def gentle(self) -> bool:
        """Whether a gentle turn differs: some input is an index, or sets a size."""
        return any(self._indexes(spec) or self._use(spec).counts for spec in self.specs)

    def _use(self, spec: Spec) -> Use:
        return self.uses.get(spec.name, NOTHING)

    def _indexes(self, spec: Spec) -> bool:
        """Return whether an input is an index as it is, and nothing that must be small."""
        use = self._use(spec)
        return bool(use.lookups) and not use.counts and np_dtype(spec.element_type).kind in "iuf"

    def _moods(self, spec: Spec) -> tuple[Mood, ...]:
        use = self._use(spec)
        small = spec.name in self.steer or use.counts or use.places
        found = moods(np_dtype(spec.element_type), small, self.allowed, use.intervals, use.numbers)
        return (*found, *some(np_dtype(spec.element_type))) if use.counts and not use.places else found

    def _several(self, spec: Spec) -> Mood:
        """Return the first mood of an input that has more than one value, if there is one."""
        found = self._moods(spec)
        return next((mood for mood in found if len(mood.palette) > 1), found[0])

    def _drawn(
        self,
        rng: Rng,
        shapes: Shapes,
        values: Sequence[Mood | None],
        styles: Sequence[str],
        turn: int | None = None,
    ) -> dict[str, Any]:
        """Return values in these moods; those without are indices, drawn after what their lengths may come from."""
        known: dict[str, Any] = {}
        for spec, mood in zip(self.specs, values, strict=True):
            if mood is not None:
                make = functools.partial(draw, rng, mood)
                known[spec.name] = _value(
                    rng, spec, shapes[spec.name], self._small(make) if self._use(spec).counts else make
                )
            boxed = self._use(spec).boxes and turn is not None and turn % 2 == 0
            drawn = known.get(spec.name)
            if boxed and isinstance(drawn, np.ndarray) and drawn.shape[-1:] > (3,) and drawn.dtype.kind == "f":
                known[spec.name] = boxes(rng, drawn, self._use(spec).boxes)
        for spec, mood, style in zip(self.specs, values, styles, strict=True):
            if mood is None:
                index = self._index(rng, spec, style, shapes, known, turn)
                known[spec.name] = _value(rng, spec, shapes[spec.name], index)
        return {spec.name: known[spec.name] for spec in self.specs}

    def _small(self, make: Callable[[Shape], Array]) -> Callable[[Shape], Array]:
        """Return what makes sizes or counts, of which all inputs together multiply up to little."""
        counting = sum(1 for spec in self.specs if self._use(spec).counts)
        return lambda shape: bounded(make(shape), max(_ROOM ** (1 / counting), 4))

    def _index(
        self,
        rng: Rng,
        spec: Spec,
        style: str,
        shapes: Shapes,
        known: Mapping[str, Any],
        turn: int | None,
    ) -> Callable[[Shape], Array]:
        """Return what makes indices; where they are looked up in many ways, within the least of all lengths."""
        use, dtype = self._use(spec), np_dtype(spec.element_type)
        lookups = [one for one in use.lookups if not one.beyond] or list(use.lookups)
        tables = [tuple(_resolved(length, shapes, known) for length in one.lengths) for one in lookups]
        offsets = {one.offset for one in lookups}
        offset = offsets.pop() if len(offsets) == 1 else 0
        make = functools.partial(
            indices,
            rng,
            dtype,
            style,
            tables[0] if len(tables) == 1 else (_least(itertools.chain(*tables)),),
            negative=all(one.negative for one in lookups),
            beyond=all(one.beyond for one in lookups),
            among=use.numbers,
            ignored=tuple(dict.fromkeys(item for one in lookups for item in one.ignored)),
            turn=turn // len(STYLES) // 2 if turn is not None and turn // len(STYLES) % 2 else None,
        )
        return (lambda shape: _moved_by(make(shape), -offset)) if offset else make


def _moved_by(values: Array, offset: int) -> Array:
    """Return integers with a constant added; as they are where the type does not hold that."""
    moved = values.astype(np.int64) + offset
    low, high = limits(values.dtype) or (-(2**53), 2**53)
    return moved.astype(values.dtype) if bool(((moved >= low) & (moved <= high)).all()) else values


def _resolved(length: Length, shapes: Shapes, known: Mapping[str, Any]) -> int | None:
    """Return a length, given the shapes of the inputs and what is drawn already."""
    if isinstance(length, Axis):
        shape = shapes.get(length.input, ())
        return shape[length.axis] if -len(shape) <= length.axis < len(shape) else None
    if isinstance(length, Drawn):
        value = known.get(length.input)
        return int(value.reshape(-1)[0]) if isinstance(value, np.ndarray) and value.size else None
    return length


def _filled(rng: Rng, fill: Fill, shapes: Shapes, drawn: dict[str, Any], *, inferred: bool) -> dict[str, Any]:
    """Return inputs of which one multiplies up to what it must; as they are where that cannot be.

    With `inferred` one of its sizes is -1.
    """
    lengths = [_resolved(length, shapes, drawn) for length in fill.elements]
    sizes = drawn.get(fill.input)
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths) or not isinstance(sizes, np.ndarray) or not sizes.size:
        return drawn
    total, rest = divmod(math.prod(known), fill.others)
    if rest or total > _FACTORED:
        return drawn
    if fill.others == 1 and len(known) == sizes.size and rng.integers(3) == 0:
        return {**drawn, fill.input: np.asarray(known, sizes.dtype).reshape(sizes.shape)}  # as it was
    factors = np.ones(sizes.size, np.int64)
    for factor in _factors(total):
        factors[rng.integers(sizes.size)] *= factor
    if inferred and total and sizes.dtype.kind == "i":
        factors[rng.integers(sizes.size)] = -1
    return {**drawn, fill.input: factors.astype(sizes.dtype).reshape(sizes.shape)}


def _factors(number: int) -> Iterator[int]:
    """Yield the prime factors of a number, or a 0 alone."""
    if not number:
        yield 0
        return
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1
    if number > 1:
        yield number


def _least(lengths: Iterable[int | None]) -> int | None:
    return min((length for length in lengths if length is not None), default=None)


def _value(rng: Rng, spec: Spec, shape: Shape, make: Callable[[Shape], Array]) -> Value:
    """Return a value of an input's kind: an optional is absent at times, a sequence has up to four elements.

    Its elements have the same shape, or differ in the first dim that has a choice, or in all of those.
    """
    if spec.kind == "tensor":
        return make(shape)
    if spec.kind.startswith("optional") and rng.integers(3) == 0:
        return None
    if spec.kind == "optional":
        return make(shape)
    dims: Sequence[int | str] = spec.dims if spec.dims is not None else [""] * len(shape)
    choice = [axis for axis, dim in enumerate(dims) if isinstance(dim, str)]
    count, varied = int(rng.choice((2, 1, 3, 0, 4))), choice[: (0, 1, len(choice))[int(rng.integers(3))]]
    grown = [tuple(size + at * (axis in varied) for axis, size in enumerate(shape)) for at in range(count)]
    return [make(one) for one in grown]


# --- the trials -----------------------------------------------------------------------------------------------------

Outputs = tuple[Any, ...]
Result = Outputs | RejectedError
Values = Callable[[Shapes, int | str], Feeds]
"""Makes inputs of a turn, see `Draft.feeds`, or with 'peak' or 'dip' of one such value in each row."""


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


_ROOM = 4096  # what all sizes that are drawn may multiply up to
_FACTORED = 2**40  # what is taken apart into factors
_FIRST = 8  # shapes that are tried with other values where none is accepted
_FATAL = 3  # inputs that end onnxruntime, after which no more are tried
_FATAL_AT_FIRST = 16  # the same where none is accepted yet and none took long to end it
_LARGEST = 2**28  # elements of all inputs together: they are held several times, in 8 bytes each
_AT_ONCE = 32  # inputs that are drawn while others run


def _total(shapes: Shapes) -> int:
    """Return how many elements all inputs of these shapes have together."""
    return sum(map(math.prod, shapes.values()))


def _elements(value: Any) -> int:
    """Return how many elements an input or an output has."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_elements, value)) if isinstance(value, list) else int(getattr(value, "size", 0))


def trials(
    draft: Draft,
    values: Values,
    plain: Callable[[Sequence[Feeds]], Sequence[Result]],
    shapes: Iterable[Shapes],
    long: Callable[[Shapes], Iterable[Shapes]],
    budget: Budget,
    repair: Repair | None = None,
    pace: Pace | None = None,
) -> Trials:
    """Return inputs that the original accepts: one of each shape, then each shape in ever other moods, then long ones.

    `long` yields shapes with long axes, given shapes that are accepted; `budget.long` says how many are tried.
    Where few shapes are accepted `repair` looks for others. A rejected index is followed by one that is not negative.
    Three inputs are found even where the first is larger than the budget. What the `pace` does not allow is left out,
    but for the least number of inputs, which have a small shape.
    """
    found: list[tuple[Feeds, Outputs]] = []
    fitting: list[Shapes] = []
    least = pace.least if pace else 3
    rejections: list[str] = []
    fatal: list[str] = []
    elements = most = 0
    patience, slow, early = budget.rejections, False, 0

    def run(batch: Sequence[tuple[Shapes, int | str]]) -> list[bool]:
        """Return which of some tries are accepted; after one that ends onnxruntime come no others."""
        nonlocal elements, most, slow, early
        if (size := max(_total(shape) for shape, _ in batch)) > _LARGEST:
            rejections.append(f"inputs of these shapes have {size} elements, and at most {_LARGEST} are drawn")
            return [False] * len(batch)
        if not all(Facts(None, dims).holdable for shape, _ in batch for dims in shape.values()):
            rejections.append("numpy has no arrays of these shapes")  # nor empty ones, with any dimension like that
            return [False] * len(batch)
        if pace:
            pace.start()
        drawn = [values(shape, turn) for shape, turn in batch]
        results = plain(drawn)
        if pace and len(results) == 1 and not isinstance(results[0], RejectedError):
            if pace.doubts(size):
                pace.start()
                plain(drawn)
            pace.ran(size)
        for feeds, result in zip(drawn, results, strict=False):
            if isinstance(result, RejectedError):
                rejections.append(str(result))
                fatal.extend([str(result)] * (result.why in (Why.DEATH, Why.LIMIT)))
                slow = slow or result.why is Why.LIMIT
            else:
                early = early if found else len(fatal)
                found.append((feeds, result))
                size = sum(_elements(value) for value in (*feeds.values(), *result))
                elements, most = elements + size, max(most, size)
        return [not isinstance(result, RejectedError) for result in results]

    def attempt(*batch: tuple[Shapes, int | str]) -> bool:
        """Try these, and what is rejected once more with gentler values; return whether any was accepted."""
        accepted = run(batch)
        again = [
            (shape, -1 - turn)
            for (shape, turn), done in zip(batch, accepted, strict=False)
            if not done and draft.gentle and isinstance(turn, int) and not spent()
        ]
        return any([*accepted, *(run(again) if again else ())])

    def hopeless() -> bool:
        return len(fatal) >= (_FATAL_AT_FIRST if not (found or slow) else _FATAL + early)

    def spent() -> bool:
        over = len(found) >= budget.inputs or elements >= budget.elements
        return len(rejections) >= patience or hopeless() or (over and len(found) >= least)

    def affordable(shape: Shapes) -> bool:
        """Return whether there is time for an input of a shape, and count it."""
        return not pace or pace.take(_total(shape))

    def fitted() -> Iterator[Shapes]:
        """Yield the shapes that are accepted, with an input of each already found."""
        first: list[Shapes] = []
        for shape in shapes:
            if fitting and not affordable(shape):
                continue
            first += [shape] * (len(first) < _FIRST)
            if any(attempt((shape, turn)) for turn in dict.fromkeys((len(fitting), 0, 1, 2)[: 2 if repair else 4])):
                yield shape
            elif spent() or (repair and len(rejections) > budget.rejections // (2 if fitting else 5)):
                break
        if repair:
            yield from repair(
                lambda shape: not spent() and affordable(shape) and attempt((shape, len(fitting))), tuple(fitting)
            )
        if (repair or draft.allowed.whole) and all(any(0 in dims for dims in shape.values()) for shape in fitting):
            # It may be the values that are rejected, and not the shapes; nothing is wrong with those of empty inputs.
            full = [shape for shape in first if not any(0 in dims for dims in shape.values())] or first
            turns = itertools.product(range(2, 8 * draft.turns()), full)
            yield from itertools.islice((shape for turn, shape in turns if not spent() and attempt((shape, turn))), 1)

    for shape in fitted() if not spent() else ():
        fitting.append(shape)
        if len(fitting) == budget.shapes or spent():
            break
    if fitting:  # shapes for which none are accepted leave room for values of those that are
        patience = max(patience, len(rejections) + budget.rejections // 4)
    further = (
        (shape, turn + position)
        for turn, (position, shape) in itertools.product(range(1, 4 * draft.turns()), enumerate(fitting))
        if affordable(shape)
    )
    while not spent():
        room = min(_AT_ONCE, budget.inputs - len(found), (budget.elements - elements) // max(1, most))
        batch = list(itertools.islice(further, max(1, room)))
        if not batch:
            break
        attempt(*batch)
    small = sorted(fitting, key=lambda shape: (not _total(shape), _total(shape)))[:1]
    for turn, shape in itertools.product(range(1, 4 * draft.turns()), small):
        if len(found) < least and not spent():
            attempt((shape, turn))
    full = [shape for shape in fitting if not any(0 in dims for dims in shape.values())]
    for shape in itertools.islice(long((full or fitting)[0]), budget.long) if fitting else ():
        tried = len(rejections) < patience + budget.long and not hopeless()
        if tried and fits(draft.specs, shape) and affordable(shape) and affordable(shape):  # it has two inputs
            attempt((shape, "peak"), (shape, "dip" if not draft.allowed.whole else len(found)))
    rejection = fatal[0] if fatal else (rejections or ["no shape was found"])[-1]
    return Trials(tuple(found), len(found) + len(rejections), rejection, tuple(fatal))


def whole_budget(weights: int, specs: Sequence[Spec], nodes: int, effort: float = 1.0) -> Budget:
    """Return the most to try on a whole model, by its size and the effort; its pace may allow less."""
    static = sum(math.prod(dim if isinstance(dim, int) else 2 for dim in spec.dims or ()) for spec in specs)
    cost = 1 + weights + 64 * static + 100_000 * nodes
    count = max(3, math.ceil(effort * min(160, max(3, 1_000_000_000 // cost))))
    elements = int(2**23 * max(1.0, effort))
    return Budget(min(10, count), count, elements, rejections=max(200, 4 * count), long=count // 8)
