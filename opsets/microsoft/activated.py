"""A step: an activation function of FusedConv, FusedGemm or a recurrent layer, by its name and its parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator

PARAMETERS = {
    "": 0,
    "Relu": 0,
    "Sigmoid": 0,
    "Softplus": 0,
    "Softsign": 0,
    "Tanh": 0,
    "Elu": 1,
    "LeakyRelu": 1,
    "ThresholdedRelu": 1,
    "Clip": 2,
    "HardSigmoid": 2,
}
"""The number of parameters of each function that onnxruntime fuses; an empty name is no function."""


@dataclass(frozen=True)
class Activated:
    """The name of the function, and its parameters, those of an operator of the same name in their order."""

    function: str = ""
    first: float = 0.0
    second: float = 0.0


_FUNCTIONS: dict[str, Callable[[Any, float, float], Any]] = {
    "": lambda x, first, second: x,
    "Relu": lambda x, first, second: np.maximum(x, 0),
    "Sigmoid": lambda x, first, second: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x, first, second: np.logaddexp(x, 0),
    "Softsign": lambda x, first, second: x / (1 + np.abs(x)),
    "Tanh": lambda x, first, second: np.tanh(x),
    "Elu": lambda x, first, second: np.where(x >= 0, x, first * np.expm1(np.minimum(x, 0))),
    "LeakyRelu": lambda x, first, second: np.where(x >= 0, x, first * x),
    "ThresholdedRelu": lambda x, first, second: np.where(x > first, x, 0),
    "Clip": lambda x, first, second: np.clip(x, first, second),
    "HardSigmoid": lambda x, first, second: np.clip(first * x + second, 0, 1),
    "Affine": lambda x, first, second: first * x + second,
    "ScaledTanh": lambda x, first, second: first * np.tanh(second * x),
}


def oracle(what: Activated, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Compute what the text of the operator with the function's name has."""
    return np.asarray(_FUNCTIONS[what.function](x.astype(np.float64), what.first, what.second)).astype(x.dtype)


def _is(name: str) -> Callable[[Activated, Operands], Reason | None]:
    return lambda what, operands: None if what.function == name else Reason("")


def _first(what: Activated, operands: Operands) -> dict[str, Any]:
    return {"first": what.first}


def _both(what: Activated, operands: Operands) -> dict[str, Any]:
    return {"first": what.first, "second": what.second}


@lowering(18, applies_if=_is("Relu"))
def relu(x):
    """Relu."""
    return op.Relu(x)


@lowering(18, applies_if=_is("Sigmoid"), rounds=True)
def sigmoid(x):
    """Sigmoid."""
    return op.Sigmoid(x)


@lowering(18, applies_if=_is("Softplus"), rounds=True)
def softplus(x):
    """Softplus."""
    return op.Softplus(x)


@lowering(18, applies_if=_is("Softsign"), rounds=True)
def softsign(x):
    """Softsign."""
    return op.Softsign(x)


@lowering(18, applies_if=_is("Tanh"), rounds=True)
def tanh(x):
    """Tanh."""
    return op.Tanh(x)


@lowering(18, applies_if=_is("Elu"), bind=_first, rounds=True)
def elu(x, first: float):
    """Elu of an alpha."""
    return op.Elu(x, alpha=first)


@lowering(18, applies_if=_is("LeakyRelu"), bind=_first, rounds=True)
def leaky_relu(x, first: float):
    """LeakyRelu of an alpha."""
    return op.LeakyRelu(x, alpha=first)


@lowering(18, applies_if=_is("ThresholdedRelu"), bind=_first)
def thresholded_relu(x, first: float):
    """ThresholdedRelu of an alpha."""
    return op.ThresholdedRelu(x, alpha=first)


@lowering(18, applies_if=_is("Clip"), bind=_both)
def clip(x, first: float, second: float):
    """Clip between two numbers."""
    return op.Clip(x, op.CastLike(first, x), op.CastLike(second, x))


@lowering(18, applies_if=_is("HardSigmoid"), bind=_both, rounds=True)
def hard_sigmoid(x, first: float, second: float):
    """HardSigmoid of an alpha and a beta."""
    return op.HardSigmoid(x, alpha=first, beta=second)


@lowering(18, applies_if=_is("Affine"), bind=_both, rounds=True)
def affine(x, first: float, second: float):
    """Multiply, and add."""
    return op.Add(op.Mul(x, op.CastLike(first, x)), op.CastLike(second, x))


@lowering(18, applies_if=_is("ScaledTanh"), bind=_both, rounds=True)
def scaled_tanh(x, first: float, second: float):
    """Tanh of a product, multiplied."""
    return op.Mul(op.Tanh(op.Mul(x, op.CastLike(second, x))), op.CastLike(first, x))


def _facts(what: Activated, operands: Operands) -> tuple[Facts, ...]:
    data = operands[0] or Facts()
    return (Facts(data.dtype, data.shape),)


OPERATOR = Operator(
    name="Activated",
    domain="opshift.step",
    meaning=Activated,
    versions=(),
    operands=("x",),
    oracle=oracle,
    lowerings=(
        relu,
        sigmoid,
        softplus,
        softsign,
        tanh,
        elu,
        leaky_relu,
        thresholded_relu,
        clip,
        hard_sigmoid,
        affine,
        scaled_tanh,
    ),
    facts=_facts,
    idle=lambda what, operands: not what.function,
)
