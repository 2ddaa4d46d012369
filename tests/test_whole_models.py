"""Whole models: converting twice, down and up again, quantised ones, and what must come along untouched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from operators.harness import converted
from running import Array, differences, nodes_of, opset_of, run

import opshift

TARGETS = (7, 9, 10, 11, 12, 13, 15, 17, 18, 20, 21, 23, 26)

# Once through what has changed since opset 7: a block of attention, one of a vision model, and a recurrent one.
MODELS = {
    "attention": (
        18,
        """(float[b,4,6] x, int64[b,4] mask) => (float[b,4,6] y, int64[b] best)
        <float[6,6] w = {0.1, 0.2, -0.3, 0.4, -0.5, 0.6, -0.6, 0.5, 0.4, -0.3, 0.2, 0.1, 0.3, 0.1, 0.4, 0.1, 0.5, 0.9,
          -0.2, 0.6, 0.5, -0.3, 0.5, 0.8, 0.9, -0.7, 0.9, 0.3, -0.2, 0.3, 0.8, 0.4, 0.6, -0.2, 0.6, 0.4},
         float[6] scale = {1, 0.5, 2, 1, 1.5, 1}, float[6] bias = {0, 0.1, 0.2, 0, -0.1, 0},
         int64[1] last = {-1}, int64[1] second = {1}, float low = {-10000}>
        {
            n = LayerNormalization <axis = -1> (x, scale, bias)
            q = MatMul (n, w)
            t = Transpose <perm = [0, 2, 1]> (n)
            a = MatMul (q, t)
            m = Unsqueeze (mask, second)
            zero = CastLike (low, a)
            seen = Cast <to = 9> (m)
            o = Where (seen, a, zero)
            p = Softmax (o)
            z = MatMul (p, n)
            y = Add (z, x)
            s = ReduceMean <keepdims = 0> (y, last)
            best = ArgMax <axis = 1, keepdims = 0> (s)
        }""",
    ),
    "vision": (
        13,
        """(float[1,2,6,6] x) => (float[1,2,8,8] y, float[1,2] m)
        <float[2,2,3,3] w = {0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.4, 0.5, 0.6, 0.4, 0.5, 0.6,
          -0.1, 0.2, -0.3, 0.1, -0.2, 0.3, 0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.4, 0.5, 0.6, -0.4, 0.5, 0.6},
         float[2] g = {1, 2}, float[2] b = {0, 1}, float[2] mean = {0.1, 0.2}, float[2] var = {1, 2},
         int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, float[4] scales = {1, 1, 2, 2},
         float low = {0}, float high = {6}, int64[2] last = {2, 3}>
        {
            p = Pad (x, pads)
            c = Conv (p, w)
            n = BatchNormalization (c, g, b, mean, var)
            r = Clip (n, low, high)
            d = Dropout (r)
            k = AveragePool <kernel_shape = [3, 3], strides = [1, 1]> (d)
            y = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (k, , scales)
            a = GlobalAveragePool (y)
            m = Squeeze (a, last)
        }""",
    ),
    "recurrent": (
        14,
        """(float[5,2,3] x) => (float[2,4] y, float[2,2] v, int64[2,2] i)
        <float[1,12,3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
          0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9},
         float[1,12,4] r = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
          0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9,
          0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.1, 0.2, 0.3},
         int64[1] zero = {0}, int64[1] k = {2}, int64[2] split = {3, 2}>
        {
            o, h = GRU <hidden_size = 4, linear_before_reset = 1> (x, w, r)
            y = Squeeze (h, zero)
            a, c = Split <axis = 0> (x, split)
            s = ReduceSum <keepdims = 0> (a, zero)
            v, i = TopK (s, k)
        }""",
    ),
}

# What each reaches at least: a conversion that is lost shows here.
LEAST = {"attention": 7, "vision": 7, "recurrent": 7, "quantised": 10}


def model(name: str) -> onnx.ModelProto:
    opset, graph = MODELS[name]
    return parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {graph}')


def feeds(of: onnx.ModelProto, *seeds: int) -> list[dict[str, Array]]:
    """Draw inputs: a symbolic dim is 3."""
    drawn = []
    for seed in seeds:
        numbers, feed = np.random.default_rng(seed), {}
        for value in of.graph.input:
            dims = [dim.dim_value or 3 for dim in value.type.tensor_type.shape.dim]
            whole = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
            feed[value.name] = numbers.integers(0, 2, dims) if whole else numbers.normal(size=dims).astype(np.float32)
        drawn.append(feed)
    return drawn


def quantised(opset: int) -> onnx.ModelProto:
    """A convolution and a product between QuantizeLinear and DequantizeLinear, as quantisation tools write them."""
    text = f"""<ir_version: 8, opset_import: ["": {opset}], producer_name: "quantiser">
    g (float[1,2,5,5] x) => (float[1,3] y)
    <float sx = {{0.02}}, uint8 zx = {{128}}, int8[2,2,2,2] w = {{1, -2, 3, 4, 5, -6, 7, 8, 9, 10, -11,
       12, 13, 14, 15, -16}},
     float sw = {{0.05}}, int8 zw = {{0}}, float sc = {{0.04}}, uint8 zc = {{100}},
     int8[2,3] m = {{10, -20, 30, 40, 50, -60}}, float sm = {{0.01}}>
    {{
        xq = QuantizeLinear (x, sx, zx)
        xd = DequantizeLinear (xq, sx, zx)
        wd = DequantizeLinear (w, sw, zw)
        c = Conv (xd, wd)
        cq = QuantizeLinear (c, sc, zc)
        cd = DequantizeLinear (cq, sc, zc)
        p = GlobalAveragePool (cd)
        f = Flatten (p)
        md = DequantizeLinear (m, sm, zw)
        y = MatMul (f, md)
    }}"""
    return parse_model(text)


def per_channel() -> onnx.ModelProto:
    """The weight with a scale for each of its channels, which DequantizeLinear takes since 13."""
    made = quantised(13)
    (weight,) = (node for node in made.graph.node if "w" in node.input)
    weight.input[1:] = ["sws", "zws"]
    weight.attribute.append(onnx.helper.make_attribute("axis", 0))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0.05, 0.02], np.float32), "sws"))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0, 0], np.int8), "zws"))
    return made


def made(name: str) -> onnx.ModelProto:
    return quantised(13) if name == "quantised" else model(name)


def reached(source: onnx.ModelProto) -> list[int]:
    return [opset for opset in TARGETS if opshift.plan(source, opset=opset).possible]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, "quantised"])
def test_down_and_up_again_computes_the_same(name: str) -> None:
    """At every opset, twice is once; and what went there and came back is at its own opset and has the same numbers."""
    source = made(name)
    given = feeds(source, 0, 1)
    expected = run(source, given)
    opsets = reached(source)
    assert set(opsets) >= {opset for opset in TARGETS if opset >= LEAST[name]}
    for opset in opsets:
        there = converted(source, opset=opset)
        assert converted(there, opset=opset).SerializeToString() == there.SerializeToString()
        back = converted(there, opset=opset_of(source))
        assert opset_of(back) == opset_of(source)
        for what, result in (("there", there), ("back", back)):
            onnx.checker.check_model(result, full_check=True)
            assert not differences(expected, run(result, given), 1e-5), f"{opset}, {what}"


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parent.parent / "fixtures").glob("*.onnxtxt")), ids=lambda p: p.stem
)
def test_twice_is_once(path: Path) -> None:
    """A step on the way changes nothing that the result computes, and a second conversion nothing at all."""
    source = onnx.parser.parse_model(path.read_text(encoding="utf-8"))
    for opset in (9, 12, 18):
        if not opshift.plan(source, opset=opset).possible:
            continue
        once = converted(source, opset=opset)
        assert converted(once, opset=opset).SerializeToString() == once.SerializeToString()


@pytest.mark.parametrize(("source", "target"), [(13, 10), (10, 21), (13, 21), (13, 12), (10, 13)])
def test_quantised_models_stay_quantised(source: int, target: int) -> None:
    """Each pair of nodes is kept, for the runtime to fuse, and the numbers are the same."""
    before = quantised(source)
    result = converted(before, opset=target)
    kinds = [node.op_type for node in nodes_of(before)]
    assert [node.op_type for node in nodes_of(result)] == kinds
    assert opset_of(result) == target
    given = feeds(before, 0, 1, 2)
    assert differences(run(before, given), run(result, given)) == []


@pytest.mark.parametrize("target", [10, 12, 19, 21, 23])
def test_a_scale_for_each_channel(target: int) -> None:
    """Below 13 the node has no axis, and is said by arithmetic."""
    before = per_channel()
    given = feeds(before, 0, 1)
    assert differences(run(before, given), run(converted(before, opset=target), given), 1e-6) == []


UNTOUCHED = """<ir_version: 8, opset_import: ["ai.onnx": 17, "com.acme": 3, "ai.onnx.ml": 2, "com.microsoft": 1],
  producer_name: "maker", producer_version: "1.2", domain: "com.acme.models", model_version: 7,
  doc_string: "what it is for", metadata_props: ["author": "somebody", "licence": "none"]>
g (float[2,3] x) => (float[2,3] y) {
    h = ai.onnx.Hardmax (x)
    a = com.acme.Secret <depth = 2> (h)
    b = com.microsoft.Gelu (a)
    c = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (b)
    y = Clip (c)
}"""


@pytest.mark.parametrize("target", [7, 9, 13, 17, 21, 28])
def test_what_is_not_asked_for_is_kept(target: int) -> None:
    """Other domains, their imports, the long name of the default domain, and all that is said about the model."""
    source = parse_model(UNTOUCHED)
    source.graph.doc_string = "about the graph"
    source.graph.node[4].doc_string = "about a node"
    result = converted(source, opset=target)
    assert {item.domain: item.version for item in result.opset_import} == {
        "ai.onnx": target,
        "com.acme": 3,
        "ai.onnx.ml": 2,
        "com.microsoft": 1,
    }
    for field in ("producer_name", "producer_version", "domain", "model_version", "doc_string", "metadata_props"):
        assert getattr(result, field) == getattr(source, field)
    assert (result.graph.name, result.graph.doc_string) == ("g", "about the graph")
    assert [node for node in result.graph.node if node.domain not in ("", "ai.onnx")] == list(source.graph.node[1:4])
    assert result.graph.node[-1].doc_string == "about a node"
    assert (result.graph.input, result.graph.output) == (source.graph.input, source.graph.output)
    if target == 17:
        assert result == source


def test_a_default_says_nothing_of_a_symbolic_size() -> None:
    text = "g (float[N,4] w) => (float[M,4] y) { h = Hardmax <axis = 0> (w) y = Abs (h) }"
    source = parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text}')
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((3, 4), np.float32), "w"))
    given = [{"w": np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)}]
    rewritten = opshift.convert(source, opset=12, verify=False).rewritten
    assert not differences(run(source, given), run(rewritten, given))
