"""BitCast: every bit pattern of 16 bits, and those at the ends of what wider types hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from operators.harness import BF16, F16, F32, F64, Array, Case, Code, Refused, Table
from opshift.opsets.operators import bitcast
from opshift.opsets.operators.bitcast import BitCast

RNG = np.random.default_rng(0)
EVERY = np.arange(2**16, dtype=np.uint16)


def numbers(dtype: Any) -> Array:
    """Floats that are no NaN: zeros, infinities, the least and the largest, powers of two with their neighbours."""
    width = np.dtype(dtype).itemsize
    unsigned = {2: np.uint16, 4: np.uint32, 8: np.uint64}[width]
    ends = np.concatenate([np.arange(300), 2 ** (8 * width - 1) - 1 - np.arange(300), RNG.integers(0, 2**62, 4000)])
    fraction = {F16: 10, BF16: 7, F32: 23, F64: 52}[dtype]
    powers = (np.arange(2 ** (8 * width - 1 - fraction)) << fraction).astype(np.uint64)
    bits = np.concatenate([ends.astype(np.uint64), powers, powers + np.uint64(1), powers - np.uint64(1)]).astype(
        unsigned
    )
    both = np.concatenate([bits, bits | unsigned(1 << (8 * width - 1))]).view(dtype)
    kept: Array = both[~np.isnan(both)]
    return kept


def bits_of(array: Array) -> Array:
    return array.view({2: np.int16, 4: np.int32, 8: np.int64}[array.itemsize])


class TestBitCast(Table):
    operator = bitcast.OPERATOR
    cases = (
        Case("float16", [EVERY[~np.isnan(EVERY.view(F16))].view(F16)], BitCast(TensorProto.INT16), least=26),
        Case("float16, unsigned", [EVERY[~np.isnan(EVERY.view(F16))].view(F16)], BitCast(TensorProto.UINT16), least=26),
        Case("bfloat16", [numbers(BF16)], BitCast(TensorProto.INT16), least=26),
        Case("float", [numbers(F32)], BitCast(TensorProto.INT32), least=26),
        Case("float, unsigned", [numbers(F32)], BitCast(TensorProto.UINT32), least=26),
        Case("double", [numbers(F64)], BitCast(TensorProto.INT64), least=26),
        Case("double, unsigned", [numbers(F64)], BitCast(TensorProto.UINT64), least=26),
        Case("to float16", [EVERY], BitCast(TensorProto.FLOAT16)),
        Case("to bfloat16", [EVERY], BitCast(TensorProto.BFLOAT16), least=13),
        Case("to float", [bits_of(numbers(F32))], BitCast(TensorProto.FLOAT)),
        Case("to float, unsigned", [bits_of(numbers(F32)).view(np.uint32)], BitCast(TensorProto.FLOAT)),
        Case("to double", [bits_of(numbers(F64))], BitCast(TensorProto.DOUBLE)),
        Case("to double, unsigned", [bits_of(numbers(F64)).view(np.uint64)], BitCast(TensorProto.DOUBLE)),
        Case("to NaN", [np.array([2**31 - 1, -1, 0x7FC00000, 0x7F800001], np.int32)], BitCast(TensorProto.FLOAT)),
        Case("between floats", [numbers(F16)], BitCast(TensorProto.BFLOAT16), least=26),
        Case("signed", [EVERY.reshape(2, -1)], BitCast(TensorProto.INT16)),
        Case("unsigned", [np.arange(-128, 128).astype(np.int8)], BitCast(TensorProto.UINT8)),
        Case("64 bits", [np.array([-1, 0, -(2**63), 2**63 - 1])], BitCast(TensorProto.UINT64)),
        Case("of bool", [np.array([True, False])], BitCast(TensorProto.UINT8)),
        Case("scalar", [np.array(1.5, F32)], BitCast(TensorProto.INT32), least=26),
        Case("nothing", [np.zeros((0, 2), F32)], BitCast(TensorProto.INT32), least=26),
    )
    refusals = (
        Refused(
            '<ir_version: 13, opset_import: ["": 26]> g (float[n] x) => (int32[n] y) { y = BitCast <to=6> (x) }',
            Code.ASSUMPTION,
            "nan",
            {"opset": 18},
        ),
        Refused(
            '<ir_version: 13, opset_import: ["": 26]> g (complex64[n] x) => (int64[n] y) { y = BitCast <to=7> (x) }',
            Code.ABSENT_OPERATOR,
            "does not cast complex64 to int64",
            {"opset": 18},
        ),
    )
