"""LinearLayer: a product with weights, and a bias where there is one. Lowerings use it; no model has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LinearLayer:
    """It has no attributes."""


def oracle(what: LinearLayer, x: Array, weights: Array, bias: Array | None = None) -> Array:
    """Return x * weights + bias."""
    return np.asarray(x @ weights if bias is None else x @ weights + bias)


def _facts(what: LinearLayer, operands: Operands) -> tuple[Facts, ...]:
    x, weights = (operands[index] or Facts() for index in (0, 1))
    return (Facts(x.dtype, None if x.shape is None else (*x.shape[:-1], weights.dim(-1))),)


def _biased(what: LinearLayer, operands: Operands) -> Reason | None:
    return None if operands[2] is not None else Reason("")


def _unbiased(what: LinearLayer, operands: Operands) -> Reason | None:
    return None if operands[2] is None else Reason("")


@lowering(18, applies_if=_unbiased, rounds=True)
def product(x, weights, bias):
    """Multiply."""
    return op.MatMul(x, weights)


@lowering(18, applies_if=_biased, rounds=True)
def product_and_sum(x, weights, bias):
    """Multiply, and add the bias."""
    return op.Add(op.MatMul(x, weights), bias)


OPERATOR = Operator(
    name="LinearLayer",
    domain="opshift.step",
    meaning=LinearLayer,
    versions=(),
    operands=("x", "weights", "bias"),
    oracle=oracle,
    lowerings=(product, product_and_sum),
    facts=_facts,
)
