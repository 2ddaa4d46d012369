"""Define when two values are equal, and measure their difference."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np

from opshift.passes.proof.coverage import unequal
from opshift.passes.proof.rounding.bound import EXACT, Bound, as_array, rounded
from opshift.passes.proof.wider_types import is_float
from opshift.passes.runtime.ort_models import Array, Feeds


class DifferenceKind(StrEnum):
    """A kind of difference between two values. Amounts of one kind are comparable, but not of two kinds."""

    VALUE = "value"
    OF_ZERO = "of zero"
    SIGN_OF_ZERO = "sign of zero"
    NOT_FINITE = "not finite"
    OTHER = "other"


def differences_by_kind(expected: Any, actual: Any) -> Mapping[DifferenceKind, float]:
    """Return the kinds of differences of two values, each with a positive amount.

    The distance of floats is in units of rounding of the largest expected value. Differences without such a unit count
    as 1: numbers where only zeros are expected, signs of zeros, infinities and NaN, and values other than floats of one
    shape.
    """
    if differs(expected, actual) is None:
        return {}
    floats = isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray) and is_float(expected.dtype)
    if not floats or expected.shape != actual.shape or expected.dtype != actual.dtype:
        return {DifferenceKind.OTHER: 1.0}
    finite = np.isfinite(expected) & np.isfinite(actual)
    apart = unequal(expected, actual)
    distance = deviation(expected, actual)
    difference = DifferenceKind.VALUE if (expected[finite] != 0).any() else DifferenceKind.OF_ZERO
    return {
        **(
            {difference: distance / rounded(expected).slack if difference is DifferenceKind.VALUE else 1.0}
            if distance
            else {}
        ),
        **({DifferenceKind.SIGN_OF_ZERO: 1.0} if (apart & (expected == 0) & (actual == 0)).any() else {}),
        **({DifferenceKind.NOT_FINITE: 1.0} if (apart & ~finite).any() else {}),
    }


def differs_in_rank(feeds: Feeds, expected: Any, actual: Any) -> str:
    """Return how two tensors differ in element type or rank; empty for other values and for empty tensors.

    onnxruntime may return empty tensors of any rank.
    """
    values = (*feeds.values(), expected, actual)
    if not all(isinstance(value, np.ndarray) and value.size for value in values):
        return ""
    if expected.dtype != actual.dtype and not {expected.dtype.kind, actual.dtype.kind} <= set("OSU"):
        return f"element type {actual.dtype} instead of {expected.dtype}"
    return "" if expected.ndim == actual.ndim else f"shape {list(actual.shape)} instead of {list(expected.shape)}"


def deviation(one: Any, other: Any) -> float:
    """Return the largest distance of two float values; 0 for other types or different shapes."""
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or one.shape != other.shape:
        return 0.0
    if one.dtype != other.dtype or not is_float(one.dtype):
        return 0.0
    finite = np.isfinite(one) & np.isfinite(other)
    return float(np.abs(one[finite].astype(np.float64) - other[finite].astype(np.float64)).max(initial=0.0))


def differs(expected: Any, actual: Any, bound: Bound = EXACT) -> tuple[str, tuple[int, ...] | None] | None:
    """Return the error of a value and the element's index; None if it is right.

    Floats are compared bit for bit, any NaN being equal to any other, or within the bound.
    """
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{len(actual)} elements instead of {len(expected)}", None
        if bound.reshaped:
            return None
        pairs = enumerate(zip(expected, actual, strict=True))
        found = (differs(one, other, bound.of_item(place)) for place, (one, other) in pairs)
        return next((each for each in found if each is not None), None)
    if isinstance(expected, dict) and isinstance(actual, dict):
        if list(expected) != list(actual):
            return f"the keys {list(actual)} instead of {list(expected)}", None
        return differs(as_array(expected), as_array(actual), bound)
    if expected is None or actual is None:
        return None if expected is actual else ("a missing optional value", None)
    if isinstance(expected, list | dict) or isinstance(actual, list | dict):
        return f"{type(actual).__name__} instead of {type(expected).__name__}", None
    return _array_difference(_plain(np.asarray(expected)), _plain(np.asarray(actual)), bound)


def _plain(array: Array) -> Array:
    """Return an array of strings as objects, whatever their storage, and any other array unchanged."""
    return (
        np.array([str(item) for item in array.reshape(-1)], dtype=object).reshape(array.shape)
        if array.dtype.kind in "OSU"
        else array
    )


def _array_difference(expected: Array, actual: Array, bound: Bound) -> tuple[str, tuple[int, ...] | None] | None:
    if expected.dtype != actual.dtype:
        return f"element type {actual.dtype} instead of {expected.dtype}", None
    unstable = bound.unstable
    if expected.shape != actual.shape:
        if bound.reshaped:
            return None
        return f"shape {list(actual.shape)} instead of {list(expected.shape)}", None
    wrong = unequal(expected, actual)
    if unstable is not None and unstable.shape == wrong.shape and wrong.any():
        wrong &= ~unstable
    if (bound.slack or bound.huge or bound.wild or bound.unsigned) and wrong.any() and is_float(expected.dtype):
        wide, other = expected.astype(np.float64), actual.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(other)
        with np.errstate(invalid="ignore"):
            near = np.abs(wide - other) <= (bound.slack if bound.graded is None else bound.graded)
        near &= bound.encloses(other)
        signs = (wide == 0) & (other == 0)
        wrong &= ~(finite & near & ~signs) & ~(signs & bound.unsigned)
        neither = ~np.isfinite(wide) & ~np.isfinite(other)
        wrong &= finite | ~(bound.huge | (neither & bound.wild))
    if bound.slack and wrong.any() and expected.dtype.kind in "iu":
        wide_steps = np.abs(expected.astype(np.float64) - actual.astype(np.float64))
        steps = np.abs(expected.astype(np.int64) - actual.astype(np.int64))  # distant numbers wrap around
        steps = np.where(wide_steps < 2.0**52, steps, wide_steps)
        near = steps <= (bound.slack if bound.graded is None else bound.graded)
        wrong &= ~(near & bound.encloses(actual.astype(np.float64)))
    if not wrong.any():
        return None
    index = tuple(int(at) for at in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return f"{actual[index]} instead of {expected[index]} at {list(index)}", index
