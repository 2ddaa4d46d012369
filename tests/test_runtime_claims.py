"""No false claims: what `opshift where` claims of ONNX's node tests, of some operators, is true in real runtimes.

`python benchmarks/runtime_claims.py` tries all operators, and the cases of tests/operators too.
"""

from __future__ import annotations

import os

import pytest
from claims import Claims, held, node_models
from runtimes import version

pytestmark = pytest.mark.slow

OPERATORS = {
    "mnn": (
        *("AveragePool", "GatherElements", "GatherND", "GlobalAveragePool", "LogSoftmax", "MatMul", "Max", "MaxPool"),
        *("Min", "Mod", "Pad", "Pow", "PRelu", "ReduceL2", "ReduceSum", "Resize", "ScatterElements", "ScatterND"),
        *("Slice", "Softplus", "TopK", "Unique"),
    ),
    "opencv-4": (
        *("AveragePool", "Expand", "GlobalAveragePool", "MaxPool", "Pad", "ReduceSumSquare", "Reshape", "Slice"),
        *("Softplus", "Split", "Squeeze", "Tile", "TopK", "Unsqueeze"),
    ),
    "onnxruntime-web": (
        *("Acos", "BitCast", "BitShift", "Cast", "Hardmax", "Loop", "OneHot", "Resize", "Scan", "SequenceMap"),
        *("StringNormalizer", "TopK", "Unique", "Where"),
    ),
    "tract": (
        *("ConstantOfShape", "CumSum", "DequantizeLinear", "Expand", "GatherND", "LSTM", "Mod", "OneHot", "Pad", "Pow"),
        *("ReduceSum", "Reshape", "Slice", "Split"),
    ),
    "webgpu": ("ArgMax", "Gelu", "Hardmax", "OneHot", "ReduceSumSquare", "Sign"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_claimed_to_run_runs_right(name: str) -> None:
    if version(name) is None:
        if os.environ.get("OPSHIFT_RUNTIMES") == "1":
            pytest.fail(f"not installed: {name}")
        pytest.skip(f"not installed: {name}")
    claims = Claims(name, refused=False)
    found = []
    try:
        for one in node_models(claims.target.opset[1], OPERATORS[name]):
            found += [claims.check(form) for form in (one, held(one)) if form is not None and form.ordinary]
    finally:
        claims.close()
    checked = [one for one in found if one is not None]
    assert not [f"{one.claim}: {one.node}: {one.outcome}, {one.detail}" for one in checked if one.false]
    assert {one.claim for one in checked if one.outcome == "right"} == {"runs", "converts"}
