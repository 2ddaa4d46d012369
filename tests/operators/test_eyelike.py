"""EyeLike: every diagonal of wide, high and empty matrices, every element type."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import BF16, F16, F32, F64, Case, Table, converted
from opshift.opsets.operators import eyelike
from opshift.opsets.operators.eyelike import EyeLike

TYPES = [np.dtype(one) for one in (F16, F32, F64, np.bool_)]
TYPES += [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]


class TestEyeLike(Table):
    operator = eyelike.OPERATOR
    cases = (
        *(Case(f"diagonal {k}", [np.zeros((3, 4), F32)], EyeLike(k=k)) for k in (-9, -2, -1, 0, 1, 3, 4)),
        *(Case(f"{shape}", [np.ones(shape, F32)]) for shape in ((4, 2), (1, 1), (0, 3), (3, 0))),
        *(Case(f"of {one}", [np.ones((2, 3), one)], EyeLike(k=1)) for one in TYPES),
        *(Case(f"float to {to}", [np.ones((2, 3), F32)], EyeLike(to)) for to in (6, 7, 9, 10, 11)),
        Case("of bfloat16", [np.ones((2, 3), BF16)], least=13),
        Case("to bfloat16", [np.ones((2, 3), F32)], EyeLike(16, -1), least=13),
        Case("of bfloat16, to float", [np.ones((3, 3), BF16)], EyeLike(1), least=13),
    )


def test_the_input_is_a_matrix() -> None:
    with pytest.raises(ValueError, match="rank 3"):
        eyelike.oracle(EyeLike(), np.zeros((2, 2, 2), F32))
    text = '<ir_version: 4, opset_import: ["": 9]> g (float[2,3,4] x) => (float[a,b] y) { y = EyeLike (x) }'
    with pytest.raises(opshift.InvalidModelError, match="2-dim"):
        opshift.convert(parse_model(text), opset=8)


def test_a_matrix_of_unknown_size_is_made_in_two_nodes() -> None:
    graph = "g (float[a,b] x) => (bfloat16[a,b] y) { y = EyeLike <dtype = 16> (x) }"
    text = f'<ir_version: 10, opset_import: ["": 22]> {graph}'
    found = converted(parse_model(text), opset=21)
    assert [node.op_type for node in found.graph.node] == ["EyeLike", "Cast"]
