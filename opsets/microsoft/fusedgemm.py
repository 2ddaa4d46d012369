"""com.microsoft::FusedGemm: Gemm-13, and a function of the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.microsoft import activated
from opshift.opsets.operators import gemm
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

FUNCTIONS = frozenset(activated.PARAMETERS) - {"Clip"}


@dataclass(frozen=True)
class FusedGemm:
    """The attributes of Gemm, the function, and its parameters under the names of the operator's."""

    activation: str = ""
    activation_alpha: float | None = None
    activation_beta: float | None = None
    activation_gamma: float | None = None
    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0  # noqa: N815
    transB: int = 0  # noqa: N815


def _function(what: FusedGemm) -> activated.Activated:
    parameters = (what.activation_alpha or 0.0, what.activation_beta or 0.0)
    return activated.Activated(what.activation, *parameters[: activated.PARAMETERS.get(what.activation, 0)])


def oracle(
    what: FusedGemm, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], c: np.ndarray[Any, Any] | None = None
) -> np.ndarray[Any, Any]:
    """FusedGemm-1: "The FusedGemm operator schema is the same as Gemm besides it includes attributes activation"."""
    return activated.oracle(_function(what), gemm.oracle(_gemm(what), a, b, c))


def _gemm(what: FusedGemm) -> gemm.Gemm:
    return gemm.Gemm(what.alpha, what.beta, what.transA, what.transB)


def _known(what: FusedGemm, operands: Operands) -> Reason | None:
    if what.activation not in FUNCTIONS:
        return Reason(f"onnxruntime does not fuse {what.activation} into a Gemm")
    parameters = [what.activation_alpha, what.activation_beta][: activated.PARAMETERS[what.activation]]
    return Reason(f"{what.activation} lacks a parameter") if None in parameters else None


def _bind(what: FusedGemm, operands: Operands) -> Mapping[str, Any]:
    function = _function(what)
    fields = {"alpha": what.alpha, "beta": what.beta, "turn_a": what.transA, "turn_b": what.transB}
    return {**fields, "function": function.function, "first": function.first, "second": function.second}


@lowering(18, applies_if=_known, bind=_bind, rounds=True)
def by_gemm(
    a, b, c, alpha: float, beta: float, turn_a: int, turn_b: int, function: str, first: float, second: float
):  # fmt: skip
    """Write it as Gemm, then take the function."""
    y = op.Gemm(a, b, c, alpha=alpha, beta=beta, transA=turn_a, transB=turn_b)
    return meaning.Activated(y, function=function, first=first, second=second)


OPERATOR = Operator(
    name="FusedGemm",
    domain=MICROSOFT,
    meaning=FusedGemm,
    versions=(Version(1),),
    operands=("A", "B", "C"),
    oracle=oracle,
    lowerings=(by_gemm,),
    refused="a function that onnxruntime does not fuse, or that lacks a parameter",
    traits=Traits(
        floats=(Trait.SUMS, Trait.COMPOSED),
        equal_dims=gemm.OPERATOR.traits.equal_dims if gemm.OPERATOR.traits else None,
        factors=2,
    ),
)
