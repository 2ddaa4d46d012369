"""A step: the weights of the leaves of all trees as one row, their sum, the least or the largest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.ml.forest import COMBINED
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator


@dataclass(frozen=True)
class Aggregated:
    """SUM, MIN or MAX, of the axis in the middle."""

    function: str = "SUM"


def oracle(what: Aggregated, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Reduce the axis in the middle."""
    return np.asarray(COMBINED[what.function](x))


def _is(name: str) -> Callable[[Aggregated, Operands], Reason | None]:
    return lambda what, operands: None if what.function == name else Reason("")


@lowering(18, applies_if=_is("SUM"), rounds=True)
def by_sum(x):
    """ReduceSum."""
    return op.ReduceSum(x, [1], keepdims=0)


@lowering(18, applies_if=_is("MIN"))
def by_least(x):
    """ReduceMin."""
    return op.ReduceMin(x, [1], keepdims=0)


@lowering(18, applies_if=_is("MAX"))
def by_largest(x):
    """ReduceMax."""
    return op.ReduceMax(x, [1], keepdims=0)


def _facts(what: Aggregated, operands: Operands) -> tuple[Facts, ...]:
    dims = first(operands).shape
    return (Facts(first(operands).dtype, None if dims is None else (dims[0], *dims[2:])),)


OPERATOR = Operator(
    name="Aggregated",
    domain="opshift.step",
    meaning=Aggregated,
    versions=(),
    operands=("x",),
    oracle=oracle,
    lowerings=(by_sum, by_least, by_largest),
    facts=_facts,
)
