"""Define value distributions: palettes of values, and sampling modes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from opshift.opsets.registry.traits import Interval
from opshift.passes.analysis.scopes import Array, Shape
from opshift.passes.proof.inputs.input_usage import Number

Rng = np.random.Generator

_WORDS = (0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32)
_WIDE = (*_WORDS, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**24 + 1, 2**33, 2**33 + 2**31, 2**53, 2**53 + 1, 2**63)
SMALL, COUNTED = 16, 256
"""The maximum number that a size may be compared with and be fed; the same for the only size of a model."""


@dataclass(frozen=True)
class Allowed:
    """The values that may be fed.

    `nan`, `infinite` and `least` permit NaN, the infinities, and the least integer of a type; `whole` puts the plain
    values first, which a whole model accepts.
    """

    nan: bool = True
    infinite: bool = True
    least: bool = True
    whole: bool = False


@dataclass(frozen=True)
class Distribution:
    """A value distribution: a palette and a sampling mode, see `draw`."""

    palette: Array
    mode: str = "each"

    def of_round(self, number: int) -> Distribution:
        """Return the distribution for a further round; sums vary, so that a few rounds have each of them."""
        return self if self.mode != "sum" else replace(self, palette=np.roll(self.palette, -number)[:1])


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is an integer, including those of ml_dtypes."""
    return limits(dtype) is not None


@functools.cache
def limits(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """Return the least and the largest integer of a dtype; None for other dtypes."""
    try:
        info = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    except ValueError:
        return None
    return int(info.min), int(info.max)


def palette(dtype: np.dtype[Any], values: Iterable[Any], allowed: Allowed) -> Array:
    """Return the permitted values that the type can hold, in order; never empty."""
    if dtype == np.object_:
        words = list(values)
        kept: Array = np.empty(len(words), dtype)
        kept[:] = words
        return kept
    if dtype == np.bool_:
        return np.array(list(values), dtype)
    if (bounds := limits(dtype)) is not None:
        least = bounds[0] + (not allowed.least and bounds[0] < 0)
        held = [value for value in values if least <= value <= bounds[1]] or [0]
        return np.array(held).astype(dtype) if dtype.kind == "V" else np.array(held, dtype)
    numbers = np.array([float(value) for value in values])
    with np.errstate(over="ignore"):
        array = numbers.astype(dtype)
    wide = array.astype(np.float64)
    lost = np.isnan(wide) & ~np.isnan(numbers)  # values that the type cannot hold
    kept = array[~lost & (allowed.nan | ~np.isnan(wide)) & (allowed.infinite | ~np.isinf(wide))]
    if kept.size:
        return kept
    zero: Array = np.zeros(1).astype(dtype)
    return zero if zero[0] == zero[0] else np.ones(1).astype(dtype)


@functools.cache
def value_distributions(
    dtype: np.dtype[Any],
    small: bool,
    allowed: Allowed,
    intervals: tuple[Interval, ...] = (),
    numbers: tuple[Number, ...] = (),
) -> tuple[Distribution, ...]:
    """Return the distributions for an element type and the data flow; small counterexamples come first."""
    if dtype.kind == "c":
        real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        return tuple(_complex(distribution, dtype) for distribution in value_distributions(real, small, allowed))
    common = _common(dtype, small, allowed)
    own = (*_compared(dtype, small, allowed, numbers), *(() if small else _inside(dtype, allowed, intervals)))
    if dtype == np.object_:
        return (*own, *common)
    # A whole model has many distributions; these, which take its other branches, are included twice.
    again = [replace(one, palette=np.roll(one.palette, len(one.palette) // 2)) for one in own if allowed.whole]
    return (*common[:3], *own, *common[3:9], *again, *common[9:])


def _complex(distribution: Distribution, dtype: np.dtype[Any]) -> Distribution:
    made = np.empty(distribution.palette.shape, dtype)
    made.real, made.imag = distribution.palette, np.roll(distribution.palette, 1)
    return Distribution(made, distribution.mode)


def _compared(dtype: np.dtype[Any], small: bool, allowed: Allowed, numbers: Sequence[Number]) -> list[Distribution]:
    """Return distributions of compared numbers: as all elements, beside their neighbours, and as a sum."""
    if dtype == np.object_:
        words = [one.value for one in numbers if isinstance(one.value, str)]
        made = palette(dtype, words, allowed)
        more = palette(dtype, (*words, "", "a", "Zz"), allowed)
        return [Distribution(made), Distribution(more), Distribution(made, "one")] if words else []
    if dtype == np.bool_:
        return []
    found = []
    for summed in (False, True):
        exact = [one.value for one in numbers if one.summed is summed and not isinstance(one.value, str)]
        exact = [value for value in exact if math.isfinite(value) and not (small and abs(value) > COUNTED)]
        if not exact:
            continue
        near = [item for value in exact for item in _near(dtype, value)]
        whole = [item for value in exact for item in _near(dtype, value)[:1]]
        found.append(Distribution(palette(dtype, whole, allowed), "sum" if summed else "one"))
        found.append(Distribution(palette(dtype, (*near, *whole), allowed), "sum" if summed else "each"))
    return found


def _near(dtype: np.dtype[Any], value: float) -> list[Any]:
    """Return a number in the type, followed by its neighbours."""
    if is_integer(dtype):
        low, high = math.floor(value), math.ceil(value)
        return list(dict.fromkeys((low, high, low - 1, high + 1)))
    with np.errstate(over="ignore", invalid="ignore"):
        held = np.array([value], np.float64).astype(dtype)
        beside = [float(np.nextafter(held, np.array([end]).astype(dtype))[0]) for end in (-math.inf, math.inf)]
    return [value, *beside, value - 1, value + 1]


def _inside(dtype: np.dtype[Any], allowed: Allowed, intervals: Sequence[Interval]) -> list[Distribution]:
    """Return distributions inside the permitted intervals; of disjoint intervals, inside the first."""
    if not intervals or dtype.kind in "Ob":
        return []
    low = max(one.low for one in intervals)
    high = min(one.high for one in intervals)
    if low > high:
        low, high = intervals[0].low, intervals[0].high
    zero = all(one.zero for one in intervals)

    def inside(value: float) -> bool:
        return low <= value <= high and (zero or value != 0)

    start = low if low > -math.inf else min(-3.0, high - 3)
    end = high if high < math.inf else max(3.0, low + 3)
    edges = [*(_near(dtype, low) if low > -math.inf else []), *(_near(dtype, high) if high < math.inf else [])]
    spread = [float(value) for value in np.linspace(start, end, 25)]
    if is_integer(dtype):
        spread = [*range(math.ceil(start), math.floor(end) + 1), 7, 100]
    some = [*edges, 0.25, 0.5, 1, 2, 3, 100, -1, -2, -0.5] if not is_integer(dtype) else [*edges, 1, 2, 3, 100, -1, -2]
    kept = [[value for value in values if inside(value)] for values in (spread, some)]
    return [Distribution(palette(dtype, values, allowed)) for values in kept if values]


def _common(dtype: np.dtype[Any], small: bool, allowed: Allowed) -> tuple[Distribution, ...]:
    """Return the distributions for every input of an element type."""

    def drawn(values: Iterable[Any], mode: str = "each") -> Distribution:
        return Distribution(palette(dtype, values, allowed), mode)

    if dtype == np.object_:
        words = ("", "a", "b", "0", "A", "é", "ab" * 20, "Zz")
        return (drawn(words), drawn(("a", "b")), drawn(words, "one"))
    if dtype == np.bool_:
        return (
            drawn((False, True)),
            drawn((True,)),
            drawn((False,)),
            drawn((False, True), "spike"),
        )
    integer = limits(dtype)
    if small:
        kinds = [
            drawn((0, 1, 2)),
            drawn((1,)),
            drawn((2,)),
            drawn((0, 1, 2, 3)),
            drawn((-2, -1, 0, 1, 2)),
            drawn((0,)),
        ]
        if integer is None:  # scales: the sizes of batches and channels are often 1
            kinds += [drawn((1, 1, 1, 0.6, 2.5)), drawn((0.5, 0.75, 1.5, 2.25))]
        return (*kinds, drawn((0,), "normal")) if integer is None and allowed.whole else tuple(kinds)
    if integer is not None:
        return _integers(dtype, integer, allowed)
    return _floats(dtype, allowed)


def _floats(dtype: np.dtype[Any], allowed: Allowed) -> tuple[Distribution, ...]:
    def drawn(values: Iterable[float], mode: str = "each") -> Distribution:
        return Distribution(palette(dtype, values, allowed), mode)

    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    high, tiny, step = float(info.max), float(info.smallest_normal), float(info.eps)
    subnormal = float(info.smallest_subnormal)
    edges = [high, -high, tiny, -tiny, subnormal, -subnormal, 0.0, -0.0]
    edges += [1.0, 1 + step, 1 - step / 2, 2.0**24, 2.0**24 + 1]
    inf, nan = float("inf"), float("nan")
    union = [*edges, inf, -inf, 2.0, 0.5, -1.5, 1e-3]
    adversarial = [
        drawn((0, 1, 2)),
        drawn((-inf, -1.5, 0.5), "rows"),
        drawn(union, "spike"),
        drawn((-2, -1, -0.5)),
        drawn((0.0, -0.0)),
        drawn((-inf,)),
        drawn((-inf, inf, 0, 1)),
        drawn((1, 1 + step)),
        drawn(edges),
        drawn(union, "few"),
        drawn(union, "trough"),
        drawn(union, "one"),
        drawn((0,), "normal"),
        drawn((nan, 0, 1, 2, -inf)),
        drawn((nan, -1, -2), "rows"),
        drawn((nan, 1, -2, 0.5)),  # without infinities, for which the order of a sum decides whether it is NaN
    ]
    if allowed.whole and not allowed.infinite:
        # A whole model quickly turns the extremes into infinities, and these into NaN, by additions or multiplications.
        adversarial = [one for one in adversarial if np.fmax.reduce(np.abs(one.palette.astype(np.float64))) < 100]
    powers = all_powers(dtype, allowed)
    # If the mean is far larger than the spread, the difference of squares has few correct digits.
    offset = drawn(317.3 + 1.0137 * np.linspace(-3, 3, 25))
    tiny_ones = drawn(np.linspace(-3, 3, 25) * 1e-3)
    # Numbers that are close in one type may be tied in a narrower one: in float16 for float, in float for double.
    apart = step if step > 2.0**-12 else 64 * step
    ties = drawn([0.3 * (1 + apart * times) for times in range(3)])
    plain = [
        drawn((0,), "normal"),
        drawn(np.arange(-24, 25) / 8),  # multiples of 1/8: many quotients and products are ties
        drawn(np.linspace(0, 1, 17)),
        powers,
        drawn((nan, 1, -2, 0.5)),
        all_sizes(dtype, allowed),
        tiny_ones,
        ties,
        all_neighbours(dtype, allowed),
        offset,
    ]
    return _different(plain + adversarial if allowed.whole else adversarial)


def all_sizes(dtype: np.dtype[Any], allowed: Allowed) -> Distribution:
    """Return the distribution of floats of usual magnitudes.

    Functions saturate at different magnitudes, and a small added number is visible only beside smaller ones. The values
    are so many that, along a long axis, some are within a hundredth of any threshold, even one unknown to the data
    flow.
    """
    return Distribution(palette(dtype, np.multiply.outer(_SIZES, (1, -1)).ravel().tolist(), allowed))


def all_powers(dtype: np.dtype[Any], allowed: Allowed) -> Distribution:
    """Return the distribution of powers of two: their products and quotients are exact, so ties stay ties."""
    return Distribution(palette(dtype, (0.5, 1, 2, 0.25, -1, -0.5, 4), allowed))


def all_neighbours(dtype: np.dtype[Any], allowed: Allowed) -> Distribution:
    """Return the distribution of a few adjacent floats: thirds of two are tied or not, by their mantissa."""
    step = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    return Distribution(palette(dtype, [1.9 + step * times for times in range(6)], allowed))


def all_rows(dtype: np.dtype[Any], allowed: Allowed, intervals: Iterable[Interval]) -> tuple[Distribution, ...]:
    """Return distributions of all integers in intervals, and of as many floats in short ones.

    An index that is computed from those reaches each row of a table.
    """
    if dtype.kind not in "iuf":
        return ()
    found = []
    for one in intervals:
        length = one.high - one.low
        if dtype.kind == "f" and 0 < length < _SHORT:
            found.append(
                Distribution(palette(dtype, np.linspace(float(one.low), float(one.high), _ROWS).tolist(), allowed))
            )
        elif 1 <= length < _ROWS:
            span = range(math.ceil(one.low), math.floor(one.high) + 1)
            found.append(Distribution(palette(dtype, span, allowed)))
    return tuple(found)


_SHORT = 16
_ROWS = 4096
"""Rows of a table that are few enough to reach each."""

_SIZES = np.geomspace(1.3717e-6, 2.7339e5, 2500)


def _different(distributions: Sequence[Distribution]) -> tuple[Distribution, ...]:
    """Return distinct distributions: some coincide if infinities or NaN are not permitted."""
    return tuple({(one.mode, one.palette.tobytes()): one for one in distributions}.values())


def _integers(dtype: np.dtype[Any], bounds: tuple[int, int], allowed: Allowed) -> tuple[Distribution, ...]:
    def drawn(values: Iterable[int], mode: str = "each") -> Distribution:
        return Distribution(palette(dtype, dict.fromkeys(values), allowed), mode)

    wide = [*_WIDE, *(-value for value in _WIDE), *bounds]
    # Sums wrap around between neighbours in the middle, and between the two ends.
    middle = sum(bounds) // 2 + 1
    adversarial = [
        drawn((0, 1, 2)),
        drawn(wide, "rows"),
        drawn(wide, "spike"),
        drawn((0, 2**31)),
        drawn((*_WORDS, *(-value for value in _WORDS))),
        drawn((2**53, 2**53 + 1)),
        drawn((2**24, 2**24 + 1)),
        drawn((-2, -1, 0, 1, 2)),
        drawn(wide, "few"),
        drawn(wide, "trough"),
        drawn(wide),
        drawn(wide, "one"),
        drawn((0, 1), "normal"),
        drawn((middle - 1, middle, middle + 1)),
        drawn((bounds[0], bounds[0] + 1, bounds[1] - 1, bounds[1])),
    ]
    adversarial = [one for one in adversarial if len(one.palette) > 1]  # the others do not fit the type
    plain = [
        drawn((0, 1)),
        drawn((0, 1, 2, 3)),
        drawn((0,)),
        drawn(range(10)),
        drawn(range(100)),
    ]
    return tuple(plain + adversarial if allowed.whole else adversarial)


def draw(rng: Rng, distribution: Distribution, shape: Shape) -> Array:
    """Return an array of this shape from a distribution.

    'each' draws every element from the palette; 'few' from up to three of its values; 'one' is a single value
    everywhere; 'rows' has rows of a single value along one axis; 'spike' is a single value with one larger value in
    each row of the longest axis, 'trough' with a smaller one; 'sum' has equal values whose sum is in the palette;
    'normal' is a normal distribution, or random bits for integers.
    """
    if distribution.mode == "normal":
        return _normal(rng, distribution.palette.dtype, shape)
    colours = distribution.palette
    count = {"few": 3, "spike": 2, "trough": 2, "one": 1, "sum": 1}.get(distribution.mode, len(colours))
    if count < len(colours):
        colours = colours[rng.permutation(len(colours))[:count]]
    if distribution.mode == "sum":
        return _summed(colours[0], shape)
    if distribution.mode in ("spike", "trough"):
        low, high = np.sort(colours)[[0, -1]]
        flat, peak = (low, high) if distribution.mode == "spike" else (high, low)
        drawn = np.full(shape, flat, colours.dtype)
        if drawn.size and drawn.ndim:
            rows = np.moveaxis(drawn, int(np.argmax(shape)), -1)
            length = rows.shape[-1]  # in a long row, the end matters, where a narrow counter has overflowed
            begin = length - 1 - min(1000, length // 40) if length > 100 else 0
            at = rng.integers(begin, length, size=(*rows.shape[:-1], 1))
            np.put_along_axis(rows, at, peak, -1)
        return drawn
    drawn = colours.take(rng.integers(len(colours), size=math.prod(shape))).reshape(shape)
    if distribution.mode == "rows" and drawn.size and drawn.ndim:
        rows = np.moveaxis(drawn, int(rng.integers(drawn.ndim)), -1)
        same = rng.random(rows.shape[:-1]) < 0.6
        rows[same] = rows[same][..., :1]
    return drawn


def boxes(rng: Rng, like: Array, unit: float) -> Array:
    """Return an array with overlapping boxes in its last four numbers, up to 16 image elements on each side.

    A preceding column is an image index, which becomes the first image.
    """
    starts = rng.integers(0, 9, size=(*like.shape[:-1], 2)) / 2
    ends = starts + np.array([0.5, 1, 1.25, 3, 7, 16])[rng.integers(0, 6, size=starts.shape)]
    drawn: Array = np.zeros_like(like)
    drawn[..., -4:] = (np.concatenate([starts, ends], -1) * unit).astype(like.dtype)
    return drawn


def overlapping(rng: Rng, like: Array, shares: Sequence[float]) -> Array:
    """Return an array with boxes in its last four numbers whose neighbours overlap by nearly a given ratio.

    One box of a pair is a square at 0, and the other is its shared part, so that the ratio is one product of drawn
    numbers, whether the numbers are two corners or a centre and two lengths. Kernels round the area of both by some
    units in the last place. The ratios differ by more from the compared number, or are exact if that number has few
    digits. Squares of other pairs are 16 times as large.
    """
    wanted = [part for share in shares for part in _beside_share(share) if 0 < part <= 1] or [1.0]
    count = math.prod(like.shape[:-1])
    part = rng.choice(wanted, size=count)
    part[::2] = 1
    side = 4.0 ** (np.arange(count) // 2 % 8)
    drawn: Array = np.zeros_like(like)
    drawn[..., -2] = side.reshape(like.shape[:-1])
    drawn[..., -1] = (side * part).reshape(like.shape[:-1])
    return drawn


def _beside_share(share: float) -> list[float]:
    near = [share * (1 + sign * 2.0**-power) for power in (18, 13, 8, 4) for sign in (1, -1)]
    return [*near, share, share] if (share * 2**8).is_integer() else near


def ones(dtype: np.dtype[Any], allowed: Allowed) -> Distribution:
    """Return the distribution of ones, the smallest sizes."""
    words: tuple[Any, ...] = ("a",) if dtype == np.object_ else (1,)
    return Distribution(palette(dtype, words, allowed))


def some(dtype: np.dtype[Any]) -> tuple[Distribution, ...]:
    """Return distributions of larger counts: windows of up to three elements are too similar."""
    return tuple(
        Distribution(palette(dtype, values, Allowed())) for values in ((4, 5, 8, 16), (3, 6, 7)) if dtype.kind in "iu"
    )


def bounded(sizes: Array, room: float) -> Array:
    """Return sizes or counts, replaced by 1 from the first one at which the product exceeds `room`."""
    if sizes.dtype.kind not in "iuf" or sizes.size < 2:
        return sizes
    with np.errstate(all="ignore"):
        factors = np.maximum(np.abs(sizes.reshape(-1).astype(np.float64)), 1)
        beyond = ~(np.cumprod(np.nan_to_num(factors, nan=1.0)) <= room)
    kept: Array = sizes.reshape(-1).copy()
    kept[beyond & (factors > 1)] = 1
    return kept.reshape(sizes.shape)


def _summed(total: Any, shape: Shape) -> Array:
    """Return values with a given sum, all equal except the first for integers."""
    dtype, count = total.dtype, max(1, math.prod(shape))
    if not is_integer(dtype):
        return np.full(shape, total / dtype.type(count), dtype)
    part, rest = divmod(int(total), count)
    drawn = np.full(shape, part, dtype)
    if drawn.size:
        drawn.reshape(-1)[0] = np.clip(part + rest, *(limits(dtype) or (0, 0)))
    return drawn


def _normal(rng: Rng, dtype: np.dtype[Any], shape: Shape) -> Array:
    """Return normally distributed floats, or integers with random bits."""
    if (bounds := limits(dtype)) is not None:
        least, most = bounds[0] + (bounds[0] < 0), bounds[1]
        if dtype.kind == "V":
            return np.asarray(rng.integers(least, most, size=shape, endpoint=True)).astype(dtype)
        return np.asarray(rng.integers(least, most, size=shape, dtype=dtype, endpoint=True))
    values = np.asarray(rng.standard_normal(shape))
    if dtype.kind == "c":
        return np.asarray(values + 1j * np.asarray(rng.standard_normal(shape))).astype(dtype)
    signed = np.array([-1.0]).astype(dtype)
    return (values if signed[0] == signed[0] else np.abs(values) + 0.5).astype(dtype)


# --- indices --------------------------------------------------------------------------------------------------------

STYLES = ("inside", "around", "ends", "last", "first", "outside")
"""The distributions of indices: nonnegative, also negative, both ends of both, one of them; outside if defined."""


@dataclass(frozen=True)
class Lookup:
    """The ranges of indices.

    Attributes:
        lengths: of the axes; several lengths belong to the elements of the indices' last axis.
        negative: whether negative indices are defined.
        beyond: whether indices outside are defined.
        among: numbers that the model compares the indices with; they are drawn if they are inside.
        ignored: defined indices outside.
    """

    lengths: Sequence[int | None]
    negative: bool
    beyond: bool
    among: Sequence[Number] = ()
    ignored: Sequence[int] = ()


def indices(
    rng: Rng, dtype: np.dtype[Any], style: str, lookup: Lookup, shape: Shape, *, turn: int | None = None
) -> Array:
    """Return indices for a lookup.

    With a `turn`, nonnegative indices enumerate the whole range, and continue in the next turn.
    """
    lengths, ignored = lookup.lengths, lookup.ignored
    if len(lengths) > 1 and shape and shape[-1] <= len(lengths):
        columns = [
            indices(rng, dtype, style, replace(lookup, lengths=(length,), ignored=()), shape[:-1], turn=turn)
            for length in lengths[: shape[-1]]
        ]
        return np.stack(columns, -1) if columns else np.zeros(shape, dtype)
    known = [length for length in lengths if length is not None]
    length = min(known) if known else None
    values = [*_index_values(style, length, beyond=lookup.beyond), *ignored]
    low, high = (0, 3) if length is None else (-length if style != "inside" else 0, length)
    extra = [one.value for one in lookup.among if isinstance(one.value, int) and low <= one.value < high]
    kept: list[float] = [
        value
        for value in (*values, *extra)
        if value >= 0 or value in ignored or (lookup.negative and dtype.kind not in "u")
    ]
    if style == "outside" and lookup.beyond and dtype.kind == "f":
        kept += [value + part for value in (0, 1) for part in (0.25, 0.5, 0.75)]
    drawn = draw(rng, Distribution(palette(dtype, kept or [0], Allowed())), shape)
    if turn is None or style != "inside" or not length or length < 0 or ignored:
        return drawn
    return ((turn * drawn.size + np.arange(drawn.size)) % length).astype(dtype).reshape(shape)


def _index_values(style: str, length: int | None, *, beyond: bool) -> list[int]:
    """Return the values from which indices of a style are drawn; the ends are drawn more often than others."""
    if length is None:
        return {"inside": [0, 0, 1], "last": [-1], "first": [0]}.get(style, [0, 1, -1, 2, -2])
    if length <= 0:
        return [0]
    ends = [0, length - 1, -1, -length]
    if style == "outside" and beyond:
        # In a narrower type these would wrap to valid indices.
        wrapped = [2**31, 2**32, 2**32 + length - 1, 2**33 + 2**31, -(2**32), 2**53 + 1, 256, 2**16]
        return [-length - 2, -length - 1, length, length + 1, *ends, *wrapped]
    if style in ("last", "first"):
        return [length - 1 if style == "last" else 0]
    if style == "ends" or style == "outside":
        return ends
    some = range(length) if length <= 256 else [int(value) for value in np.linspace(0, length - 1, 256)]
    inside = [*some, *ends[:2] * (1 + len(some) // 8)]
    return inside if style == "inside" else [*inside, *(value - length for value in inside)]
