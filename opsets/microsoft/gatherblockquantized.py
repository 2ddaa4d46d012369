"""com.microsoft::GatherBlockQuantized: rows of a table of few bits, in blocks of one scale, as floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first, resolve
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GatherBlockQuantized:
    """The bits of a number, how many share a scale, along which axis they do, and which one is indexed."""

    bits: int = 4
    block_size: int = 128
    gather_axis: int = 0
    quantize_axis: int = 1


def _unpacked(what: GatherBlockQuantized, packed: Array) -> Array:
    if packed.dtype != np.uint8:
        return packed.astype(np.int64)
    numbers = (packed[..., None].astype(np.int64) >> np.arange(0, 8, what.bits)) & (2**what.bits - 1)
    return np.asarray(numbers.reshape(*packed.shape[:-1], packed.shape[-1] * (8 // what.bits)))


def oracle(what: GatherBlockQuantized, data: Array, indices: Array, scales: Array, zeros: Array | None = None) -> Array:
    """GatherBlockQuantized-1: "a Gather with data quantized", "block-wise quantization" along an axis.

    Of bytes the numbers of low bits come first, and zero points are by default the middle of their range.
    """
    axis = what.quantize_axis % data.ndim
    numbers = _unpacked(what, data)
    block = np.arange(numbers.shape[axis]) // what.block_size
    points: Array | int = 2 ** (what.bits - 1) if data.dtype == np.uint8 else 0
    if zeros is not None:
        points = np.take(_unpacked(what, zeros), block, axis=axis)
    weights = (numbers - points) * np.take(scales, block, axis=axis).astype(np.float64)
    return np.asarray(np.take(weights, indices, axis=what.gather_axis).astype(scales.dtype))


_NIBBLES = (TensorProto.INT4, TensorProto.UINT4)


def _known(what: GatherBlockQuantized, operands: Operands) -> Reason | None:
    data = first(operands)
    if data.dtype is None or data.rank is None:
        return Reason("the element type or the rank of the data is unknown", missing=True)
    if data.dtype in _NIBBLES:
        return None
    if data.dtype != TensorProto.UINT8 or what.bits not in (2, 4, 8):
        return Reason("the data are floats of few bits")
    if resolve(what.gather_axis, data.rank) != 0 or resolve(what.quantize_axis, data.rank) != data.rank - 1:
        return Reason("of bytes the first axis is indexed, and the last one has blocks")
    if not isinstance(data.dim(-1), int) or (operands[2] or Facts()).dtype is None:
        return Reason("the length of the last axis or the type of the scales is unknown", missing=True)
    return None


def _form(nibbles: bool, zeros: bool) -> Callable[[GatherBlockQuantized, Operands], Reason | None]:
    def applies_if(what: GatherBlockQuantized, operands: Operands) -> Reason | None:
        if reason := _known(what, operands):
            return reason
        if nibbles != (first(operands).dtype in _NIBBLES):
            return Reason("")
        return None if nibbles or zeros == (operands[3] is not None) else Reason("")

    return applies_if


def _whole(what: GatherBlockQuantized, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.quantize_axis, "size": what.block_size, "along": what.gather_axis}


@lowering(21, applies_if=_form(True, False), bind=_whole, rounds=True)
def of_nibbles(data, indices, scales, zeros, axis: int, size: int, along: int):
    """Dequantize the table, and gather from it."""
    return op.Gather(meaning.DequantizeLinear(data, scales, zeros, axis=axis, block_size=size), indices, axis=along)


def _bind(what: GatherBlockQuantized, operands: Operands) -> Mapping[str, Any]:
    width = first(operands).dim(-1)
    length = bounded((width if isinstance(width, int) else 0) * 8 // what.bits)
    return {
        "bits": what.bits,
        "to": (operands[2] or Facts()).dtype,
        "count": (length,),
        "block": Tensor(np.arange(length) // what.block_size),
    }


@lowering(
    18,
    applies_if=_form(False, False),
    bind=lambda what, operands: {**_bind(what, operands), "middle": float(2 ** (what.bits - 1))},
    rounds=True,
)
def from_the_middle(
    data, indices, scales, zeros, bits: int, to: int, count: Sequence[int], block: Sequence[int], middle: float
):
    """Gather rows, unpack them, subtract the middle of their range, and scale."""
    rows = op.Gather(data, indices, axis=0)
    numbers = op.Reshape(
        meaning.Unpacked(op.Unsqueeze(rows, [-1]), bits=bits, dtype=to),
        op.Concat(op.Shape(rows, end=-1), count, axis=0),
    )
    each = op.Gather(op.Gather(scales, indices, axis=0), block, axis=-1)
    return (numbers - op.CastLike(middle, scales)) * each


@lowering(18, applies_if=_form(False, True), bind=_bind, rounds=True)
def from_zero_points(data, indices, scales, zeros, bits: int, to: int, count: Sequence[int], block: Sequence[int]):
    """Gather rows, unpack them, subtract their zero points, and scale."""
    rows = op.Gather(data, indices, axis=0)
    numbers = op.Reshape(
        meaning.Unpacked(op.Unsqueeze(rows, [-1]), bits=bits, dtype=to),
        op.Concat(op.Shape(rows, end=-1), count, axis=0),
    )
    packed = op.Gather(zeros, indices, axis=0)
    points = op.Reshape(
        meaning.Unpacked(op.Unsqueeze(packed, [-1]), bits=bits, dtype=to),
        op.Concat(op.Shape(packed, end=-1), [-1], axis=0),
    )
    each = op.Gather(op.Gather(scales, indices, axis=0), block, axis=-1)
    return (numbers - op.Gather(points, block, axis=-1)) * each


OPERATOR = Operator(
    name="GatherBlockQuantized",
    domain=MICROSOFT,
    meaning=GatherBlockQuantized,
    versions=(Version(1),),
    operands=("data", "indices", "scales", "zero_points"),
    oracle=oracle,
    lowerings=(of_nibbles, from_the_middle, from_zero_points),
    refused="floats of 8 and 4 bits; int4 and uint4 below opset 21",
    traits=Traits(floats=(Trait.MULTIPLIES,), indices={1: AlongAxis(axis="gather_axis")}),
)
