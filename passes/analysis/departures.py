"""Measure the difference between floats computed in a narrower type and the expected floats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opshift.opsets.registry.value_ranges import SIGNIFICANT_BITS

ROUNDINGS = 64
"""The accepted difference in roundings of the narrower type: the results of a few network layers differ by less."""

_ROW = 16
"""The minimum number of elements of a row or channel for a separate scale."""


@dataclass(frozen=True)
class Distance:
    """The element with the largest difference.

    Attributes:
        size: its distance from the expected number, relative to that number and to the size of its neighbours;
            infinite if they differ and one is not finite.
        index: its index.
        expected: the expected number.
        actual: the computed number.
    """

    size: float
    index: tuple[int, ...] = ()
    expected: float = 0.0
    actual: float = 0.0


def bound_of(dtype: int) -> float:
    """Return the relative distance that counts as rounding for a float type: 1/32 for float16."""
    return float(ROUNDINGS * 2.0 ** -SIGNIFICANT_BITS[dtype])


def distance(expected: npt.NDArray[Any], actual: npt.NDArray[Any], *, rows: bool = True) -> Distance:
    """Return the element with the largest difference; both arrays have the same shape.

    The distance of an element is relative to its own size plus the root mean square of all elements. With `rows`, the
    mean is over the element's row or channel: for each axis, the elements with the same index, if they are 16 or more;
    the smallest mean counts. So a score beside large coordinates is compared with the other scores.
    """
    if not expected.size:
        return Distance(0.0)
    wanted, found = expected.astype(np.float64), actual.astype(np.float64)
    finite = np.isfinite(wanted) & np.isfinite(found)
    same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        gap = np.where(same, 0.0, np.where(finite, np.abs(found - wanted), math.inf))
        size = np.where(finite, np.abs(wanted), 0.0) + _scale(np.where(finite, wanted, 0.0), rows=rows)
        relative = np.where(gap == 0, 0.0, gap / size)
    place = np.unravel_index(int(np.argmax(relative)), relative.shape)
    where = tuple(map(int, place))
    return Distance(float(relative[where]), where, float(wanted[where]), float(found[where]))


def _scale(values: npt.NDArray[np.float64], *, rows: bool) -> npt.NDArray[np.float64]:
    """Return the root mean square of the elements around each element; the smallest of several."""
    squares = values * values
    found = np.full(values.shape, squares.mean())
    for axis in range(values.ndim if rows and values.ndim > 1 else 0):
        others = tuple(other for other in range(values.ndim) if other != axis)
        if values.size // values.shape[axis] >= _ROW:
            found = np.minimum(found, squares.mean(axis=others, keepdims=True))
    return np.asarray(np.sqrt(found), np.float64)
