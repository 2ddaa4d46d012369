"""StackedRows: the rows that a Loop over tokens has stacked, of which there may be none. Lowerings use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class StackedRows:
    """It has no attributes."""


def oracle(what: StackedRows, rows: Array, state: Array) -> Array:
    """Return the rows, each of the shape of the state.

    Where no iteration has been, onnxruntime 1.32.0 has 0 for all dimensions of a Loop's row that are not declared.
    """
    return rows.reshape(rows.shape[0], *state.shape)


def _facts(what: StackedRows, operands: Operands) -> tuple[Facts, ...]:
    rows, state = (operands[index] or Facts() for index in (0, 1))
    return (Facts(rows.dtype, rows.shape if state.shape is None else (rows.dim(0), *state.shape)),)


def _idle(what: StackedRows, operands: Operands) -> bool:
    """Whether it is known how many rows there are: a Loop has some.

    The dimensions that are known here need not be those that the Loop's body declares.
    """
    return isinstance((operands[0] or Facts()).dim(0), int)


@lowering(18)
def reshaped(rows, state):
    """Give each row the shape of the state."""
    shape = op.Concat(op.Shape(rows, start=0, end=1), [1], op.Shape(state, start=1, end=3), axis=0)
    return op.Reshape(rows, shape)


OPERATOR = Operator(
    name="StackedRows",
    domain="opshift.step",
    meaning=StackedRows,
    versions=(),
    operands=("rows", "state"),
    oracle=oracle,
    lowerings=(reshaped,),
    facts=_facts,
    idle=_idle,
)
