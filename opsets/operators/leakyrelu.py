"""LeakyRelu: a negative element is multiplied by alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class LeakyRelu:
    """The slope of negative elements."""

    alpha: float = float(np.float32(0.01))


def oracle(what: LeakyRelu, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """LeakyRelu-16: "f(x) = alpha * x for x < 0", "f(x) = x for x >= 0"."""
    wide = x.astype(np.float64)
    return np.asarray(np.where(wide < 0, what.alpha * wide, wide).astype(x.dtype))


OPERATOR = Operator(
    name="LeakyRelu",
    meaning=LeakyRelu,
    versions=tuple(Version(since) for since in (1, 6, 16)),
    operands=("X",),
    oracle=oracle,
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, floats=(Trait.PIECEWISE,)),
)
