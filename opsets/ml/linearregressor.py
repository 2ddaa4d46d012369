"""ai.onnx.ml::LinearRegressor: a product with coefficients, intercepts, then a function of the scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.ml import scores
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LinearRegressor:
    """The number of targets, and the coefficients and intercept of each."""

    coefficients: tuple[float, ...] = ()
    intercepts: tuple[float, ...] = ()
    post_transform: str = "NONE"
    targets: int = 1

    @property
    def weights(self) -> Array:
        """The coefficients, a column for each target."""
        return np.asarray(self.coefficients, np.float32).reshape(self.targets, -1).T

    @property
    def function(self) -> str:
        """The function of the scores; onnxruntime leaves a single one as it is, but for PROBIT (1.32.0)."""
        return "NONE" if self.targets == 1 and self.post_transform != "PROBIT" else self.post_transform

    @property
    def biased(self) -> bool:
        """Whether there is an intercept for each target; onnxruntime ignores any other number of them (1.32.0)."""
        return len(self.intercepts) == self.targets


def rows_of(x: Array) -> Array:
    """Return rows of features as floats: the text has matrices, and a vector is one row."""
    return x.astype(np.float32).reshape(-1, x.shape[-1]).astype(np.float64)


def oracle(what: LinearRegressor, x: Array) -> Array:
    """LinearRegressor-1: "Y = Coefficients * X + Intercepts", of each target."""
    y = rows_of(x) @ what.weights.astype(np.float64)
    if what.biased:
        y = y + np.asarray(what.intercepts)
    return np.asarray(scores.FUNCTIONS[what.function](y)).astype(np.float32)


def fault(what: LinearRegressor, operands: Operands) -> str | None:
    """Return what is wrong with the number of coefficients."""
    if what.targets < 1 or not what.coefficients or len(what.coefficients) % what.targets:
        return f"it has {len(what.coefficients)} coefficients for {what.targets} targets"
    return None if what.post_transform in scores.FUNCTIONS else f"post_transform is {what.post_transform!r}"


def matrix(operands: Operands) -> Reason | None:
    """Require rows of features: of more than two axes, features are none that a text defines."""
    rank = first(operands).rank
    return None if rank in (None, 1, 2) else Reason("features have more than one axis")


def _form(biased: bool) -> Callable[[LinearRegressor, Operands], Reason | None]:
    return lambda what, operands: matrix(operands) if what.biased == biased else Reason("")


def _bound(what: LinearRegressor, operands: Operands) -> Mapping[str, Any]:
    return {"weights": Tensor(what.weights), "function": what.function}


def _biased(what: LinearRegressor, operands: Operands) -> Mapping[str, Any]:
    return {**_bound(what, operands), "intercepts": Tensor(np.asarray(what.intercepts, np.float32))}


@lowering(18, applies_if=_form(False), bind=_bound, rounds=True, makes_floats=True)
def product(x, weights: Sequence[int], function: str):
    """Multiply by the coefficients, and apply the function."""
    rows = op.Flatten(op.Cast(x, to=1), axis=-1)
    return meaning.Scores(op.MatMul(rows, weights), function=function)


@lowering(18, applies_if=_form(True), bind=_biased, rounds=True, makes_floats=True)
def product_and_sum(x, weights: Sequence[int], intercepts: Sequence[int], function: str):
    """Multiply by the coefficients, add the intercepts, and apply the function."""
    rows = op.Flatten(op.Cast(x, to=1), axis=-1)
    return meaning.Scores(op.Gemm(rows, weights, intercepts), function=function)


def shape(what: LinearRegressor, operands: Operands) -> tuple[Dim, ...]:
    """Return the number of rows, and that of targets."""
    return rows_count(operands), what.targets


def rows_count(operands: Operands) -> Dim:
    """Return how many rows there are: a vector is one."""
    dims = first(operands).shape
    return None if dims is None else 1 if len(dims) == 1 else dims[0]


OPERATOR = Operator(
    name="LinearRegressor",
    domain=ML,
    meaning=LinearRegressor,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(product, product_and_sum),
    shape=shape,
    refused="features that have more than one axis",
    traits=Traits(floats_by=scores.float_traits, factors=2),
)
