"""Shrink an input that still fails: fewer elements, then simpler values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from opshift.passes.proof.inputs.input_specs import Spec
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime.ort_models import Array, Feeds

T = TypeVar("T")
_SIMPLIFIED = 64  # maximum number of nonzero elements that are simplified one by one


def shrink(
    specs: Sequence[Spec], feeds: Feeds, found: T, fails: Callable[[Feeds], T | None], attempts: int
) -> tuple[Feeds, T]:
    """Return a smaller input on which `fails` still finds a failure, and the failure.

    Dynamic dims and sequences are shortened, values are set to zero, and the others to small whole numbers, in at most
    `attempts` attempts.
    """
    left = attempts

    def keep(candidate: Feeds) -> bool:
        """Continue with a candidate if it fails too."""
        nonlocal feeds, found, left
        left -= 1
        still = fails(candidate) if left >= 0 else None
        if still is not None:
            feeds, found = candidate, still
        return still is not None

    def clear(name: str, start: int, stop: int) -> None:
        """Set as many elements of a flat range to zero as possible."""
        if left <= 0 or _is_zero(feeds[name].reshape(-1)[start:stop]):
            return
        if keep({**feeds, name: _with(feeds[name], slice(start, stop), _zero(feeds[name]))}) or stop - start == 1:
            return
        middle = (start + stop) // 2
        clear(name, start, middle)
        clear(name, middle, stop)

    arrays = [name for name, value in feeds.items() if isinstance(value, np.ndarray)]
    for _ in range(2):
        while left > 0 and any(keep(candidate) for candidate in _cuts(specs, feeds)):
            pass
        for name in arrays:
            clear(name, 0, feeds[name].size)
    for name in arrays:
        for place in np.flatnonzero(feeds[name] != _zero(feeds[name]))[:_SIMPLIFIED]:
            for value in _simpler(feeds[name].reshape(-1)[place]):
                if left > 0 and keep({**feeds, name: _with(feeds[name], place, value)}):
                    break
    return feeds, found


def _cuts(specs: Sequence[Spec], feeds: Feeds) -> Iterator[Feeds]:
    """Yield the feeds with one dynamic dim cut to one element, to its first half or its last; or a shorter sequence."""
    axes: dict[str, dict[str, list[int]]] = {}
    for spec in specs:
        array = feeds[spec.name]
        if not isinstance(array, np.ndarray):
            continue
        dims = spec.dims if spec.dims is not None else tuple(f":{array.ndim - 1 - axis}" for axis in range(array.ndim))
        for axis, dim in enumerate(dims):
            if isinstance(dim, str):
                axes.setdefault(dim, {}).setdefault(spec.name, []).append(axis)
    for places in axes.values():
        sizes = {feeds[name].shape[axis] for name, at in places.items() for axis in at}
        size = max(sizes)
        for part in dict.fromkeys(((0, 1), (0, (size + 1) // 2), (size // 2, size), (size - 1, size))):
            if size > 1 and part != (0, size):
                yield _cut(feeds, places, size, slice(*part))
    for name, value in feeds.items():
        if isinstance(value, list) and value:
            yield {**feeds, name: value[1:]}
            yield {**feeds, name: value[:-1]}


def _cut(feeds: Feeds, places: Mapping[str, Sequence[int]], size: int, part: slice) -> Feeds:
    """Return copies of the arrays, cut along the axes with this size."""

    def cut(array: Array, axes: Iterable[int]) -> Array:
        picks = tuple(
            part if axis in axes and length == size else slice(None) for axis, length in enumerate(array.shape)
        )
        return array[picks].copy(order="C")

    return {name: cut(value, places[name]) if name in places else value for name, value in feeds.items()}


def _zero(array: Array) -> Any:
    return "" if array.dtype == np.object_ else 0


def _is_zero(array: Array) -> bool:
    """Return whether all elements are +0, false or the empty string."""
    if array.dtype == np.object_:
        return not (array != "").any()
    return not (array.astype(np.bool_).any() or (is_float(array.dtype) and np.signbit(array).any()))


def _simpler(value: Any) -> Iterator[Any]:
    """Yield whole numbers that are simpler than a number."""
    if isinstance(value, str | bool | np.bool_ | np.complexfloating) or value == 1:
        return
    yield 1
    if np.issubdtype(np.asarray(value).dtype, np.unsignedinteger):
        return
    if value < 0:
        yield -1
    if abs(float(value)) < 2**31 and int(value) != value:
        yield int(value)


def _with(array: Array, place: Any, value: Any) -> Array:
    """Return a copy with this value in a range of the flat elements."""
    copy = array.copy(order="C")
    copy.reshape(-1)[place] = value
    return copy
