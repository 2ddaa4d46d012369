"""com.microsoft::SkipSimplifiedLayerNormalization: RMSNormalization-23 of a sum, which is an output too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.microsoft import simplifiedlayernormalization as simplified
from opshift.opsets.microsoft.skiplayernormalization import (
    EPSILON,
    added,
    biased,
    equal_dims,
    of_other_rows,
    unbiased,
)
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, from_axis
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class SkipSimplifiedLayerNormalization:
    """The epsilon that is added to the mean square."""

    epsilon: float = EPSILON


def oracle(
    what: SkipSimplifiedLayerNormalization,
    x: np.ndarray[Any, Any],
    skip: np.ndarray[Any, Any],
    gamma: np.ndarray[Any, Any],
    bias: np.ndarray[Any, Any] | None = None,
) -> tuple[np.ndarray[Any, Any], ...]:
    """SkipSimplifiedLayerNormalization-1: "This function fuses skip and RMSNorm"; onnxruntime's mean is 0."""
    total = x + skip if bias is None else x + skip + bias
    y, inverse = simplified.oracle(simplified.SimplifiedLayerNormalization(epsilon=what.epsilon), total, gamma)
    return y, np.zeros_like(inverse), inverse, total


@lowering(18, applies_if=unbiased, bind=lambda what, operands: {"epsilon": what.epsilon}, rounds=True)
def of_sum(x, skip, gamma, bias, epsilon: float):
    """Normalize the sum of input and skip."""
    total = x + skip
    y, inverse = meaning.SimplifiedLayerNormalization(total, gamma, epsilon=epsilon)
    return y, op.Expand(0.0, op.Shape(inverse)), inverse, total


@lowering(18, applies_if=biased, bind=lambda what, operands: {"epsilon": what.epsilon}, rounds=True)
def of_biased_sum(x, skip, gamma, bias, epsilon: float):
    """Normalize the sum of input, skip and bias."""
    total = x + skip + bias
    y, inverse = meaning.SimplifiedLayerNormalization(total, gamma, epsilon=epsilon)
    return y, op.Expand(0.0, op.Shape(inverse)), inverse, total


OPERATOR = Operator(
    name="SkipSimplifiedLayerNormalization",
    domain=MICROSOFT,
    meaning=SkipSimplifiedLayerNormalization,
    versions=(Version(1),),
    operands=("input", "skip", "gamma", "bias"),
    oracle=oracle,
    shape=lambda what, operands: first(operands).shape,
    lowerings=(of_sum, of_biased_sum),
    traits=Traits(
        floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS),
        equal_dims=equal_dims,
        meaningless=of_other_rows,
        inner_sum=InnerSum(SumUse.SCALED, from_axis, data=added(0, 1, 3), scale=2, epsilon=EPSILON),
    ),
)
