"""How far floats that were computed in a narrower type depart from what was expected, element by element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opshift.opsets.registry.value_ranges import SIGNIFICANT_BITS

ROUNDINGS = 64
"""Roundings of the narrower type, as the bound: results of a few layers of a network depart by less."""

_ROW = 16
"""The fewest elements of a row or channel whose own size counts."""


@dataclass(frozen=True)
class Distance:
    """The element that departs most.

    Attributes:
        size: its distance from what was expected, relative to the expected number and to the size of its neighbours;
            infinite where one of the two is not finite.
        index: where it is.
        expected: what was expected.
        actual: what was computed.
    """

    size: float
    index: tuple[int, ...] = ()
    expected: float = 0.0
    actual: float = 0.0


def bound_of(dtype: int) -> float:
    """Return the relative distance that counts as rounding of a type of floats: 1/32 for float16."""
    return float(ROUNDINGS * 2.0 ** -SIGNIFICANT_BITS[dtype])


def distance(expected: npt.NDArray[Any], actual: npt.NDArray[Any], *, rows: bool = True) -> Distance:
    """Return the element of floats that departs most from what was expected; both have one shape.

    The distance of an element is relative to its own size plus the root mean square of all elements. With `rows` it is
    that of its row or channel: along each axis, of the elements that have its index there, if they are 16 or more, the
    smallest of these. So a score beside large coordinates is compared with the other scores.
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
    """Return the root mean square of the elements beside each, the smallest of several."""
    squares = values * values
    found = np.full(values.shape, squares.mean())
    for axis in range(values.ndim if rows and values.ndim > 1 else 0):
        others = tuple(other for other in range(values.ndim) if other != axis)
        if values.size // values.shape[axis] >= _ROW:
            found = np.minimum(found, squares.mean(axis=others, keepdims=True))
    return np.asarray(np.sqrt(found), np.float64)
