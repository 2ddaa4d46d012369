"""Count the coverage of a comparison: compared and bit-identical elements, largest sizes, largest difference."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opshift.passes.base.report import Coverage, Departure
from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.inputs.shape_search import sizes_of
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime.ort_models import Array, Feeds, RejectedError


class CoverageCounter:
    """Counts the compared elements of a model's outputs; `specs` are its inputs."""

    def __init__(self, specs: Sequence[Spec] = ()) -> None:
        """Start with empty counts."""
        self._specs = specs
        self._alike = 0
        self._sizes: dict[str, int] = {}
        self._apart: dict[tuple[int, str], Coverage] = {}
        self._kept: list[Feeds] = []
        """The inputs used as keys by `id`; they are kept alive so that their ids stay unique."""

    def add(
        self, trials: Sequence[tuple[Feeds, Sequence[Any]]], results: Sequence[Any], outputs: Sequence[str]
    ) -> None:
        """Add the expected and the actual outputs on some inputs; rejections are not counted."""
        for (feeds, expected), result in zip(trials, results, strict=False):
            if isinstance(result, RejectedError):
                continue
            shapes = {name: value.shape for name, value in feeds.items() if isinstance(value, np.ndarray)}
            for symbol, size in sizes_of(self._specs, shapes).items():
                self._sizes[symbol] = max(size, self._sizes.get(symbol, 0))
            for name, one, other in zip(outputs, expected, result, strict=False):
                found = _compared(name, one, other)
                if found.identical == found.elements:
                    self._alike += found.elements
                else:
                    self._apart[id(feeds), name] = found
                    self._kept.append(feeds)

    def leave_out(self, feeds: Feeds, outputs: Collection[str]) -> None:
        """Exclude outputs on an input for which the original's result is undefined."""
        for name in outputs:
            found = self._apart.get((id(feeds), name))
            if found is not None:
                self._apart[id(feeds), name] = Coverage(undefined=found.elements + found.undefined)

    def leave_out_elements(self, feeds: Feeds, name: str, expected: Any, actual: Any, count: int) -> None:
        """Exclude elements of an output on an input; they are equal in both values."""
        if (id(feeds), name) in self._apart:
            found = _compared(name, expected, actual)
            kept, equal = found.elements - count, found.identical - count
            self._apart[id(feeds), name] = dataclasses.replace(found, elements=kept, identical=equal, undefined=count)

    def drop(self, feeds: Feeds) -> None:
        """Remove an input whose differences were not shown to be rounding."""
        for key in [key for key in self._apart if key[0] == id(feeds)]:
            del self._apart[key]

    def total(self) -> Coverage:
        """Return the total coverage."""
        return sum(self._apart.values(), Coverage(self._alike, self._alike, sizes=dict(self._sizes)))


def _compared(name: str, expected: Any, actual: Any) -> Coverage:
    """Return the coverage of two values; sequences and maps are compared element by element."""
    total = Coverage()
    for one, other in zip(_flat(expected), _flat(actual), strict=False):
        if one.dtype != other.dtype or one.shape != other.shape:
            total += Coverage(one.size)
            continue
        apart = unequal(one, other)
        identical = one.size - int(np.count_nonzero(apart))
        total += Coverage(one.size, identical, departure=_farthest(name, one, other, apart))
    return total


def _flat(value: Any) -> Iterator[Array]:
    """Yield the arrays in an output: strings as objects, the values of a map, nothing for an absent optional."""
    if isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _flat(item)
    elif value is not None:
        array = np.asarray(value)
        yield array.astype(object) if array.dtype.kind in "SU" else array


def _farthest(name: str, expected: Array, actual: Array, apart: npt.NDArray[np.bool_]) -> Departure | None:
    """Return the finite float with the largest distance from the expected one."""
    if not is_float(expected.dtype) or not apart.any():
        return None
    units = units_apart(expected, actual)
    units[~(apart & np.isfinite(expected) & np.isfinite(actual))] = 0
    place = int(np.argmax(units))
    farthest = int(units.reshape(-1)[place])  # the iterator `flat` supports at most 32 axes
    if not farthest:
        return None
    index = tuple(int(at) for at in np.unravel_index(place, units.shape))
    return Departure(farthest, name, index, float(expected[index]), float(actual[index]))


def unequal(one: Array, other: Array) -> npt.NDArray[np.bool_]:
    """Return the elements of two arrays of the same type and shape that differ in their bits; all NaN are equal."""
    if one.dtype.kind == "c":
        return unequal(one.real, other.real) | unequal(one.imag, other.imag)
    if not is_float(one.dtype):
        return np.asarray(one != other, dtype=np.bool_)
    wrong = np.asarray(_bits(one) != _bits(other), dtype=np.bool_)
    return wrong & ~(np.isnan(one) & np.isnan(other)) if wrong.any() else wrong


def units_apart(one: Array, other: Array) -> npt.NDArray[np.float64]:
    """Return the distance of floats in steps between adjacent numbers of their type."""
    first, second = _bits(one), _bits(other)
    sign = first.dtype.type(1 << (8 * first.dtype.itemsize - 1))
    sizes = [(bits & ~sign) for bits in (first, second)]
    larger, smaller = np.maximum(*sizes), np.minimum(*sizes)
    same = (first & sign) == (second & sign)
    return np.asarray(np.where(same, (larger - smaller).astype(np.float64), larger.astype(np.float64) + smaller))


def _bits(array: Array) -> npt.NDArray[Any]:
    whole = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
    return whole.reshape(array.shape)
