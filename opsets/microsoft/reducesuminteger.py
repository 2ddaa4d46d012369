"""com.microsoft::ReduceSumInteger: sums of bytes along axes, in 32 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ReduceSumInteger:
    """The axes, and whether they stay with length 1."""

    axes: tuple[int, ...] = ()
    keepdims: int = 1


_SUMS: dict[int, int] = {TensorProto.INT8: TensorProto.INT32, TensorProto.UINT8: TensorProto.UINT32}
"""The type of the sums: signed as the bytes are."""


def oracle(what: ReduceSumInteger, x: Array) -> Array:
    """ReduceSumInteger-1: "Computes the sum of the low-precision input tensor's element along the provided axes"."""
    dtype = np.int32 if x.dtype == np.int8 else np.uint32
    return np.asarray(x.sum(axis=tuple(axis % x.ndim for axis in what.axes), keepdims=bool(what.keepdims), dtype=dtype))


def _typed(what: ReduceSumInteger, operands: Operands) -> Reason | None:
    known = first(operands).dtype in _SUMS
    return None if known else Reason("the element type is unknown", missing=True)


def _bind(what: ReduceSumInteger, operands: Operands) -> Mapping[str, Any]:
    return {"axes": what.axes, "keepdims": what.keepdims, "to": _SUMS[first(operands).dtype or 0]}


@lowering(18, applies_if=_typed, bind=_bind)
def of_wide(x, axes: Sequence[int], keepdims: int, to: int):
    """Cast to 32 bits, and add up."""
    return op.ReduceSum(op.Cast(x, to=to), axes, keepdims=keepdims)


OPERATOR = Operator(
    name="ReduceSumInteger",
    domain=MICROSOFT,
    meaning=ReduceSumInteger,
    versions=(Version(1),),
    operands=("data",),
    oracle=oracle,
    lowerings=(of_wide,),
    traits=Traits(floats=(Trait.SUMS,)),
)
