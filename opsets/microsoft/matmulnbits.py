"""com.microsoft::MatMulNBits: a product with weights of 2, 4 or 8 bits, packed into bytes, in blocks of one scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MatMulNBits:
    """The sizes of the weights, N rows of K, in blocks of numbers of a few bits.

    `accuracy_level` permits kernels to round A before they multiply; results are compared with those of level 1.
    """

    K: int = 0
    N: int = 0
    accuracy_level: int = 0
    bits: int = 4
    block_size: int = 32
    weight_prepacked: int = 0

    @property
    def blocks(self) -> int:
        """How many blocks a row has."""
        return -(-self.K // self.block_size)

    @property
    def parts(self) -> int:
        """How many numbers a byte has."""
        return 8 // self.bits


def _unpacked(what: MatMulNBits, packed: Array) -> Array:
    """Return the numbers of each byte along a new axis, those of the low bits first."""
    shifts = np.arange(what.parts) * what.bits
    return np.asarray((packed[..., None].astype(np.int64) >> shifts) & (2**what.bits - 1))


def oracle(
    what: MatMulNBits,
    a: Array,
    b: Array,
    scales: Array,
    zeros: Array | None = None,
    index: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """MatMulNBits-1: the weights "are quantized with block_size", along K, and multiplied from the right.

    Zero points are packed as weights are, each row "padded to byte"; by default they are 2^(bits - 1). `g_idx` is the
    "group_idx" of each of the K columns: the block whose scale and zero point it has.
    """
    rows, blocks = what.N, what.blocks
    if not b.size:
        # "Y is filled with zeros (or the broadcast bias, if provided)."
        y = np.zeros((*a.shape[:-1], rows))
        return np.asarray(y if bias is None else y + bias).astype(a.dtype)
    weights = _unpacked(what, b.reshape(rows, blocks, -1)).reshape(rows, blocks, -1).astype(np.float64)
    if zeros is None:
        points = np.full((rows, blocks), 2.0 ** (what.bits - 1))
    elif zeros.dtype == np.uint8:
        points = _unpacked(what, zeros.reshape(rows, -1)).reshape(rows, -1)[:, :blocks].astype(np.float64)
    else:
        points = zeros.reshape(rows, blocks).astype(np.float64)
    group = np.arange(what.K) // what.block_size if index is None else index[: what.K]
    numbers = weights.reshape(rows, -1)[:, : what.K] - points[:, group]
    y = a.astype(np.float64) @ (numbers * scales.reshape(rows, blocks)[:, group].astype(np.float64)).T
    return np.asarray(y if bias is None else y + bias).astype(a.dtype)


def normal(what: MatMulNBits, operands: Operands) -> tuple[MatMulNBits, Operands]:
    """Leave out an index of groups that has the columns in their order."""
    index, points = operands[4], operands[3]
    held = None if index is None else index.known
    packed = points is not None and points.type == "tensor(uint8)"
    if (
        held is None
        or packed
        or what.bits != 4
        or not np.array_equal(held[: what.K], np.arange(what.K) // what.block_size)
    ):
        return what, operands
    return what, (*operands[:4], None, *operands[5:])


def _is_omitted(operands: Operands) -> bool:
    return 0 in ((operands[1] or Facts()).shape or ())


def _omitted(what: MatMulNBits, operands: Operands) -> Reason | None:
    if operands[5] is not None or what.weight_prepacked:
        return Reason("")
    return None if _is_omitted(operands) else Reason("")


def _known(what: MatMulNBits, operands: Operands) -> Reason | None:
    if what.bits not in (2, 4, 8):
        return Reason(f"weights of {what.bits} bits are not packed into bytes")
    if operands[2] is None or operands[2].dtype is None:
        return Reason("the element type of the scales is unknown", missing=True)
    if what.weight_prepacked:
        return Reason("the weights are laid out for one machine (weight_prepacked)")
    if _is_omitted(operands):
        return Reason("")
    return None if operands[4] is None else _grouped(what, operands)


def _grouped(what: MatMulNBits, operands: Operands) -> Reason | None:
    """Return why columns of any order cannot be scaled by their groups; onnxruntime 1.32.0 does so for 4 bits alone."""
    index, points = operands[4] or Facts(), operands[3]
    if what.bits != 4:
        return Reason(f"the CPU kernel takes no columns of {what.bits} bits in groups (g_idx)")
    if points is not None and points.type == "tensor(uint8)":
        return Reason("the CPU kernel ignores packed zero points of columns in groups (g_idx)")
    return Reason("the groups of the columns are computed (g_idx)") if index.known is None else None


def _form(bias: bool, zeros: str, grouped: bool | None = False) -> Callable[[MatMulNBits, Operands], Reason | None]:
    def applies_if(what: MatMulNBits, operands: Operands) -> Reason | None:
        if (operands[5] is not None) != bias or grouped not in (None, operands[4] is not None):
            return Reason("")
        if bias:
            return None if _is_omitted(operands) and not what.weight_prepacked else _known(what, operands)
        points = operands[3]
        if points is not None and points.dtype is None:
            return Reason("the element type of zero_points is unknown", missing=True)
        form = "none" if points is None else "packed" if points.type == "tensor(uint8)" else "float"
        return _known(what, operands) if form == zeros else Reason("")

    return applies_if


_NARROW = {2: TensorProto.UINT2, 4: TensorProto.UINT4, 8: TensorProto.UINT8}
"""The element types of numbers of so many bits, which DequantizeLinear reads: since opset 21, uint2 since 25."""


def _bind(what: MatMulNBits, operands: Operands) -> Mapping[str, Any]:
    held = (operands[4] or Facts()).known
    return {
        "bits": what.bits,
        "packed": (what.N, what.blocks, what.block_size * what.bits // 8, 1),
        "apart": (what.N, what.blocks, what.block_size),
        "each": (what.N, what.blocks, 1),
        "whole": (what.N, what.blocks * what.block_size),
        "most": (what.K,),
        "middle": float(2 ** (what.bits - 1)),
        "rows": (what.N, -(-what.blocks // what.parts), 1),
        "points": (what.N, -(-what.blocks // what.parts) * what.parts),
        "count": (what.blocks,),
        "to": operands[2].dtype if operands[2] else None,
        "held": TensorProto.UINT8,
        "narrow": _NARROW[what.bits],
        "block": what.block_size,
        "scale_each": (what.N, what.blocks),
        "center": 2 ** (what.bits - 1),
        "group": None if held is None else Tensor(np.asarray(held[: what.K], np.int64)),
    }


def _some(*names: str) -> Callable[[MatMulNBits, Operands], Mapping[str, Any]]:
    def bind(what: MatMulNBits, operands: Operands) -> Mapping[str, Any]:
        every = _bind(what, operands)
        return {name: every[name] for name in names}

    return bind


@lowering(18, applies_if=_form(True, "", None), rounds=True)
def with_bias(a, b, scales, zeros, index, bias):
    """Add the bias to the product."""
    return meaning.Same(a, b, scales, zeros, index) + bias


# What unpacks the weights at run time costs more than what DequantizeLinear reads as they are.
WIDE = 64.0


@lowering(18, applies_if=_form(False, "none", None), bind=_some("each", "middle"), cost=WIDE)
def with_middle(a, b, scales, zeros, index, bias, each: Sequence[int], middle: float):
    """Add the middle of the range as the zero point."""
    points = op.Expand(op.CastLike(middle, scales), each)
    return meaning.Same(a, b, scales, points, index)


@lowering(18, applies_if=_omitted, bind=lambda what, operands: {"count": (what.N,)})
def omitted(a, b, scales, zeros, index, bias, count: Sequence[int]):
    """Fill the output with zeros: weights without elements stand for a product that is left out."""
    return op.Expand(op.CastLike(0.0, a), op.Concat(op.Shape(a, end=-1), count, axis=0))


_BLOCKS = ("bits", "packed", "whole", "most", "scale_each", "held", "narrow", "block")


@lowering(21, applies_if=_form(False, "none"), bind=_some(*_BLOCKS, "center"), rounds=True)
def blocked_around_middle(
    a, b, scales, zeros, index, bias,
    bits: int, packed: Sequence[int], whole: Sequence[int], most: Sequence[int], scale_each: Sequence[int],
    held: int, narrow: int, block: int, center: int,
):  # fmt: skip
    """Dequantize the weights in blocks, whose zero points are the middle of the range, and multiply."""
    rows = op.Reshape(meaning.Unpacked(op.Reshape(b, packed), bits=bits, dtype=held), whole)
    columns = meaning.Cast(op.Transpose(op.Slice(rows, [0], most, [1]), perm=[1, 0]), to=narrow)
    each = op.Transpose(op.Reshape(scales, scale_each), perm=[1, 0])
    middle = meaning.Cast(op.Expand(op.Cast(center, to=held), op.Shape(each)), to=narrow)
    return op.MatMul(a, meaning.DequantizeLinear(columns, each, middle, axis=0, block_size=block))


@lowering(21, applies_if=_form(False, "packed"), bind=_some(*_BLOCKS, "rows", "points", "count"), rounds=True)
def blocked(
    a, b, scales, zeros, index, bias,
    bits: int, packed: Sequence[int], whole: Sequence[int], most: Sequence[int], scale_each: Sequence[int],
    held: int, narrow: int, block: int, rows: Sequence[int], points: Sequence[int], count: Sequence[int],
):  # fmt: skip
    """Dequantize the weights in blocks, each of a zero point, and multiply."""
    numbers = op.Reshape(meaning.Unpacked(op.Reshape(b, packed), bits=bits, dtype=held), whole)
    columns = meaning.Cast(op.Transpose(op.Slice(numbers, [0], most, [1]), perm=[1, 0]), to=narrow)
    each = op.Transpose(op.Reshape(scales, scale_each), perm=[1, 0])
    every = op.Reshape(meaning.Unpacked(op.Reshape(zeros, rows), bits=bits, dtype=held), points)
    centers = meaning.Cast(op.Transpose(op.Slice(every, [0], count, [1]), perm=[1, 0]), to=narrow)
    return op.MatMul(a, meaning.DequantizeLinear(columns, each, centers, axis=0, block_size=block))


_UNPACK = _some("bits", "rows", "points", "count", "to")


@lowering(18, applies_if=_form(False, "packed", None), bind=_UNPACK, cost=WIDE)
def with_packed(
    a, b, scales, zeros, index, bias,
    bits: int, rows: Sequence[int], points: Sequence[int], count: Sequence[int], to: int,
):  # fmt: skip
    """Unpack the zero points."""
    every = op.Reshape(meaning.Unpacked(op.Reshape(zeros, rows), bits=bits, dtype=to), points)
    return meaning.Same(a, b, scales, op.Slice(every, [0], count, [1]))


@lowering(
    18,
    applies_if=_form(False, "float"),
    bind=_some("bits", "packed", "apart", "each", "whole", "most", "to"),
    rounds=True,
)
def unpacked(
    a, b, scales, zeros, index, bias,
    bits: int, packed: Sequence[int], apart: Sequence[int], each: Sequence[int], whole: Sequence[int],
    most: Sequence[int], to: int,
):  # fmt: skip
    """Unpack the weights, subtract the zero points, scale, and multiply."""
    numbers = meaning.Unpacked(op.Reshape(b, packed), bits=bits, dtype=to)
    centered = op.Reshape(numbers, apart) - op.Reshape(zeros, each)
    weights = op.Slice(op.Reshape(centered * op.Reshape(scales, each), whole), [0], most, [1])
    return op.MatMul(a, op.Transpose(weights, perm=[1, 0]))


@lowering(
    18,
    applies_if=_form(False, "float", True),
    bind=_some("bits", "packed", "whole", "most", "scale_each", "to", "group"),
    rounds=True,
)
def grouped(
    a, b, scales, zeros, index, bias,
    bits: int, packed: Sequence[int], whole: Sequence[int], most: Sequence[int], scale_each: Sequence[int],
    to: int, group: Sequence[int],
):  # fmt: skip
    """Unpack the weights, subtract the zero point of each column's group, scale, and multiply."""
    every = op.Reshape(meaning.Unpacked(op.Reshape(b, packed), bits=bits, dtype=to), whole)
    numbers = op.Slice(every, [0], most, [1])
    points = op.Gather(op.Reshape(zeros, scale_each), group, axis=1)
    weights = (numbers - points) * op.Gather(op.Reshape(scales, scale_each), group, axis=1)
    return op.MatMul(a, op.Transpose(weights, perm=[1, 0]))


OPERATOR = Operator(
    name="MatMulNBits",
    domain=MICROSOFT,
    meaning=MatMulNBits,
    versions=(Version(1),),
    operands=("A", "B", "scales", "zero_points", "g_idx", "bias"),
    oracle=oracle,
    normal=normal,
    lowerings=(with_bias, omitted, blocked_around_middle, blocked, with_middle, with_packed, unpacked, grouped),
    refused=(
        "`g_idx` that is computed, or beside packed zero points, or of other than 4 bits; `weight_prepacked`; "
        "bits other than 2, 4 and 8"
    ),
    traits=Traits(floats=(Trait.SUMS,), factors=3, packed_weights=(1, 2, 3)),
)
