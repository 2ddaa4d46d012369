"""Erf: the error function of each element. Since version 9."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Traits
from opshift.opsets.registry.wider_types import COMPUTED

_erf = np.vectorize(math.erf, [np.float64])


def erf(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Erf-9: "the error function of the given input tensor element-wise"; integers give integers."""
    return np.asarray(_erf(x.astype(np.float64)).astype(x.dtype))


OPERATOR = plain(
    "Erf",
    (9, 13),
    ("input",),
    erf,
    wider_types=COMPUTED,
    traits=Traits(inverse=lambda value: (NormalDist().inv_cdf((value + 1) / 2) / math.sqrt(2),)),
)
