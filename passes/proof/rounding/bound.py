"""Define the accepted difference of an output, and derive it from runs of a model.

The bound is 8 times the largest distance of the narrow run and the perturbed runs from the wide run. The distances of
other results count for an element, since its own may be small by chance, but only of results that are not much larger,
so that half of its digits remain. The rounding of a timestamp is irrelevant to a score beside it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from opshift.passes.proof.coverage import unequal
from opshift.passes.proof.rounding.values import is_float_array
from opshift.passes.proof.wider_types import is_float, wider
from opshift.passes.runtime.ort_models import Array

FACTOR = 8
"""The factor between the distance and the bound; least significant bits of two right results differ by less."""


_LOST = 8 * FACTOR
"""The same for results without any correct digit: a quotient of two such numbers may be far from all seen ones."""


@dataclass(frozen=True)
class Bound:
    """The accepted difference of an output.

    Attributes:
        slack: the absolute distance.
        unstable: the elements that rounding can change completely; None if there are none.
        huge: elements that are not finite in one of the two do not count.
        wild: elements that are not finite in both do not count.
        undecided: the elements of sums of infinities, whose order decides which are NaN; the next node may turn these
            into numbers.
        unsigned: the sign of a zero does not count.
        lost: no element counts.
        estimated: how much further apart the two may be for all that is known, where the distance was not measured,
            since the model cannot be run node by node on this input.
        graded: the distance of each element, where it is smaller for small ones; None where it is the same for all.
        reshaped: rounding decides the very shape, so that no element counts.
        ends: the lowest and the highest value of each element, whatever the distance; None where there are none.
        items: the bounds of the elements of a sequence; where there are none, this one holds for each.
    """

    slack: float = 0.0
    unstable: npt.NDArray[np.bool_] | None = None
    huge: bool = False
    wild: bool = False
    undecided: bool = False
    unsigned: bool = False
    lost: bool = False
    estimated: float = 0.0
    graded: npt.NDArray[np.float64] | None = None
    reshaped: bool = False
    ends: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None
    items: tuple[Bound, ...] = ()

    def of_item(self, place: int) -> Bound:
        """Return the bound of an element of a sequence."""
        return self.within(self.items[place]) if place < len(self.items) else self

    def within(self, other: Bound) -> Bound:
        """Return the marks of this bound with the distance and the elements of another."""
        return replace(other, huge=self.huge, wild=self.wild, unsigned=self.unsigned, lost=self.lost)

    def spread(self) -> Bound:
        """Return a bound with every element unstable if one is: rounding decides its whole row."""
        return self if self.unstable is None else replace(self, unstable=np.ones_like(self.unstable))

    def plus(self, slack: float, graded: npt.NDArray[np.float64] | None = None) -> Bound:
        """Return a bound that is wider by an amount, or by an amount for each element."""
        ends = self.ends and (self.ends[0] - slack, self.ends[1] + slack)
        items = tuple(item.plus(slack) for item in self.items)
        if self.graded is None:
            return replace(self, slack=self.slack + slack, ends=ends, items=items)
        wider_grades = self.graded + (slack if graded is None else graded)
        return replace(self, slack=self.slack + slack, graded=wider_grades, ends=ends, items=items)

    def reaching(self, value: Any, other: Any) -> Bound:
        """Return a bound that also accepts another value: wider by its distance, element by element.

        Integers and elements that are not finite in one of the two have no distance: they do not count if they differ.
        """
        if not isinstance(value, np.ndarray) or not isinstance(other, np.ndarray):
            return self
        if value.shape != other.shape:
            return replace(self, reshaped=True)
        apart = unequal(value, other)
        if not apart.any():
            return self
        if not is_float(value.dtype):
            return replace(self, unstable=apart if self.unstable is None else apart | self.unstable)
        wide, wide_other = value.astype(np.float64), other.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(wide_other)
        with np.errstate(invalid="ignore"):
            distance = np.where(finite, np.abs(wide - wide_other), 0.0)
        signs = bool((apart & finite & (distance == 0)).any())
        apart &= ~finite
        ends = self.ends and (np.fmin(self.ends[0], wide_other), np.fmax(self.ends[1], wide_other))
        return replace(
            self,
            slack=self.slack + float(distance.max()),
            graded=np.asarray((self.slack if self.graded is None else self.graded) + distance),
            unstable=apart if self.unstable is None else apart | self.unstable,
            unsigned=self.unsigned or signs,
            ends=ends,
        )

    def encloses(self, value: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Return which elements are between the ends."""
        if self.ends is None:
            return np.ones(value.shape, np.bool_)
        return np.asarray((self.ends[0] <= value) & (value <= self.ends[1]))


EXACT = Bound()


Enough = Callable[[Sequence[Bound]], bool]
"""Returns whether two models differ by no more than these bounds of their outputs."""


def bound_of_steps(plain: Any, runs: Sequence[Any], factor: int = 1, source: Any = None) -> Bound:
    """Return the accepted steps of integers that were converted from floats: none far from a tie.

    Quantized values differ by one step or not at all; for values that were only cast, `factor` times the distance is
    accepted. Where 8 units of the `source` that was cast are 1 or more, its rounding goes both ways.
    """
    if any(not isinstance(run, np.ndarray) or run.shape != plain.shape for run in runs):
        return bound_of_runs(plain, runs)
    apart, values = np.zeros(plain.shape), plain.astype(np.float64)
    with np.errstate(invalid="ignore"):
        for run in runs:
            apart = np.fmax(apart, np.abs(run.astype(np.float64) - values))
    lowest, highest = _ends(values, [run.astype(np.float64) for run in runs])
    if is_float_array(source):
        coarse = FACTOR * _eps(source) * np.abs(values) >= 1
        lowest, highest = np.where(coarse, -np.inf, lowest), np.where(coarse, np.inf, highest)
    return Bound(factor * float(apart.max(initial=0)), graded=factor * apart, ends=(lowest, highest))


def bound_of_runs(plain: Any, runs: Sequence[Any], *, feeds_back: bool = False) -> Bound:
    """Return the bound of a tensor or a map, from the narrow value and the wide ones (the first one unperturbed).

    If rounding `feeds_back`, an element of which no digit is right counts for every other one: later steps
    read it, and a state that jumps rarely jumps in few runs.
    """
    if isinstance(plain, dict):
        return bound_of_runs(as_array(plain), [wider(as_array(run)) for run in runs], feeds_back=feeds_back)
    if not isinstance(plain, np.ndarray):
        return EXACT
    wide = runs[0]
    others = [wider(plain), *runs[1:]]
    if any(not isinstance(other, np.ndarray) or other.shape != wide.shape for other in others):
        return Bound(0.0, np.ones(plain.shape, np.bool_), reshaped=True)
    if wide.dtype.kind != "f":
        unstable = functools.reduce(np.logical_or, [other != wide for other in others])
        return Bound(0.0, unstable if unstable.any() else None)
    # An array of 64 axes cannot get another one.
    finite = functools.reduce(np.logical_and, [np.isfinite(other) for other in (wide, *others)])
    alike = functools.reduce(np.logical_and, [(other == wide) | (np.isnan(other) & np.isnan(wide)) for other in others])
    with np.errstate(invalid="ignore", over="ignore"):
        apart = functools.reduce(np.maximum, [np.where(finite, np.abs(other - wide), 0.0) for other in others])
        size = np.where(finite, np.abs(wide), 0.0)
    largest = float(size.max(initial=0.0))
    unstable = ~finite & ~alike
    lost = apart > largest / 2  # no digit is right: cancellation, or a jump of a function
    if lost.any() and bool((lost | (size == 0)).all()):
        slack = _LOST * float(apart.max())
        # Whole numbers jump: a number that is 0 in every run stays 0, whatever the others do.
        whole = all(bool((np.trunc(other) == other)[finite].all()) for other in (wide, *others))
        graded = np.where(apart > 0, slack, 0.0) if whole else None
        ends = _ends(wider(plain), runs) if whole else None
        return Bound(slack, unstable if unstable.any() else None, graded=graded, ends=ends)
    kept = np.where(lost, 0.0, apart)
    if feeds_back and lost.any():
        return Bound(_LOST * float(apart.max()), unstable if unstable.any() else None)
    graded = _graded(plain, kept, size, np.where(lost, apart, 0.0))
    return Bound(FACTOR * float(kept.max(initial=0.0)), unstable if unstable.any() else None, graded=graded)


def as_array(values: dict[Any, Any]) -> Any:
    """Return the values of a map, floats as those of the type that holds them all; strings as a list."""
    found = list(values.values())
    if not all(isinstance(value, float) for value in found):
        return found
    wide = np.array(found)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return narrow if np.array_equal(narrow, wide, equal_nan=True) else wide


def _ends(
    plain: npt.NDArray[np.float64], runs: Sequence[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the limits of whole numbers that all runs move in one direction; infinities for others.

    A number that is rounded up beside a tie is larger by 1 or more, and never smaller in any kernel.
    """
    lowest, highest = (functools.reduce(least, [plain, *runs]) for least in (np.fmin, np.fmax))
    return np.where(lowest < plain, -np.inf, lowest), np.where(highest > plain, np.inf, highest)


def _graded(
    plain: Array,
    distance: npt.NDArray[np.float64],
    size: npt.NDArray[np.float64],
    lost: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64] | None:
    """Return the bound of each element from results that are not much larger; None if it is the same for all.

    An element that moves by more than half of its digits counts only for others that do, too: it is at a jump of a
    function, or the result of cancellation. `lost` are the distances of elements without any correct digit. A zero has
    no magnitude: it may be the result of cancellation, and if products are added without being rounded first (FMA),
    their last digits remain; those of float, if kernels of 16 bits add them.
    """
    largest = float(size.max(initial=0.0))
    if not is_float(plain.dtype):
        return None
    jumps = distance > math.sqrt(_eps(plain)) * largest
    reached = _reached(plain, size)
    if not jumps.any() and not lost.any() and bool((reached >= largest).all()):
        return None
    all_of_them, calm = (_farthest(one, size, reached) for one in (distance, np.where(jumps, 0.0, distance)))
    graded = np.maximum(np.where(jumps, all_of_them, calm), _unit(plain, size) / 2)
    left = distance.max(initial=0.0) * min(1.0, float(np.finfo(np.float32).eps) / _eps(plain))
    graded = np.where((size == 0) & (lost == 0), np.maximum(graded, left), graded)
    return np.asarray(np.where(lost > 0, _LOST * lost, FACTOR * graded))


def _farthest(
    distance: npt.NDArray[np.float64], size: npt.NDArray[np.float64], reached: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return, for each element, the largest distance of elements up to its limit of magnitude."""
    order = np.argsort(size, axis=None)
    ends = np.searchsorted(size.ravel()[order], reached.ravel(), side="right") - 1
    return np.asarray(np.maximum.accumulate(distance.ravel()[order])[ends].reshape(size.shape))


def _eps(plain: Array) -> float:
    return float(ml_dtypes.finfo(plain.dtype).eps)  # type: ignore[no-untyped-call]


def _unit(plain: Array, size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a unit of the largest number that counts for an element; kernels may flush the smallest to 0."""
    info = ml_dtypes.finfo(plain.dtype)  # type: ignore[no-untyped-call]
    least = float(info.tiny if plain.dtype.itemsize > 2 else info.smallest_subnormal)
    return np.asarray(float(info.eps) * np.minimum(_reached(plain, size), size.max(initial=0.0)) + 2 * least)


def _reached(plain: Array, size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the maximum magnitude of results that count for elements of these sizes; no limit for huge doubles.

    8 units of such results are half of the digits: they are 4 times as large in float16, and 362 times in float.
    """
    with np.errstate(over="ignore"):
        return size * max(1.0, 1 / (FACTOR * math.sqrt(_eps(plain))))


def nothing_counts(value: Any) -> Bound:
    """Return a bound with every element unstable."""
    return Bound(unstable=np.ones(value.shape, np.bool_)) if isinstance(value, np.ndarray) else EXACT


def rounded(value: Any, *, in_float: bool = False) -> Bound:
    """Return 8 units of rounding of an output's largest value, the bound if no better one is known.

    The units are those of its type, or at least those of float if it is computed `in_float`.
    """
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return EXACT
    wide = value.astype(np.float64)
    largest = float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
    info = ml_dtypes.finfo(value.dtype)  # type: ignore[no-untyped-call]
    eps = max(float(info.eps), float(np.finfo(np.float32).eps) if in_float else 0.0)
    return Bound(FACTOR * max(largest * eps, float(info.smallest_subnormal)))


def half_the_digits(value: Any) -> float:
    """Return the distance at which half of the digits of an output's largest value are wrong."""
    if not isinstance(value, np.ndarray) or not is_float(value.dtype):
        return 0.0
    eps = float(ml_dtypes.finfo(value.dtype).eps)  # type: ignore[no-untyped-call]
    return rounded(value).slack / FACTOR / math.sqrt(eps)


def with_kernels(bound: Bound, value: Any) -> Bound:
    """Return an oracle's bound widened for a kernel's results; integers have no digits to lose."""
    if bound.graded is None or not is_float(value.dtype):
        return bound.plus(rounded(value).slack)
    size = np.abs(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0))
    return bound.plus(rounded(value).slack, FACTOR * _unit(value, size))
