"""QuantizeLinear: floats as small integers. One scale in version 10, along an axis since 13, in blocks since 21."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.granularity import (
    ENDS,
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
from opshift.opsets.operators import cast
from opshift.opsets.operators.round import HALVES
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits, Undefined


@dataclass(frozen=True)
class QuantizeLinear:
    """Where scales apply, the type of the result and of the division (0: of the zero point, of the scale)."""

    axis: int = 1
    block_size: int = 0
    output_dtype: int = 0
    precision: int = 0
    saturate: int = 1


_Array = np.ndarray[Any, Any]


def oracle(what: QuantizeLinear, x: _Array, factors: _Array, zero: _Array | None = None) -> _Array:
    """QuantizeLinear-21: "y = saturate((x / y_scale) + y_zero_point)"; "it rounds to the nearest even".

    QuantizeLinear-23: "The type of `y_scale` determines the precision of the division", unless `precision` does. Float
    types are rounded to once, after the zero point is added.
    """
    check_shapes(what, x, factors, zero)
    dtype = _numpy(what.output_dtype or TensorProto.UINT8) if zero is None else zero.dtype
    divisor = expanded(what, factors, x)
    precise = _numpy(what.precision) if what.precision else factors.dtype
    if precise == ml_dtypes.float8_e8m0fnu:  # which holds powers of two only, and no quotient
        precise = np.dtype(np.float32)
    quotient = np.asarray(x.astype(precise) / divisor.astype(precise))
    start = 0.0 if zero is None else expanded(what, zero, x).astype(np.float64)
    to = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    if to in ENDS:
        return np.asarray(np.clip(np.rint(quotient).astype(np.float64) + start, *ENDS[to])).astype(dtype)
    return cast.oracle(
        cast.Cast(to, what.saturate), np.asarray((quotient.astype(np.float64) + start).astype(np.float32))
    )


def _numpy(dtype: int) -> np.dtype[Any]:
    return onnx.helper.tensor_dtype_to_np_dtype(dtype)


def _output(what: QuantizeLinear, operands: Operands) -> int | None:
    zero = operands[2]
    return zero.dtype if zero is not None else what.output_dtype or TensorProto.UINT8


def _normal(what: QuantizeLinear, operands: Operands) -> tuple[QuantizeLinear, Operands]:
    """QuantizeLinear-21: "If neither `output_dtype` nor `y_zero_point` are supplied, output data type is uint8"."""
    what, operands = normal(what, operands)
    known = operands[2] is not None or what.output_dtype == TensorProto.UINT8
    fields = (what.axis, what.block_size, 0 if known else what.output_dtype, what.precision, what.saturate)
    return QuantizeLinear(*fields), operands


def _one_type(what: QuantizeLinear, operands: Operands) -> Reason | None:
    """QuantizeLinear-19 has x and the scale of one type T1; before, the scale is float, and since 23 of any."""
    data, factors = first(operands).dtype, scale(operands).dtype
    if data is None or factors is None:
        return Reason("the types of input and scale are unknown, and it takes one for both", missing=True)
    return None if data == factors else Reason("input and scale have one type")


def _integers(what: QuantizeLinear, operands: Operands) -> Reason | None:
    output = _output(what, operands)
    if output is None or scale(operands).dtype is None:
        return Reason("the types of the scale and of the result are unknown", missing=True)
    if output not in RANGES:
        return Reason("only integers of 8 and 16 bits can be computed with")
    if scale(operands).dtype != TensorProto.FLOAT or what.precision not in (0, TensorProto.FLOAT):
        return Reason("it divides in float only")
    return None


def _from_zero(what: QuantizeLinear, operands: Operands) -> Reason | None:
    if operands[2] is not None:
        return Reason("it has a zero point")
    return _integers(what, operands)


def _zero(what: QuantizeLinear, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(_output(what, operands) or 0)
    return {"zero": Tensor(np.zeros((), dtype)), "axis": what.axis, "block_size": what.block_size}


@lowering(18, applies_if=_from_zero, bind=_zero)
def with_zero_point(x, factors, zero_point, zero: Sequence[int], axis: int, block_size: int):
    """Add a zero point of zero, whose type is the type of the result."""
    return meaning.QuantizeLinear(x, factors, op.Expand(zero, op.Shape(factors)), axis=axis, block_size=block_size)


def _blocks(what: QuantizeLinear, operands: Operands) -> Reason | None:
    return Reason("it has no zero point") if operands[2] is None else in_blocks(what, operands)


@lowering(18, applies_if=_blocks, bind=block_of_each)
def by_element(x, factors, zero_point, axis: int, blocks: Sequence[int]):
    """Repeat the scale of a block for each element."""
    each = op.Gather(factors, blocks, axis=axis)
    start = op.Gather(zero_point, blocks, axis=axis)
    return meaning.Same(x, each, start, block_size=1)


def _divides(what: QuantizeLinear, operands: Operands) -> Reason | None:
    if operands[2] is None:
        return Reason("it has no zero point")
    return _integers(what, operands) or spread(what, operands)


def _ends(what: QuantizeLinear, operands: Operands) -> Mapping[str, Any]:
    dtype = _output(what, operands) or 0
    low, high = RANGES[dtype]
    floats = (Tensor(np.array(end, np.float32)) for end in (low, high))
    return {"shape": shape(what, operands), "to": dtype, **dict(zip(("low", "high"), floats, strict=True))}


@lowering(
    18,
    applies_if=_divides,
    bind=_ends,
)
def by_division(x, factors, zero_point, shape: Sequence[int], low: Sequence[int], high: Sequence[int], to: int):
    """Divide, round, add the zero point, and keep within the type."""
    whole = op.Round(op.Div(op.Cast(x, to=1), op.Reshape(factors, shape)))
    moved = op.Add(whole, op.Cast(op.Reshape(zero_point, shape), to=1))
    return op.Cast(op.Min(op.Max(moved, low), high), to=to)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw scales above zero, some of which lead to ties: divisors that are zero or overflow have no meaning."""
    factors = feeds["y_scale"]
    if not factors.flags.writeable or factors.dtype.kind not in "fV":
        return feeds
    return {**feeds, "y_scale": rng.choice([0.1, 0.5, 2, 3, 100], factors.shape).astype(factors.dtype)}


def _ties(attributes: Mapping[str, Any], constants: Sequence[Any]) -> Iterator[float]:
    """Yield the quotients that are ties, or next to one, of a scale that is a constant."""
    scale = constants[1] if len(constants) > 1 else None
    if isinstance(scale, np.ndarray) and scale.size == 1:
        yield from (half * float(scale.item()) for half in HALVES)


OPERATOR = Operator(
    name="QuantizeLinear",
    meaning=QuantizeLinear,
    versions=(
        Version(10, applies_if=one_for_all),
        Version(13),
        *(Version(since, applies_if=_one_type) for since in (19, 21)),
        *(Version(since) for since in (23, 24, 25, 28)),
    ),
    operands=("x", "y_scale", "y_zero_point"),
    oracle=oracle,
    lowerings=(by_division, by_element, with_zero_point),
    normal=_normal,
    adversarial=adversarial,
    # The integer that NaN becomes is unspecified.
    nan_defined=lambda what, operands: False,
    traits=Traits(scales=(1,), marks_quantization=True, landmarks=_ties, undefined=Undefined.QUANTIZED_NAN),
)
