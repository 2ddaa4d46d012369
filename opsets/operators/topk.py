"""TopK: the largest or smallest elements along an axis, and their indices. The rule for ties came with 11."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.axes import one_axis
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class TopK:
    """The axis, which end of the order, and whether the result is sorted."""

    axis: int = -1
    largest: int = 1
    sorted: int = 1


def oracle(meaning: TopK, x: np.ndarray[Any, Any], k: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """TopK-11: "Given two equivalent values, this operator uses the indices along the axis as a tiebreaker"."""
    key = -x.astype(np.float64) if meaning.largest else x
    order = np.argsort(key, axis=meaning.axis, kind="stable").take(range(int(k.item())), axis=meaning.axis)
    return np.take_along_axis(x, order, meaning.axis), order.astype(np.int64)


def _ties(meaning: TopK, operands: Operands) -> Reason | None:
    return Reason("which of equal elements comes first is not defined")


OPERATOR = Operator(
    name="TopK",
    meaning=TopK,
    versions=(Version(1, given=_ties), Version(10, given=_ties), Version(11), Version(24)),
    operands=("X", "K"),
    oracle=oracle,
    normal=one_axis,
    weight=4.0,
)
