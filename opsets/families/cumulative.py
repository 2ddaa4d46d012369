"""Define CumSum and CumProd: the accumulation up to each element along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import axes_operand, first, rank_known
from opshift.opsets.registry.facts import type_name
from opshift.opsets.registry.lowering import Lowering, Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits


@dataclass(frozen=True)
class Cumulative:
    """Whether a result excludes the element at its own position, and whether accumulation starts at the end.

    With a `stride` of n, only every n-th element before an element is accumulated with it.
    """

    exclusive: int = 0
    reverse: int = 0
    stride: int = 1


LONGEST = 4096
"""The maximum axis length for lowerings with a row for each index: 64 MiB of float, times the other dimensions."""


def along_known_axis(*dtypes: int, longest: int | None = LONGEST) -> Callable[[Cumulative, Operands], Reason | None]:
    """Return a condition: a constant axis of known rank and limited length, and elements of these types."""

    def applies(what: Cumulative, operands: Operands) -> Reason | None:
        dtype = first(operands).dtype
        if dtype is None:
            return Reason("the element type is unknown", missing=True)
        if dtype not in dtypes:
            return Reason(f"the elements are not of {' or '.join(map(type_name, dtypes))}")
        if operands[1] is None or operands[1].known is None:
            return Reason("the axis is computed at run time", missing=True)
        if reason := rank_known(what, operands):
            return reason
        length = length_along(operands)
        if longest is None or length is None or length <= longest:
            return None
        return Reason(f"the axis is longer than {longest}")

    return applies


def length_along(operands: Operands) -> int | None:
    """Return the length of the axis, if both are known."""
    axis = operands[1]
    dim = None if axis is None or axis.known is None else first(operands).dim(int(axis.known.item()))
    return dim if isinstance(dim, int) else None


def known_axis(operands: Operands) -> int:
    """Return the axis, which is constant."""
    axis = operands[1]
    assert axis is not None
    assert axis.known is not None
    return int(axis.known.item())


def _alone(what: Cumulative, operands: Operands) -> bool:
    """Return whether no element has another one to be accumulated with."""
    length = length_along(operands)
    return length is not None and length <= what.stride and not what.exclusive


def pairs(what: Cumulative, operands: Operands) -> Mapping[str, Any]:
    """Bind the attributes of a lowering that pairs each index of the axis with each other one."""
    axis, rank = known_axis(operands), first(operands).rank or 0
    return {
        "at": (axis,),
        "behind": tuple(range(2, 2 + rank - 1 - axis)),
        "along": (axis + 1,),
        "sign": (-1 if what.reverse else 1,),
        "before": (-1 + what.exclusive,),
        "dtype": first(operands).dtype,
    }


def _computed(what: Cumulative, operands: Operands) -> Reason | None:
    if operands[1] is None or operands[1].known is not None:
        return Reason("the axis is known")
    return None


def _how(what: Cumulative, operands: Operands) -> Mapping[str, Any]:
    dims = first(operands).shape or (None,)
    plain = all(isinstance(dim, int) and dim for dim in dims)
    return {"exclusive": what.exclusive, "reverse": what.reverse, "allowzero": 0 if plain else 1}


@lowering(18, applies_if=_computed, bind=_how, cost=10)
def as_three_axes(x, axis, exclusive: int, reverse: int, allowzero: int):
    """Merge the axes before and after the accumulated one, which becomes the second."""
    shape = op.Shape(x)
    given = op.Reshape(op.Cast(axis, to=7), [1])
    at = given + op.Cast(op.Less(given, 0), to=7) * op.Shape(shape)
    before = op.ReduceProd(op.Slice(shape, [0], at), keepdims=1)
    length = op.Gather(shape, at, axis=0)
    behind = op.ReduceProd(op.Slice(shape, at + 1, [2147483647]), keepdims=1)
    three = op.Reshape(x, op.Concat(before, length, behind, axis=0), allowzero=allowzero)
    return op.Reshape(meaning.Itself(three, 1, exclusive=exclusive, reverse=reverse), shape, allowzero=allowzero)


def cumulative(
    name: str,
    versions: tuple[int, ...],
    ufunc: np.ufunc,
    nothing: int,
    lowerings: tuple[Lowering, ...],
    *,
    traits: Traits,
) -> Operator:
    """Return the operator that accumulates by a ufunc; `nothing` is its neutral element."""

    def oracle(what: Cumulative, x: np.ndarray[Any, Any], axis: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # CumProd-26: with exclusive, "the j-th output element would be the product of the first (j-1) elements".
        along = int(axis.item())
        ordered = np.flip(x, along) if what.reverse else x
        total: np.ndarray[Any, Any] = np.empty_like(ordered)
        for begin in range(what.stride):
            every = (slice(None),) * (along % x.ndim) + (slice(begin, None, what.stride),)
            total[every] = ufunc.accumulate(ordered[every], along, dtype=x.dtype)
        if what.exclusive:
            start = np.full_like(np.take(x, range(min(1, x.shape[along])), axis=along), nothing)
            kept = np.take(total, range(max(x.shape[along] - 1, 0)), axis=along)
            total = np.concatenate([start, kept], axis=along)
        return np.flip(total, along) if what.reverse else total

    return Operator(
        name=name,
        meaning=Cumulative,
        versions=tuple(Version(since) for since in versions),
        operands=("x", "axis"),
        oracle=oracle,
        normal=_from_front,
        idle=_alone,
        longest=LONGEST,
        lowerings=(*lowerings, as_three_axes),
        traits=traits,
    )


_from_front: Callable[[Any, Operands], tuple[Any, Operands]] = axes_operand(1)
