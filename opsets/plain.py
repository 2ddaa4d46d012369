"""Operators without attributes that have meant the same since opset 7, but for the element types they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opshift.opsets.lowering import Lowering
from opshift.opsets.operator import Operator, Version


@dataclass(frozen=True)
class Plain:
    """The operator's name is all of its meaning."""


def plain(
    name: str,
    versions: tuple[int, ...],
    operands: tuple[str, ...],
    function: Callable[..., Any],
    lowerings: tuple[Lowering, ...] = (),
    *,
    moves_data: bool = False,
    variadic: bool = False,
    weight: float = 1.0,
) -> Operator:
    """Return the operator that computes a numpy function of its operands."""
    return Operator(
        name=name,
        meaning=Plain,
        versions=tuple(Version(since) for since in versions),
        operands=operands,
        oracle=lambda meaning, *arrays: function(*arrays),
        lowerings=lowerings,
        moves_data=moves_data,
        variadic=variadic,
        weight=weight,
    )
