"""Integers for which an operator's result is undefined: no specification defines it, and kernels disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.node_traits import attributes_of, integers_of
from opshift.opsets.registry.traits import Integers

_EXACT = 2**24
"""Up to here every integer is a number of float, in which Shrink takes integers (onnxruntime 1.32.0)."""
_EXACT_DOUBLE = 2**53
"""Up to here every integer is a number of double."""


def overflows(node: onnx.NodeProto, read: Sequence[Any]) -> bool:
    """Return whether sums of these integers leave their type, or what an operator computes with holds them no more.

    onnxruntime 1.32.0 adds up integers of 64 bits as doubles, and its ReduceL2 of 2147483647 in int32 is 1. Of several
    integers its ReduceLogSumExp cuts each exponential to an integer before it adds them up, which says nothing of the
    logarithm of their sum. Of what leaves the type its ReduceSum and ReduceProd make the ends of the type, and
    ScatterElements, which they replace, a remainder.
    """
    integers = integers_of(node)
    value = read[0] if read else None
    if integers is None or not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
        return False
    wide, largest = np.abs(value.astype(np.float64)), float(np.iinfo(value.dtype).max)
    most = min(largest, _EXACT_DOUBLE)
    if value.dtype.itemsize == 8 and bool(((value > _EXACT_DOUBLE) | (value < -_EXACT_DOUBLE)).any()):
        wide = wide + 2.0  # the next number of double: the sum may have been rounded to what still counts
    match integers:
        case Integers.AS_FLOATS:
            return bool((wide > _EXACT).any())
        case Integers.SQUARES:
            return bool((wide**2).sum() > most)
        case Integers.EXPONENTIALS:
            return value.size > 1 or bool(wide.sum() > most)
        case Integers.WRAPPED:
            return bool(wide.sum() > most) and largest > _EXACT_DOUBLE
        case Integers.PRODUCTS:
            given = read[1].tolist() if len(read) > 1 and isinstance(read[1], np.ndarray) else ()
            axes = attributes_of(node).get("axes") or given
            with np.errstate(over="ignore"):
                products = wide.prod(axis=tuple(axes) or None)
            return bool((products > most).any()) and largest > _EXACT_DOUBLE
        case Integers.SUMS:
            return bool(wide.sum() > most)
        case Integers.JOINED_SUMS | Integers.JOINED_PRODUCTS:
            joined = read[2] if len(read) > 2 and isinstance(read[2], np.ndarray) else value
            updates = np.abs(joined.astype(np.float64))
            start = wide.max(initial=0.0)
            if integers is Integers.JOINED_SUMS:
                return bool(start + updates.sum() > most)
            return bool(max(start, 1.0) * np.maximum(updates, 1.0).prod() > most)
    return False
