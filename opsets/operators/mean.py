"""Mean: the mean of several tensors; broadcast since 8, of one shape before."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.families.scalars import alone
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import one_shape, own_type, plain, single_operand
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(*arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Mean-13: "Element-wise mean of each of the input tensors (with Numpy-style broadcasting support)"."""
    wide = functools.reduce(np.add, (one.astype(np.float64) for one in arrays))
    return np.asarray((wide / len(arrays)).astype(arrays[0].dtype))


def _several(what: Any, operands: Operands) -> Reason | None:
    if operands[0] is None or operands[0].dtype is None:
        return Reason("the element type is unknown", missing=True)
    return None if len(operands) > 1 else Reason("there is one operand")


def _count(what: Any, operands: Operands) -> Mapping[str, Any]:
    return {**own_type(what, operands), "count": float(len(operands))}


@lowering(13, applies_if=_several, bind=_count, rounds=True, variadic=True)
def divided(a, between, b, count: float, to: int):
    """Divide the sum by the number of tensors."""
    return meaning.Sum(a, between, b) / op.Cast(count, to=to)


OPERATOR = plain(
    "Mean",
    (1, 6, 8, 13),
    (),
    _oracle,
    (divided, alone),
    variadic=True,
    neutral=single_operand,
    applies_if={6: one_shape},
    wider_types=COMPUTED,
    traits=Traits(merges=elementwise, floats=(Trait.SUMS, Trait.WEIGHS), flow=Flow.POINTWISE, equal_dims=broadcast),
)
