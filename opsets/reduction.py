"""The Reduce operators: axes as an attribute, then (13 for ReduceSum, 18 for the others) as an input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.axes import axes_operand, operand_not_negative
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class Reduction:
    """Whether reduced axes stay with length 1, and whether empty axes mean none instead of all."""

    keepdims: int = 1
    noop_with_empty_axes: int = 0


_resolved = axes_operand(1)


def _normal(meaning: Reduction, operands: Operands) -> tuple[Reduction, Operands]:
    """Count axes from the front where the rank is known; where there are some, what none would mean does not matter."""
    axes = operands[1]
    if axes is not None and axes.known is not None and axes.known.size:
        meaning = Reduction(meaning.keepdims)
    return _resolved(meaning, operands)


def reduction(name: str, versions: tuple[int, ...], function: Callable[..., Any]) -> Operator:
    """Return the operator that reduces with a numpy function, called with `axis` and `keepdims`."""

    def oracle(meaning: Reduction, data: np.ndarray[Any, Any], axes: np.ndarray[Any, Any] | None = None) -> Any:
        if axes is None or not axes.size:
            # ReduceSum-13: "performs the Identity op"; ReduceL1-18 and its like still do what is not the reduction.
            axes = np.arange(0 if meaning.noop_with_empty_axes else data.ndim)
        return function(data, axis=tuple(int(axis) for axis in axes), keepdims=bool(meaning.keepdims)).astype(
            data.dtype
        )

    return Operator(
        name=name,
        meaning=Reduction,
        # ReduceMax-1 gives no range for its axes; ReduceMax-11: "Accepted range is [-r, r-1] where r = rank(data)".
        versions=tuple(Version(since, given=operand_not_negative(1) if since < 11 else None) for since in versions),
        operands=("data", "axes"),
        oracle=oracle,
        normal=_normal,
    )
