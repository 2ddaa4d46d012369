"""ReduceMean: the mean over some axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.families.reduction import reduction
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits

Array = np.ndarray[Any, Any]


def _mean(data: Array, **options: Any) -> Array:
    """ReduceMean-18: "Reduction over an empty set of values yields undefined"; onnxruntime 1.32.0 gives 0."""
    return np.asarray(np.mean(data, **options) if data.size else np.sum(data, **options))


OPERATOR = reduction(
    "ReduceMean",
    (1, 11, 13, 18),
    _mean,
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), flow=Flow.POINTWISE, integers=Integers.SUMS),
)
