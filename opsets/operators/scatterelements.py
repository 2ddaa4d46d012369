"""ScatterElements: write elements to places along an axis. Reductions came with 16 (add, mul) and 18 (max, min)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.axes import one_axis
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class ScatterElements:
    """The axis, and how an update joins what is there."""

    axis: int = 0
    reduction: str = "none"


_JOIN: Mapping[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def oracle(
    meaning: ScatterElements, data: np.ndarray[Any, Any], indices: np.ndarray[Any, Any], updates: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """ScatterElements-18: "output[indices[i][j]][j] = updates[i][j] if axis = 0", or joined by the reduction."""
    y = data.copy()
    for place in np.ndindex(*indices.shape):
        at = list(place)
        at[meaning.axis] = int(indices[place])
        where = tuple(at)
        y[where] = updates[place] if meaning.reduction == "none" else _JOIN[meaning.reduction](y[where], updates[place])
    return y


def _sums_only(meaning: ScatterElements, operands: Operands) -> Reason | None:
    return Reason(f"reduction={meaning.reduction} came with 18") if meaning.reduction in ("max", "min") else None


OPERATOR = Operator(
    name="ScatterElements",
    meaning=ScatterElements,
    versions=(Version(11), Version(13), Version(16, given=_sums_only), Version(18)),
    operands=("data", "indices", "updates"),
    oracle=oracle,
    normal=one_axis,
)
