"""Wrong models whose results differ for a few values or sizes only: default verification draws those.

Each pair is a model and the same with a detour: through a narrower type, another order of rounding, another threshold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

import opshift
from opshift.passes.base.report import Verdict

T = TensorProto.DataType


def model(inputs: str, output: str, constants: str, body: str) -> onnx.ModelProto:
    head = f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => ({output}) <{constants}>'
    return parse_model(f"{head} {{ {body} }}")


def casts() -> Iterator[tuple[str, tuple[onnx.ModelProto, onnx.ModelProto]]]:
    """Floats that become integers, by way of narrower ones that do not hold them all."""
    for source, (to, via), before in itertools.product(
        ("float", "double"),
        (("int64", "int32"), ("uint32", "int32"), ("uint64", "int64"), ("int32", "int16"), ("int16", "int8")),
        ("z = Identity(x)", "z = Floor(x)", "z = Mul(x, k)"),
    ):
        direct, detour = (
            model(f"{source}[n] x", f"{to}[n] y", f"{source} k = {{3}}", f"{before} {rest}")
            for rest in (
                f"y = Cast<to = {T.Value(to.upper())}>(z)",
                f"w = Cast<to = {T.Value(via.upper())}>(z) y = Cast<to = {T.Value(to.upper())}>(w)",
            )
        )
        yield f"{source} to {to} by {via}, {before}", (direct, detour)


def positions() -> Iterator[tuple[str, tuple[onnx.ModelProto, onnx.ModelProto]]]:
    """Positions on an axis of any length, counted in 16 bits."""
    found = {
        "ArgMax": ("float[n] x", "p = ArgMax<axis = 0>(x)"),
        "ArgMin of rows": ("float[n,m] x", "p = ArgMin<axis = 1, keepdims = 0>(x)"),
        "NonZero": ("float[n] x", "q = NonZero(x) p = Squeeze(q)"),
        "TopK": ("float[n] x", "v, p = TopK<axis = 0>(x, one)"),
    }
    for (name, (inputs, calls)), narrow in itertools.product(found.items(), ("float16", "int16")):
        direct, detour = (
            model(inputs, "int64[k] y", "int64[1] one = {1}", f"{calls} {rest}")
            for rest in (
                "y = Identity(p)",
                f"w = Cast<to = {T.Value(narrow.upper())}>(p) y = Cast<to = 7>(w)",
            )
        )
        yield f"{name} in {narrow}", (direct, detour)


def roundings() -> Iterator[tuple[str, tuple[onnx.ModelProto, onnx.ModelProto]]]:
    """Quotients and products by the reciprocal."""
    likeliest = (
        model("float[n,m] x", "int64[n] y", "float k = {3}", "y = ArgMax<axis = 1, keepdims = 0>(x)"),
        model("float[n,m] x", "int64[n] y", "float k = {3}", "z = Div(x, k) y = ArgMax<axis = 1, keepdims = 0>(z)"),
    )
    quantized = (
        model("float[n] x", "int8[n] y", "float s = {0.1}, int8 o = {0}", "y = QuantizeLinear(x, s, o)"),
        model(
            "float[n] x",
            "int8[n] y",
            "float k = {10}, float low = {-128}, float high = {127}",
            "z = Mul(x, k) r = Round(z) c = Clip(r, low, high) y = Cast<to = 3>(c)",
        ),
    )
    yield "the largest of quotients", likeliest
    yield "the largest of what was divided", likeliest[::-1]
    yield "a product, rounded", quantized
    yield "a quotient, rounded", quantized[::-1]


def tree(mode: str) -> onnx.ModelProto:
    """Return a tree of one question."""
    node = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_values=[0.3, 0.0, 0.0],
        nodes_modes=[mode, "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights=[1.0, 2.0],
    )
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in "xy")
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph([node], "g", [given], [made]), opset_imports=imports, ir_version=8)


def trees() -> Iterator[tuple[str, tuple[onnx.ModelProto, onnx.ModelProto]]]:
    """Features that are at a threshold."""
    for one, other in (("BRANCH_LEQ", "BRANCH_LT"), ("BRANCH_GT", "BRANCH_GTE")):
        yield f"{one} for {other}", (tree(other), tree(one))


def suppressing(share: float, score: float, boxes: str = "n", center: int = 0) -> onnx.ModelProto:
    return parse_model(
        f"""<ir_version: 8, opset_import: ["": 11]> g (float[1,{boxes},4] b, float[1,2,{boxes}] s) => (int64[m,3] y)
        <int64[1] most = {{8}}, float[1] share = {{{share:.9g}}}, float[1] least = {{{score:.9g}}}>
        {{ y = NonMaxSuppression <center_point_box = {center}> (b, s, most, share, least) }}"""
    )


def boxes() -> Iterator[tuple[str, tuple[onnx.ModelProto, onnx.ModelProto]]]:
    """Boxes whose overlap is near the threshold, and scores at it."""
    for center in (0, 1):
        held = float(np.float32(np.float16(0.45)))
        pair = suppressing(0.45, 0.3, center=center), suppressing(held, 0.3, center=center)
        yield f"an overlap of float16, {center}", pair
    yield "an overlap of few boxes", (suppressing(0.5, 0.3, "6"), suppressing(0.50001, 0.3, "6"))
    above = float(np.nextafter(np.float32(0.3), np.float32(1)))
    yield "the next score", (suppressing(0.5, 0.3, "6"), suppressing(0.5, above, "6"))


def unfolded(pads: str) -> onnx.ModelProto:
    return parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> g (float[1,c,n] x) => (float[1,d,5,5] y)
        <int64[2] image = {{5, 5}}, int64[2] block = {{2, 2}}> {{ y = Col2Im <pads = {pads}> (x, image, block) }}"""
    )


def gridded(call: str) -> onnx.ModelProto:
    return parse_model(
        f"""<ir_version: 9, opset_import: ["": 20]> g (float[1,2,3] x) => (float[a,b,c,d] y)
        <int64[4] s = {{1, 2, 1, 2}}, float k = {{0.5}}> {{ z = {call} y = AffineGrid <align_corners = 1> (z, s) }}"""
    )


def with_constants(text: str, **constants: object) -> onnx.ModelProto:
    model = parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}')
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(one), name) for name, one in constants.items())
    return model


def rare() -> Iterator[tuple[str, tuple[onnx.ModelProto, onnx.ModelProto]]]:
    """What shows with one row of a long table, late in a loop, near a threshold of a sum, or far from a mean of 0."""
    table = np.arange(40_000, dtype=np.float32)
    other = table.copy()
    other[36_543] += 1
    for name, one, two in (
        ("5,000", table[:5000], np.where(table[:5000] == 4321, 0, table[:5000])),
        ("40,000", table, other),
    ):
        text = "g (int64[n] x) => (float[n] y) { y = Gather (t, x) }"
        yield f"a row of {name}", (with_constants(text, t=one), with_constants(text, t=two.astype(np.float32)))
    text = """g (float[k] x, int64 n) => (float[k] y) { t = Constant <value = bool {1}> ()
        y = Loop (n, t, x) <body = b (int64 i, bool go, float[k] z) => (bool on, float[k] w)
        { on = Identity (go) c = Equal (i, at) v = Neg (z) w = Where (c, v, z) }> }"""
    yield "the 40th iteration", (with_constants(text, at=np.int64(40)), with_constants(text, at=np.int64(30)))
    text = """g (float[n,4] x) => (float[n,4] y) { z = MatMul (x, w) c = Greater (z, least) y = Where (c, least, z) }"""
    weight = 3 * np.eye(4, dtype=np.float32)
    models = (with_constants(text, w=weight, least=np.float32(least)) for least in (100, 101))
    yield "a bound of a sum", (next(models), next(models))
    text = """g (float[n,16] x) => (float[n,16] y) {{ m = ReduceMean (x, a) d = Sub (x, m) {variance}
        w = Add (v, e) q = Sqrt (w) y = Div (d, q) }}"""
    deviations = "s = Mul (d, d) v = ReduceMean (s, a)"
    squares = "s = Mul (x, x) u = ReduceMean (s, a) r = Mul (m, m) v = Sub (u, r)"
    constants = {"a": np.array([-1]), "e": np.float32(1e-5)}
    models = (with_constants(text.format(variance=one), **constants) for one in (deviations, squares))
    yield "a variance by squares", (next(models), next(models))


def stepped() -> Iterator[tuple[str, tuple[onnx.ModelProto, onnx.ModelProto]]]:
    """Functions that saturate where they are rounded up or down: they may reach the next integer, and not the last."""
    for element, (step, call) in itertools.product(
        ("float", "double"), (("Ceil", "z = Sigmoid(x)"), ("Floor", "u = Tanh(x) z = Add(u, one)"))
    ):
        turned = f"{call.replace('z =', 'v =')} z = Sub({'one' if step == 'Ceil' else 'two'}, v)"
        one, other = (
            model(
                f"{element}[n] x",
                f"{element}[n] y",
                f"{element} one = {{1}}, {element} two = {{2}}",
                f"{way} y = {step}(z)",
            )
            for way in (call, turned)
        )
        yield f"{step} of {element}", (one, other)


DETOURS = dict(itertools.chain(casts(), positions(), roundings(), trees(), boxes(), rare(), stepped()))
DETOURS["a grid of one pixel"] = gridded("Sub (x, k)"), gridded("Identity (x)")
DETOURS["as many blocks as an image has"] = (unfolded("[1, 0, 0, 1]"), unfolded("[0, 1, 1, 0]"))


@pytest.mark.fast(8)
@pytest.mark.parametrize("name", DETOURS)
def test_a_detour_is_found(name: str) -> None:
    report = opshift.verify(*DETOURS[name])
    assert report.verdict is Verdict.DIFFERENT, report.whole.reason


def test_integers_made_of_a_product_are_compared() -> None:
    """They may be off by what rounds the product, and by no more."""
    direct, detour = DETOURS["float to int64 by int32, z = Mul(x, k)"]
    report = opshift.verify(direct, detour, inputs={"x": np.array([1e9], np.float32)})
    assert report.verdict is Verdict.DIFFERENT
    reordered = model("float[n] x", "int64[n] y", "float k = {3}", "a = Add(x, x) z = Add(a, x) y = Cast<to = 7>(z)")
    report = opshift.verify(direct, reordered)
    assert report.verdict is Verdict.EQUAL, report.whole.reason


def test_what_trains_is_said_not_to_be_tested() -> None:
    first, second = (
        model("float[n] x, bool t", "float[n] y", f"float r = {{{ratio}}}", "y = Dropout(x, r, t)")
        for ratio in (0.5, 0.1)
    )
    report = opshift.verify(first, second)
    assert report.whole.classes["training"] == 0
