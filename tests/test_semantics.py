"""What docs/semantics.md says of onnxruntime, row by row: seen in this version, and perhaps mended in another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest

SEEN = "1.32.0"
PAGE = (Path(__file__).resolve().parent.parent / "docs" / "semantics.md").read_text(encoding="utf-8")
NAN = np.nan

pytestmark = pytest.mark.skipif(onnxruntime.__version__ != SEEN, reason=f"the page is about onnxruntime {SEEN}")


def compute(signature: str, body: str, opset: int, *values: npt.ArrayLike, before: str = "") -> npt.NDArray[Any]:
    """Run one operator, and what is before it; inputs are a, b and c, the output is y."""
    text = f'<ir_version: 6, opset_import: ["" : {opset}]> g {signature} {{ {before} y = {body} }}'
    model = onnx.parser.parse_model(text)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {value.name: np.asarray(array) for value, array in zip(session.get_inputs(), values, strict=True)}
    result: npt.NDArray[Any] = session.run(None, feeds)[0]
    return result


def float32(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


def test_page_names_the_version() -> None:
    assert f"version {SEEN}" in PAGE


@pytest.mark.parametrize(("row", "index"), [((0, NAN, 1, 0), 2), ((NAN, 0, 1), 0)], ids=["nan inside", "nan in front"])
def test_argmax_of_nan(row: tuple[float, ...], index: int) -> None:
    found = compute("(float[N,M] a) => (int64[N,K] y)", "ArgMax <axis = 1> (a)", 13, float32(*row)[None])
    assert found.tolist() == [[index]]


def test_topk_of_nan() -> None:
    signature = "(float[N] a, int64[1] b) => (int64[K] y)"
    assert compute(
        signature, "Identity (at)", 13, float32(0, NAN, 1, 0), [1], before="v, at = TopK (a, b)"
    ).tolist() == [1]


def test_hardmax_of_nan() -> None:
    signature = "(float[N,M] a) => (float[N,M] y)"
    assert compute(signature, "Hardmax (a)", 13, [float32(NAN, 0, 1)]).tolist() == [[0, 0, 0]]
    assert compute(signature, "Hardmax (a)", 13, [float32(0, NAN, 1, 0)]).tolist() == [[0, 0, 1, 0]]


def test_onehot_9_wraps() -> None:
    signature = "(int64[N] a, int64 b, float[2] c) => (float[N,M] y)"
    found = compute(signature, "OneHot (a, b, c)", 9, np.array([-1]), np.array(3), float32(0, 1))
    assert found.tolist() == [[0, 0, 1]]


def test_onehot_of_a_fraction() -> None:
    signature = "(float[N] a, float b, float[2] c) => (float[N,M] y)"
    found = compute(signature, "OneHot (a, b, c)", 11, float32(1.5, 1, -0.9999999), np.float32(3), float32(0, 1))
    assert found.tolist() == [[0, 1, 0], [0, 1, 0], [1, 0, 0]]


def test_onehot_of_depth_zero() -> None:
    signature = "(int64[N] a, int64 b, float[2] c) => (float[N,M] y)"
    with pytest.raises(Exception, match="Depth"):
        compute(signature, "OneHot (a, b, c)", 11, np.array([0]), np.array(0), float32(0, 1))


def test_where_loses_a_sign() -> None:
    signature = "(bool[N] a, float[N] b, float[N] c) => (float[N] y)"
    chosen = compute(signature, "Where (a, b, c)", 9, np.array([True]), float32(-0.0), float32(1))
    assert not np.signbit(chosen[0])


@pytest.mark.parametrize(
    ("operator", "dtype"),
    [("Hardmax", "double"), *(("ArgMax", dtype) for dtype in ("int16", "uint16", "uint32", "uint64"))],
)
def test_types_without_a_kernel(operator: str, dtype: str) -> None:
    result = dtype if operator == "Hardmax" else "int64"
    with pytest.raises(Exception, match="Could not find an implementation"):
        compute(f"({dtype}[N,M] a) => ({result}[N,K] y)", f"{operator} (a)", 13, np.zeros((1, 2)))


@pytest.mark.parametrize("opset", [7, 28])
def test_opsets_that_are_loaded(opset: int) -> None:
    assert compute("(float[N] a) => (float[N] y)", "Relu (a)", opset, float32(1)).tolist() == [1]
