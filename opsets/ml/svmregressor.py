"""ai.onnx.ml::SVMRegressor: a weighted sum of a kernel function with support vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.ml import supportkernel
from opshift.opsets.ml.linearregressor import matrix, rows_count, rows_of
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.inner_sums import InnerSum, SumUse
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


@dataclass(frozen=True)
class SVMRegressor:
    """Support vectors, coefficients and what is added; without vectors, the coefficients are those of features.

    `one_class` returns 1 above zero, and -1 elsewhere. `post_transform` has no effect in onnxruntime (1.32.0).
    """

    coefficients: tuple[float, ...] = ()
    kernel_params: tuple[float, ...] = ()
    kernel_type: str = "LINEAR"
    n_supports: int = 0
    one_class: int = 0
    post_transform: str = "NONE"
    rho: tuple[float, ...] = ()
    support_vectors: tuple[float, ...] = ()

    @property
    def vectors(self) -> Array:
        """The support vectors, or the coefficients, as columns."""
        if not self.n_supports:
            return np.asarray(self.coefficients, np.float32)[:, None]
        return np.asarray(self.support_vectors, np.float32).reshape(self.n_supports, -1).T

    @property
    def kernel(self) -> supportkernel.SupportKernel:
        """The kernel function; LINEAR without support vectors."""
        return kernel_of(self.kernel_type if self.n_supports else "LINEAR", self.kernel_params)

    @property
    def weights(self) -> Array:
        """What the values of the kernel function are multiplied by; 1 without support vectors."""
        return np.asarray(self.coefficients if self.n_supports else (1,), np.float32)[:, None]


def kernel_of(form: str, parameters: Sequence[float]) -> supportkernel.SupportKernel:
    """Return a kernel function with the parameters that are listed: gamma, coef0 and degree."""
    gamma, coef0, degree = (*parameters, 0.0, 0.0, 0.0)[:3]
    return supportkernel.SupportKernel(form, gamma, coef0, degree)


def oracle(what: SVMRegressor, x: Array) -> Array:
    """SVMRegressor-1: "Support Vector Machine regression prediction and one-class SVM anomaly detection"."""
    y = supportkernel.oracle(what.kernel, rows_of(x), what.vectors) @ what.weights.astype(np.float64) + what.rho[0]
    return np.where(y > 0, 1, -1).astype(np.float32) if what.one_class else y.astype(np.float32)


def fault(what: SVMRegressor, operands: Operands) -> str | None:
    """Return what is wrong with the lists."""
    if what.kernel_type not in KERNELS or len(what.kernel_params) not in (0, 3):
        return f"kernel_type is {what.kernel_type!r}, with {len(what.kernel_params)} parameters"
    if not what.rho or not what.coefficients:
        return "it has no coefficients, or no rho"
    if what.n_supports < 0 or (what.n_supports and len(what.coefficients) != what.n_supports):
        return f"it has {len(what.coefficients)} coefficients for {what.n_supports} support vectors"
    if what.n_supports and (not what.support_vectors or len(what.support_vectors) % what.n_supports):
        return f"{len(what.support_vectors)} numbers are no {what.n_supports} support vectors"
    return None


def _form(single: bool) -> Callable[[SVMRegressor, Operands], Reason | None]:
    return lambda what, operands: matrix(operands) if bool(what.one_class) == single else Reason("")


def _bound(what: SVMRegressor, operands: Operands) -> Mapping[str, Any]:
    kernel = what.kernel
    return {
        "vectors": Tensor(what.vectors),
        "weights": Tensor(what.weights),
        "rho": Tensor(np.asarray(what.rho[:1], np.float32)),
        "kind": kernel.kind,
        "gamma": kernel.gamma,
        "coef0": kernel.coef0,
        "degree": kernel.degree,
    }


@lowering(18, applies_if=_form(False), bind=_bound, rounds=True, makes_floats=True)
def weighed(
    x, vectors: Sequence[int], weights: Sequence[int], rho: Sequence[int], kind: str, gamma: float, coef0: float,
    degree: float,
):  # fmt: skip
    """Compute the kernel function, multiply by the coefficients, and add rho."""
    rows = op.Flatten(op.Cast(x, to=1), axis=-1)
    values = meaning.SupportKernel(rows, vectors, kind=kind, gamma=gamma, coef0=coef0, degree=degree)
    return op.Gemm(values, weights, rho)


@lowering(18, applies_if=_form(True), bind=_bound, rounds=True, makes_floats=True)
def signed(
    x, vectors: Sequence[int], weights: Sequence[int], rho: Sequence[int], kind: str, gamma: float, coef0: float,
    degree: float,
):  # fmt: skip
    """Compute the kernel function, multiply by the coefficients, add rho, and return whether the sum is above zero."""
    rows = op.Flatten(op.Cast(x, to=1), axis=-1)
    values = meaning.SupportKernel(rows, vectors, kind=kind, gamma=gamma, coef0=coef0, degree=degree)
    return op.Where(op.Greater(op.Gemm(values, weights, rho), 0.0), 1.0, -1.0)


def shape(what: SVMRegressor, operands: Operands) -> tuple[Dim, ...]:
    """Return the number of rows, and one."""
    return rows_count(operands), 1


OPERATOR = Operator(
    name="SVMRegressor",
    domain=ML,
    meaning=SVMRegressor,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(weighed, signed),
    shape=shape,
    refused="features that have more than one axis",
    traits=Traits(floats=(Trait.SUMS, Trait.COMPOSED), factors=2, inner_sum=InnerSum(SumUse.WEIGHED)),
)
