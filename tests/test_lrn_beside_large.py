"""LRN of large elements next to small ones, of which onnxruntime 1.32.0 subtracts squares that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from opshift.opsets.operators import lrn
from opshift.opsets.operators.lrn import LRN

LARGE = np.array([1, 1, 1e5, 1, 1, 1], np.float32).reshape(1, 6, 1, 1)
TEXT = '<ir_version: 8, opset_import: ["": 13]> g (float[1,6,1,1] x) => (float[1,6,1,1] y) { y = LRN <%s> (x) }'


@pytest.mark.slow
def test_decomposition_is_right_where_the_kernel_is_not() -> None:
    original = parse_model(TEXT % "size = 3, alpha = 1.0")
    (kernel,) = run(original, [{"x": LARGE}])[0]
    assert not np.isfinite(kernel).all()
    result = opshift.convert(original, decompose=["LRN"])
    (found,) = run(result.rewritten, [{"x": LARGE}])[0]
    np.testing.assert_allclose(found, lrn.oracle(LRN(1.0, 0.75, 1.0, 3), LARGE), rtol=1e-6)


def test_a_folded_constant_is_the_kernels() -> None:
    numbers = "{-2.4791918, 0.028092515, -3.4476497, 0.77482736, -2.5926878, 2.804618}"
    original = parse_model(
        '<ir_version: 8, opset_import: ["": 13]> g () => (float[1,3,1,2] y) '
        f"{{ c = Constant <value: tensor = float[1,3,1,2] {numbers}> () y = LRN <size = 5> (c) }}"
    )
    result = opshift.convert(original, fold=True)
    assert run(original, [{}])[0][0].tobytes() == run(result.rewritten, [{}])[0][0].tobytes()
