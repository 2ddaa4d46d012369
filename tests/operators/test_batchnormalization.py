"""BatchNormalization: inference and training, of channels and of each element, in every type and rank."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from onnx.parser import parse_model

import opshift
from operators.harness import F32, F64, Array, Case, Code, Refused, Table
from opshift.opsets.operators import batchnormalization
from opshift.opsets.operators.batchnormalization import BatchNormalization

RNG = np.random.default_rng(7)
IMAGE = RNG.normal(size=(3, 4, 2, 5)).astype(F32)


def statistics(*shape: int) -> list[Array]:
    mean, scale, bias = (RNG.normal(size=shape).astype(F32) for _ in range(3))
    return [scale, bias, mean, RNG.uniform(0.1, 3, shape).astype(F32)]


def case(name: str, x: Array, what: Any = None, each: list[Array] | None = None, **more: Any) -> Case:
    each = statistics(x.shape[1]) if each is None else each
    return Case(name, [x, *each], what, **more)


MIXED = [one.astype(dtype) for one, dtype in zip(statistics(4), (F32, F32, F64, F64), strict=True)]
TRAINING = BatchNormalization(training_mode=1, running=1)


class TestBatchNormalization(Table):
    operator = batchnormalization.OPERATOR
    tolerance = 2e-6
    cases = (
        case("image", IMAGE),
        case("epsilon", IMAGE, BatchNormalization(epsilon=0.5)),
        case("matrix", IMAGE[:, :, 0, 0]),
        case("sequence", IMAGE[:, :, 0]),
        case("volume", IMAGE[:, :, None]),
        case("no samples", IMAGE[:0]),
        case("double", IMAGE.astype(F64), each=[one.astype(F64) for one in statistics(4)]),
        case("each element", IMAGE, BatchNormalization(spatial=0), statistics(4, 2, 5)),
        case("each element of a row", IMAGE[0, 0], BatchNormalization(spatial=0), statistics(5)),
        case("statistics in double", IMAGE, each=MIXED),
        case("all in float but the scale", IMAGE, each=[MIXED[2], *MIXED[1:2] * 3]),
        case("training", IMAGE, TRAINING),
        case("training, momentum", IMAGE, dataclasses.replace(TRAINING, momentum=0.25)),
        case("training, double", IMAGE.astype(F64), TRAINING, [one.astype(F64) for one in statistics(4)]),
    )
    refusals = (
        Refused(
            '<ir_version: 8, opset_import: ["": 9]>'
            "g (float[2,3] x, float[3] s) => (float[2,3] y, float[3] v)"
            " { y, m, n, o, v = BatchNormalization(x, s, s, s, s) }",
            Code.NO_LOWERING,
            "does not give the mean and variance that training saves",
            {"opset": 14},
        ),
        Refused(
            '<ir_version: 8, opset_import: ["": 15, "own": 1]>'
            "g (float[2,3] x, float16[3] h, float[3] s) => (float[2,3] y) { y = own.f(x, h, s) }"
            '<domain: "own", opset_import: ["": 15]> f (x, h, s) => (y) { y = BatchNormalization(x, h, h, s, s) }',
            Code.MISSING_FACT,
            "it has one element type",
            {"target": "opencv-4"},
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["n,4", "n,4,d", "2,4,h,w"])
def test_training_is_verified_where_a_batch_may_be_empty(dims: str) -> None:
    """ReduceMean-18: "Reduction over an empty set of values yields undefined"."""
    each = ", ".join(f"float[4] {name}" for name in "sbmv")
    model = parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[{dims}] x, {each}) => (float[{dims}] y, float[4] p, float[4] q) {{
            y, p, q = BatchNormalization <training_mode = 1> (x, s, b, m, v)
        }}""")
    result = opshift.convert(model, decompose=["BatchNormalization"])
    assert result.report is not None
    assert result.report.verdict == "equal"
