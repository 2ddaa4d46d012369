"""Models on which a conversion was once wrong, crashed, or was refused without need; each stays as a test."""

from __future__ import annotations

from typing import Any

import onnx.parser
import pytest

import opshift
from opshift.passes.base.report import Verdict

FUNCTIONS = '<ir_version: 8, opset_import: ["": {opset}, "l": 1]> '
BODY = '<domain: "l", opset_import: ["": {opset}, "l": 1]> '

CONVERTED: dict[str, tuple[str, dict[str, Any]]] = {
    # Clip-6 has one input, and a node may name two that it leaves out.
    "inputs left out by empty names": (
        '<ir_version: 8, opset_import: ["":13]> g (float[2] x) => (float[2] y) { y = Clip(x, , ) }',
        {"opset": 9},
    ),
    # A copy of a function must not take the name of another function.
    "copies of functions": (
        FUNCTIONS.format(opset=13)
        + "g (float[2,3] x, float16[4] z) => (float[2,3] y, float16[4] w, float[2,3] v) "
        + "{ y = l.f(x) w = l.f(z) v = l.f__1(x) } "
        + BODY.format(opset=13)
        + "f (p) => (q) { q = Hardmax<axis=-1>(p) } "
        + BODY.format(opset=13)
        + "f__1 (p) => (q) { q = Neg(p) }",
        {"opset": 11, "decompose": ["Hardmax"]},
    ),
    # Below 9 a function makes its constants of doubles, which do not hold all of int64.
    "int64 constants in functions": (
        FUNCTIONS.format(opset=9)
        + "g (int64[1] x) => (int64[1] y) { y = l.f(x) } "
        + BODY.format(opset=9)
        + "f (x) => (y) { c = Constant<value = int64[1] {9007199254740993}>() y = Add(x, c) }",
        {"opset": 8},
    ),
    # Clip-6 has the largest float for a bound left out, and onnxruntime takes no lower bound that is above it.
    "a lower bound that is infinite": (
        '<ir_version: 7, opset_import: ["":11]> g (float[2,3] x) => (float[2,3] y) <float a = {inf}> '
        "{ y = Clip(x, a) }",
        {"opset": 10},
    ),
    # A node without a name must not get one that another node has.
    "names of nodes": (
        '<ir_version: 8, opset_import: ["":13]> g (float[2,3] x) => (float[2,3] r) '
        "{ n = Hardmax<axis=-1>(x) [n] r = Neg(n) }",
        {"opset": 11},
    ),
    "Pad without a value, of doubles in a function": (
        FUNCTIONS.format(opset=9)
        + "g (double[2] x) => (double[3] y) { y = l.f(x) } "
        + BODY.format(opset=9)
        + "f (x) => (y) { y = Pad<pads=[0,1]>(x) }",
        {"opset": 13},
    ),
    "Slice by int32": (
        '<ir_version: 8, opset_import: ["":11]> g (float[2,3] x) => (float[2,2] y) '
        "<int32[1] s = {1}, int32[1] e = {3}, int32[1] a = {-1}> { y = Slice(x, s, e, a) }",
        {"opset": 10},
    ),
    "TopK from its first version": (
        '<ir_version: 8, opset_import: ["":9]> g (float[2,3] x) => (float[2,2] v, int64[2,2] i) '
        "{ v, i = TopK<k=2>(x) }",
        {"opset": 11},
    ),
    "a scalar of ConstantOfShape": (
        '<ir_version: 8, opset_import: ["":9]> g (float x) => (float z) <int64[0] s = {}> '
        "{ y = ConstantOfShape(s) z = Add(x, y) }",
        {"opset": 8},
    ),
    "Range with a negative limit": (
        '<ir_version: 8, opset_import: ["":11]> g (int64 n) => (int64[m] y) <int64 a = {0}, int64 b = {1}> '
        "{ y = Range(a, n, b) }",
        {"opset": 8},
    ),
    "an overridable depth": (
        '<ir_version: 8, opset_import: ["":13]> g (int64[2] i, int64 d, float[2] v) => (float[2,n] y) <int64 d = {3}> '
        "{ h = OneHot(i, d, v) y = Hardmax(h) }",
        {"decompose": ["Hardmax", "OneHot"]},
    ),
    "an input that a call leaves out": (
        FUNCTIONS.format(opset=13)
        + "g (float[2,3] x) => (float[1,1] y) { y = l.f(x) } "
        + BODY.format(opset=13)
        + "f (x, axes) => (y) { y = ReduceSum(x, axes) }",
        {"opset": 11},
    ),
    "a Loop that carries nothing": (
        '<ir_version: 8, opset_import: ["":13]> g (int64 n, float[2,3] x) => (float[m,2,3] y) { y = Loop(n, "") '
        "<body = b (int64 i, bool c) => (bool k, float[2,3] h) { k = Identity(c) h = Hardmax<axis=0>(x) }> }",
        {"opset": 10},
    ),
    "axes from both ends": (
        '<ir_version: 8, opset_import: ["":13, "opshift":1]> g (float[n,m] a, int64[r] s) => (float[k] z) '
        "<int64[1] flat = {-1}> { x = Reshape(a, s) y = opshift.HardmaxAxes<axes=[1,-2]>(x) z = Reshape(y, flat) }",
        {"opset": 11},
    ),
}


@pytest.mark.parametrize("case", CONVERTED)
def test_is_converted_and_equal(case: str) -> None:
    text, request = CONVERTED[case]
    result = opshift.convert(onnx.parser.parse_model(text), **request)
    assert result.report is not None
    assert all(check.verdict is Verdict.EQUAL for check in result.report.nodes)
    assert result.report.whole.verdict is Verdict.EQUAL or "opshift" in text, result.report.whole.reason


REFUSED: dict[str, tuple[str, dict[str, Any], type[opshift.OpshiftError], str]] = {
    # onnxruntime 1.32.0 pads dilated windows by less than the text asks for, so that nothing is folded by the text.
    # onnxruntime takes a flag of 2 for one that is off; the texts say 0 or 1.
    "a flag that is neither 0 nor 1": (
        '<ir_version: 7, opset_import: ["":10]> g (float[1,2,5,5] x) => (float[1,2,n,m] y) '
        "{ y = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=2>(x) }",
        {"opset": 15},
        opshift.InvalidModelError,
        "ceil_mode is 2",
    ),
    "an attribute that a call gives and a version lacks": (
        FUNCTIONS.format(opset=18)
        + "g (float[1,1,n] x) => (float[1,1,m] y) { y = l.f<cm=1>(x) } "
        + BODY.format(opset=18)
        + "f <cm> (x) => (y) { y = LpPool<kernel_shape=[2], ceil_mode:int=@cm>(x) }",
        {"opset": 17},
        opshift.UnsupportedError,
        "ceil_mode",
    ),
    "an element type that only a call tells": (
        FUNCTIONS.format(opset=22)
        + "g (bfloat16[1,1,4,4] x, bfloat16[n,5] r) => (bfloat16[n,1,1,1] y) { y = l.f(x, r) } "
        + BODY.format(opset=22)
        + "f (x, r) => (y) { y = MaxRoiPool<pooled_shape=[1, 1]>(x, r) }",
        {"opset": 21},
        opshift.UnsupportedError,
        "bfloat16",
    ),
    "an axis out of range in a function": (
        FUNCTIONS.format(opset=13)
        + "g (float[2,3] x) => (float[2,3] y) { y = l.f(x) } "
        + BODY.format(opset=13)
        + "f (x) => (y) { y = Hardmax<axis=5>(x) }",
        {"opset": 11},
        opshift.InvalidModelError,
        "axis 5",
    ),
    "axes out of range": (
        '<ir_version: 8, opset_import: ["":13, "opshift":1]> g (float[2,3] x) => (float[2,3] y) '
        "{ y = opshift.HardmaxAxes<axes=[2]>(x) }",
        {"opset": 13},
        opshift.InvalidModelError,
        "out of range",
    ),
    "another operator of the domain opshift": (
        '<ir_version: 8, opset_import: ["":13, "opshift":1]> g (float[2,3] x) => (float[2,3] y) '
        "{ y = opshift.Hardmax<axes=[1]>(x) }",
        {"opset": 13},
        opshift.InvalidModelError,
        "HardmaxAxes",
    ),
    "a type that only an attribute gives": (
        '<ir_version: 10, opset_import: ["":22]> g () => (bfloat16[2] y) { y = RandomNormal<dtype=16, shape=[2]>() }',
        {"opset": 21},
        opshift.UnsupportedError,
        "bfloat16",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused_for_the_reason(case: str) -> None:
    text, request, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        opshift.convert(onnx.parser.parse_model(text), **request)


def test_invalid_constants_are_not_folded() -> None:
    text = (
        '<ir_version: 8, opset_import: ["":11]> g (float[2] x) => (float[2] x2, float[1] y) '
        "<float[2] t = {1, 2}, int64[1] i = {5}> { x2 = Neg(x) y = Gather(t, i) }"
    )
    plan = opshift.plan(onnx.parser.parse_model(text), opset=13)
    assert plan.possible


def test_strings_that_are_not_utf_8_come_along() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["":11]> g (int64[3] i) => (string[3,2] y) <int64 d = {2}> '
        "{ y = OneHot(i, d, v) }"
    )
    model.graph.initializer.append(
        onnx.TensorProto(name="v", data_type=onnx.TensorProto.STRING, dims=[2], string_data=[b"\xff\xfe", b"on"])
    )
    result = opshift.convert(model, decompose=["OneHot"], verify=False)
    kept = [tensor for tensor in result.rewritten.graph.initializer if tensor.data_type == onnx.TensorProto.STRING]
    assert b"\xff\xfe" in {item for tensor in kept for item in tensor.string_data}
