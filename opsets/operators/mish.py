"""Mish: each element times tanh(softplus(x)). Since version 18."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import of_double, plain
from opshift.opsets.registry.traits import NearOne, Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Mish-18: "mish(x) = x * tanh(softplus(x)) = x * tanh(ln(1 + e^{x}))"."""
    wide = x.astype(np.float64)
    return np.asarray((wide * np.tanh(np.logaddexp(0, wide))).astype(x.dtype))


@lowering(18, applies_if=of_double, rounds=True)
def by_exp(x):
    """With e = exp(x), tanh(ln(1 + e)) is e (e + 2) / (e (e + 2) + 2), which is 1 from 20 on."""
    two = op.CastLike(2.0, x)
    power = op.Exp(op.Min(x, op.CastLike(20.0, x)))
    share = power * (power + two)
    return x * (share / (share + two))


OPERATOR = plain(
    "Mish",
    (18, 22),
    ("X",),
    _oracle,
    (by_exp,),
    wider_types=COMPUTED,
    traits=Traits(
        merges=elementwise, floats=(Trait.COMPOSED, Trait.ADDS_ONE), near_one=NearOne(factor=20.0, in_double_only=True)
    ),
)
