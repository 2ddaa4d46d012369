"""MatMulInteger, ConvInteger and QLinearMatMul below 10: the same integers, also where sums are as large as can be."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from refused import refused
from running import run

import opshift
from opshift.opsets.registry.operator import operator_for
from opshift.opsets.runtimes import kernels
from opshift.passes.runtime.node_evaluator import Interpreter
from opshift.passes.runtime.ort_models import Runnable

NUMPY: Mapping[int, Any] = {TensorProto.UINT8: np.uint8, TensorProto.INT8: np.int8}
TYPES = (TensorProto.UINT8, TensorProto.INT8)
Shape = Sequence[int | str] | None


def one_node(
    name: str,
    inputs: Mapping[str, tuple[int, Shape]],
    output: int,
    attributes: Mapping[str, Any] | None = None,
    opset: int = 13,
) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(key, dtype, shape) for key, (dtype, shape) in inputs.items()]
    node = helper.make_node(name, list(inputs), ["y"], **(attributes or {}))
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", output, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ends(dtype: int, shape: Sequence[int], *, low: bool) -> np.ndarray[Any, Any]:
    info = np.iinfo(NUMPY[dtype])
    return np.full(shape, info.min if low else info.max, NUMPY[dtype])


def check(model: onnx.ModelProto, feeds: Sequence[Mapping[str, Any]], *lowerings: str, **how: Any) -> None:
    result = opshift.convert(model, **how)
    assert isinstance(result.model, onnx.ModelProto)
    assert not set(lowerings).isdisjoint(result.plan.lowered[0].lowerings)
    right = Interpreter(Runnable(model), by_oracle=frozenset({model.graph.node[0].op_type}))
    found = run(result.model, feeds)
    # Where a processor cuts sums of products to 16 bits, onnxruntime does not say what is right.
    wanted = [right.run(one) for one in feeds] if kernels.cuts_sums_of_bytes() else run(model, feeds)
    for one, other in zip(wanted, found, strict=True):
        assert one[0].dtype == other[0].dtype
        np.testing.assert_array_equal(one[0], other[0])


ZEROS: Mapping[str, tuple[Any, Any]] = {"none": (None, None), "scalars": ([], []), "by column": ([1], [3])}


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("types", list(itertools.product(TYPES, TYPES)), ids=str)
# 33,026 products of 255 and 255 are more than int32 holds, and 66,052 more than uint32.
@pytest.mark.parametrize("count", [4, 40_000, 70_000])
def test_matrix_products_are_the_same_integers(count: int, types: tuple[int, int], zeros: str) -> None:
    a, b = types
    inputs: dict[str, tuple[int, Shape]] = {"a": (a, [2, count]), "b": (b, [count, 3])}
    feeds = [
        {"a": ends(a, [2, count], low=left), "b": ends(b, [count, 3], low=right)}
        for left, right in itertools.product((False, True), repeat=2)
    ]
    for name, dtype, shape in zip(("za", "zb"), types, ZEROS[zeros], strict=True):
        if shape is not None:
            inputs[name] = dtype, shape
            feeds = [{**one, name: ends(dtype, shape, low=low)} for one in feeds for low in (False, True)]
    model = one_node("MatMulInteger", inputs, TensorProto.INT32)
    check(model, feeds, "in_int32", opset=9, verify=False)
    left, right = (128 if zeros == "none" and dtype == TensorProto.INT8 else 255 for dtype in types)
    fits = count * left * right < 2**31
    # Of few products float is exact too, and which of the two is cheaper is a matter of costs.
    widened = ("in_double", "in_float") if count == 4 else ("in_double",) if fits else ("in_double_with_overflow",)
    check(model, feeds, *widened, opset=7, verify=False)


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize(
    ("a", "b"), [([2, 1, 3, 4], [5, 4, 2]), (["n", "k"], ["k", 3]), ([4], [4]), ([2, 4], [4]), ([4], [2, 4, 3])]
)
def test_matrix_products_of_any_shape_are_verified(a: Shape, b: Shape, opset: int) -> None:
    inputs = {"a": (TensorProto.UINT8, a), "b": (TensorProto.INT8, b)}
    result = opshift.convert(one_node("MatMulInteger", inputs, TensorProto.INT32), opset=opset)
    assert result.report
    assert str(result.report.verdict) == "equal"


def test_a_zero_point_for_each_row_is_taken_from_its_row() -> None:
    """onnxruntime 1.32.0 has no kernel for these, so that numpy says what is right."""
    rng = np.random.default_rng(0)
    for shape, zeros in (([2, 4], [2]), ([2, 4], [2, 1]), ([3, 2, 4], [3, 2, 1])):
        inputs: dict[str, tuple[int, Shape]] = {
            "a": (TensorProto.UINT8, shape), "b": (TensorProto.INT8, [4, 3]), "za": (TensorProto.UINT8, zeros),
        }  # fmt: skip
        model = one_node("MatMulInteger", inputs, TensorProto.INT32)
        result = opshift.convert(model, opset=9, verify=False).model
        assert isinstance(result, onnx.ModelProto)
        a, za = rng.integers(0, 256, shape).astype(np.uint8), rng.integers(0, 256, zeros).astype(np.uint8)
        b = rng.integers(-128, 128, [4, 3]).astype(np.int8)
        wanted = (a.astype(int) - za.astype(int).reshape(*shape[:-1], 1)) @ b.astype(int)
        np.testing.assert_array_equal(run(result, [{"a": a, "b": b, "za": za}])[0][0], wanted)


CONVOLUTIONS: Sequence[Mapping[str, Any]] = [
    {},
    {"pads": [1, 0, 2, 1]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 1]},
    {"auto_pad": "VALID"},
    {"group": 2, "dilations": [1, 2]},
]


@pytest.mark.parametrize("zeros", [(None, None), ([], []), ([], [1])], ids=str)
@pytest.mark.parametrize("attributes", CONVOLUTIONS, ids=str)
def test_convolutions_are_the_same_integers(attributes: Mapping[str, Any], zeros: tuple[Any, Any]) -> None:
    kernel = [6, 2 if "group" in attributes else 4, 3, 3]
    inputs: dict[str, tuple[int, list[int]]] = {
        "x": (TensorProto.UINT8, [1, 4, 6, 7]),
        "w": (TensorProto.UINT8, kernel),
    }
    rng = np.random.default_rng(0)
    feeds: list[dict[str, Any]] = [
        {"x": ends(TensorProto.UINT8, [1, 4, 6, 7], low=False), "w": ends(TensorProto.UINT8, kernel, low=False)},
        {name: rng.integers(0, 256, inputs[name][1]).astype(np.uint8) for name in "xw"},
    ]
    for name, shape in zip(("zx", "zw"), zeros, strict=True):
        if shape is not None:
            inputs[name] = TensorProto.UINT8, shape
            feeds = [{**one, name: np.full(shape, zero, np.uint8)} for one in feeds for zero in (7, 255)]
    model = one_node("ConvInteger", inputs, TensorProto.INT32, attributes)
    check(model, feeds, "in_float", opset=7)
    oracle = operator_for("", "ConvInteger")
    assert oracle is not None
    what = oracle.meaning(**{key: tuple(one) if isinstance(one, list) else one for key, one in attributes.items()})
    for one in feeds:
        np.testing.assert_array_equal(run(model, [one])[0][0], oracle.oracle(what, *one.values()))


def test_a_convolution_that_24_bits_do_not_hold_is_refused() -> None:
    """258 products of 255 and 255 are 16,776,450; one more is beyond 2^24."""
    for channels, fits in ((258, True), (259, False)):
        inputs: dict[str, tuple[int, Shape]] = {
            "x": (TensorProto.UINT8, [1, channels, 2, 2]),
            "w": (TensorProto.UINT8, [1, channels, 1, 1]),
        }
        model = one_node("ConvInteger", inputs, TensorProto.INT32)
        assert opshift.plan(model, opset=9).possible is fits
    with refused("absent-operator: ConvInteger-10 at main/ConvInteger_0"):
        opshift.convert(model, opset=9)


SCALES: Mapping[str, tuple[Any, Any]] = {"scalars": ([], []), "by column": ([], [3])}


@pytest.mark.slow
@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("types", [(2, 2, 2), (3, 3, 3), (2, 3, 2)], ids=str)
def test_quantized_products_are_the_same_bytes(types: tuple[int, int, int], scales: str, opset: int) -> None:
    (a, b, y), (left, right) = types, SCALES[scales]
    inputs: dict[str, tuple[int, list[int]]] = {
        "a": (a, [2, 3, 4]), "sa": (TensorProto.FLOAT, left), "za": (a, left),
        "b": (b, [4, 3]), "sb": (TensorProto.FLOAT, right), "zb": (b, right),
        "sy": (TensorProto.FLOAT, []), "zy": (y, []),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    model = one_node("QLinearMatMul", inputs, y, opset=21)
    feeds = []
    for scale in (0.1, 0.5, 1.0, 7.0, 1000.0):  # 0.5 makes ties
        feed: dict[str, np.ndarray[Any, Any]] = {}
        for name, (dtype, shape) in inputs.items():
            if dtype == TensorProto.FLOAT:
                feed[name] = np.full(shape or [], scale if name == "sy" else 0.5, np.float32)
            else:
                info = np.iinfo(NUMPY[dtype])
                feed[name] = np.array(rng.integers(info.min, info.max + 1, shape or []), NUMPY[dtype])
        feeds.append(feed)
    check(model, feeds, "by_sums", opset=opset)


MIXED: Mapping[str, str] = {
    "MatMulInteger": "({0}[4,64] x, {1}[64,3] w) => (int32[4,3] y) {{ y = MatMulInteger (x, w) }}",
    "ConvInteger": "({0}[1,8,12] x, {1}[2,8,3] w) => (int32[1,2,10] y) {{ y = ConvInteger (x, w) }}",
    "QLinearMatMul": "({0}[4,64] x, {1}[64,3] w, {0} a, {1} b, {0} c) => ({0}[4,3] y) <float s = {{0.002}}, float t = "
    "{{0.1}}> {{ y = QLinearMatMul (x, s, a, w, s, b, t, c) }}",
    "com.microsoft::MatMulIntegerToFloat": "({0}[4,64] x, {1}[64,3] w) => (float[4,3] y) <float s = {{0.002}}> "
    "{{ y = com.microsoft.MatMulIntegerToFloat (x, w, s, s) }}",
    "com.microsoft::DynamicQuantizeMatMul": "(float[4,64] x, {1}[64,3] w) => (float[4,3] y) <float s = {{0.002}}> "
    "{{ y = com.microsoft.DynamicQuantizeMatMul (x, w, s) }}",
}


@pytest.mark.parametrize(
    ("name", "types"),
    [
        *((name, ("uint8", "int8")) for name in MIXED),
        *((name, ("int8", "uint8")) for name in MIXED if "::" not in name),  # those have no kernel, or no mixed signs
    ],
)
@pytest.mark.parametrize("cut", [True, None], ids=["where sums are cut", "on this processor"])
def test_sums_that_a_processor_cuts_to_16_bits_refuse_no_conversion(
    cut: bool | None, types: tuple[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cut:
        monkeypatch.setattr(kernels, "cuts_sums_of_bytes", lambda: True)
    text = f'<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]> g {MIXED[name].format(*types)}'
    report = opshift.convert(onnx.parser.parse_model(text), decompose=[name]).report
    assert report is not None
    assert all(check.verdict is opshift.Verdict.EQUAL and check.inputs > 10 for check in (*report.nodes, report.whole))
    if cut:
        assert all("oracle" in check.judge for check in (*report.nodes, report.whole))


def test_a_replacement_with_wrong_sums_is_found_where_sums_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "cuts_sums_of_bytes", lambda: True)
    text = '<ir_version: 8, opset_import: ["": 13]> g '
    body = "(uint8[4,64] x, int8[64,3] w) => (int32[4,3] y) { y = MatMulInteger (x, w) }"
    other = (
        "(uint8[4,64] x, int8[64,3] w) => (int32[4,3] y) "
        "{ a = Cast <to = 6> (x) b = Cast <to = 6> (w) c = MatMul (a, b) h = Constant <value_int = 7> () "
        "i = Cast <to = 6> (h) y = Max (c, i) }"
    )
    report = opshift.verify(onnx.parser.parse_model(text + body), onnx.parser.parse_model(text + other))
    assert report.whole.verdict is opshift.Verdict.DIFFERENT


def test_types_that_do_not_fit_are_found_where_the_oracle_is_asked() -> None:
    """The oracle of Gather does not look at the type of its indices, but the schemas do."""
    text = '<ir_version: 8, opset_import: ["": 13]> g (string[1,2] x) => (string[1,2] y) '
    body = "<bool[1] i = {0}> { y = Gather (x, i) }"
    one, other = (onnx.parser.parse_model(text + more) for more in ("{ y = Identity (x) }", body))
    with pytest.raises(opshift.InvalidModelError, match="the rewritten model: Gather-13"):
        opshift.verify(one, other)
