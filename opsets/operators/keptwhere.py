"""KeptWhere: elements where a mask holds, and others elsewhere. Lowerings use it; no model has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class KeptWhere:
    """Without a mask all elements are kept; without others, they are zeros."""


def oracle(what: KeptWhere, data: Array, mask: Array | None = None, others: Array | None = None) -> Array:
    """Return the elements, or the others; the mask spreads over the elements."""
    if mask is None:
        return data
    return np.where(mask, data, np.zeros((), data.dtype) if others is None else others)


def _facts(what: KeptWhere, operands: Operands) -> tuple[Facts, ...]:
    data = operands[0] or Facts()
    return (Facts(data.dtype, data.shape),)


def _zeros(what: KeptWhere, operands: Operands) -> Reason | None:
    return None if operands[1] is not None and operands[2] is None else Reason("")


def _others(what: KeptWhere, operands: Operands) -> Reason | None:
    return None if operands[1] is not None and operands[2] is not None else Reason("")


@lowering(18, applies_if=_zeros)
def or_zeros(data, mask, others):
    """Put zeros elsewhere."""
    return op.Where(mask, data, op.CastLike(0.0, data))


@lowering(18, applies_if=_others)
def or_others(data, mask, others):
    """Put others elsewhere."""
    return op.Where(mask, data, others)


OPERATOR = Operator(
    name="KeptWhere",
    domain="opshift.step",
    meaning=KeptWhere,
    versions=(),
    operands=("data", "mask", "others"),
    oracle=oracle,
    lowerings=(or_zeros, or_others),
    facts=_facts,
    idle=lambda what, operands: operands[1] is None,
)
