"""CumSum: sums of all elements up to each along an axis. Since version 11."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.operator import Operator, Version


@dataclass(frozen=True)
class CumSum:
    """Whether an element is left out of its own sum, and whether sums run from the end."""

    exclusive: int = 0
    reverse: int = 0


def oracle(meaning: CumSum, x: np.ndarray[Any, Any], axis: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """CumSum-14: "exclusive ... will return exclusive sum in which the top element is not included"."""
    along = int(axis.item())
    ordered = np.flip(x, along) if meaning.reverse else x
    sums = ordered.cumsum(along, dtype=x.dtype)
    sums = sums - ordered if meaning.exclusive else sums
    return np.flip(sums, along) if meaning.reverse else sums


OPERATOR = Operator(
    name="CumSum", meaning=CumSum, versions=(Version(11), Version(14)), operands=("x", "axis"), oracle=oracle
)
