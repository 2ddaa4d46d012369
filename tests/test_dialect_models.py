"""Whole models that onnxruntime has optimized: its own operators go again, and the outputs stay."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from running import run

import opshift
from opshift.passes.base.report import Verdict

WIDTH, HEADS = 16, 2

LAYER = """
    q{n} = MatMul (h{n}, wq{n})
    k{n} = MatMul (h{n}, wk{n})
    v{n} = MatMul (h{n}, wv{n})
    qr{n} = Reshape (q{n}, apart)
    kr{n} = Reshape (k{n}, apart)
    vr{n} = Reshape (v{n}, apart)
    qt{n} = Transpose <perm = [0, 2, 1, 3]> (qr{n})
    kt{n} = Transpose <perm = [0, 2, 3, 1]> (kr{n})
    vt{n} = Transpose <perm = [0, 2, 1, 3]> (vr{n})
    s{n} = MatMul (qt{n}, kt{n})
    d{n} = Div (s{n}, root)
    p{n} = Softmax <axis = -1> (d{n})
    c{n} = MatMul (p{n}, vt{n})
    ct{n} = Transpose <perm = [0, 2, 1, 3]> (c{n})
    cr{n} = Reshape (ct{n}, joined)
    o{n} = MatMul (cr{n}, wo{n})
    ob{n} = Add (o{n}, bo{n})
    r{n} = Add (ob{n}, h{n})
    l{n} = LayerNormalization <axis = -1, epsilon = 1e-6> (r{n}, g{n}, b{n})
    u{n} = MatMul (l{n}, w1{n})
    ub{n} = Add (u{n}, b1{n})
    e{n} = Div (ub{n}, two)
    f{n} = Erf (e{n})
    a{n} = Add (f{n}, one)
    m{n} = Mul (ub{n}, a{n})
    t{n} = Mul (m{n}, half)
    w{n} = MatMul (t{n}, w2{n})
    wb{n} = Add (w{n}, b2{n})
    z{n} = Add (wb{n}, l{n})
    h{m} = LayerNormalization <axis = -1, epsilon = 1e-6> (z{n}, g{n}, b{n})
"""
"""A layer of an encoder: attention, and two dense layers with Gelu by the error function."""


def encoder(layers: int = 2) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    body = "".join(LAYER.format(n=n, m=n + 1) for n in range(layers))
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    g (float[batch, tokens, {WIDTH}] h0) => (float[batch, tokens, {WIDTH}] h{layers}) {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    weights: dict[str, Any] = {
        "apart": np.array([0, 0, HEADS, WIDTH // HEADS]),
        "joined": np.array([0, 0, WIDTH]),
        "root": np.sqrt(np.float32(WIDTH // HEADS)),
        "two": np.sqrt(np.float32(2)),
        "one": np.float32(1),
        "half": np.float32(0.5),
    }
    for n in range(layers):
        shapes: dict[str, tuple[int, ...]] = {f"w{name}{n}": (WIDTH, WIDTH) for name in "qkvo"}
        shapes |= {f"w1{n}": (WIDTH, 2 * WIDTH), f"w2{n}": (2 * WIDTH, WIDTH), f"b1{n}": (2 * WIDTH,)}
        shapes |= {f"b2{n}": (WIDTH,), f"bo{n}": (WIDTH,), f"b{n}": (WIDTH,)}
        weights |= {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
        weights[f"g{n}"] = rng.uniform(0.5, 1.5, WIDTH).astype(np.float32)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items())
    return model


IMAGE = """<ir_version: 8, opset_import: ["": 17]>
g (float[n, 3, 16, 16] x) => (float[n, 4] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    r = Relu (a)
    c = Conv <pads = [1, 1, 1, 1]> (r, w2, b2)
    s = Add (c, r)
    e = LeakyRelu <alpha = 0.125> (s)
    m = GlobalAveragePool (e)
    f = Flatten (m)
    q = Gemm <transB = 1> (f, w3, b3)
    y = Sigmoid (q)
}"""


def network() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(IMAGE)
    shapes: dict[str, tuple[int, ...]] = {
        "w1": (8, 3, 3, 3),
        "b1": (8,),
        "w2": (8, 8, 3, 3),
        "b2": (8,),
        "w3": (4, 8),
        "b3": (4,),
    }
    model.graph.initializer.extend(
        numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name) for name, shape in shapes.items()
    )
    return model


def optimized(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model as onnxruntime saves it after its extended optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


def foreign(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node if node.domain == "com.microsoft")


MODELS = {
    "encoder": (encoder, {"FusedMatMul", "SkipLayerNormalization", "BiasGelu"}, (2, 5, WIDTH)),
    "network": (network, {"FusedConv", "FusedGemm"}, (2, 3, 16, 16)),
}


@pytest.mark.slow
@pytest.mark.parametrize("opset", [17, 11])
@pytest.mark.parametrize("name", MODELS)
def test_an_optimized_model_becomes_onnx_again(name: str, opset: int, tmp_path: Path) -> None:
    make, contains, shape = MODELS[name]
    source = make()
    fused = optimized(source, tmp_path / "fused.onnx")
    assert set(foreign(fused)) == contains
    result = opshift.convert(fused, opset=opset, decompose=["com.microsoft"], require_proof=True)
    model = result.model
    assert isinstance(model, onnx.ModelProto)
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
    assert not any(node.domain for node in model.graph.node)
    assert "com.microsoft" not in [item.domain for item in model.opset_import]
    onnx.checker.check_model(model, full_check=True)
    feeds = {source.graph.input[0].name: np.random.default_rng(1).normal(size=shape).astype(np.float32)}
    before, after = run(fused, [feeds])[0][0], run(model, [feeds])[0][0]
    # The longest sums have 32 terms, of which each layer adds two up, one after the other: 128 units.
    assert np.abs(before - after).max() <= 128 * np.finfo(np.float32).eps * np.abs(before).max()


@pytest.mark.slow
def test_a_target_gets_what_it_supports(tmp_path: Path) -> None:
    """The imports that onnxruntime writes, of domains that no node uses, go as well."""
    fused = optimized(network(), tmp_path / "fused.onnx")
    assert len(fused.opset_import) > 2
    result = opshift.convert(fused, target="tensorrt-8")
    assert isinstance(result.model, onnx.ModelProto)
    assert [(item.domain, item.version) for item in result.model.opset_import] == [("", 13)]
    kept = opshift.convert(fused, target="onnxruntime-1.16")
    assert isinstance(kept.model, onnx.ModelProto)
    assert foreign(kept.model) == foreign(fused)


@pytest.mark.slow
@pytest.mark.parametrize("activations", ["QUInt8", "QInt8"])
def test_a_quantized_network_becomes_onnx_again(activations: str, tmp_path: Path) -> None:
    """As onnxruntime.quantization writes it with operators of quantized values (QOperator)."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    rng = np.random.default_rng(0)

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc,name-defined]
        """Four images."""

        left = 4

        def get_next(self) -> dict[str, Any] | None:
            self.left -= 1
            return {"x": rng.normal(size=(2, 3, 16, 16)).astype(np.float32)} if self.left >= 0 else None

    onnx.save(network(), tmp_path / "float.onnx")
    quantization.quantize_static(
        tmp_path / "float.onnx",
        tmp_path / "quantized.onnx",
        Reader(),
        quant_format=quantization.QuantFormat.QOperator,
        activation_type=quantization.QuantType[activations],
        weight_type=quantization.QuantType.QInt8,
    )
    model = onnx.load(tmp_path / "quantized.onnx")
    assert {"QLinearAdd", "QGemm", "QLinearGlobalAveragePool"} <= set(foreign(model))
    result = opshift.convert(model, opset=17, decompose=["com.microsoft"], require_proof=True)
    assert isinstance(result.model, onnx.ModelProto)
    assert not foreign(result.model)


DECODER = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (int64[batch, tokens] ids, int64[batch, total] mask, float[batch, 2, past, 16] pk, float[batch, 2, past, 16] pv)
  => (float[batch, tokens, 64] y, float[batch, 2, total, 16] nk, float[batch, 2, total, 16] nv) {
    x = Gather (table, ids)
    s = ReduceSum <keepdims = 0> (mask, one)
    l = Sub (s, one)
    n = Cast <to = 6> (l)
    m = Shape (mask)
    c = Gather (m, at)
    t = Cast <to = 6> (c)
    a, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2, do_rotary = 1>
      (x, , , pk, pv, n, t, cos, sin)
    y = MatMul (a, w)
}"""


@pytest.mark.slow
def test_a_decoder_with_a_past_becomes_onnx_again() -> None:
    """Its lengths come from a mask, as genai writes it; no shape is known but the sizes of heads."""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(DECODER)
    angles = np.outer(np.arange(64), 100.0 ** (-np.arange(8) / 8)).astype(np.float32)
    weights: dict[str, Any] = {
        "table": rng.normal(0, 1, (32, 128)).astype(np.float32),
        "w": rng.normal(0, 0.2, (64, 64)).astype(np.float32),
        "one": np.array([1]),
        "at": np.array(1),
        "cos": np.cos(angles),
        "sin": np.sin(angles),
    }
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in weights.items())
    result = opshift.convert(model, opset=17, decompose=["com.microsoft"], require_proof=True).model
    assert isinstance(result, onnx.ModelProto)
    assert not foreign(result)
    for batch, tokens, past in ((2, 5, 0), (2, 1, 4), (1, 3, 4)):
        feeds: dict[str, Any] = {
            "ids": rng.integers(0, 32, (batch, tokens)),
            "mask": np.ones((batch, past + tokens), np.int64),
            **{name: rng.normal(size=(batch, 2, past, 16)).astype(np.float32) for name in ("pk", "pv")},
        }
        before, after = run(model, [feeds])[0], run(result, [feeds])[0]
        for one, other in zip(before, after, strict=True):
            # Sums of at most 64 terms, one after the other.
            assert np.abs(one - other).max() <= 128 * np.finfo(np.float32).eps * np.abs(one).max()


def diffusion() -> onnx.ModelProto:
    """Return a block of an image model as onnxruntime's optimizer writes it."""
    rng = np.random.default_rng(1)
    weights = {
        "cw": (8, 3, 3, 4), "cb": (8,), "g": (8,), "b": (8,), "tw": (8,), "wq": (8, 24), "wu": (8, 64), "bu": (64,),
        "wd": (32, 8), "bd": (8,),
    }  # fmt: skip
    text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    g (float[n,4,h,w] x, float[n,8] time, float[n,t,8] text) => (float[n,p,8] y) {
        image = Transpose <perm = [0, 2, 3, 1]> (x)
        c = com.microsoft.NhwcConv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (image, cw, cb)
        e, s = com.microsoft.SkipGroupNorm <groups = 4, activation = 1> (c, g, b, time, tw)
        r = Reshape (e, tokens)
        q = MatMul (r, wq)
        packed = Reshape (q, heads)
        a = com.microsoft.MultiHeadAttention <num_heads = 2> (packed)
        of_text = MatMul (text, kv)
        pairs = Reshape (of_text, two)
        m = com.microsoft.MultiHeadAttention <num_heads = 2> (a, pairs)
        u = MatMul (m, wu)
        k = com.microsoft.BiasSplitGelu (u, bu)
        d = MatMul (k, wd)
        y = com.microsoft.BiasAdd (d, bd, m)
    }"""
    model = onnx.parser.parse_model(text)
    shapes = {"tokens": [0, -1, 8], "heads": [0, 0, 2, 3, 4], "two": [0, 0, 2, 2, 4]}
    made = {name: (rng.standard_normal(shape) / 3).astype(np.float32) for name, shape in weights.items()}
    made |= {name: np.array(shape) for name, shape in shapes.items()}
    made["kv"] = (rng.standard_normal((8, 16)) / 3).astype(np.float32)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in made.items())
    return model


@pytest.mark.slow
def test_a_block_of_a_diffusion_model_becomes_standard() -> None:
    """onnxruntime has no CPU kernels for these operators: their oracles, node by node, are the reference."""
    result = opshift.convert(diffusion(), opset=13, decompose=["com.microsoft"], require_proof=True)
    assert isinstance(result.model, onnx.ModelProto)
    assert not [node for node in result.model.graph.node if node.domain]
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
    assert {check.verdict for check in result.report.nodes} == {Verdict.EQUAL}
