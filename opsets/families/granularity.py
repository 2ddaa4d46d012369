"""Handle scales of QuantizeLinear and DequantizeLinear: one for all, one per index of an axis, or one per block."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first, resolve
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands

RANGES: Mapping[int, tuple[int, int]] = {
    TensorProto.UINT8: (0, 255),
    TensorProto.INT8: (-128, 127),
    TensorProto.UINT16: (0, 65535),
    TensorProto.INT16: (-32768, 32767),
}
"""The ranges of the quantized types that older opsets can compute with."""

ENDS: Mapping[int, tuple[int, int]] = {
    **RANGES,
    TensorProto.UINT4: (0, 15),
    TensorProto.INT4: (-8, 7),
    TensorProto.UINT2: (0, 3),
    TensorProto.INT2: (-2, 1),
}
"""The ranges of all quantized integer types: QuantizeLinear-25, "Saturation is done according to"."""


def scale(operands: Operands) -> Facts:
    """Return the facts about the scale."""
    return operands[1] or Facts()


def normal(meaning: Any, operands: Operands) -> tuple[Any, Operands]:
    """Remove the axis if there is a single scale, which ignores it; otherwise count it from the front if possible."""
    if scale(operands).rank == 0:
        return dataclasses.replace(meaning, axis=1, block_size=0), operands
    return dataclasses.replace(meaning, axis=resolve(meaning.axis, first(operands).rank)), operands


def one_for_all(meaning: Any, operands: Operands) -> Reason | None:
    """QuantizeLinear-10: the scale is "a scalar, which means a per-tensor/layer quantization"."""
    rank = scale(operands).rank
    if rank is None:
        return Reason("the rank of the scale is unknown, and it takes a scalar only", missing=True)
    return Reason("it takes one scale for all only") if rank else None


def spread(meaning: Any, operands: Operands) -> Reason | None:
    """Require facts for reshaping the scale so that it broadcasts; blocks are split before."""
    rank = scale(operands).rank
    if rank is None:
        return Reason("the rank of the scale is unknown", missing=True)
    if rank and first(operands).rank is None:
        return Reason("the rank is unknown", missing=True)
    return Reason("a scale is for a block") if meaning.block_size > 1 else None


def shape(meaning: Any, operands: Operands) -> Tensor:
    """Return the shape in which a scale broadcasts."""
    rank = scale(operands).rank or 0
    along = (-1, *[1] * ((first(operands).rank or 0) - meaning.axis - 1))
    return Tensor(np.array((0,) * rank if meaning.block_size or not rank else along, np.int64))


def in_blocks(meaning: Any, operands: Operands) -> Reason | None:
    """Require one scale per block, along an axis of known length."""
    if meaning.block_size < 2:
        return Reason("no scale is for a block")
    if isinstance(first(operands).dim(meaning.axis), int):
        return None
    return Reason("the length of the axis is unknown", missing=True)


def block_of_each(meaning: Any, operands: Operands) -> Mapping[str, Any]:
    """Bind the block of each index along the axis."""
    length = first(operands).dim(meaning.axis)
    count = length if isinstance(length, int) else 0
    return {"axis": meaning.axis, "blocks": tuple(place // meaning.block_size for place in range(count))}


def check_shapes(
    meaning: Any,
    data: np.ndarray[Any, Any],
    scale: np.ndarray[Any, Any],
    zero: np.ndarray[Any, Any] | None,
) -> None:
    """Check the shapes of the inputs for an oracle. QuantizeLinear-21 and DequantizeLinear-21 have the rules.

    Raises:
        ValueError: the scale is not a single one, one per index of the axis, or one per block along it; or the zero
            point has another shape.
    """
    if zero is not None and zero.shape != scale.shape and (zero.size, scale.size) != (1, 1):
        raise ValueError(f"the zero point has shape {list(zero.shape)}, and the scale {list(scale.shape)}")
    if not scale.ndim or (scale.shape == (1,) and not meaning.block_size):
        return
    length = data.shape[meaning.axis]
    if meaning.block_size:
        wanted = [*data.shape]
        wanted[meaning.axis] = -(-length // meaning.block_size)
    else:
        wanted = [length]
    if list(scale.shape) != wanted:
        raise ValueError(f"the scale has shape {list(scale.shape)}, and must have {wanted}")


def expanded(meaning: Any, array: np.ndarray[Any, Any], data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return scales or zero points, for an oracle, in a shape that broadcasts to the data."""
    if meaning.block_size:
        return array.repeat(meaning.block_size, meaning.axis).take(range(data.shape[meaning.axis]), meaning.axis)
    return array.reshape(-1, *[1] * (data.ndim - meaning.axis % data.ndim - 1)) if array.ndim else array
