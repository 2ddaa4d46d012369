"""Gelu: each element times the share of a normal distribution that is below it. Since version 20."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.operators.erf import erf
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class Gelu:
    """The formula: `none` uses the error function, `tanh` an approximation."""

    approximate: str = "none"


def oracle(what: Gelu, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Gelu-20: "0.5 * x * (1 + erf(x/sqrt(2)))", or "0.5 * x * (1 + Tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))"."""
    wide = x.astype(np.float64)
    if what.approximate == "tanh":
        share = np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
    else:
        share = erf(wide / math.sqrt(2))
    return np.asarray((0.5 * wide * (1 + share)).astype(x.dtype))


def floats_by(attributes: Mapping[str, Any]) -> tuple[Trait, ...]:
    """Return how floats are rounded: the body of `tanh` holds 0.044715 and 2 / pi in float, also for double."""
    return (Trait.COMPOSED,) if attributes.get("approximate", "none") == "none" else (Trait.COMPOSED, Trait.IN_FLOAT)


OPERATOR = Operator(
    name="Gelu",
    meaning=Gelu,
    versions=(Version(20),),
    operands=("X",),
    oracle=oracle,
    wider_types=COMPUTED,
    # Half of x, up to where 1 + erf(x / sqrt(2)) is 0 in float.
    traits=Traits(merges=elementwise, floats=(Trait.COMPOSED,), floats_by=floats_by, approximated=3.0),
)
