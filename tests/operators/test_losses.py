"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import F32, F64, Array, Case, Table
from opshift.opsets.operators import negativeloglikelihoodloss, softmaxcrossentropyloss
from opshift.opsets.operators.negativeloglikelihoodloss import Loss

RNG = np.random.default_rng(5)
ROW = RNG.normal(-2, 1, (4, 3)).astype(F32)
IMAGE = RNG.normal(-2, 1, (2, 3, 2, 4)).astype(F32)
WEIGHT = np.array([0.5, 2, 0.25], F32)


def classes(*shape: int, ignored: int | None = None) -> Array:
    """Return targets of three classes, every third of them to be ignored."""
    drawn = RNG.integers(0, 3, shape)
    if ignored is not None:
        drawn.reshape(-1)[::3] = ignored
    return drawn


CASES = (
    Case("mean", [ROW, classes(4), None], Loss()),
    Case("mean, weighted", [ROW, classes(4), WEIGHT], Loss()),
    Case("sum", [ROW, classes(4), WEIGHT], Loss(reduction="sum")),
    Case("one by one", [ROW, classes(4), None], Loss(reduction="none")),
    Case("image", [IMAGE, classes(2, 2, 4), WEIGHT], Loss(reduction="none")),
    Case("int32", [IMAGE, classes(2, 2, 4).astype(np.int32), None], Loss()),
    Case("ignored, mean", [IMAGE, classes(2, 2, 4, ignored=-1), None], Loss(-1)),
    Case("ignored, weighted mean", [IMAGE, classes(2, 2, 4, ignored=255), WEIGHT], Loss(255)),
    Case("ignored, sum", [ROW, classes(4, ignored=1), WEIGHT], Loss(1, "sum")),
    Case("ignored, one by one", [IMAGE, classes(2, 2, 4, ignored=0), None], Loss(0, "none")),
    Case("double", [ROW.astype(F64), classes(4, ignored=2), WEIGHT.astype(F64)], Loss(2)),
)


class TestNegativeLogLikelihoodLoss(Table):
    operator = negativeloglikelihoodloss.OPERATOR
    cases = CASES
    tolerance = 1e-6


class TestSoftmaxCrossEntropyLoss(Table):
    operator = softmaxcrossentropyloss.OPERATOR
    cases = CASES
    tolerance = 2e-6


LIKELIHOOD = "y = NegativeLogLikelihoodLoss <ignore_index = 1> (x, t, w)"
ENTROPY = "y, z = SoftmaxCrossEntropyLoss <ignore_index = 1> (x, t, w)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "dtype", "opsets"),
    [
        (LIKELIHOOD, "bfloat16", (18, 13)),
        (LIKELIHOOD, "float16", (18, 11)),
        (LIKELIHOOD, "double", (18, 11)),
        # onnxruntime 1.31.1 loads no SoftmaxCrossEntropyLoss of bfloat16 where NegativeLogLikelihoodLoss takes none.
        (ENTROPY, "float16", (18, 11)),
        (ENTROPY, "double", (18, 11)),
    ],
)
def test_types_that_onnxruntime_has_no_kernels_for_are_proven(node: str, dtype: str, opsets: tuple[int, ...]) -> None:
    text = f"g ({dtype}[4,3,2] x, int64[4,2] t, {dtype}[3] w) => ({dtype} y) {{ {node} }}"
    model = parse_model(f'<ir_version: 10, opset_import: ["": 22]> {text}')
    for opset in opsets:
        result = opshift.convert(model, opset=opset)
        assert result.report is not None
        assert [check.verdict for check in result.report.nodes] in ([], ["equal"]), opset
