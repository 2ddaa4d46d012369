"""com.microsoft::BiasDropout: a sum, of which training drops some elements; only inference is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class BiasDropout:
    """The seed, which has no effect in inference."""

    seed: int | None = None


def oracle(
    what: BiasDropout,
    data: np.ndarray[Any, Any],
    bias: np.ndarray[Any, Any],
    residual: np.ndarray[Any, Any] | None = None,
    ratio: np.ndarray[Any, Any] | None = None,
    training: np.ndarray[Any, Any] | None = None,
) -> tuple[np.ndarray[Any, Any], ...]:
    """BiasDropout-1: "output, dropout_mask = Dropout(data + bias, ratio) + residual"; inference drops nothing."""
    if training is not None and bool(training) and (ratio is None or float(ratio)):
        raise ValueError("BiasDropout-1: training draws random numbers")
    total = data + bias
    return (total if residual is None else total + residual), np.ones(data.shape, bool)


def _infers(what: BiasDropout, operands: Operands) -> Reason | None:
    training = operands[4]
    if training is None:
        return None
    if training.known is None:
        return Reason("training_mode is computed at run time", missing=True)
    return Reason("it trains, and drops elements at random") if training.known.any() else None


def _without_residual(what: BiasDropout, operands: Operands) -> Reason | None:
    return _infers(what, operands) or (None if operands[2] is None else Reason("there is a residual"))


def _with_residual(what: BiasDropout, operands: Operands) -> Reason | None:
    return _infers(what, operands) or (Reason("there is no residual") if operands[2] is None else None)


@lowering(18, applies_if=_without_residual)
def sum_of_two(data, bias, residual, ratio, training):
    """Add the bias, and keep every element."""
    total = data + bias
    return total, op.Expand(op.Cast([1], to=9), op.Shape(total))


@lowering(18, applies_if=_with_residual)
def sum_of_three(data, bias, residual, ratio, training):
    """Add the bias and the residual, and keep every element."""
    total = data + bias + residual
    return total, op.Expand(op.Cast([1], to=9), op.Shape(data))


OPERATOR = Operator(
    name="BiasDropout",
    domain=MICROSOFT,
    meaning=BiasDropout,
    versions=(Version(1),),
    operands=("data", "bias", "residual", "ratio", "training_mode"),
    oracle=oracle,
    lowerings=(sum_of_two, sum_of_three),
    refused="training (`training_mode` true, or computed)",
    traits=Traits(floats=(Trait.ADDS,)),
)
