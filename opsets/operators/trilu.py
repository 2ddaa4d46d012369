"""Trilu: the triangle of a matrix on one side of a diagonal, zeros on the other. Since version 14."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.operators import where
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Trilu:
    """Whether the upper triangle is kept, or the lower one."""

    upper: int = 1


def oracle(what: Trilu, x: np.ndarray[Any, Any], k: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Trilu-14: the upper part is "the elements on and above the given diagonal (k)"; others are "set to zero"."""
    above = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None] - (0 if k is None else k.item())
    return np.where(above >= 0 if what.upper else above <= 0, x, np.zeros((), x.dtype)).astype(x.dtype)


def _no_diagonal(what: Trilu, operands: Operands) -> Reason | None:
    return Reason("the diagonal is given") if operands[1] is not None else None


@lowering(14, applies_if=_no_diagonal, bind=lambda what, operands: {"main": Tensor(np.array(0))})
def from_main(x, k, main: Sequence[int]):
    """Add the default diagonal, 0."""
    return meaning.Same(x, main)


def _diagonal(what: Trilu, operands: Operands) -> Reason | None:
    if operands[1] is None:
        return Reason("no diagonal is given")
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    kinds = onnx.helper.tensor_dtype_to_np_dtype(dtype).kind
    return Reason("there is no zero of this type") if kinds == "O" else None


def _side(what: Trilu, operands: Operands) -> Mapping[str, Any]:
    zero = np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0))
    return {"zero": Tensor(zero), "sign": Tensor(np.array(1 if what.upper else -1))}


@lowering(18, applies_if=_diagonal, bind=_side)
def masked(x, k, zero: Sequence[int], sign: Sequence[int]):
    """Number rows and columns, and choose between elements and zero by their difference."""
    shape = op.Shape(x)
    rows = op.Range(0, op.Squeeze(op.Slice(shape, [-2], [-1]), [0]), 1)
    columns = op.Range(0, op.Squeeze(op.Slice(shape, [-1], [2147483647]), [0]), 1)
    beyond = sign * (op.Unsqueeze(columns, [0]) - op.Unsqueeze(rows, [1]) - op.Reshape(k, [1, 1]))
    return op.Where(op.Less(beyond, 0), zero, x)


OPERATOR = Operator(
    name="Trilu",
    meaning=Trilu,
    versions=(Version(14),),
    operands=("input", "k"),
    oracle=oracle,
    adversarial=where.OPERATOR.adversarial,
    lowerings=(from_main, masked),
    traits=Traits(floats=(Trait.MOVES,), moved=(0,)),
)
