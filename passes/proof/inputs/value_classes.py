"""Classify inputs by their adversarial values, using only the arrays, and count the inputs of each class."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from opshift.passes.analysis.scopes import Array, Shape
from opshift.passes.proof.inputs.distributions import limits
from opshift.passes.proof.inputs.input_specs import Spec, Value, arrays, np_dtype
from opshift.passes.proof.inputs.shape_search import sizes_of, symbols

_SHORT = 2**12  # maximum elements: for a larger array, only the beginning of its longest axis is checked


def classes(trials: Sequence[Mapping[str, Value]]) -> list[frozenset[str]]:
    """Return the classes of each input of a model, in the words of `NAMES`."""
    found: list[set[str]] = [set() for _ in trials]
    alike: dict[tuple[np.dtype[Any], Shape], tuple[list[int], list[Array]]] = {}
    for number, feeds in enumerate(trials):
        for value in feeds.values():
            found[number].update(_of_value(value))
            for array in map(_beginning, arrays(value)):
                numbers, stacked = alike.setdefault((array.dtype, array.shape), ([], []))
                numbers.append(number)
                stacked.append(array)
    for (dtype, _), (numbers, stacked) in alike.items():
        for name, held in _of_arrays(dtype, np.stack(stacked)):
            for number in np.asarray(numbers)[held]:
                found[number].add(name)
    return [frozenset(names) for names in found]


def applicable(specs: Iterable[Spec]) -> tuple[str, ...]:
    """Return the classes that can occur for these inputs, in the order of `NAMES`."""
    found = {name for spec in specs for name in _possible(spec)}
    return tuple(name for name in NAMES if name in found)


def counted(trials: Sequence[Mapping[str, Value]], specs: Iterable[Spec]) -> dict[str, int]:
    """Return the number of inputs in each possible class; 0 for a class without inputs."""
    found = Counter(name for names in classes(trials) for name in names)
    possible = applicable(specs)
    return {name: found[name] for name in NAMES if name in possible or found[name]}


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the total counts of several comparisons."""
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

_Held = npt.NDArray[np.bool_]
_Test = Callable[[Array], _Held]
"""Returns which of several arrays of one shape, stacked along a first axis, belong to a class."""


def _some(elements: Any) -> _Held:
    """Return the arrays that have a marked element."""
    marked: _Held = np.asarray(elements)
    return np.asarray(marked.any(axis=tuple(range(1, marked.ndim))))


def _every(array: Array, held: bool) -> _Held:
    return np.full(len(array), held)


def _rows(stacked: Array) -> Iterator[Array]:
    """Yield the arrays with each axis of two or more elements moved to the end."""
    for axis, length in enumerate(stacked.shape[1:], 1):
        if length > 1 and stacked.size:
            yield np.moveaxis(stacked, axis, -1)


def _in_rows(stacked: Array, test: Callable[[Array], Any]) -> _Held:
    """Return the arrays that have a row, along some axis, that passes a test."""
    held = _every(stacked, False)
    for rows in _rows(stacked):
        held |= _some(test(rows))
    return held


def _beginning(array: Array) -> Array:
    """Return a small array, or the beginning of the longest axis of a large one."""
    if array.size <= _SHORT:
        return array
    longest = int(np.argmax(array.shape))
    kept = max(1, _SHORT * array.shape[longest] // array.size)
    return array[(slice(None),) * longest + (slice(kept),)]


def _twice(rows: Array) -> _Held:
    """Return the rows whose largest or least element occurs twice, beside other elements."""
    ends = (np.max(rows, -1, keepdims=True), np.min(rows, -1, keepdims=True))
    most, least = (np.sum(rows == end, -1) for end in ends)
    return np.asarray(((most > 1) & (most < rows.shape[-1])) | ((least > 1) & (least < rows.shape[-1])))


def _outside(array: Array, bound: int) -> _Held:
    """Return the arrays whose integers reach a bound, on either side."""
    least, most = limits(array.dtype) or (0, 0)
    above = array >= array.dtype.type(bound) if most >= bound else np.zeros(array.shape, np.bool_)
    return above | (array <= array.dtype.type(-bound)) if least <= -bound else above


def _ends(array: Array) -> _Held:
    """Return the arrays with the least or the largest integer of their type, except 0."""
    found = np.zeros(array.shape, np.bool_)
    for end in limits(array.dtype) or ():
        found |= (array == array.dtype.type(end)) & (end != 0)
    return found


def _subnormal(array: Array) -> _Held:
    least = ml_dtypes.finfo(array.dtype).smallest_normal  # type: ignore[no-untyped-call]
    with np.errstate(invalid="ignore"):
        return np.asarray((array != 0) & (np.abs(array) < least))


_EVERY: dict[str, _Test] = {
    "size 1": lambda array: _every(array, 1 in array.shape[1:]),
    "empty": lambda array: _every(array, not array.size),
    "rows of one value": lambda array: _in_rows(array, lambda rows: np.all(rows == rows[..., :1], -1)),
}
_ORDERED: dict[str, _Test] = {"ties": lambda array: _in_rows(array, _twice)}
_FLOATS: dict[str, _Test] = {
    "all -inf rows": lambda array: _in_rows(array, lambda rows: np.all(rows == -np.inf, -1)),
    "+inf": lambda array: _some(array == np.inf),
    "-inf": lambda array: _some(array == -np.inf),
    "NaN": lambda array: _some(np.isnan(array)),
    "-0.0": lambda array: _some((array == 0) & np.signbit(array)),
    "subnormal": lambda array: _some(_subnormal(array)),
    "extremes": lambda array: _some(np.abs(array) == ml_dtypes.finfo(array.dtype).max),  # type: ignore[no-untyped-call]
}
_INTEGERS: dict[str, _Test] = {
    "extremes": lambda array: _some(_ends(array)),
    "negative integers": lambda array: _some(array < array.dtype.type(0)),
    "beyond 2^31": lambda array: _some(_outside(array, 2**31)),
    "beyond 2^53": lambda array: _some(_outside(array, 2**53)),
}
_STRINGS: dict[str, _Test] = {
    "empty string": lambda array: _some(array == ""),
    "non-ASCII": lambda array: _some(np.frompyfunc(lambda word: not word.isascii(), 1, 1)(array).astype(np.bool_)),
}
NAMES: tuple[str, ...] = tuple(
    dict.fromkeys((*_ORDERED, *_EVERY, *_FLOATS, *_INTEGERS, *_STRINGS, "empty sequence", "absent"))
)
"""All classes, in the order of reports."""


@functools.cache
def _tests(dtype: np.dtype[Any]) -> dict[str, _Test]:
    """Return the possible classes of arrays of a dtype."""
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
    """Return whether a float type has values of a class: some have no infinities, no NaN, no sign, or no zero."""
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
    """Yield the classes of a value that is not an array."""
    if value is None:
        yield "absent"
    elif isinstance(value, list) and not value:
        yield "empty sequence"


def _of_arrays(dtype: np.dtype[Any], stacked: Array) -> Iterator[tuple[str, _Held]]:
    """Yield each class with the arrays that belong to it."""
    # Compared as wider numbers, which represent each of these exactly.
    wide = stacked.astype(np.float32) if dtype.kind == "V" and limits(dtype) is None else stacked
    for name, test in _tests(dtype).items():
        yield name, test(wide if name in _PLAIN else stacked)


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
