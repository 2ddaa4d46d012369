"""Squeeze: drop axes of length 1; their list is an attribute below 13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.axes import END, axes_operand, first, fixed, one_from_back, operand_not_negative
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.quantized_form import moved
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs
from opshift.opsets.registry.traits import Trait, Traits


def oracle(
    meaning: Plain, data: np.ndarray[Any, Any], axes: np.ndarray[Any, Any] | None = None
) -> np.ndarray[Any, Any]:
    """Squeeze-13: "If axes is not provided, all the single dimensions will be removed from the shape"."""
    return data.squeeze() if axes is None else data.squeeze(axis=tuple(int(axis) for axis in axes))


def _around(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    axis = int(operands[1].known.item()) if operands[1] is not None and operands[1].known is not None else 0
    return {"before": (axis,), "after": (axis + 1 or END,)}


@lowering(18, applies_if=one_from_back, bind=_around)
def reshaped(data, axes, before: Sequence[int], after: Sequence[int]):
    """Reshape to the dimensions before and after the axis."""
    shape = op.Shape(data)
    kept = op.Concat(op.Slice(shape, [0], before), op.Slice(shape, after, [2147483647]), axis=0)
    return op.Reshape(data, kept, allowzero=1)


def _left(meaning: Plain, operands: Operands) -> tuple[int, ...] | None:
    dims, axes = first(operands).shape, None if operands[1] is None else operands[1].known
    gone = None if axes is None or dims is None else {int(axis) % len(dims) for axis in axes}
    return None if dims is None or gone is None else fixed(tuple(d for i, d in enumerate(dims) if i not in gone))


def _known(meaning: Plain, operands: Operands) -> Reason | None:
    known = _left(meaning, operands) is not None
    return None if known else Reason("more than one dimension is unknown, or the axes are", missing=True)


@lowering(18, applies_if=_known, bind=lambda meaning, operands: {"shape": _left(meaning, operands)})
def reshaped_to_known(data, axes, shape: Sequence[int]):
    """Reshape to a shape with all but one dimension known."""
    return op.Reshape(data, shape)


def equal_dims(node: NodeShapes) -> Pairs:
    """Yield the dims of the axes that are removed, which are 1."""
    dims = node.inputs[0]
    given = node.attributes.get("axes") if len(node.inputs) < 2 else node.constant(1)
    if dims is None or given is None:
        return
    for axis in np.asarray(given).reshape(-1).tolist():
        if -len(dims) <= axis < len(dims):
            yield dims[axis], 1


OPERATOR = Operator(
    name="Squeeze",
    meaning=Plain,
    versions=tuple(
        Version(since, applies_if=operand_not_negative(1) if since < 11 else None)
        for since in (1, 11, 13, 21, 23, 24, 25)
    ),
    operands=("data", "axes"),
    oracle=oracle,
    normal=axes_operand(1),
    moves_data=True,
    idle=lambda meaning, operands: operands[1] is None and first(operands).rank == 0,
    lowerings=(reshaped, reshaped_to_known),
    traits=Traits(
        floats=(Trait.MOVES,),
        moved=(0,),
        equal_dims=equal_dims,
        spreads=False,
        all_elements=True,
        quantized="Squeeze",
        form=moved("data"),
    ),
)
