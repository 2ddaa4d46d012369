"""A Scan that runs node by node: as onnxruntime runs it, whatever its axes and directions are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx.parser import parse_model
from running import run

from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import RejectedError, Runnable

TEXT = """<ir_version: 8, opset_import: ["": 13]>
g (float[2,1] first, float[a,b] rows, float[c,d] others) => (float[2,1] last, float[e,f,h] made, int64[i,j] best) {{
    last, made, best = Scan <num_scan_inputs = 2, {attributes} body = each (float[2,1] sum, row, other) =>
    (float[2,1] next, float[2,n] out, int64[1] at) {{
        out = Add (row, sum) next = Mul (sum, other) at = ArgMax <axis = 0> (row)
    }}> (first, rows, others)
}}"""


def model(attributes: str) -> Runnable:
    return Runnable(parse_model(TEXT.format(attributes=attributes)))


@pytest.mark.parametrize(
    ("inputs", "outputs"), itertools.product([(0, 0), (1, -1)], [(0, 0), (1, -1), (2, 0), (-1, 0)])
)
@pytest.mark.parametrize("backwards", [(0, 0, 0, 0), (1, 0, 0, 1), (0, 1, 1, 0)])
def test_it_returns_what_onnxruntime_does(
    inputs: tuple[int, int], outputs: tuple[int, int], backwards: tuple[int, int, int, int]
) -> None:
    source = model(
        f"scan_input_axes = {list(inputs)}, scan_output_axes = {list(outputs)}, "
        f"scan_input_directions = {list(backwards[:2])}, scan_output_directions = {list(backwards[2:])},"
    )
    rng = np.random.default_rng(0)
    rows, others = ((3, 4), (3, 1)) if inputs == (0, 0) else ((4, 3), (1, 3))
    feeds = {
        "first": np.ones((2, 1), np.float32),
        "rows": rng.normal(size=rows).astype(np.float32),
        "others": rng.normal(size=others).astype(np.float32),
    }
    found = Interpreter(source, by_oracle=frozenset({"ArgMax"})).run(feeds)
    for one, other in zip(found, run(source.proto, [feeds])[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_inputs_of_different_lengths_are_rejected() -> None:
    feeds = {
        "first": np.ones((2, 1), np.float32),
        "rows": np.ones((3, 4), np.float32),
        "others": np.ones((2, 1), np.float32),
    }
    with pytest.raises(RejectedError, match="different lengths"):
        Interpreter(model(""), by_oracle=frozenset({"ArgMax"})).run(feeds)
