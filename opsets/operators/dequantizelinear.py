"""DequantizeLinear: small integers as floats. One scale in version 10, along an axis since 13, in blocks since 21."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.granularity import (
    RANGES,
    block_of_each,
    check_shapes,
    expanded,
    in_blocks,
    normal,
    one_for_all,
    scale,
    shape,
    spread,
)
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits


@dataclass(frozen=True)
class DequantizeLinear:
    """The axis and blocks of the scales, and the type of the result (0: the scale's type)."""

    axis: int = 1
    block_size: int = 0
    output_dtype: int = 0


_Array = np.ndarray[Any, Any]


def oracle(what: DequantizeLinear, x: _Array, factors: _Array, zero: _Array | None = None) -> _Array:
    """DequantizeLinear-21: "y = (x - x_zero_point) * x_scale"."""
    check_shapes(what, x, factors, zero)
    start = 0 if zero is None else expanded(what, zero, x).astype(np.float64)  # which holds int32, and floats of 8 bits
    y = (x.astype(np.float64) - start).astype(np.float32) * expanded(what, factors, x).astype(np.float32)
    wanted = onnx.helper.tensor_dtype_to_np_dtype(what.output_dtype) if what.output_dtype else factors.dtype
    return np.asarray(y).astype(wanted)


def _normal(what: DequantizeLinear, operands: Operands) -> tuple[DequantizeLinear, Operands]:
    """DequantizeLinear-23: "If not supplied, the output data type is inferred from `x_scale` data type (`T2`)"."""
    what, operands = normal(what, operands)
    known = what.output_dtype == scale(operands).dtype
    return DequantizeLinear(what.axis, what.block_size, 0 if known else what.output_dtype), operands


def _floats(what: DequantizeLinear, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None or scale(operands).dtype is None:
        return Reason("the types of input and scale are unknown", missing=True)
    if dtype not in (*RANGES, TensorProto.INT32):
        return Reason("only integers of 8, 16 and 32 bits can be computed with")
    if scale(operands).dtype != TensorProto.FLOAT or what.output_dtype:
        return Reason("it multiplies in float only")
    return None


def _from_zero(what: DequantizeLinear, operands: Operands) -> Reason | None:
    return Reason("it has a zero point") if operands[2] is not None else _floats(what, operands)


def _zero(what: DequantizeLinear, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    return {"zero": Tensor(np.zeros((), dtype)), "axis": what.axis, "block_size": what.block_size}


@lowering(18, applies_if=_from_zero, bind=_zero)
def with_zero_point(x, factors, zero_point, zero: Sequence[int], axis: int, block_size: int):
    """Add a zero point of zero."""
    return meaning.DequantizeLinear(x, factors, op.Expand(zero, op.Shape(factors)), axis=axis, block_size=block_size)


def _blocks(what: DequantizeLinear, operands: Operands) -> Reason | None:
    return Reason("it has no zero point") if operands[2] is None else in_blocks(what, operands)


@lowering(18, applies_if=_blocks, bind=block_of_each)
def by_element(x, factors, zero_point, axis: int, blocks: Sequence[int]):
    """Repeat the scale of a block for each element."""
    each = op.Gather(factors, blocks, axis=axis)
    start = op.Gather(zero_point, blocks, axis=axis)
    return meaning.Same(x, each, start, block_size=1)


_HELD = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT8E8M0)
"""Types of scales that a float holds exactly."""


def _narrow_scale(what: DequantizeLinear, operands: Operands) -> Reason | None:
    """DequantizeLinear-23: "The output type also determines the precision of the multiplication operation"."""
    dtype = scale(operands).dtype
    if dtype is None:
        return Reason("the type of the scale is unknown", missing=True)
    fits = what.output_dtype == TensorProto.FLOAT and dtype in _HELD
    return None if fits else Reason("its output_dtype does not hold the scale")


@lowering(18, applies_if=_narrow_scale)
def by_float_scale(x, factors, zero_point):
    """Give it the scale in the type of the result."""
    return meaning.Same(x, op.Cast(factors, to=1), zero_point, output_dtype=0)


def _multiplies(what: DequantizeLinear, operands: Operands) -> Reason | None:
    if operands[2] is None:
        return Reason("it has no zero point")
    return _floats(what, operands) or spread(what, operands)


@lowering(18, applies_if=_multiplies, bind=lambda what, operands: {"shape": shape(what, operands)})
def by_product(x, factors, zero_point, shape: Sequence[int]):
    """Subtract the zero point as int32, and multiply."""
    number = op.Sub(op.Cast(x, to=6), op.Cast(op.Reshape(zero_point, shape), to=6))
    return op.Mul(op.Cast(number, to=1), op.Reshape(factors, shape))


def _shifts_floats(values: Sequence[Any]) -> bool:
    """Floats of 8 bits have a zero point: "usually not used", and kernels of onnxruntime 1.32.0 take none but +0."""
    zero_point = values[2] if len(values) > 2 else None
    if not isinstance(zero_point, np.ndarray) or not zero_point.dtype.name.startswith("float"):
        return False
    return any(zero_point.tobytes())


OPERATOR = Operator(
    name="DequantizeLinear",
    meaning=DequantizeLinear,
    versions=(Version(10, applies_if=one_for_all), *(Version(since) for since in (13, 19, 21, 23, 24, 25, 28))),
    operands=("x", "x_scale", "x_zero_point"),
    oracle=oracle,
    lowerings=(by_product, by_element, by_float_scale, with_zero_point),
    normal=_normal,
    traits=Traits(
        reads_numbers=(0, 2),
        marks_quantization=True,
        reads_packed=lambda attributes: bool(attributes.get("block_size")),
        meaningless=_shifts_floats,
    ),
)
