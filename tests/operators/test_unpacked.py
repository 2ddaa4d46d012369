"""Unpacked: the numbers of 2, 4 and 8 bits that bytes hold."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from operators.harness import Case, Table, arr
from opshift.opsets.microsoft import unpacked
from opshift.opsets.microsoft.unpacked import Unpacked

EVERY = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)


class TestUnpacked(Table):
    operator = unpacked.OPERATOR
    cases = (
        *(Case(f"every byte of {bits} bits", [EVERY], Unpacked(bits)) for bits in (2, 4, 8)),
        Case("float16", [EVERY], Unpacked(4, TensorProto.FLOAT16)),
        Case("double", [EVERY], Unpacked(2, TensorProto.DOUBLE)),
        *(Case(f"bytes of {bits} bits", [EVERY], Unpacked(bits, TensorProto.UINT8)) for bits in (2, 4, 8)),
        Case("constant", [EVERY], Unpacked(4), known=(0,)),
        Case("none", [arr(np.zeros((0, 1)), np.uint8)], Unpacked(4)),
    )
