"""Values of one character each: the palettes that inputs are drawn from, and the ways to draw."""

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
from opshift.passes.proof.inputs.data_flow import Number

Rng = np.random.Generator

_WORDS = (0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32)
_WIDE = (*_WORDS, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**24 + 1, 2**33, 2**33 + 2**31, 2**53, 2**53 + 1, 2**63)
_SMALL = 16  # what a size may be compared with, and be fed


@dataclass(frozen=True)
class Allowed:
    """Which values may be fed.

    `nan`, `infinite` and `least`: NaN, the infinities, the least integer of a type; `whole` puts the plain values
    first, that a whole model accepts.
    """

    nan: bool = True
    infinite: bool = True
    least: bool = True
    whole: bool = False


@dataclass(frozen=True)
class Mood:
    """Values of one character: drawn from a palette in a manner, see `draw`."""

    palette: Array
    manner: str = "each"

    def of_round(self, number: int) -> Mood:
        """Return the mood in a further round of all moods: of sums another one, so that a few rounds have each."""
        return self if self.manner != "sum" else replace(self, palette=np.roll(self.palette, -number)[:1])


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is an integer, those of ml_dtypes included."""
    return limits(dtype) is not None


@functools.cache
def limits(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """Return the least and the largest integer of a dtype; None where it is no integer."""
    try:
        info = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    except ValueError:
        return None
    return int(info.min), int(info.max)


def palette(dtype: np.dtype[Any], values: Iterable[Any], allowed: Allowed) -> Array:
    """Return the values that the type holds and that are allowed, in order; never empty."""
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
    given = np.array([float(value) for value in values])
    with np.errstate(over="ignore"):
        array = given.astype(dtype)
    wide = array.astype(np.float64)
    lost = np.isnan(wide) & ~np.isnan(given)  # what the type has no value for
    kept = array[~lost & (allowed.nan | ~np.isnan(wide)) & (allowed.infinite | ~np.isinf(wide))]
    if kept.size:
        return kept
    zero: Array = np.zeros(1).astype(dtype)
    return zero if zero[0] == zero[0] else np.ones(1).astype(dtype)


@functools.cache
def moods(
    dtype: np.dtype[Any],
    small: bool,
    allowed: Allowed,
    intervals: tuple[Interval, ...] = (),
    numbers: tuple[Number, ...] = (),
) -> tuple[Mood, ...]:
    """Return the moods for an element type and what becomes of the input, those with small counterexamples first."""
    if dtype.kind == "c":
        real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        return tuple(_complex(mood, dtype) for mood in moods(real, small, allowed))
    common = _common(dtype, small, allowed)
    own = (*_compared(dtype, small, allowed, numbers), *(() if small else _inside(dtype, allowed, intervals)))
    if dtype == np.object_:
        return (*own, *common)
    # Of the many moods of a whole model these come twice: they are what takes its other branches.
    again = [replace(one, palette=np.roll(one.palette, len(one.palette) // 2)) for one in own if allowed.whole]
    return (*common[:3], *own, *common[3:9], *again, *common[9:])


def _complex(mood: Mood, dtype: np.dtype[Any]) -> Mood:
    made = np.empty(mood.palette.shape, dtype)
    made.real, made.imag = mood.palette, np.roll(mood.palette, 1)
    return Mood(made, mood.manner)


def _compared(dtype: np.dtype[Any], small: bool, allowed: Allowed, numbers: Sequence[Number]) -> list[Mood]:
    """Return moods of what the model compares with: itself all over, beside its neighbours, as a sum."""
    if dtype == np.object_:
        words = [one.value for one in numbers if isinstance(one.value, str)]
        made = palette(dtype, words, allowed)
        more = palette(dtype, (*words, "", "a", "Zz"), allowed)
        return [Mood(made), Mood(more), Mood(made, "one")] if words else []
    if dtype == np.bool_:
        return []
    found = []
    for summed in (False, True):
        exact = [one.value for one in numbers if one.summed is summed and not isinstance(one.value, str)]
        exact = [value for value in exact if math.isfinite(value) and not (small and abs(value) > _SMALL)]
        if not exact:
            continue
        near = [item for value in exact for item in _near(dtype, value)]
        whole = [item for value in exact for item in _near(dtype, value)[:1]]
        found.append(Mood(palette(dtype, whole, allowed), "sum" if summed else "one"))
        found.append(Mood(palette(dtype, (*near, *whole), allowed), "sum" if summed else "each"))
    return found


def _near(dtype: np.dtype[Any], value: float) -> list[Any]:
    """Return a number as the type holds it, then its neighbours."""
    if is_integer(dtype):
        low, high = math.floor(value), math.ceil(value)
        return list(dict.fromkeys((low, high, low - 1, high + 1)))
    with np.errstate(over="ignore", invalid="ignore"):
        held = np.array([value], np.float64).astype(dtype)
        beside = [float(np.nextafter(held, np.array([end]).astype(dtype))[0]) for end in (-math.inf, math.inf)]
    return [value, *beside, value - 1, value + 1]


def _inside(dtype: np.dtype[Any], allowed: Allowed, intervals: Sequence[Interval]) -> list[Mood]:
    """Return moods inside what operators permit; of intervals that exclude each other inside the first."""
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
    return [Mood(palette(dtype, values, allowed)) for values in kept if values]


def _common(dtype: np.dtype[Any], small: bool, allowed: Allowed) -> tuple[Mood, ...]:
    """Return the moods that every input of an element type has."""

    def mood(values: Iterable[Any], manner: str = "each") -> Mood:
        return Mood(palette(dtype, values, allowed), manner)

    if dtype == np.object_:
        words = ("", "a", "b", "0", "A", "é", "ab" * 20, "Zz")
        return (mood(words), mood(("a", "b")), mood(words, "one"))
    if dtype == np.bool_:
        return (mood((False, True)), mood((True,)), mood((False,)), mood((False, True), "peak"))
    integer = limits(dtype)
    if small:
        kinds = [mood((0, 1, 2)), mood((1,)), mood((2,)), mood((0, 1, 2, 3)), mood((-2, -1, 0, 1, 2)), mood((0,))]
        if integer is None:  # scales: those of a batch and of channels are often 1
            kinds += [mood((1, 1, 1, 0.6, 2.5)), mood((0.5, 0.75, 1.5, 2.25))]
        return (*kinds, mood((0,), "normal")) if integer is None and allowed.whole else tuple(kinds)
    if integer is not None:
        return _integers(dtype, integer, allowed)
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    high, tiny, step = float(info.max), float(info.smallest_normal), float(info.eps)
    subnormal = float(info.smallest_subnormal)
    edges: list[float] = [
        high,
        -high,
        tiny,
        -tiny,
        subnormal,
        -subnormal,
        0.0,
        -0.0,
        1.0,
        1 + step,
        1 - step / 2,
        2**24,
        2**24 + 1,
    ]
    inf, nan = float("inf"), float("nan")
    union = [*edges, inf, -inf, 2.0, 0.5, -1.5, 1e-3]
    hostile = [
        mood((0, 1, 2)),
        mood((-inf, -1.5, 0.5), "rows"),
        mood(union, "peak"),
        mood((-2, -1, -0.5)),
        mood((0.0, -0.0)),
        mood((-inf,)),
        mood((-inf, inf, 0, 1)),
        mood((1, 1 + step)),
        mood(edges),
        mood(union, "few"),
        mood(union, "dip"),
        mood(union, "one"),
        mood((0,), "normal"),
        mood((nan, 0, 1, 2, -inf)),
        mood((nan, -1, -2), "rows"),
    ]
    if not allowed.infinite:
        # A whole model turns the extremes into infinities, and those into NaN, as soon as it adds or multiplies.
        hostile = [one for one in hostile if not allowed.whole or np.abs(one.palette.astype(np.float64)).max() < 100]
    # Products and quotients of powers of two are exact, so that ties behind them are ties in every kernel.
    powers = mood((0.5, 1, 2, 0.25, -1, -0.5, 4))
    # Functions that saturate do so at different sizes, and a small number that is added shows beside smaller ones.
    sizes = mood([sign * part * 10.0**size for size in range(-6, 6) for part in (1.3717, 2.7339) for sign in (1, -1)])
    tiny_ones = mood(np.linspace(-3, 3, 25) * 1e-3)
    plain = [mood((0,), "normal"), mood(np.linspace(-3, 3, 25)), mood(np.linspace(0, 1, 17)), powers, sizes, tiny_ones]
    return tuple(plain + hostile if allowed.whole else hostile)


def _integers(dtype: np.dtype[Any], bounds: tuple[int, int], allowed: Allowed) -> tuple[Mood, ...]:
    def mood(values: Iterable[int], manner: str = "each") -> Mood:
        return Mood(palette(dtype, dict.fromkeys(values), allowed), manner)

    wide = [*_WIDE, *(-value for value in _WIDE), *bounds]
    # Sums that wrap around do so between neighbours in the middle, and between the two ends.
    middle = sum(bounds) // 2 + 1
    hostile = [
        mood((0, 1, 2)),
        mood(wide, "rows"),
        mood(wide, "peak"),
        mood((0, 2**31)),
        mood((*_WORDS, *(-value for value in _WORDS))),
        mood((2**53, 2**53 + 1)),
        mood((2**24, 2**24 + 1)),
        mood((-2, -1, 0, 1, 2)),
        mood(wide, "few"),
        mood(wide, "dip"),
        mood(wide),
        mood(wide, "one"),
        mood((0, 1), "normal"),
        mood((middle - 1, middle, middle + 1)),
        mood((bounds[0], bounds[0] + 1, bounds[1] - 1, bounds[1])),
    ]
    hostile = [one for one in hostile if len(one.palette) > 1]  # the others do not fit the type
    plain = [mood((0, 1)), mood((0, 1, 2, 3)), mood((0,)), mood(range(10)), mood(range(100))]
    return tuple(plain + hostile if allowed.whole else hostile)


def draw(rng: Rng, mood: Mood, shape: Shape) -> Array:
    """Return an array of this shape in a mood.

    'each' draws every element from the palette; 'few' from up to three values of it; 'one' is a single value all
    over; 'rows' has rows of a single value along one axis; 'peak' is a single value but for a larger one in each row of
    the longest axis, 'dip' but for a smaller one; 'sum' is equal values that sum up to one of the palette; 'normal' is
    a normal distribution, or random bits for integers.
    """
    if mood.manner == "normal":
        return _normal(rng, mood.palette.dtype, shape)
    colours = mood.palette
    count = {"few": 3, "peak": 2, "dip": 2, "one": 1, "sum": 1}.get(mood.manner, len(colours))
    if count < len(colours):
        colours = colours[rng.permutation(len(colours))[:count]]
    if mood.manner == "sum":
        return _summed(colours[0], shape)
    if mood.manner in ("peak", "dip"):
        low, high = np.sort(colours)[[0, -1]]
        flat, peak = (low, high) if mood.manner == "peak" else (high, low)
        drawn = np.full(shape, flat, colours.dtype)
        if drawn.size and drawn.ndim:
            rows = np.moveaxis(drawn, int(np.argmax(shape)), -1)
            length = rows.shape[-1]  # in a long row the end counts, where a narrow counter has overflowed
            begin = length - 1 - min(1000, length // 40) if length > 100 else 0
            at = rng.integers(begin, length, size=(*rows.shape[:-1], 1))
            np.put_along_axis(rows, at, peak, -1)
        return drawn
    drawn = colours.take(rng.integers(len(colours), size=math.prod(shape))).reshape(shape)
    if mood.manner == "rows" and drawn.size and drawn.ndim:
        rows = np.moveaxis(drawn, int(rng.integers(drawn.ndim)), -1)
        same = rng.random(rows.shape[:-1]) < 0.6
        rows[same] = rows[same][..., :1]
    return drawn


def boxes(rng: Rng, like: Array, unit: float) -> Array:
    """Return boxes that overlap, and have up to 16 elements of an image on each side, in place of an array's last four.

    A column before those is the number of an image, of which the first is taken.
    """
    starts = rng.integers(0, 9, size=(*like.shape[:-1], 2)) / 2
    ends = starts + np.array([0.5, 1, 1.25, 3, 7, 16])[rng.integers(0, 6, size=starts.shape)]
    drawn: Array = np.zeros_like(like)
    drawn[..., -4:] = (np.concatenate([starts, ends], -1) * unit).astype(like.dtype)
    return drawn


def ones(dtype: np.dtype[Any], allowed: Allowed) -> Mood:
    """Return the mood of ones: of sizes the gentlest."""
    words: tuple[Any, ...] = ("a",) if dtype == np.object_ else (1,)
    return Mood(palette(dtype, words, allowed))


def some(dtype: np.dtype[Any]) -> tuple[Mood, ...]:
    """Return the moods of counts that are not few: windows of up to three elements are much alike."""
    return tuple(Mood(palette(dtype, values, Allowed())) for values in ((4, 5, 8, 16), (3, 6, 7)) if dtype.kind in "iu")


def bounded(sizes: Array, room: float) -> Array:
    """Return sizes or counts, made 1 from the first on with which they multiply up to more than `room`."""
    if sizes.dtype.kind not in "iuf" or sizes.size < 2:
        return sizes
    with np.errstate(all="ignore"):
        factors = np.maximum(np.abs(sizes.reshape(-1).astype(np.float64)), 1)
        beyond = ~(np.cumprod(np.nan_to_num(factors, nan=1.0)) <= room)
    kept: Array = sizes.reshape(-1).copy()
    kept[beyond & (factors > 1)] = 1
    return kept.reshape(sizes.shape)


def _summed(total: Any, shape: Shape) -> Array:
    """Return values, all equal but for the first of integers, that sum up to a total."""
    dtype, count = total.dtype, max(1, math.prod(shape))
    if not is_integer(dtype):
        return np.full(shape, total / dtype.type(count), dtype)
    part, rest = divmod(int(total), count)
    drawn = np.full(shape, part, dtype)
    if drawn.size:
        drawn.reshape(-1)[0] = np.clip(part + rest, *(limits(dtype) or (0, 0)))
    return drawn


def _normal(rng: Rng, dtype: np.dtype[Any], shape: Shape) -> Array:
    """Return normally distributed floats, or integers with every bit at random."""
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
"""The moods of indices: not negative, negative ones too, both ends of both, one of them; outside where that counts."""


def indices(
    rng: Rng,
    dtype: np.dtype[Any],
    style: str,
    lengths: Sequence[int | None],
    shape: Shape,
    *,
    negative: bool,
    beyond: bool,
    among: Sequence[Number],
    ignored: Sequence[int] = (),
    turn: int | None = None,
) -> Array:
    """Return indices into axes of these lengths: with more than one length, each for one element of the last axis.

    `among` are numbers that the model compares the indices with, which are drawn where they are inside, and `ignored`
    some that are outside and defined. With a `turn`, indices that are not negative are all those that there are, one
    after the other, and go on in the next turn.
    """
    if len(lengths) > 1 and shape and shape[-1] <= len(lengths):
        columns = [
            indices(rng, dtype, style, (length,), shape[:-1], negative=negative, beyond=beyond, among=among, turn=turn)
            for length in lengths[: shape[-1]]
        ]
        return np.stack(columns, -1) if columns else np.zeros(shape, dtype)
    known = [length for length in lengths if length is not None]
    length = min(known) if known else None
    values = [*_index_values(style, length, beyond=beyond), *ignored]
    low, high = (0, 3) if length is None else (-length if style != "inside" else 0, length)
    extra = [one.value for one in among if isinstance(one.value, int) and low <= one.value < high]
    kept: list[float] = [
        value for value in (*values, *extra) if value >= 0 or value in ignored or (negative and dtype.kind not in "u")
    ]
    if style == "outside" and beyond and dtype.kind == "f":
        kept += [value + part for value in (0, 1) for part in (0.25, 0.5, 0.75)]
    drawn = draw(rng, Mood(palette(dtype, kept or [0], Allowed())), shape)
    if turn is None or style != "inside" or not length or length < 0 or ignored:
        return drawn
    return ((turn * drawn.size + np.arange(drawn.size)) % length).astype(dtype).reshape(shape)


def _index_values(style: str, length: int | None, *, beyond: bool) -> list[int]:
    """Return what indices of a style are drawn from; the ends are in it more often than the rest."""
    if length is None:
        return {"inside": [0, 0, 1], "last": [-1], "first": [0]}.get(style, [0, 1, -1, 2, -2])
    if length <= 0:
        return [0]
    ends = [0, length - 1, -1, -length]
    if style == "outside" and beyond:
        # A narrower type would bring these back inside.
        wrapped = [2**31, 2**32, 2**32 + length - 1, 2**33 + 2**31, -(2**32), 2**53 + 1, 256, 2**16]
        return [-length - 2, -length - 1, length, length + 1, *ends, *wrapped]
    if style in ("last", "first"):
        return [length - 1 if style == "last" else 0]
    if style == "ends" or style == "outside":
        return ends
    some = range(length) if length <= 256 else [int(value) for value in np.linspace(0, length - 1, 256)]
    inside = [*some, *ends[:2] * (1 + len(some) // 8)]
    return inside if style == "inside" else [*inside, *(value - length for value in inside)]
