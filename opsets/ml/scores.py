"""A step: what ends classifiers and regressors, `post_transform` of the scores, and the score of a second class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator
from opshift.opsets.registry.traits import Trait

Array = np.ndarray[Any, Any]

NEAR_ZERO = 0.0000001
"""Scores up to this one are zeros to SOFTMAX_ZERO (onnxruntime 1.32.0; the text has no number)."""

CURVE = 0.147
"""The constant of the approximation of the inverse error function in onnxruntime's PROBIT, after Winitzki."""


@dataclass(frozen=True)
class Scores:
    """The function, of rows of scores; and what the first class has where the scores are those of the second one.

    `first` is nothing, `opposite` for the scores negated before the function, or `rest` for 1 less the results.
    """

    function: str = "NONE"
    first: str = ""


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _softmax_zero(x: Array) -> Array:
    most = x.max(axis=-1, keepdims=True, initial=-np.inf)
    near = np.abs(x) <= NEAR_ZERO
    powers = np.where(near, 0, np.exp(x - most))
    return np.asarray(np.where(near, x * np.exp(-most), powers) / powers.sum(axis=-1, keepdims=True))


def _probit(x: Array) -> Array:
    """Approximate in float, as onnxruntime does: near a half, what is left of the digits is not the function's."""
    y = x.astype(np.float32) * 2 - 1
    logarithm = np.log((1 - y) * (1 + y))
    half = np.float32(2 / (np.pi * CURVE)) + logarithm * np.float32(0.5)
    root = np.sqrt(np.sqrt(half * half - logarithm * np.float32(1 / CURVE)) - half)
    return np.asarray(np.where(y < 0, -root, root) * np.float32(np.sqrt(2)))


FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "NONE": lambda x: x,
    "LOGISTIC": _logistic,
    "SOFTMAX": _softmax,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
"""The functions; each text of ai.onnx.ml names them, and defines none."""


def oracle(what: Scores, x: Array) -> Array:
    """Compute in double: the texts have the names alone, and onnxruntime's kernels the formulas."""
    wide = x.astype(np.float64)
    if what.first == "opposite":
        wide = np.concatenate([-wide, wide], axis=1)
    y = FUNCTIONS[what.function](wide)
    return np.concatenate([1 - y, y], axis=1).astype(x.dtype) if what.first == "rest" else y.astype(x.dtype)


def float_traits(attributes: Mapping[str, Any]) -> tuple[Trait, ...]:
    """Return what a node with these attributes does with floats: sums, then the function of `post_transform`."""
    sums = (Trait.SUMS, Trait.COMPOSED, Trait.ADDS_ONE)
    return (*sums, Trait.NORMALIZES) if attributes.get("post_transform") == "PROBIT" else sums


def _is(name: str) -> Callable[[Scores, Operands], Reason | None]:
    return lambda what, operands: None if what == Scores(name) else Reason("")


def _has(first: str) -> Callable[[Scores, Operands], Reason | None]:
    return lambda what, operands: None if what.first == first else Reason("")


def _function(what: Scores, operands: Operands) -> Mapping[str, Any]:
    return {"function": what.function}


@lowering(18, applies_if=_has("opposite"), bind=_function)
def opposite_first(x, function: str):
    """Put the scores negated before themselves."""
    return meaning.Scores(op.Concat(op.Neg(x), x, axis=1), function=function)


@lowering(18, applies_if=_has("rest"), bind=_function, rounds=True)
def rest_first(x, function: str):
    """Put 1 less the scores before them."""
    y = meaning.Scores(x, function=function)
    return op.Concat(op.CastLike(1.0, y) - y, y, axis=1)


@lowering(18, applies_if=_is("LOGISTIC"), rounds=True)
def logistic(x):
    """Sigmoid."""
    return op.Sigmoid(x)


@lowering(18, applies_if=_is("SOFTMAX"), rounds=True)
def softmax(x):
    """Softmax of each row."""
    return op.Softmax(x, axis=-1)


@lowering(18, applies_if=_is("SOFTMAX_ZERO"), bind=lambda what, operands: {"zero": NEAR_ZERO}, rounds=True)
def softmax_zero(x, zero: float):
    """Softmax of the scores of each row that are not zero."""
    most = op.ReduceMax(x, [-1], keepdims=1)
    far = op.Greater(op.Abs(x), op.CastLike(zero, x))
    powers = op.Exp(x - most)
    counted = op.Where(far, powers, op.CastLike(0.0, x))
    return op.Where(far, powers, x * op.Exp(op.Neg(most))) / op.ReduceSum(counted, [-1], keepdims=1)


def _curve(what: Scores, operands: Operands) -> Mapping[str, Any]:
    return {"offset": 2 / (np.pi * CURVE), "factor": 1 / CURVE, "root": 2**0.5}


@lowering(18, applies_if=_is("PROBIT"), bind=_curve, rounds=True)
def probit(x, offset: float, factor: float, root: float):
    """Approximate the inverse of the normal distribution, as onnxruntime does."""
    y = x * op.CastLike(2.0, x) - op.CastLike(1.0, x)
    logarithm = op.Log((op.CastLike(1.0, x) - y) * (op.CastLike(1.0, x) + y))
    half = logarithm * op.CastLike(0.5, x) + op.CastLike(offset, x)
    size = op.Sqrt(op.Sqrt(half * half - logarithm * op.CastLike(factor, x)) - half)
    return op.Where(op.Less(y, op.CastLike(0.0, x)), op.Neg(size), size) * op.CastLike(root, x)


def _facts(what: Scores, operands: Operands) -> tuple[Facts, ...]:
    data = operands[0] or Facts()
    if what.first and data.shape is not None:
        return (Facts(data.dtype, (*data.shape[:-1], 2)),)
    return (Facts(data.dtype, data.shape),)


OPERATOR = Operator(
    name="Scores",
    domain="opshift.step",
    meaning=Scores,
    versions=(),
    operands=("x",),
    oracle=oracle,
    lowerings=(opposite_first, rest_first, logistic, softmax, softmax_zero, probit),
    facts=_facts,
    idle=lambda what, operands: what == Scores(),
)
