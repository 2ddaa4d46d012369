"""Reciprocal: one over each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.facts import INTEGERS
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Interval, Trait, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


def _typed(what: Any, operands: Operands) -> Reason | None:
    """Hold for a known element type, which the constant 1 has."""
    dtype = operands[0].dtype if operands[0] is not None else None
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return Reason("it is not of floats") if dtype in INTEGERS else None


@lowering(13, applies_if=_typed, rounds=True)
def divided(x):
    """Divide 1 by each element."""
    return op.CastLike(1.0, x) / x


OPERATOR = plain(
    "Reciprocal",
    (1, 6, 13),
    ("X",),
    lambda x: np.reciprocal(x).astype(x.dtype),
    (divided,),
    wider_types=QUOTIENT,
    traits=Traits(
        merges=elementwise,
        floats=(Trait.DIVIDES,),
        domains={0: Interval(zero=False)},
        inverse=lambda value: (1 / value,),
    ),
)
