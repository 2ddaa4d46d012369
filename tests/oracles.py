"""What the specification's text says, in numpy: Hardmax, ArgMax and OneHot in all versions, and DirectML's hardmax.

Written from `onnx.defs` alone, with no look at the package: these are the judge, not a second implementation.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def hardmax_axes(x: Array, axes: Collection[int]) -> Array:
    """1 for the first maximum of each row, else 0; the listed axes, in the order they have in memory, form a row."""
    row = sorted({axis % x.ndim for axis in axes})
    others = [axis for axis in range(x.ndim) if axis not in row]
    moved = np.transpose(x, others + row)
    rows = moved.reshape(math.prod(x.shape[a] for a in others), math.prod(x.shape[a] for a in row))
    hot = np.zeros_like(rows)
    if rows.size:
        hot[np.arange(rows.shape[0]), _first_maximum(rows)] = 1
    return np.transpose(hot.reshape(moved.shape), np.argsort(others + row))


def hardmax_1(x: Array, axis: int = 1) -> Array:
    """Hardmax-1 and -11: "coerced into a 2-dimensional tensor [a_0 * ... * a_{k-1}, a_k * ... * a_{n-1}]"."""
    return hardmax_axes(x, range(axis % x.ndim, x.ndim))


def hardmax_13(x: Array, axis: int = -1) -> Array:
    """Hardmax-13: "1 if the element is the first maximum value along the specified axis, 0 otherwise"."""
    return hardmax_axes(x, [axis])


def argmax(x: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    """All versions of ArgMax: the first index of the maximum, or the last one if select_last_index."""
    rows = np.moveaxis(x, axis, -1)
    flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
    index = _last_maximum(flat) if select_last_index else _first_maximum(flat)
    found = index.reshape(rows.shape[:-1])
    return np.expand_dims(found, axis) if keepdims else found


ANY_INDEX = -0x5EED << 48
"""In place of an index, and `n` above it: any of 0 to n-1. No operator under test returns such numbers itself."""


def argmax_or_any(x: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    """ArgMax, with the rows marked of which the text defines no index: those with NaN."""
    nan = np.asarray(x != x).any(axis=axis, keepdims=bool(keepdims))
    return np.where(nan, ANY_INDEX + x.shape[axis], argmax(x, axis, keepdims, select_last_index))


def chosen(expected: Array, found: Array) -> Array:
    """Return what is expected, with each index that may be any replaced by the one found, if that is in range."""
    if expected.dtype != np.int64 or expected.shape != found.shape:
        return expected
    lengths = np.maximum(expected, ANY_INDEX) - ANY_INDEX
    free = (lengths > 0) & (lengths < 2**32)
    return np.where(free & (found >= 0) & (found < lengths), found, expected)


def one_hot(indices: Array, depth: Array, values: Array, axis: int = -1) -> Array:
    """OneHot-11 and -28, and OneHot-9 as far as its text goes ("values must be non-negative integers").

    "Any entries with values outside the range [-depth, depth-1] will result in all 'off_value'"; "in case 'indices' is
    of non-integer type, the values will be casted to int64 before use"; depth likewise.
    """
    size = int(depth.reshape(()).item())
    where = _as_int64(indices, size)
    classes = np.arange(size, dtype=np.int64)
    hit = (where[..., None] == classes) | (where[..., None] == classes - size)
    return np.moveaxis(values[hit.astype(np.int64)], -1, axis)


def _as_int64(indices: Array, depth: int) -> Array:
    """The indices as int64; unsigned ones too large for that stay out of range."""
    if indices.dtype.kind != "u":
        return indices.astype(np.int64)
    return np.minimum(indices.astype(np.uint64), np.uint64(depth)).astype(np.int64)


def _first_maximum(rows: Array) -> Array:
    return np.asarray(rows.argmax(axis=1), dtype=np.int64)


def _last_maximum(rows: Array) -> Array:
    return np.asarray(rows.shape[1] - 1 - rows[:, ::-1].argmax(axis=1), dtype=np.int64)
