"""com.microsoft::UnfoldTensor: slices of an axis, one step after the other, along a new last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first, resolve
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class UnfoldTensor:
    """The axis, how long a slice is, and how far apart slices are."""

    dim: int = -1
    size: int = 1
    step: int = 1


def places(what: UnfoldTensor, length: int) -> Array:
    """Return the places of each slice, a row each."""
    return np.arange(0, length - what.size + 1, what.step)[:, None] + np.arange(what.size)


def oracle(what: UnfoldTensor, x: Array) -> Array:
    """UnfoldTensor-1: "all slices of size `size` from input tensor in the dimension `dim`", behind the other axes."""
    axis = what.dim % x.ndim
    return np.moveaxis(np.take(x, places(what, x.shape[axis]), axis=axis), axis + 1, -1)


def fault(what: UnfoldTensor, operands: Operands) -> str | None:
    """Return what is wrong with the slices."""
    return None if what.size > 0 and what.step > 0 else f"slices of {what.size}, {what.step} apart, are none"


def _known(what: UnfoldTensor, operands: Operands) -> Reason | None:
    data = first(operands)
    if data.rank is None or not isinstance(data.dim(resolve(what.dim, data.rank)), int):
        return Reason("the length of the axis is unknown", missing=True)
    return None


def _bound(what: UnfoldTensor, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    axis = resolve(what.dim, rank)
    length = first(operands).dim(axis)
    assert isinstance(length, int)
    bounded(max(0, (length - what.size) // what.step + 1) * what.size)
    order = [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1]
    return {"places": Tensor(places(what, length)), "axis": axis, "order": tuple(order)}


@lowering(13, applies_if=_known, bind=_bound)
def gathered(x, places: Sequence[int], axis: int, order: Sequence[int]):
    """Gather the slices, and move their axis to the end."""
    return op.Transpose(op.Gather(x, places, axis=axis), perm=order)


def _open(what: UnfoldTensor, operands: Operands) -> Reason | None:
    if first(operands).rank is None:
        return Reason("the rank is unknown", missing=True)
    return None if _known(what, operands) else Reason("the length of the axis is known")


def _steps(what: UnfoldTensor, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    axis = resolve(what.dim, rank)
    return {
        "offsets": Tensor(np.arange(what.size)[None]),
        "less": Tensor(np.array(what.size - 1)),
        "step": Tensor(np.array(what.step)),
        "axis": axis,
        "at": (axis,),
        "order": (*range(axis + 1), *range(axis + 2, rank + 1), axis + 1),
    }


# A slice that does not fit has no start: Range is empty where the length is below the size.
@lowering(18, applies_if=_open, bind=_steps)
def gathered_at_run_time(
    x, offsets: Sequence[int], less: Sequence[int], step: Sequence[int], axis: int, at: Sequence[int],
    order: Sequence[int],
):  # fmt: skip
    """Compute where slices start, gather them, and move their axis to the end."""
    length = op.Squeeze(op.Gather(op.Shape(x), at, axis=0))
    places = op.Unsqueeze(op.Range(0, length - less, step), [1]) + offsets
    return op.Transpose(op.Gather(x, places, axis=axis), perm=order)


OPERATOR = Operator(
    name="UnfoldTensor",
    domain=MICROSOFT,
    meaning=UnfoldTensor,
    versions=(Version(1),),
    operands=("input",),
    oracle=oracle,
    fault=fault,
    lowerings=(gathered, gathered_at_run_time),
    moves_data=True,
    refused="an input of unknown rank",
    traits=Traits(floats=(Trait.MOVES,), moved=(0,)),
)
