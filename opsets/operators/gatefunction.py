"""GateFunction: an activation function of a recurrent cell, with the bound of its input. Lowerings use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.recurrent import Cell, compute_cell
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import lowering, meaning
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]

_NAMES = {
    name.lower(): name
    for name in (
        *("Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu"),
        *("ScaledTanh", "HardSigmoid", "Elu", "Softsign", "Softplus"),
    )
}


@dataclass(frozen=True)
class GateFunction:
    """The functions of the cell, and the place of this one."""

    place: int = 0
    functions: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clips: tuple[float, ...] = ()


def oracle(what: GateFunction, x: Array) -> Array:
    """Return the function of the bounded input."""
    cell = Cell(what.functions, what.alphas, what.betas, what.clips)
    return np.asarray(compute_cell(cell)(what.place, x)).astype(x.dtype)


def _facts(what: GateFunction, operands: Operands) -> tuple[Facts, ...]:
    data = operands[0] or Facts()
    return (Facts(data.dtype, data.shape),)


def _bound(what: GateFunction, operands: Operands) -> Mapping[str, Any]:
    clip = what.clips[what.place]
    return {
        "bound": "Clip" if clip else "",
        "low": -clip,
        "high": clip,
        "function": _NAMES[what.functions[what.place]],
        "alpha": what.alphas[what.place],
        "beta": what.betas[what.place],
    }


@lowering(18, bind=_bound)
def activated(x, bound: str, low: float, high: float, function: str, alpha: float, beta: float):
    """Bound the input, and apply the function."""
    clipped = meaning.Activated(x, function=bound, first=low, second=high)
    return meaning.Activated(clipped, function=function, first=alpha, second=beta)


OPERATOR = Operator(
    name="GateFunction",
    domain="opshift.step",
    meaning=GateFunction,
    versions=(),
    operands=("x",),
    oracle=oracle,
    lowerings=(activated,),
    facts=_facts,
)
