"""com.microsoft::Range: Range-11, whose step is 1 where it is left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.operators import range as ranges
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain

Array = np.ndarray[Any, Any]


def oracle(what: Plain, start: Array, limit: Array, delta: Array | None = None) -> Array:
    """Range-1: "Creates a sequence of numbers that begins at `start` and extends by increments of `delta`"."""
    step = np.ones_like(start) if delta is None else delta
    return np.asarray(ranges.OPERATOR.oracle(ranges.Range(), start, limit, step))


def _stepped(what: Plain, operands: Operands) -> Reason | None:
    return Reason("") if operands[2] is None else None


def _single(what: Plain, operands: Operands) -> Reason | None:
    return None if operands[2] is None else Reason("")


@lowering(11, applies_if=_stepped)
def by_steps(start, limit, delta):
    """Write it as Range."""
    return op.Range(start, limit, delta)


@lowering(15, applies_if=_single)
def by_ones(start, limit, delta):
    """Write it as Range of step 1."""
    return op.Range(start, limit, op.CastLike(1, start))


OPERATOR = Operator(
    name="Range",
    domain=MICROSOFT,
    meaning=Plain,
    versions=(Version(1),),
    operands=("start", "limit", "delta"),
    oracle=oracle,
    lowerings=(by_steps, by_ones),
    adversarial=ranges.OPERATOR.adversarial,
    nan_defined=ranges.OPERATOR.nan_defined,
    infinity_defined=ranges.OPERATOR.infinity_defined,
    traits=ranges.OPERATOR.traits,
)
