"""Attention of com.microsoft whose widths only a run tells: MultiHeadAttention and GroupQueryAttention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import opshift
from opshift.passes.base.report import Verdict

BATCH, TOKENS, HEADS, SHARED, PAST = 2, 3, 2, 1, 5
DECOMPOSE = ("com.microsoft",)
ROTARY = ", do_rotary = 1"


def _model(inputs: str, outputs: str, node: str) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g ({inputs}) => ({outputs}) {{ {node} }}'
    return onnx.parser.parse_model(text)


def _drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def _run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def _assert_alike(model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    """Assert that results are equal but for the rounding of sums of products that are at most 1 each.

    Products have 16 terms and weights 8 at most; 16 roundings of a unit in all are more than there are.
    """
    wanted = _run(model, feeds)
    for opset in (17, 23):
        converted = opshift.convert(model, opset=opset, decompose=DECOMPOSE, verify=False).model
        assert isinstance(converted, onnx.ModelProto)
        for one, other in zip(wanted, _run(converted, feeds), strict=True):
            assert np.abs(one - other).max() <= 16 * np.finfo(np.float32).eps


@pytest.mark.parametrize("attributes", ["", ROTARY, ", local_window_size = 2", ", softcap = 3.0", ", scale = 0.3"])
@pytest.mark.parametrize("form", ["rows", "packed", "past"])
def test_heads_of_group_query_attention(form: str, attributes: str) -> None:
    size, batch = 16, 1 if form == "past" else BATCH
    total = TOKENS + (PAST if form == "past" else 0)
    rows, names = {"x": ("s", "w"), "k": ("s", "v"), "v": ("s", "v")}, ["x", "k", "v"]
    feeds = {
        "x": _drawn(batch, TOKENS, HEADS * size),
        "k": _drawn(batch, TOKENS, SHARED * size),
        "v": _drawn(batch, TOKENS, SHARED * size),
    }
    if form == "packed":
        names, feeds = ["x"], {"x": _drawn(batch, TOKENS, (HEADS + 2 * SHARED) * size)}
    inputs = [f"float[b,{','.join(rows[name])}] {name}" for name in names]
    read = [*names, *("" for _ in range(3 - len(names)))]
    if form == "past":
        inputs += ["float[b,1,p,h] pk, float[b,1,p,h] pv"]
        feeds |= {name: _drawn(batch, SHARED, PAST, size) for name in ("pk", "pv")}
    read += ["pk", "pv"] if form == "past" else ["", ""]
    inputs += ["int32[b] l", "int32 t"]
    feeds |= {"l": np.full(batch, total - 1, np.int32), "t": np.array(total, np.int32)}
    read += ["l", "t"]
    if attributes == ROTARY:
        inputs += ["float[m,8] c", "float[m,8] s"]
        feeds |= {"c": _drawn(20, 8), "s": _drawn(20, 8)}
        read += ["c", "s"]
    node = (
        f"y, e, f = com.microsoft.GroupQueryAttention <num_heads = {HEADS}, kv_num_heads = {SHARED}{attributes}> "
        f"({', '.join(read)})"
    )
    _assert_alike(_model(", ".join(inputs), "float y, float e, float f", node), feeds)


@pytest.mark.parametrize(("key", "size"), [("float[b,t,w]", (4, 8)), ("float[b,2,t,h]", (2, 4, 4))])
def test_bias_of_multi_head_attention(key: str, size: tuple[int, ...]) -> None:
    """Of keys and values that have heads, onnxruntime 1.32.0 adds the bias of the queries alone."""
    model = _model(
        f"float[b,s,w] x, {key} k, {key} v, float[c] d",
        "float y",
        f"y = com.microsoft.MultiHeadAttention <num_heads = {HEADS}> (x, k, v, d)",
    )
    feeds = {"x": _drawn(BATCH, TOKENS, 8), "k": _drawn(BATCH, *size), "v": _drawn(BATCH, *size), "d": _drawn(24)}
    _assert_alike(model, feeds)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_keys_that_are_the_same_are_weighed(seed: int) -> None:
    """Kernels add up blocks of keys, and a MatMul one after the other: 1,500 that are the same were told apart."""
    model = _model(
        "float[b,s,8] x, float[b,t,8] k, float[b,t,8] v",
        "float y",
        f"y = com.microsoft.MultiHeadAttention <num_heads = {HEADS}> (x, k, v)",
    )
    result = opshift.convert(model, opset=17, decompose=DECOMPOSE, seed=seed)
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
