"""Provide functions for axes, which most operators use."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Dim, Facts, constant
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands

END = 2**31 - 1
"""`ends` of a slice that goes to the end of an axis; Slice-1 specifies INT_MAX."""


def resolve(axis: int, rank: int | None) -> int:
    """Return the axis counted from the front if the rank is known; an axis out of range is unchanged."""
    return axis if rank is None or axis >= 0 or axis < -rank else axis + rank


def from_front(places: np.ndarray[Any, Any], length: int | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return indices counted from the front of a length; indices out of range are unchanged."""
    return np.where((places < 0) & (places >= -length), places + length, places).astype(places.dtype)


def positions(places: np.ndarray[Any, Any], length: int | np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return indices counted from the front of a length; None if one is out of range."""
    found = from_front(places, length)
    return found if ((found >= 0) & (found < length)).all() else None


def one_axis(meaning: Any, operands: Operands) -> tuple[Any, Operands]:
    """Return the normal form of a meaning with a field `axis` of its first operand."""
    first = operands[0]
    return dataclasses.replace(meaning, axis=resolve(meaning.axis, first.rank if first else None)), operands


def axes_operand(
    index: int, growth: Callable[[int], int] = lambda count: 0
) -> Callable[[Any, Operands], tuple[Any, Operands]]:
    """Return the normal form if operand `index` has axes of the first; `growth` is their effect on the rank."""

    def normal(meaning: Any, operands: Operands) -> tuple[Any, Operands]:
        data, axes = operands[0], operands[index]
        known = None if axes is None else axes.known
        if axes is None or known is None or data is None or data.rank is None:
            return meaning, operands
        resolved = from_front(known, data.rank + growth(known.size))
        return meaning, (*operands[:index], constant(resolved), *operands[index + 1 :])

    return normal


def distinct_axes(axes: np.ndarray[Any, Any], rank: int) -> tuple[int, ...]:
    """Return the axes in an operand, counted from the front.

    Raises:
        ValueError: An axis is out of range, or repeated.
    """
    places = tuple(int(axis) + rank * (int(axis) < 0) for axis in axes.ravel())
    if any(not 0 <= axis < rank for axis in places) or len(set(places)) < len(places):
        raise ValueError(f"axes {axes.ravel().tolist()} of an input of rank {rank}: out of range, or given twice")
    return places


def axis_fault(axis: int, rank: int | None, added: int = 0) -> str | None:
    """Return the error of an axis of an input, or of an output with `added` more axes."""
    if rank is None:
        return None
    if rank == 0:
        return "its input is a scalar, which has no axis"
    # The texts of Hardmax-1 and ArgMax-1 give no range and onnx infers past any axis; onnxruntime refuses to run them.
    axes = rank + added
    if -axes <= axis < axes:
        return None
    return f"axis {axis} is out of range: its input has rank {rank}, which allows {-axes} to {axes - 1}"


def not_negative(axis: int) -> Reason | None:
    """Refuse a negative axis if the version's text defines none."""
    return Reason("no negative axis is defined, and the rank is unknown", missing=True) if axis < 0 else None


def axis_not_negative(meaning: Any, operands: Operands) -> Reason | None:
    """Refuse a negative `axis`."""
    return not_negative(meaning.axis)


def operand_not_negative(index: int) -> Callable[[Any, Operands], Reason | None]:
    """Return a function that refuses negative axes in an operand."""

    def applies_if(meaning: Any, operands: Operands) -> Reason | None:
        axes = operands[index]
        if axes is None:
            return None
        if axes.known is None:
            return Reason("the axes are computed at run time", missing=True)
        return not_negative(int(axes.known.min(initial=0)))

    return applies_if


def rank_known(meaning: Any, operands: Operands) -> Reason | None:
    """Require the rank of the first operand."""
    return (
        None
        if operands[0] is not None and operands[0].rank is not None
        else Reason("the rank is unknown", missing=True)
    )


def rank_unknown(meaning: Any, operands: Operands) -> Reason | None:
    """Require that the rank of the first operand is unknown."""
    return Reason("the rank is known") if rank_known(meaning, operands) is None else None


def one_from_back(meaning: Any, operands: Operands) -> Reason | None:
    """Require one constant axis that counts from the back of an unknown rank, in the second operand."""
    axes = operands[1]
    if axes is None or axes.known is None or axes.known.size != 1 or int(axes.known.item()) >= 0:
        return Reason("the axes are not one constant that counts from the back")
    return rank_unknown(meaning, operands)


def product(dims: tuple[Dim, ...]) -> Dim:
    """Multiply dimensions: 0 as soon as one is, unknown if more than one factor is not a number."""
    if 0 in dims:
        return 0
    factors = [dim for dim in dims if dim != 1]
    if len(factors) == 1:
        return factors[0]
    known = [dim for dim in factors if isinstance(dim, int)]
    return math.prod(known) if len(known) == len(factors) else None


def fixed(dims: tuple[Dim, ...] | None) -> tuple[int, ...] | None:
    """Return the target shape of a Reshape for this shape, with -1 for an unknown dimension.

    Return None if several dimensions are unknown, or if one is unknown and another is zero.
    """
    if dims is None:
        return None
    numbers = tuple(dim if isinstance(dim, int) else -1 for dim in dims)
    unknown = numbers.count(-1)
    return None if unknown > 1 or 0 in numbers else numbers


def first(operands: Operands) -> Facts:
    """Return the first operand, which every row operator and reduction has."""
    return operands[0] or Facts()
