"""TopK: the largest or smallest elements along an axis, and their indices. The rule for ties came with 11."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.axes import one_axis
from opshift.opsets.facts import constant
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class TopK:
    """The axis, which end of the order, whether the result is sorted, and which of equal elements comes first."""

    axis: int = -1
    largest: int = 1
    sorted: int = 1
    ties: str = "lower"


def oracle(meaning: TopK, x: np.ndarray[Any, Any], k: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """TopK-11: "Given two equivalent values, this operator uses the indices along the axis as a tiebreaker"."""
    key = -x.astype(np.float64) if meaning.largest else x
    order = np.argsort(key, axis=meaning.axis, kind="stable").take(range(int(k.item())), axis=meaning.axis)
    return np.take_along_axis(x, order, meaning.axis), order.astype(np.int64)


def _untied(attributes: Mapping[str, Any]) -> TopK:
    # TopK-11 was the first to say which: "the element with the lower index will appear first".
    return TopK(attributes["axis"], ties="any")


def _ties(meaning: TopK, operands: Operands) -> Reason | None:
    return None if meaning.ties == "any" else Reason("which of equal elements comes first is not defined")


def _write(meaning: TopK, operands: Operands) -> Mapping[str, Any]:
    ends = {"largest": meaning.largest, "sorted": meaning.sorted}
    return {"axis": meaning.axis, **{name: value for name, value in ends.items() if value != 1}}


def _write_first(meaning: TopK, operands: Operands) -> Mapping[str, Any] | Reason:
    if not (meaning.largest and meaning.sorted):
        return Reason("it gives the largest elements, sorted")
    return {"axis": meaning.axis}


def normal(meaning: TopK, operands: Operands) -> tuple[TopK, Operands]:
    """Count the axis from the front where the rank is known; have K, a number at version 1, as a list of one."""
    count = operands[1]
    known = count.known if count else None
    if known is not None and known.ndim == 0:
        operands = operands[0], constant(known.reshape(1))
    return one_axis(meaning, operands)


OPERATOR = Operator(
    name="TopK",
    meaning=TopK,
    versions=(
        Version(1, lift=_untied, write=_write_first, given=_ties, renamed={"K": "k"}),
        Version(10, lift=_untied, write=_write_first, given=_ties),
        Version(11, write=_write),
        Version(24, write=_write),
    ),
    operands=("X", "K"),
    oracle=oracle,
    normal=normal,
    weight=4.0,
)
