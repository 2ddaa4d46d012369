"""com.microsoft::MatMulBnb4: a product with weights of 4 bits, which index a table, in blocks of one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]

_SIZES = (0, 5.208333333e-3, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25)
_FLOATS_OF_4_BITS = np.array([*_SIZES, *(-size for size in _SIZES)], np.float32)
# As onnxruntime 1.32.0 multiplies them: the levels of the type NF4, from the least to the largest.
_NORMAL_FLOATS = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)
TABLES = (_FLOATS_OF_4_BITS, _NORMAL_FLOATS)


@dataclass(frozen=True)
class MatMulBnb4:
    """The sizes of the weights, N rows of K, in blocks of all elements in a row; the type: FP4 is 0, NF4 is 1."""

    K: int = 0
    N: int = 0
    block_size: int = 0
    quant_type: int = 0
    training_mode: int = 0
    transB: int = 1  # noqa: N815


def oracle(what: MatMulBnb4, a: Array, b: Array, scales: Array) -> Array:
    """MatMulBnb4-1: "2 quantized data are packed into 1 byte", the first one in the high bits; `absmax` by block."""
    numbers = np.stack([b >> 4, b & 15], axis=-1).ravel()[: what.N * what.K]
    sizes = np.repeat(scales.astype(np.float64), what.block_size)[: what.N * what.K]
    weights = TABLES[what.quant_type][numbers] * sizes
    return np.asarray(a.astype(np.float64) @ weights.reshape(what.N, what.K).T).astype(a.dtype)


def _known(what: MatMulBnb4, operands: Operands) -> Reason | None:
    if not what.transB:
        return Reason("weights that are not transposed (transB) run nowhere")
    if what.quant_type not in (0, 1):
        return Reason(f"no type has the number {what.quant_type} (quant_type)")
    if what.block_size < 1:
        return Reason("it has no block_size")
    return Reason("the element type is unknown", missing=True) if first(operands).dtype is None else None


def _bind(what: MatMulBnb4, operands: Operands) -> Mapping[str, Any]:
    dtype, count = first(operands).dtype or TensorProto.FLOAT, what.N * what.K
    table = TABLES[what.quant_type].astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    blocks = -(-count // what.block_size)
    return {
        "table": Tensor(table),
        "most": (count,),
        "each": (blocks, 1),
        "wide": (blocks, what.block_size),
        "shape": (what.N, what.K),
        "row": (-1,),
    }


@lowering(18, applies_if=_known, bind=_bind, rounds=True)
def looked_up(
    a, b, scales,
    table: Sequence[int], most: Sequence[int], each: Sequence[int], wide: Sequence[int], shape: Sequence[int],
    row: Sequence[int],
):  # fmt: skip
    """Unpack the indices, look up the weights, scale each block, and multiply."""
    packed = op.Cast(op.Reshape(b, [-1, 1]), to=6)
    high = packed / 16
    indices = op.Slice(op.Reshape(op.Concat(high, packed - high * 16, axis=1), row), [0], most)
    sizes = op.Slice(op.Reshape(op.Expand(op.Reshape(scales, each), wide), row), [0], most)
    weights = op.Reshape(op.Gather(table, indices) * sizes, shape)
    return op.MatMul(a, op.Transpose(weights, perm=[1, 0]))


OPERATOR = Operator(
    name="MatMulBnb4",
    domain=MICROSOFT,
    meaning=MatMulBnb4,
    versions=(Version(1),),
    operands=("A", "B", "absmax"),
    oracle=oracle,
    lowerings=(looked_up,),
    refused="weights that are not transposed (`transB`)",
    traits=Traits(floats=(Trait.SUMS,), factors=3, packed_weights=(1, 2)),
)
