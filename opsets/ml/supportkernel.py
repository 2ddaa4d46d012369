"""A step: the kernel function of support vector machines, of each row with each support vector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SupportKernel:
    """LINEAR, POLY, RBF or SIGMOID, and its parameters."""

    kind: str = "LINEAR"
    gamma: float = 0.0
    coef0: float = 0.0
    degree: float = 0.0


def oracle(what: SupportKernel, x: Array, vectors: Array) -> Array:
    """Compute in double: the texts name the kernels alone; the columns of `vectors` are the support vectors."""
    wide, others = x.astype(np.float64), vectors.astype(np.float64)
    if what.kind == "RBF":
        apart = ((wide[:, :, None] - others[None]) ** 2).sum(axis=1)
        return np.asarray(np.exp(-what.gamma * apart)).astype(x.dtype)
    product = wide @ others
    if what.kind == "LINEAR":
        return np.asarray(product).astype(x.dtype)
    shifted = what.gamma * product + what.coef0
    return np.asarray(np.tanh(shifted) if what.kind == "SIGMOID" else shifted**what.degree).astype(x.dtype)


def _is(kind: str) -> Callable[[SupportKernel, Operands], Reason | None]:
    return lambda what, operands: None if what.kind == kind else Reason("")


def _shifted(what: SupportKernel, operands: Operands) -> Mapping[str, Any]:
    return {"gamma": what.gamma, "coef0": what.coef0}


@lowering(18, applies_if=_is("LINEAR"), rounds=True)
def linear(x, vectors):
    """Multiply by the vectors."""
    return op.MatMul(x, vectors)


@lowering(18, applies_if=_is("SIGMOID"), bind=_shifted, rounds=True)
def by_tanh(x, vectors, gamma: float, coef0: float):
    """Take the hyperbolic tangent of the products, times a number, and another one added."""
    return op.Tanh(op.MatMul(x, vectors) * op.CastLike(gamma, x) + op.CastLike(coef0, x))


@lowering(
    18,
    applies_if=_is("POLY"),
    bind=lambda what, operands: {**_shifted(what, operands), "degree": what.degree},
    rounds=True,
)
def by_power(x, vectors, gamma: float, coef0: float, degree: float):
    """Take a power of the products, times a number, and another one added."""
    return op.Pow(op.MatMul(x, vectors) * op.CastLike(gamma, x) + op.CastLike(coef0, x), op.CastLike(degree, x))


@lowering(18, applies_if=_is("RBF"), bind=lambda what, operands: {"negative": -what.gamma}, rounds=True)
def by_distance(x, vectors, negative: float):
    """Take the exponential of the squared distances, times a number."""
    apart = op.Unsqueeze(x, [2]) - op.Unsqueeze(vectors, [0])
    return op.Exp(op.ReduceSumSquare(apart, [1], keepdims=0) * op.CastLike(negative, x))


def _facts(what: SupportKernel, operands: Operands) -> tuple[Facts, ...]:
    return (Facts(first(operands).dtype, (first(operands).dim(0), (operands[1] or Facts()).dim(1))),)


OPERATOR = Operator(
    name="SupportKernel",
    domain="opshift.step",
    meaning=SupportKernel,
    versions=(),
    operands=("x", "vectors"),
    oracle=oracle,
    lowerings=(linear, by_tanh, by_power, by_distance),
    facts=_facts,
)
