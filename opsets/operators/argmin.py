"""ArgMin: the index of the minimum along one axis: ArgMax of the same elements in the opposite order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import axis_not_negative, first, one_axis
from opshift.opsets.families.merged_axes import along_axis
from opshift.opsets.operators import argmax
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Flow, Trait, Traits


@dataclass(frozen=True)
class ArgMin:
    """The axis, whether it is kept with length 1, and whether the first or the last of equal minima is selected."""

    axis: int = 0
    keepdims: int = 1
    select_last_index: int = 0


def oracle(what: ArgMin, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ArgMin-12: "If select_last_index is True (default False), the index of the last occurrence of the min"."""
    opposite = np.invert(data) if np.issubdtype(data.dtype, np.integer) else -data
    return argmax.oracle(argmax.ArgMax(what.axis, what.keepdims, what.select_last_index), opposite)


def _same(what: ArgMin, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.axis, "keepdims": what.keepdims, "last": what.select_last_index}


# Types whose numbers all have a negative, and in which each value of the type has its own place.
_SIGNED: Mapping[int, int] = {
    **dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT), TensorProto.FLOAT),
    **dict.fromkeys((TensorProto.INT8, TensorProto.INT16, TensorProto.UINT8, TensorProto.UINT16), TensorProto.INT32),
    **dict.fromkeys((TensorProto.INT32, TensorProto.UINT32, TensorProto.DOUBLE), TensorProto.DOUBLE),
}


def _has_negatives(what: ArgMin, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return None if dtype in _SIGNED else Reason("not all numbers of the type have a negative")


@lowering(
    13,
    applies_if=_has_negatives,
    bind=lambda what, operands: {**_same(what, operands), "to": _SIGNED[first(operands).dtype or 0]},
)
def of_negatives(data, axis: int, keepdims: int, last: int, to: int):
    """Find the maximum of the negatives."""
    opposite = op.Neg(op.Cast(data, to=to))
    return meaning.ArgMax(opposite, axis=axis, keepdims=keepdims, select_last_index=last)


def _wide(what: ArgMin, operands: Operands) -> Reason | None:
    wide = first(operands).dtype in (TensorProto.INT64, TensorProto.UINT64)
    return None if wide else Reason("the input is not of 64-bit integers")


@lowering(13, applies_if=_wide, bind=lambda what, operands: {**_same(what, operands), "like": first(operands).dtype})
def of_complements(data, axis: int, keepdims: int, last: int, like: int):
    """Find the maximum of the complements: -1 - x turns the order around, and none overflows."""
    opposite = op.Cast(op.Sub(-1, op.Cast(data, to=7)), to=like)
    return op.ArgMax(opposite, axis=axis, keepdims=keepdims, select_last_index=last)


OPERATOR = Operator(
    name="ArgMin",
    meaning=ArgMin,
    # ArgMin-1 gives no range for its axis; ArgMin-11: "Accepted range is [-r, r-1] where r = rank(data)".
    versions=(Version(1, applies_if=axis_not_negative), Version(11), Version(12), Version(13)),
    operands=("data",),
    oracle=oracle,
    normal=one_axis,
    lowerings=(of_negatives, of_complements),
    nan_defined=argmax.nan_defined,
    traits=Traits(
        merges=along_axis,
        value_range=value_ranges.positions,
        floats=(Trait.MOVES,),
        flow=Flow.BOUNDED,
        decides=True,
        nan_undefined=True,
    ),
)
