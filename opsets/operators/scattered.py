"""Scattered: updates beside the places that they go to, before a reduction joins them. Lowerings use it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Dim, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator


@dataclass(frozen=True)
class Scattered:
    """The axis of the updates, and the reduction that combines them: add, mul, max or min."""

    axis: int = 0
    reduction: str = "add"


JOINED = frozenset((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64))
"""The element types that onnxruntime 1.32.0 reduces and scatters, so that the two can be compared."""

MOST = 2**24
"""The most elements that the result may have, where its size is known."""

_Array = np.ndarray[Any, Any]


def neutral(reduction: str, dtype: np.dtype[Any]) -> _Array:
    """Return the scalar that a reduction joins without a change."""
    match reduction:
        case "add":
            return np.zeros((), dtype)
        case "mul":
            return np.ones((), dtype)
        case _ if dtype.kind == "f":
            return np.array(-math.inf if reduction == "max" else math.inf, dtype)
        case _:
            ends = np.iinfo(dtype)
            return np.array(ends.min if reduction == "max" else ends.max, dtype)


def oracle(what: Scattered, data: _Array, indices: _Array, updates: _Array) -> _Array:
    """Return the updates with an axis more behind theirs: the place, elsewhere what joins without a change."""
    dims = (*data.shape[: what.axis], indices.shape[what.axis], *data.shape[what.axis :])
    y = np.full(dims, neutral(what.reduction, data.dtype))
    for place in np.ndindex(*indices.shape):
        y[(*place[: what.axis + 1], int(indices[place]), *place[what.axis + 1 :])] = updates[place]
    return y


def _dims(what: Scattered, operands: Operands) -> tuple[Dim, ...] | None:
    data, indices = first(operands), operands[1] or Facts()
    if data.shape is None or what.axis >= len(data.shape):
        return None
    return (*data.shape[: what.axis], indices.dim(what.axis), *data.shape[what.axis :])


def _known(what: Scattered, operands: Operands) -> Reason | None:
    dims = _dims(what, operands)
    if dims is None or first(operands).dtype is None:
        return Reason("the element type or the rank is unknown", missing=True)
    if first(operands).dtype not in JOINED:
        return Reason("updates are joined in float, double, int32 and int64 only")
    size = math.prod(dim for dim in dims if isinstance(dim, int))
    return Reason(f"updates times places are more than {MOST} elements") if size > MOST else None


def _bind(what: Scattered, operands: Operands) -> Mapping[str, Any]:
    data = first(operands)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(data.dtype or 0)
    return {
        "at": (what.axis,),
        "beside": (what.axis + 1,),
        "column": (-1, *[1] * ((data.rank or 0) - what.axis - 1)),
        "nothing": Tensor(neutral(what.reduction, dtype)),
    }


@lowering(18, applies_if=_known, bind=_bind)
def by_places(
    data,
    indices,
    updates,
    at: Sequence[int],
    beside: Sequence[int],
    column: Sequence[int],
    nothing: Sequence[int],
):
    """Compare indices with all places, and choose updates by that; pad them to the shape of the data."""
    shape = op.Shape(data)
    length = op.Gather(shape, at)
    forward = op.Cast(indices, to=7)
    forward = forward + op.Cast(op.Less(forward, 0), to=7) * length
    places = op.Reshape(op.Range(0, op.Squeeze(length, [0]), 1), column)
    met = op.Equal(op.Unsqueeze(forward, beside), places)
    spread = op.Where(met, op.Unsqueeze(updates, beside), nothing)
    count = op.Gather(op.Shape(indices), at)
    front = op.Slice(shape, [0], at)
    wanted = op.Concat(front, count, op.Slice(shape, at, [2147483647]), axis=0)
    behind = wanted - op.Shape(spread)
    return op.Pad(spread, op.Concat(behind * 0, behind, axis=0), nothing)


OPERATOR = Operator(
    name="Scattered",
    domain="opshift.step",
    meaning=Scattered,
    versions=(),
    operands=("data", "indices", "updates"),
    oracle=oracle,
    lowerings=(by_places,),
    facts=lambda what, operands: (Facts(first(operands).dtype, _dims(what, operands)),),
)
