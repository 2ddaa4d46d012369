"""Flatten: a tensor as a matrix, the axes before `axis` as rows. Negative axes since 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import axis_not_negative, first, product, resolve
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.quantized_form import moved
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Flatten:
    """The first axis of the columns, or the rank if there are none."""

    axis: int = 1


def oracle(meaning: Flatten, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Flatten-11: "input dimensions (up to axis) ... flattened to the outer dimension", the rest to the inner one."""
    axis = resolve(meaning.axis, data.ndim)
    outer = int(np.prod(data.shape[:axis], dtype=np.int64))
    return data.reshape(outer, int(np.prod(data.shape[axis:], dtype=np.int64)))


def normal(meaning: Flatten, operands: Operands) -> tuple[Flatten, Operands]:
    """Count the axis from the front where the rank is known."""
    return Flatten(resolve(meaning.axis, first(operands).rank)), operands


def shape(meaning: Flatten, operands: Operands) -> tuple[Dim, ...]:
    """Two dimensions, even where the input's rank is unknown."""
    dims = first(operands).shape
    if dims is None:
        return None, None
    axis = resolve(meaning.axis, len(dims))
    return product(dims[:axis]), product(dims[axis:])


def _idle(meaning: Flatten, operands: Operands) -> bool:
    return meaning.axis == 1 and first(operands).rank == 2


def _bound(meaning: Flatten, operands: Operands) -> Mapping[str, Any]:
    return {"axis": (meaning.axis,)}


@lowering(18, bind=_bound)
def reshaped(data, axis: Sequence[int]):
    """Multiply the dimensions on both sides and reshape."""
    shape = op.Shape(data)
    outer = op.ReduceProd(op.Slice(shape, [0], axis), keepdims=1)
    inner = op.ReduceProd(op.Slice(shape, axis, [2147483647]), keepdims=1)
    return op.Reshape(data, op.Concat(outer, inner, axis=0), allowzero=1)


OPERATOR = Operator(
    name="Flatten",
    meaning=Flatten,
    versions=tuple(
        Version(since, applies_if=axis_not_negative if since < 11 else None) for since in (1, 9, 11, 13, 21, 23, 24, 25)
    ),
    operands=("input",),
    oracle=oracle,
    normal=normal,
    shape=shape,
    idle=_idle,
    lowerings=(reshaped,),
    traits=Traits(
        floats=(Trait.MOVES,),
        moved=(0,),
        all_elements=True,
        keeps_order=True,
        quantized="Flatten",
        form=moved("input"),
    ),
)
