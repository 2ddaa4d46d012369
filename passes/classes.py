"""Which classes of hostile values an input belongs to, told from the arrays alone, and how many inputs did."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from opshift.passes.moods import limits
from opshift.passes.shapes import sizes_of, symbols
from opshift.passes.specs import Array, Spec, Value, arrays, np_dtype

_SHORT = 2**12  # elements: of a larger array no more than the beginning of its longest axis is looked at


def classes(feeds: Mapping[str, Value]) -> frozenset[str]:
    """Return the classes that an input of a model belongs to, in the words of `NAMES`."""
    return frozenset(name for value in feeds.values() for name in _of_value(value))


def applicable(specs: Iterable[Spec]) -> tuple[str, ...]:
    """Return the classes that can occur for these inputs, in the order of `NAMES`."""
    found = {name for spec in specs for name in _possible(spec)}
    return tuple(name for name in NAMES if name in found)


def counted(trials: Sequence[Mapping[str, Value]], specs: Iterable[Spec]) -> dict[str, int]:
    """Return how many inputs belong to each class that can occur; 0 for one to which none does."""
    found = Counter(name for feeds in trials for name in classes(feeds))
    possible = applicable(specs)
    return {name: found[name] for name in NAMES if name in possible or found[name]}


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return counts of several comparisons as one."""
    totals: dict[str, int] = {}
    for count in counts:
        for name, number in count.items():
            totals[name] = totals.get(name, 0) + number
    return totals


def seen(specs: Sequence[Spec], trials: Iterable[Mapping[str, Value]]) -> dict[str, tuple[int, ...]]:
    """Return the sizes that each symbol had in some inputs, in ascending order."""
    found: dict[str, set[int]] = {symbol: set() for symbol in symbols(specs)}
    for feeds in trials:
        shapes = {name: value.shape for name, value in feeds.items() if isinstance(value, np.ndarray)}
        for symbol, size in sizes_of(specs, shapes).items():
            found[symbol].add(size)
    return {symbol: tuple(sorted(sizes)) for symbol, sizes in found.items()}


# --- arrays ---------------------------------------------------------------------------------------------------------


def _rows(array: Array) -> Iterator[Array]:
    """Yield an array, for each axis that has two elements or more, with that axis last."""
    for axis, length in enumerate(array.shape):
        if length > 1 and array.size:
            yield np.moveaxis(array, axis, -1)


def _beginning(array: Array) -> Array:
    """Return an array that is not large, or the beginning of its longest axis."""
    if array.size <= _SHORT:
        return array
    longest = int(np.argmax(array.shape))
    kept = max(1, _SHORT * array.shape[longest] // array.size)
    return array[(slice(None),) * longest + (slice(kept),)]


def _tied(array: Array) -> bool:
    """Return whether some row has its largest or its least element twice, and something else besides."""
    for rows in _rows(array):
        for end in (np.max(rows, -1, keepdims=True), np.min(rows, -1, keepdims=True)):
            count = np.sum(rows == end, -1)
            if np.any((count > 1) & (count < rows.shape[-1])):
                return True
    return False


def _even(array: Array) -> bool:
    return any(bool(np.any(np.all(rows == rows[..., :1], -1))) for rows in _rows(array))


def _lowest(array: Array) -> bool:
    return any(bool(np.any(np.all(rows == -np.inf, -1))) for rows in _rows(array))


def _outside(array: Array, bound: int) -> bool:
    """Return whether integers reach a bound, on either side."""
    least, most = limits(array.dtype) or (0, 0)
    above = most >= bound and np.any(array >= array.dtype.type(bound))
    return bool(above or (least <= -bound and np.any(array <= array.dtype.type(-bound))))


def _ends(array: Array) -> bool:
    """Return whether integers have the least or the largest value of their type, 0 aside."""
    ends = [array.dtype.type(end) for end in limits(array.dtype) or () if end]
    return any(bool(np.any(array == end)) for end in ends)


def _extreme(array: Array) -> bool:
    return bool(np.any(np.abs(array) == ml_dtypes.finfo(array.dtype).max))  # type: ignore[no-untyped-call]


def _subnormal(array: Array) -> bool:
    least = ml_dtypes.finfo(array.dtype).smallest_normal  # type: ignore[no-untyped-call]
    with np.errstate(invalid="ignore"):
        return bool(np.any((array != 0) & (np.abs(array) < least)))


_Test = Callable[[Array], bool]

_EVERY: dict[str, _Test] = {
    "size 1": lambda array: 1 in array.shape,
    "empty": lambda array: not array.size,
    "rows of one value": _even,
}
_ORDERED: dict[str, _Test] = {"ties": _tied}
_FLOATS: dict[str, _Test] = {
    "all -inf rows": _lowest,
    "+inf": lambda array: bool(np.any(array == np.inf)),
    "-inf": lambda array: bool(np.any(array == -np.inf)),
    "NaN": lambda array: bool(np.any(np.isnan(array))),
    "-0.0": lambda array: bool(np.any((array == 0) & np.signbit(array))),
    "subnormal": _subnormal,
    "extremes": _extreme,
}
_INTEGERS: dict[str, _Test] = {
    "extremes": _ends,
    "negative integers": lambda array: bool(np.any(array < array.dtype.type(0))),
    "beyond 2^31": lambda array: _outside(array, 2**31),
    "beyond 2^53": lambda array: _outside(array, 2**53),
}
_STRINGS: dict[str, _Test] = {
    "empty string": lambda array: any(word == "" for word in array.flat),
    "non-ASCII": lambda array: any(not word.isascii() for word in array.flat),
}
NAMES: tuple[str, ...] = tuple(
    dict.fromkeys((*_ORDERED, *_EVERY, *_FLOATS, *_INTEGERS, *_STRINGS, "empty sequence", "absent"))
)
"""All classes, in the order in which they are told."""


@functools.cache
def _tests(dtype: np.dtype[Any]) -> dict[str, _Test]:
    """Return the classes that arrays of a dtype can belong to."""
    if dtype == np.object_:
        return {**_EVERY, **_STRINGS}
    if dtype.kind in "bc":
        return _EVERY
    bounds = limits(dtype)
    if bounds is None:
        return {**_ORDERED, **_EVERY, **{name: test for name, test in _FLOATS.items() if _holds(dtype, name)}}
    held = {
        "negative integers": bounds[0] < 0,
        "beyond 2^31": bounds[1] >= 2**31,
        "beyond 2^53": bounds[1] >= 2**53,
    }
    return {**_ORDERED, **_EVERY, **{name: test for name, test in _INTEGERS.items() if held.get(name, True)}}


def _holds(dtype: np.dtype[Any], name: str) -> bool:
    """Return whether a type of floats has values of a class: some have no infinities, no NaN, no sign, no zero."""
    example = {"+inf": np.inf, "-inf": -np.inf, "all -inf rows": -np.inf, "NaN": np.nan, "-0.0": -0.0}.get(name)
    if name == "subnormal":
        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        return bool(info.smallest_subnormal < info.smallest_normal)
    if example is None:
        return True
    with np.errstate(all="ignore"):
        made = float(np.array([example]).astype(dtype).astype(np.float64)[0])
    return repr(made) == repr(example)


def _of_value(value: Value) -> Iterator[str]:
    if value is None:
        yield "absent"
    elif isinstance(value, list) and not value:
        yield "empty sequence"
    for array in map(_beginning, arrays(value)):
        # Compared as wider numbers, of which every one of these has its own.
        wide = array.astype(np.float32) if array.dtype.kind == "V" and limits(array.dtype) is None else array
        for name, test in _tests(array.dtype).items():
            if test(wide if name in _PLAIN else array):
                yield name


_PLAIN = frozenset({*_ORDERED, *_EVERY, *_FLOATS}) - {"subnormal", "extremes"}


def _possible(spec: Spec) -> Iterator[str]:
    if spec.kind.startswith("optional"):
        yield "absent"
    if spec.kind.endswith("sequence"):
        yield "empty sequence"
    dims = spec.dims
    free = dims is None or any(isinstance(dim, str) for dim in dims)
    some = dims is None or 0 not in dims
    long = dims is None or any(isinstance(dim, str) or dim > 1 for dim in dims)
    for name in _tests(np_dtype(spec.element_type)) if spec.element_type else ():
        if name == "empty":
            possible = free or not some
        elif name == "size 1":
            possible = free or 1 in (dims or ())
        elif name in ("ties", "rows of one value", "all -inf rows"):
            possible = some and long
        else:
            possible = some
        if possible:
            yield name
