"""SoftmaxCrossEntropyLoss: NegativeLogLikelihoodLoss of the logarithms of a softmax. Since version 12."""

from __future__ import annotations

from typing import Any

import numpy as np

from opshift.opsets.operators import negativeloglikelihoodloss
from opshift.opsets.operators.negativeloglikelihoodloss import Loss
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def oracle(
    what: Loss, scores: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], weights: np.ndarray[Any, Any] | None = None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """SoftmaxCrossEntropyLoss-12: "p = Softmax(scores)", "y = Log(p)"; the loss of y, and y itself."""
    wide = scores.astype(np.float64)
    likely = wide - wide.max(axis=1, keepdims=True, initial=-np.inf)
    likely = likely - np.log(np.exp(likely).sum(axis=1, keepdims=True))
    loss = negativeloglikelihoodloss.oracle(what, likely, labels, weights)
    return loss.astype(scores.dtype), likely.astype(scores.dtype)


OPERATOR = Operator(
    name="SoftmaxCrossEntropyLoss",
    meaning=Loss,
    versions=(Version(12), Version(13)),
    operands=("scores", "labels", "weights"),
    oracle=oracle,
    wider_types=COMPUTED,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS), indices={1: AlongAxis(axis=1, negative=False, ignored="ignore_index")}
    ),
)
