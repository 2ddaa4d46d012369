"""NegativeLogLikelihoodLoss: how unlikely the classes are that targets name. Since version 12."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class Loss:
    """The ignored class (None: no class), and the reduction of the losses: `sum`, `mean` or none."""

    ignore_index: int | None = None
    reduction: str = "mean"


def oracle(
    what: Loss, x: np.ndarray[Any, Any], target: np.ndarray[Any, Any], weight: np.ndarray[Any, Any] | None = None
) -> np.ndarray[Any, Any]:
    """NegativeLogLikelihoodLoss-12: "-input[n][c][d_1][d_2]...[d_k] * weight[c]"; a mean is of what is not ignored.

    "loss is zero for the case when target-value equals ignore_index"; of the mean the text says "mean(loss)" and
    "sum(loss) / sum(weight[...])", and its function body divides by the weights, or numbers, of those not ignored.
    """
    if target.shape != (*x.shape[:1], *x.shape[2:]):
        raise ValueError(f"the labels of {list(x.shape)} have the shape {[*x.shape[:1], *x.shape[2:]]}")
    counted = np.ones(target.shape, bool) if what.ignore_index is None else target != what.ignore_index
    places = np.where(counted, target, 0)
    weights = np.ones(x.shape[1]) if weight is None else weight.astype(np.float64)
    weighed = np.where(counted, weights[places], 0)
    likely = np.take_along_axis(x.astype(np.float64), places[:, None], axis=1)[:, 0]
    loss = np.where(counted, -likely * weighed, 0)
    if what.reduction == "none":
        return loss.astype(x.dtype)
    return np.asarray(loss.sum() / (weighed.sum() if what.reduction == "mean" else 1)).astype(x.dtype)


OPERATOR = Operator(
    name="NegativeLogLikelihoodLoss",
    meaning=Loss,
    versions=(Version(12), Version(13), Version(22)),
    operands=("input", "target", "weight"),
    oracle=oracle,
    wider_types=COMPUTED,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS), indices={1: AlongAxis(axis=1, negative=False, ignored="ignore_index")}
    ),
)
