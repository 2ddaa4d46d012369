"""Swish: each element times its sigmoid. Since version 24."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import NearOne, Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class Swish:
    """Alpha, the factor of an element inside the sigmoid."""

    alpha: float = 1.0


def oracle(what: Swish, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Swish-24: "Swish(x) = x * sigmoid(alpha * x)"."""
    wide = x.astype(np.float64)
    return np.asarray((wide / (1 + np.exp(-what.alpha * wide))).astype(x.dtype))


OPERATOR = Operator(
    name="Swish",
    meaning=Swish,
    versions=(Version(24),),
    operands=("X",),
    oracle=oracle,
    wider_types=COMPUTED,
    traits=Traits(
        merges=elementwise, floats=(Trait.COMPOSED, Trait.ADDS_ONE), near_one=NearOne(factor=20.0, divided=True)
    ),
)
