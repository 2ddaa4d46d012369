"""HardSigmoid: a line between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import NearOne, Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class HardSigmoid:
    """The slope of the line, and its value at zero."""

    alpha: float = float(np.float32(0.2))
    beta: float = 0.5


def oracle(what: HardSigmoid, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """HardSigmoid-6: "y = max(0, min(1, alpha * x + beta))"."""
    line = what.alpha * x.astype(np.float64) + what.beta
    return np.asarray(np.maximum(0, np.minimum(1, line)).astype(x.dtype))


OPERATOR = Operator(
    name="HardSigmoid",
    meaning=HardSigmoid,
    versions=tuple(Version(since) for since in (1, 6, 22)),
    operands=("X",),
    oracle=oracle,
    wider_types=COMPUTED,
    traits=Traits(
        merges=elementwise, floats=(Trait.PIECEWISE, Trait.ADDS_ONE), near_one=NearOne(factor=0.5, rounded=True)
    ),
)
