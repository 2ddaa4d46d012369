"""com.microsoft::SkipLayerNormalization: LayerNormalization of a sum, which is an output too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators import layernormalization
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, from_axis
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits

EPSILON = float(np.float32(1e-12))


@dataclass(frozen=True)
class SkipLayerNormalization:
    """What is added to the variance."""

    epsilon: float = EPSILON


def oracle(
    what: SkipLayerNormalization,
    x: np.ndarray[Any, Any],
    skip: np.ndarray[Any, Any],
    gamma: np.ndarray[Any, Any],
    beta: np.ndarray[Any, Any] | None = None,
    bias: np.ndarray[Any, Any] | None = None,
) -> tuple[np.ndarray[Any, Any], ...]:
    """SkipLayerNormalization-1: "Sum of the input and skip inputs (and bias if it exists)", then normalized."""
    total = x + skip if bias is None else x + skip + bias
    y, mean, inverse = layernormalization.oracle(
        layernormalization.LayerNormalization(epsilon=what.epsilon, wider=True), total, gamma, beta
    )
    return y, mean, inverse, total


def unbiased(what: Any, operands: Operands) -> Reason | None:
    """Hold without the last operand, the bias of the sum."""
    return None if operands[-1] is None else Reason("there is a bias")


def biased(what: Any, operands: Operands) -> Reason | None:
    """Hold with the last operand."""
    return Reason("there is no bias") if operands[-1] is None else None


def added(*places: int) -> Callable[[Sequence[Any]], Any]:
    """Return what adds up some inputs, but for those left out."""

    def data(inputs: Sequence[Any]) -> Any:
        present = [inputs[place] for place in places if place < len(inputs) and inputs[place] is not None]
        return functools.reduce(np.add, present)

    return data


@lowering(18, applies_if=unbiased, bind=lambda what, operands: {"epsilon": what.epsilon}, rounds=True)
def of_sum(x, skip, gamma, beta, bias, epsilon: float):
    """Normalize the sum of input and skip."""
    total = x + skip
    y, mean, inverse = op.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    return y, mean, inverse, total


@lowering(18, applies_if=biased, bind=lambda what, operands: {"epsilon": what.epsilon}, rounds=True)
def of_biased_sum(x, skip, gamma, beta, bias, epsilon: float):
    """Normalize the sum of input, skip and bias."""
    total = x + skip + bias
    y, mean, inverse = op.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    return y, mean, inverse, total


@of_two
def equal_dims(node: NodeShapes, data: Shape, skip: Shape) -> Pairs:
    """Yield the last dims of input and skip, and the last one of the input with those of vectors."""
    yield from zip(reversed(data), reversed(skip), strict=False)
    for vector in node.inputs[2:]:
        if vector is not None and data:
            yield from zip(data[-1:], vector, strict=False)


def of_other_rows(inputs: Sequence[Any]) -> bool:
    """Return whether skip is neither of the input's shape nor one of its batch alone, which it is repeated for.

    Kernels of onnxruntime 1.32.0 refuse other shapes, or read skip over and over as memory has it.
    """
    data, skip = inputs[:2]
    if not isinstance(data, np.ndarray) or not isinstance(skip, np.ndarray):
        return False
    leading = next((place for place, dim in enumerate(skip.shape) if dim != 1), skip.ndim)
    kept = skip.shape[leading:]
    return skip.ndim > data.ndim or kept != data.shape[data.ndim - len(kept) :]


OPERATOR = Operator(
    name="SkipLayerNormalization",
    domain=MICROSOFT,
    meaning=SkipLayerNormalization,
    versions=(Version(1),),
    operands=("input", "skip", "gamma", "beta", "bias"),
    oracle=oracle,
    shape=lambda what, operands: first(operands).shape,
    lowerings=(of_sum, of_biased_sum),
    traits=Traits(
        floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS),
        equal_dims=equal_dims,
        meaningless=of_other_rows,
        inner_sum=InnerSum(
            SumUse.CENTERED,
            from_axis,
            data=added(0, 1, 4),
            scale=2,
            bias=3,
            epsilon=EPSILON,
            by_squares=True,
            statistics=(1, 2),
        ),
    ),
)
