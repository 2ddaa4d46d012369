"""What equal means, and the smallest input on which two models are not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from opshift.passes import inputs
from opshift.passes.inputs import Outputs
from opshift.passes.outcome import Counterexample
from opshift.passes.sessions import Array, Feeds, RejectedError, Runner

_MODES = (False, True)  # graph optimisations off, on
_SHOWN = 64  # elements of an array that a counterexample lists in full

Wanted = tuple[Outputs, Outputs]  # with graph optimisations off, on


@dataclass(frozen=True)
class Judge:
    """What says which outputs are right: with optimisations off, with them on, and in whose name."""

    name: str
    outputs: tuple[str, ...]
    plain: Callable[[Feeds], Outputs]
    optimised: Callable[[Feeds], Outputs]
    note: str = ""
    close: Callable[[], None] = lambda: None

    def both(self, feeds: Feeds, plain: Outputs) -> Wanted:
        """Return the outputs both ways; where the optimised model does not run, the plain outputs stand for it."""
        try:
            return plain, self.optimised(feeds)
        except RejectedError:
            return plain, plain


# --- the comparison -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tolerance:
    """By how much outputs of floats may depart.

    `plain` and `optimised` multiply what graph optimisations make the original depart from itself on the same input,
    for optimisations off and on; `rounding` multiplies the unit of rounding of the largest value of the output.
    """

    plain: float = 0.0
    optimised: float = 0.0
    rounding: float = 0.0

    def slack(self, wanted: tuple[Any, Any], optimised: bool) -> float:
        """Return the absolute bound for an output, of which `wanted` has the original's values off and on."""
        factor = self.optimised if optimised else self.plain
        if not (factor or self.rounding) or not all(isinstance(value, np.ndarray) for value in wanted):
            return 0.0
        off, on = wanted
        if off.dtype != on.dtype or off.shape != on.shape or not is_float(off.dtype):
            return 0.0
        finite = np.isfinite(off) & np.isfinite(on)
        wide_off, wide_on = off[finite].astype(np.float64), on[finite].astype(np.float64)
        deviation = np.abs(wide_off - wide_on).max(initial=0.0)
        largest = np.abs(wide_off).max(initial=0.0)
        step = ml_dtypes.finfo(off.dtype).eps  # type: ignore[no-untyped-call]
        return float(factor * deviation + self.rounding * largest * float(step))


EXACT = Tolerance()
TOLERANCES = {True: Tolerance(0, 8), None: Tolerance(8, 8), False: Tolerance(8, 8, 8)}


@dataclass(frozen=True)
class Difference:
    """An output that differs: what was wanted, what came, what is wrong and at which element."""

    output: str
    expected: Any
    actual: Any
    what: str
    index: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Finding:
    """An input on which the two differ."""

    feeds: Feeds
    difference: Difference
    reason: str

    def counterexample(self) -> Counterexample:
        """Return it in plain lists and numbers."""
        found = self.difference
        return Counterexample(
            {name: readable(value) for name, value in self.feeds.items()},
            found.output,
            readable(found.expected, found.index),
            readable(found.actual, found.index),
        )


@dataclass(frozen=True)
class Contest:
    """A rewritten model against its judge; `pardoned` says which inputs do not count although the two differ."""

    judge: Judge
    rewritten: Runner
    specs: Sequence[inputs.Spec]
    tolerance: Tolerance
    pardoned: Callable[[Feeds], bool] = lambda feeds: False

    def run(self, trials: Sequence[tuple[Feeds, Outputs]], attempts: int) -> Finding | None:
        """Return an input on which the two differ, made smaller in so many attempts; None if there is none.

        Raises:
            RejectedError: onnxruntime does not load the rewritten model.
        """
        wanted = [self.judge.both(feeds, plain) for feeds, plain in trials]
        self.judge.close()
        for optimised in _MODES:
            self.rewritten.open(optimised)
            for (feeds, _), outputs in zip(trials, wanted, strict=True):
                found = self._difference(feeds, outputs, optimised)
                if found is None or self.pardoned(feeds):
                    continue
                fails = functools.partial(self._fails, optimised=optimised)
                small, found = _shrink(self.specs, feeds, found, fails, attempts)
                way = "on" if optimised else "off"
                return Finding(small, found, f"output {found.output}: {found.what}, with graph optimisations {way}")
        return None

    def _difference(self, feeds: Feeds, wanted: Wanted, optimised: bool) -> Difference | None:
        try:
            actual = self.rewritten.run(feeds, optimised)
        except RejectedError as error:
            return Difference(self.judge.outputs[0], wanted[optimised][0], f"error: {error}", f"does not run: {error}")
        for name, off, on, value in zip(self.judge.outputs, *wanted, actual, strict=True):
            expected = on if optimised else off
            found = mismatch(expected, value, self.tolerance.slack((off, on), optimised))
            if found is not None and not (optimised and mismatch(off, value, 0.0) is None):
                return Difference(name, expected, value, *found)
        return None

    def _fails(self, feeds: Feeds, optimised: bool) -> Difference | None:
        """Return the difference on an input that may be nonsense to the original, which then is no difference."""
        try:
            plain = self.judge.plain(feeds)
            wanted = self.judge.both(feeds, plain) if optimised or self.tolerance.plain else (plain, plain)
        except RejectedError:
            return None
        found = self._difference(feeds, wanted, optimised)
        return None if found is None or self.pardoned(feeds) else found


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is a float, those of ml_dtypes included."""
    return dtype.kind in "fV"


def mismatch(expected: Any, actual: Any, slack: float) -> tuple[str, tuple[int, ...] | None] | None:
    """Return what is wrong with a value and at which element; None where it is right.

    Floats are compared bit for bit, any NaN being equal to any other, or with `slack` as the absolute bound.
    """
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{len(actual)} elements instead of {len(expected)}", None
        found = (mismatch(one, other, slack) for one, other in zip(expected, actual, strict=True))
        return next((each for each in found if each is not None), None)
    if isinstance(expected, dict) and isinstance(actual, dict):
        if list(expected) != list(actual):
            return f"the keys {list(actual)} instead of {list(expected)}", None
        return mismatch(list(expected.values()), list(actual.values()), slack)
    if expected is None or actual is None:
        return None if expected is actual else ("a missing optional value", None)
    return _array_mismatch(_plain(np.asarray(expected)), _plain(np.asarray(actual)), slack)


def _plain(array: Array) -> Array:
    """Return strings as objects, whatever way they came, and everything else as it is."""
    return (
        np.array([str(item) for item in array.flat], dtype=object).reshape(array.shape)
        if array.dtype.kind in "OSU"
        else array
    )


def _array_mismatch(expected: Array, actual: Array, slack: float) -> tuple[str, tuple[int, ...] | None] | None:
    if expected.dtype != actual.dtype:
        return f"element type {actual.dtype} instead of {expected.dtype}", None
    if expected.shape != actual.shape:
        return f"shape {list(actual.shape)} instead of {list(expected.shape)}", None
    wrong = _unequal(expected, actual)
    if slack and wrong.any():
        both = np.isfinite(expected.astype(np.float64)) & np.isfinite(actual.astype(np.float64))
        with np.errstate(invalid="ignore"):
            near = np.abs(expected.astype(np.float64) - actual.astype(np.float64)) <= slack
        wrong &= ~(both & near)
    if not wrong.any():
        return None
    index = tuple(int(at) for at in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return f"{actual[index]} instead of {expected[index]} at {list(index)}", index


def _unequal(one: Array, other: Array) -> npt.NDArray[np.bool_]:
    """Return which elements of two arrays of the same type and shape differ in their bits; no two NaN do."""
    if not is_float(one.dtype):
        return np.asarray(one != other, dtype=np.bool_)
    bits = np.dtype(f"u{one.dtype.itemsize}")
    flat = one.reshape(-1).view(bits) != other.reshape(-1).view(bits)
    wrong = np.asarray(flat, dtype=np.bool_).reshape(one.shape)
    return wrong & ~(np.isnan(one) & np.isnan(other)) if wrong.any() else wrong


# --- counterexamples ------------------------------------------------------------------------------------------------


def _shrink(
    specs: Sequence[inputs.Spec],
    feeds: Feeds,
    found: Difference,
    fails: Callable[[Feeds], Difference | None],
    attempts: int,
) -> tuple[Feeds, Difference]:
    """Return a smaller input on which the two still differ: free dims cut, then values set to zero."""
    left = attempts

    def keep(candidate: Feeds) -> bool:
        """Go on with a candidate if the two differ on it too."""
        nonlocal feeds, found, left
        left -= 1
        still = fails(candidate) if left >= 0 else None
        if still is not None:
            feeds, found = candidate, still
        return still is not None

    def clear(name: str, start: int, stop: int) -> None:
        """Set as much of a stretch of the flat elements to zero as can be."""
        if left <= 0 or _is_zero(feeds[name].reshape(-1)[start:stop]):
            return
        if keep({**feeds, name: _zeroed(feeds[name], start, stop)}) or stop - start == 1:
            return
        middle = (start + stop) // 2
        clear(name, start, middle)
        clear(name, middle, stop)

    for _ in range(2):
        while any(keep(candidate) for candidate in _cuts(specs, feeds)):
            pass
        for name in feeds:
            clear(name, 0, feeds[name].size)
    return feeds, found


def _cuts(specs: Sequence[inputs.Spec], feeds: Feeds) -> Iterable[Feeds]:
    """Yield the feeds with one free dim cut to one element, to its first half or to its last half."""
    axes: dict[str, dict[str, list[int]]] = {}
    for spec in specs:
        array = feeds[spec.name]
        dims = spec.dims if spec.dims is not None else tuple(f":{array.ndim - 1 - axis}" for axis in range(array.ndim))
        for axis, dim in enumerate(dims):
            if isinstance(dim, str):
                axes.setdefault(dim, {}).setdefault(spec.name, []).append(axis)
    for places in axes.values():
        sizes = {feeds[name].shape[axis] for name, at in places.items() for axis in at}
        size = max(sizes)
        for part in dict.fromkeys(((0, 1), (0, (size + 1) // 2), (size // 2, size), (size - 1, size))):
            if size > 1 and part != (0, size):
                yield {name: _cut(array, places.get(name, []), size, slice(*part)) for name, array in feeds.items()}


def _cut(array: Array, axes: Sequence[int], size: int, part: slice) -> Array:
    """Return a copy of an array cut along those of the axes that have this size."""
    picks = tuple(part if axis in axes and length == size else slice(None) for axis, length in enumerate(array.shape))
    return array[picks].copy(order="C")


def _is_zero(array: Array) -> bool:
    """Return whether all elements are +0, false or the empty string."""
    if array.dtype == np.object_:
        return not (array != "").any()
    return not (array.astype(np.bool_).any() or (is_float(array.dtype) and np.signbit(array).any()))


def _zeroed(array: Array, start: int, stop: int) -> Array:
    """Return a copy with a stretch of its flat elements set to zero."""
    copy = array.copy(order="C")
    copy.reshape(-1)[start:stop] = "" if array.dtype == np.object_ else 0
    return copy


def readable(value: Any, index: tuple[int, ...] | None = None) -> Any:
    """Return a value as nested lists of plain numbers and strings; a large one as a sentence about it."""
    if isinstance(value, list):
        return [readable(item) for item in value[:_SHOWN]]
    if isinstance(value, dict):
        return {str(key): readable(item) for key, item in list(value.items())[:_SHOWN]}
    if not isinstance(value, np.ndarray | np.generic):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    kind = f"{value.dtype}{list(array.shape)}"
    if array.ndim > 1 and not array.size:
        return f"{kind}, empty"
    if array.size <= _SHOWN:
        return array.tolist()
    if index is not None:
        return f"{kind}, {array[index]} at {list(index)}"
    zero: Any = "" if array.dtype == np.object_ else 0
    others = np.argwhere(array != zero)
    listed = ", ".join(f"{array[tuple(at)]} at {at.tolist()}" for at in others[:8])
    more = f" and {len(others) - 8} more" if len(others) > 8 else ""
    return f"{kind}, zero but for {listed}{more}" if len(others) else f"{kind}, all zero"


def sentence(*parts: str) -> str:
    """Return the parts that say something, one after the other."""
    return "; ".join(filter(None, parts))
