"""Generate inputs for a comparison: values that expose small errors, and that a model accepts.

Random floats rarely tie, overflow or meet an infinity, so values are drawn from small palettes, one palette per
*distribution*: ties, signs, both zeros, infinities, the extremes of the type, the integers around 2^31, 2^32 and 2^53.
Others depend on the usage of an input: indices around 0 and the end, numbers in an operator's permitted range, the
constants that the model compares with and their neighbours.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from opshift.passes.analysis.scopes import Array, Shape, graph_inputs
from opshift.passes.proof.inputs.adversarial_nodes import AdversarialNode, adversarial_nodes
from opshift.passes.proof.inputs.data_flow import divides, input_usages, position_inputs
from opshift.passes.proof.inputs.distributions import (
    COUNTED,
    SMALL,
    STYLES,
    Allowed,
    Distribution,
    Lookup,
    Rng,
    all_neighbours,
    all_powers,
    all_rows,
    all_sizes,
    bounded,
    boxes,
    draw,
    indices,
    limits,
    ones,
    overlapping,
    palette,
    some,
    value_distributions,
)
from opshift.passes.proof.inputs.input_specs import Spec, UntestableError, Value, guesses, np_dtype, specs
from opshift.passes.proof.inputs.input_usage import NOTHING, AxisLength, DrawnLength, InputUsage, Length
from opshift.passes.proof.inputs.shape_inputs import ShapeInput, shape_inputs
from opshift.passes.proof.inputs.shape_search import Shapes, beyond, fits, long_sizes, sizes, with_shapes
from opshift.passes.proof.inputs.value_classes import counted, summed
from opshift.passes.proof.wider_types import is_float

__all__ = [
    "Allowed",
    "Array",
    "Draft",
    "Rng",
    "Shape",
    "Spec",
    "UntestableError",
    "Value",
    "adversarial_nodes",
    "beyond",
    "counted",
    "divides",
    "fits",
    "graph_inputs",
    "guesses",
    "input_usages",
    "long_sizes",
    "np_dtype",
    "position_inputs",
    "shape_inputs",
    "sizes",
    "specs",
    "summed",
    "with_shapes",
]


_AXES = 64  # the maximum rank in numpy
_NUMBERS = 4096  # the number of usual floats from which inputs are drawn
_ROOM = 4096  # the maximum product of all drawn sizes
_FACTORED = 2**40  # the maximum number to factorize

_EXACT = range(40, 44)
"""The turns in which all floats are powers of two, so that single operations on them are exact."""

LONG = ("spike", "trough", "sizes", "neighbours")
"""The modes in which long axes are drawn; a single node gets the first two."""

# --- values ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draft:
    """The rules for drawing the inputs of a model.

    Inputs in `position_inputs` get only small numbers; `input_usages` has the reasons. `adversarial_nodes` change
    inputs in every fourth turn. `shape_inputs` complete shapes with a required product, in three of four turns; in half
    of the other turns, one size is -1, which the model infers.
    """

    specs: tuple[Spec, ...]
    position_inputs: frozenset[str]
    allowed: Allowed
    input_usages: Mapping[str, InputUsage] = field(default_factory=dict)
    adversarial_nodes: tuple[AdversarialNode, ...] = ()
    shape_inputs: tuple[ShapeInput, ...] = ()

    def feeds(self, rng: Rng, shapes: Shapes, turn: int) -> dict[str, Any]:
        """Return values for all inputs; `turn` selects the distributions, and enough turns cover all combinations.

        A negative turn is the in-range version of `-1 - turn`: its indices are inside and nonnegative; its sizes and
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
            else (found := self._distributions(spec))[pick(position, len(found))].of_round(number // len(found))
            for position, spec in enumerate(self.specs)
        ]
        if number in _EXACT and self.allowed.whole:
            values = [value and self._exact(spec, value) for spec, value in zip(self.specs, values, strict=True)]
        styles = ["inside" if turn < 0 else STYLES[pick(position, len(STYLES))] for position in range(len(self.specs))]
        drawn = self._drawn(rng, shapes, values, styles, number if self.allowed.whole else None)
        inferred = turn >= 0 and turn % 4 == 3
        for fill in self.shape_inputs:
            if not inferred or rng.integers(2):
                drawn = _filled(rng, fill, shapes, drawn, inferred=inferred)
        for say in self.adversarial_nodes if turn >= 0 and turn % 4 == 3 else ():
            drawn = say.changed(rng, drawn)
        return drawn

    def _has_free_floats(self, spec: Spec) -> bool:
        """Return whether an input may have any floats: it is no size or position, and has no required interval."""
        use = self._use(spec)
        free = spec.name not in self.position_inputs and not (use.counts or use.places or use.intervals)
        return free and is_float(np_dtype(spec.element_type))

    def _exact(self, spec: Spec, drawn: Distribution) -> Distribution:
        return all_powers(np_dtype(spec.element_type), self.allowed) if self._has_free_floats(spec) else drawn

    def along(self, rng: Rng, shapes: Shapes, mode: str) -> dict[str, Any]:
        """Return values along long axes, in one of the modes LONG.

        With 'spike' one in each row of the longest axis is the largest, and with 'trough' the least. With 'sizes'
        floats are of all sizes, and with 'neighbours' beside each other; what indices are computed from reaches all of
        them. Indices go on where those of the mode before have ended: together they reach much of a long table.
        """
        values = [None if self._indexes(spec) else self._along(spec, mode) for spec in self.specs]
        return self._drawn(rng, shapes, values, ["inside"] * len(values), lap=LONG.index(mode))

    def _along(self, spec: Spec, mode: str) -> Distribution:
        if mode in ("spike", "trough"):
            return replace(self._several(spec), mode=mode)
        if rows := all_rows(np_dtype(spec.element_type), self.allowed, self._use(spec).rows):
            return rows[0]
        made = all_sizes if mode == "sizes" else all_neighbours
        free = self._has_free_floats(spec)
        return made(np_dtype(spec.element_type), self.allowed) if free else self._several(spec)

    def usual(self, rng: Rng, shapes: Shapes) -> dict[str, Any]:
        """Return typical values: normal numbers, small integers, indices inside."""
        values = [None if self._indexes(spec) else self._usual(spec) for spec in self.specs]
        drawn = self._drawn(rng, shapes, values, ["inside"] * len(values))
        for fill in self.shape_inputs:
            drawn = _filled(rng, fill, shapes, drawn, inferred=False)
        return drawn

    def _usual(self, spec: Spec) -> Distribution:
        """Return the distribution of an input's typical values."""
        dtype, use = np_dtype(spec.element_type), self._use(spec)
        if spec.name in self.position_inputs or use.counts or use.places or np.dtype(dtype).itemsize == 0:
            return self._distributions(spec)[0]
        if limits(dtype) is not None:
            return Distribution(np.arange(256).astype(dtype)) if dtype.itemsize == 1 else self._distributions(spec)[0]
        if not is_float(dtype):
            return self._distributions(spec)[0]
        numbers = np.random.default_rng(0).standard_normal(_NUMBERS)
        for interval in use.intervals:
            inside = numbers[(numbers > interval.low) & (numbers < interval.high)]
            numbers = inside if inside.size else numbers
        return Distribution(palette(dtype, numbers.tolist(), self.allowed))

    def has_axes(self, shapes: Shapes) -> bool:
        """Return whether inputs that hold axis sizes have no more of them than an array's maximum rank."""
        counts = (shapes[spec.name] for spec in self.specs if self._use(spec).counts)
        return all(len(shape) != 1 or shape[0] <= _AXES for shape in counts)

    def turns(self) -> int:
        """Return the number of turns that use every distribution of every input once."""
        return max(map(self._choices, self.specs), default=1)

    def _choices(self, spec: Spec) -> int:
        """Return the number of an input's distributions, or of index styles."""
        return len(STYLES) if self._indexes(spec) else len(self._distributions(spec))

    @property
    def in_range(self) -> bool:
        """Whether an in-range turn differs from others: some input is an index, or determines a size."""
        return any(self._indexes(spec) or self._use(spec).counts for spec in self.specs)

    def _use(self, spec: Spec) -> InputUsage:
        return self.input_usages.get(spec.name, NOTHING)

    def _indexes(self, spec: Spec) -> bool:
        """Return whether an input is a direct index that need not be small."""
        use = self._use(spec)
        return bool(use.lookups) and not use.counts and np_dtype(spec.element_type).kind in "iuf"

    def _distributions(self, spec: Spec) -> tuple[Distribution, ...]:
        use = self._use(spec)
        small = spec.name in self.position_inputs or use.counts or use.places
        most = COUNTED if use.counts and self._counting == 1 else SMALL
        numbers = (
            tuple(one for one in use.numbers if isinstance(one.value, str) or abs(one.value) <= most)
            if small
            else use.numbers
        )
        found = value_distributions(np_dtype(spec.element_type), small, self.allowed, use.intervals, numbers)
        if use.counts:
            return found if use.places else (*found, *some(np_dtype(spec.element_type)))
        return (*found, *all_rows(np_dtype(spec.element_type), self.allowed, use.rows))

    def _several(self, spec: Spec) -> Distribution:
        """Return the first distribution of an input with more than one value, or None."""
        found = self._distributions(spec)
        return next((distribution for distribution in found if len(distribution.palette) > 1), found[0])

    def _drawn(
        self,
        rng: Rng,
        shapes: Shapes,
        values: Sequence[Distribution | None],
        styles: Sequence[str],
        turn: int | None = None,
        *,
        lap: int | None = None,
    ) -> dict[str, Any]:
        """Return values from these distributions; None is an index, drawn after the inputs that determine its length.

        With a `lap`, nonnegative indices enumerate the whole range, as in half of the turns.
        """
        if turn is not None and turn // len(STYLES) % 2:
            lap = turn // len(STYLES) // 2
        known: dict[str, Any] = {}
        for spec, distribution in zip(self.specs, values, strict=True):
            if distribution is not None:
                make = functools.partial(draw, rng, distribution)
                known[spec.name] = _value(
                    rng, spec, shapes[spec.name], self._small(make) if self._use(spec).counts else make
                )
            use = self._use(spec)
            boxed = use.boxes and turn is not None and turn % 2 == 0
            drawn = known.get(spec.name)
            if boxed and isinstance(drawn, np.ndarray) and drawn.shape[-1:] > (3,) and drawn.dtype.kind == "f":
                near = turn is not None and turn % 4 == 2 and bool(use.overlaps)
                known[spec.name] = overlapping(rng, drawn, use.overlaps) if near else boxes(rng, drawn, use.boxes)
        for spec, distribution, style in zip(self.specs, values, styles, strict=True):
            if distribution is None:
                index = self._index(rng, spec, style, shapes, known, lap)
                known[spec.name] = _value(rng, spec, shapes[spec.name], index)
        return {spec.name: known[spec.name] for spec in self.specs}

    def _small(self, make: Callable[[Shape], Array]) -> Callable[[Shape], Array]:
        """Return a function that creates sizes or counts; the product over all inputs is small."""
        return lambda shape: bounded(make(shape), max(_ROOM ** (1 / self._counting), 4))

    @functools.cached_property
    def _counting(self) -> int:
        """Return the number of inputs that determine a size."""
        return sum(1 for spec in self.specs if self._use(spec).counts)

    def _index(
        self,
        rng: Rng,
        spec: Spec,
        style: str,
        shapes: Shapes,
        known: Mapping[str, Any],
        lap: int | None,
    ) -> Callable[[Shape], Array]:
        """Return a function that creates indices; with several lookups, they fit the smallest length."""
        use, dtype = self._use(spec), np_dtype(spec.element_type)
        lookups = [one for one in use.lookups if not one.beyond] or list(use.lookups)
        tables = [tuple(_resolved(length, shapes, known) for length in one.lengths) for one in lookups]
        offsets = {one.offset for one in lookups}
        offset = offsets.pop() if len(offsets) == 1 else 0
        lookup = Lookup(
            lengths=tables[0] if len(tables) == 1 else (_least(itertools.chain(*tables)),),
            negative=all(one.negative for one in lookups),
            beyond=all(one.beyond for one in lookups),
            among=use.numbers,
            ignored=tuple(dict.fromkeys(item for one in lookups for item in one.ignored)),
        )
        make = functools.partial(indices, rng, dtype, style, lookup, turn=lap)
        return (lambda shape: _moved_by(make(shape), -offset)) if offset else make


def _moved_by(values: Array, offset: int) -> Array:
    """Return integers with a constant added; unchanged if their type would overflow."""
    moved = values.astype(np.int64) + offset
    low, high = limits(values.dtype) or (-(2**53), 2**53)
    return moved.astype(values.dtype) if bool(((moved >= low) & (moved <= high)).all()) else values


def _resolved(length: Length, shapes: Shapes, known: Mapping[str, Any]) -> int | None:
    """Return a length, given the shapes and the drawn values of the inputs."""
    if isinstance(length, AxisLength):
        shape = shapes.get(length.input, ())
        return shape[length.axis] if -len(shape) <= length.axis < len(shape) else None
    if isinstance(length, DrawnLength):
        value = known.get(length.input)
        return int(value.reshape(-1)[0]) if isinstance(value, np.ndarray) and value.size else None
    return length


def _filled(rng: Rng, fill: ShapeInput, shapes: Shapes, drawn: dict[str, Any], *, inferred: bool) -> dict[str, Any]:
    """Return inputs in which a shape has its required product; unchanged if that is impossible.

    With `inferred`, one of its sizes is -1.
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
        return {**drawn, fill.input: np.asarray(known, sizes.dtype).reshape(sizes.shape)}  # unchanged
    factors = np.ones(sizes.size, np.int64)
    for factor in _factors(total):
        factors[rng.integers(sizes.size)] *= factor
    if inferred and total and sizes.dtype.kind == "i":
        factors[rng.integers(sizes.size)] = -1
    return {**drawn, fill.input: factors.astype(sizes.dtype).reshape(sizes.shape)}


def _factors(number: int) -> Iterator[int]:
    """Yield the prime factors of a number, or a single 0."""
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
    """Return a value of an input's kind: an optional is sometimes absent, a sequence has up to four elements.

    Its elements have the same shape, or differ in the first dynamic dim, or in all dynamic dims.
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
