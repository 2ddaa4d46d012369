"""CumSum and CumProd: what has come together up to each element along an axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.axes import axes_operand, first, rank_known
from opshift.opsets.facts import FLOATS
from opshift.opsets.lowering import Lowering, Reason
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class Cumulative:
    """Whether an element is left out of what comes together at its own place, and whether that starts at the end."""

    exclusive: int = 0
    reverse: int = 0


LONGEST = 4096
"""A lowering that holds a row for each place of an axis is none for longer ones: 64 MiB of float, times the rest."""


def along_known_axis(meaning: Cumulative, operands: Operands) -> Reason | None:
    """Ask for a constant axis, of a known rank and no great length, and for floats."""
    data, axis = first(operands), None if operands[1] is None else operands[1].known
    if axis is None:
        return Reason("the axis is computed at run time", missing=True)
    if data.dtype is None:
        return Reason("the element type is unknown", missing=True)
    if data.dtype not in FLOATS:
        return Reason("ReduceSum and ReduceProd of onnxruntime 1.31.1 take integers as doubles, and lose digits")
    if reason := rank_known(meaning, operands):
        return reason
    dim = data.dim(int(axis.item()))
    return Reason(f"the axis is longer than {LONGEST}") if isinstance(dim, int) and dim > LONGEST else None


def pairs(meaning: Cumulative, operands: Operands) -> Mapping[str, Any]:
    """Bind what a lowering needs that sees each place of the axis beside each other one."""
    axis = int(operands[1].known.item()) if operands[1] is not None and operands[1].known is not None else 0
    rank = first(operands).rank or 0
    return {
        "at": (axis,),
        "behind": tuple(range(2, 2 + rank - 1 - axis)),
        "along": (axis + 1,),
        "sign": (-1 if meaning.reverse else 1,),
        "before": (-1 + meaning.exclusive,),
        "dtype": first(operands).dtype,
    }


def cumulative(
    name: str, versions: tuple[int, ...], ufunc: np.ufunc, nothing: int, lowerings: tuple[Lowering, ...]
) -> Operator:
    """Return the operator that accumulates by a ufunc; `nothing` is what stands where nothing has come yet."""

    def oracle(meaning: Cumulative, x: np.ndarray[Any, Any], axis: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # CumProd-26: with exclusive, "the j-th output element would be the product of the first (j-1) elements".
        along = int(axis.item())
        ordered = np.flip(x, along) if meaning.reverse else x
        total: np.ndarray[Any, Any] = ufunc.accumulate(ordered, along, dtype=x.dtype)
        if meaning.exclusive:
            start = np.full_like(np.take(x, range(min(1, x.shape[along])), axis=along), nothing)
            kept = np.take(total, range(max(x.shape[along] - 1, 0)), axis=along)
            total = np.concatenate([start, kept], axis=along)
        return np.flip(total, along) if meaning.reverse else total

    return Operator(
        name=name,
        meaning=Cumulative,
        versions=tuple(Version(since) for since in versions),
        operands=("x", "axis"),
        oracle=oracle,
        normal=_from_front,
        lowerings=lowerings,
    )


_from_front: Callable[[Any, Operands], tuple[Any, Operands]] = axes_operand(1)
