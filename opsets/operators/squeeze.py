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
    # onnxruntime 1.32.0 takes no axes for all axes, the text for none.
    gone = None if axes is None or dims is None or not axes.size else {int(axis) % len(dims) for axis in axes}
    return None if dims is None or gone is None else fixed(tuple(d for i, d in enumerate(dims) if i not in gone))


def _known(meaning: Plain, operands: Operands) -> Reason | None:
    known = _left(meaning, operands) is not None
    return None if known else Reason("more than one dimension is unknown, or the axes are", missing=True)


@lowering(18, applies_if=_known, bind=lambda meaning, operands: {"shape": _left(meaning, operands)})
def reshaped_to_known(data, axes, shape: Sequence[int]):
    """Reshape to a shape with all but one dimension known."""
    return op.Reshape(data, shape)


def _of_known_rank(meaning: Plain, operands: Operands) -> Reason | None:
    if _left(meaning, operands) is not None:
        return Reason("the shape is known")
    axes = operands[1]
    known = first(operands).rank is not None and axes is not None and axes.known is not None and axes.size
    return None if known else Reason("the rank or the axes are unknown", missing=True)


def _kept(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    rank, axes = first(operands).rank or 0, operands[1]
    gone = set() if axes is None or axes.known is None else {int(axis) % rank for axis in axes.known.flat}
    return {"kept": tuple(axis for axis in range(rank) if axis not in gone)}


@lowering(18, applies_if=_of_known_rank, bind=_kept)
def reshaped_to_kept(data, axes, kept: Sequence[int]):
    """Reshape to the dimensions of the axes that are kept."""
    return op.Reshape(data, op.Gather(op.Shape(data), kept), allowzero=1)


def _computed(meaning: Plain, operands: Operands) -> Reason | None:
    axes = operands[1]
    if axes is None or axes.known is not None:
        return Reason("the axes are known")
    # onnxruntime 1.32.0 takes no axes for all axes, the text for none.
    return None if axes.size else Reason("how many axes there are is unknown, or there are none", missing=True)


@lowering(18, applies_if=_computed)
def reshaped_at_run_time(data, axes):
    """Reshape to the dimensions of the axes that are none of those computed."""
    shape = op.Shape(data)
    rank = op.Size(shape)
    gone = op.Unsqueeze(op.Where(op.Less(axes, 0), axes + rank, axes), [1])
    hits = op.ReduceMax(op.Cast(op.Equal(gone, op.Range(0, rank, 1)), to=7), [0], keepdims=0)
    return op.Reshape(data, op.Compress(shape, op.Equal(hits, 0), axis=0), allowzero=1)


def _all_ones(meaning: Plain, operands: Operands) -> Reason | None:
    return None if operands[1] is None else Reason("axes are given")


@lowering(18, applies_if=_all_ones)
def reshaped_to_others_than_one(data, axes):
    """Reshape to the dimensions that are not 1."""
    shape = op.Shape(data)
    return op.Reshape(data, op.Compress(shape, op.Not(op.Equal(shape, 1)), axis=0), allowzero=1)


def equal_dims(node: NodeShapes) -> Pairs:
    """Yield the dims of the axes that are removed, which are 1."""
    dims = node.inputs[0]
    axes = node.attributes.get("axes") if len(node.inputs) < 2 else node.constant(1)
    if dims is None or axes is None:
        return
    for axis in np.asarray(axes).reshape(-1).tolist():
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
    lowerings=(
        reshaped,
        reshaped_to_known,
        reshaped_to_kept,
        reshaped_at_run_time,
        reshaped_to_others_than_one,
    ),
    traits=Traits(
        floats=(Trait.MOVES,),
        moved=(0,),
        equal_dims=equal_dims,
        spreads=False,
        all_elements=True,
        keeps_order=True,
        quantized="Squeeze",
        form=moved("data"),
    ),
)
