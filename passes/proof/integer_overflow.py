"""Find integers for which an operator's result is undefined: no specification defines it, and kernels disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.node_traits import attributes_of, integers_of
from opshift.opsets.registry.traits import Integers

_EXACT = 2**24
"""Every integer up to this is exact in float, in which Shrink computes integers (onnxruntime 1.32.0)."""
_EXACT_DOUBLE = 2**53
"""Every integer up to this is exact in double."""
_BESIDE = 4
"""The distance from an integer, in units in the last place, at which a double logarithm may truncate to either side."""


def overflows(node: onnx.NodeProto, read: Sequence[Any]) -> bool:
    """Return whether sums of these integers overflow their type, or the type of the operator's computation.

    onnxruntime 1.32.0 adds 64-bit integers as doubles, and its ReduceL2 of 2147483647 in int32 is 1. Its
    ReduceLogSumExp truncates each exponential to an integer before it adds them. On overflow, its ReduceSum and
    ReduceProd saturate, and ScatterElements, which they replace, wraps around, with exact sums of 64 bits.
    """
    integers = integers_of(node)
    value = read[0] if read else None
    if integers is None or not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        return False
    wide, largest = np.abs(value.astype(np.float64)), float(np.iinfo(value.dtype).max)
    most = min(largest, _EXACT_DOUBLE)
    if value.dtype.itemsize == 8 and bool(((value > _EXACT_DOUBLE) | (value < -_EXACT_DOUBLE)).any()):
        wide = wide + 2.0  # the next double: the sum may have been rounded to a number that still counts
    match integers:
        case Integers.AS_FLOATS:
            return bool((wide > _EXACT).any())
        case Integers.SQUARES:
            return bool((wide**2).sum() > most)
        case Integers.EXPONENTIALS:
            if _lacks_axes(node, read) and value.size > 1:
                return True
            return not _same_logarithms(value.astype(np.float64), reduced_axes(node, read, value.ndim), most)
        case Integers.WRAPPED:
            return bool(wide.sum() > most) and largest > _EXACT_DOUBLE
        case Integers.PRODUCTS:
            with np.errstate(over="ignore"):
                products = wide.prod(axis=reduced_axes(node, read, value.ndim))
            return bool((products > most).any()) and largest > _EXACT_DOUBLE
        case Integers.SUMS:
            return bool(wide.sum() > most)
        case Integers.JOINED_SUMS | Integers.JOINED_PRODUCTS:
            joined = read[2] if len(read) > 2 and isinstance(read[2], np.ndarray) else value
            updates = np.abs(joined.astype(np.float64))
            start = wide.max(initial=0.0)
            if integers is Integers.JOINED_SUMS:
                return bool(start + updates.sum() > largest)
            return bool(max(start, 1.0) * np.maximum(updates, 1.0).prod() > largest)
    return False


def overflows_inside(node: onnx.NodeProto, outside: Any) -> bool:
    """Return the same for a node of a function or branch that may read an outer value, or a value computed from one."""
    if integers_of(node) is Integers.EXPONENTIALS:
        return isinstance(outside, np.ndarray) and outside.dtype.kind in "iu" and outside.size > 1
    return overflows(node, [outside])


def _lacks_axes(node: onnx.NodeProto, read: Sequence[Any]) -> bool:
    """Return whether the axes are an unknown input."""
    return len(node.input) > 1 and bool(node.input[1]) and not (len(read) > 1 and isinstance(read[1], np.ndarray))


def reduced_axes(node: onnx.NodeProto, read: Sequence[Any], rank: int) -> tuple[int, ...] | None:
    """Return the axes that a node reduces, in numpy's form: None for all. Invalid axes are dropped."""
    attributes = attributes_of(node)
    as_input = read[1].ravel().tolist() if len(read) > 1 and isinstance(read[1], np.ndarray) else ()
    axes = tuple({axis % rank for axis in attributes.get("axes") or as_input if -rank <= axis < rank})
    return axes if axes or attributes.get("noop_with_empty_axes") else None


def _same_logarithms(value: np.ndarray[Any, Any], axes: tuple[int, ...] | None, most: float) -> bool:
    """Return whether truncating the exponentials keeps the integer logarithms of sums, up to `most`.

    onnxruntime subtracts the greatest element first, so a truncated exponential is 1 for it and its equals, and 0 for
    others.
    """
    if not value.size:
        return False
    greatest = value.max(axis=axes, keepdims=True)
    total = greatest + np.log(np.exp(value - greatest).sum(axis=axes, keepdims=True))
    cut = greatest + np.log((value == greatest).sum(axis=axes, keepdims=True))
    # The logarithm of a single element is that element; of more elements, only rounding moves it near an integer.
    beside = (np.abs(total - np.round(total)) <= _BESIDE * np.spacing(np.abs(greatest) + 1)) & (total != greatest)
    return bool((np.trunc(total) == np.trunc(cut)).all() and not beside.any() and (np.abs(total) <= most).all())
