"""Normalizations of groups, instances and layers, and the roots and reciprocals that they are computed with."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.parser import parse_model
from refused import refused
from running import run, same

import opshift
from operators.harness import F16, F32, F64, Array, Case, Table, converted, dtype_name
from opshift.opsets.operators import (
    groupnormalization,
    instancenormalization,
    layernormalization,
    lpnormalization,
    lrn,
    meanvariancenormalization,
    reciprocal,
    rmsnormalization,
    sqrt,
)
from opshift.opsets.operators.groupnormalization import GroupNormalization
from opshift.opsets.operators.instancenormalization import InstanceNormalization
from opshift.opsets.operators.layernormalization import LayerNormalization
from opshift.opsets.operators.lpnormalization import LpNormalization
from opshift.opsets.operators.lrn import LRN
from opshift.opsets.operators.meanvariancenormalization import MeanVarianceNormalization
from opshift.opsets.operators.rmsnormalization import RMSNormalization

RNG = np.random.default_rng(9)
IMAGE = RNG.normal(2, 3, size=(3, 4, 2, 5)).astype(F32)


def numbers(*shape: int, dtype: Any = F32) -> Array:
    return np.asarray(RNG.normal(size=shape)).astype(dtype)


def grouped(name: str, x: Array, what: GroupNormalization) -> Case:
    length = x.shape[1] if what.scaled == "channel" else what.num_groups
    return Case(name, [x, numbers(length, dtype=x.dtype), numbers(length, dtype=x.dtype)], what)


class TestGroupNormalization(Table):
    operator = groupnormalization.OPERATOR
    tolerance = 3e-6
    cases = (
        *(
            grouped(f"{groups} scaled by {scaled}", IMAGE, GroupNormalization(groups, scaled=scaled))
            for groups in (1, 2, 4)
            for scaled in ("channel", "group")
        ),
        grouped("epsilon", IMAGE, GroupNormalization(2, 0.5)),
        grouped("sequence", IMAGE[:, :, 0], GroupNormalization(2, scaled="group")),
        grouped("matrix", IMAGE[:, :, 0, 0], GroupNormalization(2)),
        grouped("volume", IMAGE[:, :, None], GroupNormalization(2)),
        grouped("double", IMAGE.astype(F64), GroupNormalization(2, stash_type=TensorProto.DOUBLE, scaled="group")),
        grouped("double in float", IMAGE.astype(F64), GroupNormalization(2)),
    )


def of_instances(name: str, x: Array, epsilon: float = 1e-5) -> Case:
    each = [numbers(x.shape[1], dtype=x.dtype) for _ in range(2)]
    return Case(name, [x, *each], InstanceNormalization(float(np.float32(epsilon))))


class TestInstanceNormalization(Table):
    operator = instancenormalization.OPERATOR
    tolerance = 3e-6
    cases = (
        of_instances("image", IMAGE),
        of_instances("epsilon", IMAGE, 0.5),
        of_instances("sequence", IMAGE[:, :, 0]),
        of_instances("volume", IMAGE[:, :, None]),
        of_instances("one channel", IMAGE[:, :1]),
        # The kernel takes x / spread + (B - mean / spread), which cancels: with a small spread no digit is left.
        of_instances("one element", IMAGE[:, :, :1, :1], 1.0),
        of_instances("equal elements", np.full((2, 3, 4), 2, F32), 1.0),
        of_instances("double", IMAGE.astype(F64)),
        of_instances("no samples", IMAGE[:0]),
        of_instances("no channels", IMAGE[:, :0]),
        of_instances("no elements", IMAGE[:, :, :0]),
    )


@pytest.mark.parametrize("name", ["InstanceNormalization", "LRN"])
@pytest.mark.parametrize("opset", [9, 13, 18])
def test_images_of_unknown_rank_or_size_are_normalized(name: str, opset: int) -> None:
    """A model that declares no rank, and one that declares nothing but it."""
    call = "InstanceNormalization(x, s, b)" if name == "InstanceNormalization" else "LRN <size = 5, alpha = 0.5> (x)"
    of_channels = {"s": numbers(4), "b": numbers(4)} if name == "InstanceNormalization" else {}
    header = f'<ir_version: 8, opset_import: ["": {opset}]>'
    images = parse_model(f"{header} g (float[a,b,c,d] x) => (float[a,b,c,d] y) {{ y = Neg(x) }}").graph.input[0].type
    inputs = "".join(f", float[4] {one}" for one in of_channels)
    for ranked, x in itertools.product((True, False), (IMAGE, IMAGE[:0])):
        model = parse_model(f"{header} g (float[] x{inputs}) => (float[] y) {{ y = {call} }}")
        for value in (*model.graph.input[:1], *model.graph.output):
            value.type.tensor_type.ClearField("shape")
            if ranked:
                value.type.CopyFrom(images)
        result = converted(model, decompose=[name])
        assert name not in {node.op_type for node in result.graph.node}
        feeds = {"x": x, **of_channels}
        (wanted,), (found,) = (run(one, [feeds])[0] for one in (model, result))
        assert same(wanted, found, 3e-6)


@pytest.mark.slow
def test_halves_far_from_zero_are_normalized_in_float() -> None:
    """Squares of what is more than 256 are infinite in float16, and a mean of 10,000 has steps of 8."""
    x = (10_000 + 8 * RNG.integers(-40, 40, size=(2, 3, 50))).astype(F16)
    text = """<ir_version: 8, opset_import: ["": 13]>
        g (float16[n,3,d] x, float16[3] s, float16[3] b) => (float16[n,3,d] y) { y = InstanceNormalization(x, s, b) }"""
    result = opshift.convert(parse_model(text), opset=9, decompose=["InstanceNormalization"])
    assert result.report is not None
    assert result.report.verdict == "equal"
    each = numbers(3, dtype=F16), numbers(3, dtype=F16)
    ((found,),) = run(result.rewritten, [dict(zip("xsb", (x, *each), strict=True))])
    wanted = instancenormalization.oracle(InstanceNormalization(), x, *each)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)  # some units of float16, of numbers up to 4


EIGHTEEN = """<ir_version: 9, opset_import: ["": {opset}, "own": 1]>
g ({dtype}[n,{channels},3] x, {dtype}[{length}] s, {dtype}[{length}] b) => ({dtype}[n,c,m] y) {{ {nodes} }}"""
NORMALIZED = "y = GroupNormalization <num_groups = {groups}, epsilon = 0.25> (x, s, b)"
IN_IF = """t = Constant <value = bool {{1}}> () y = If (t) <then_branch = a () => ({dtype}[n,c,m] u) {{
u = GroupNormalization <num_groups = {groups}, epsilon = 0.25> (x, s, b) }}, else_branch = e () => ({dtype}[n,c,m] v)
{{ v = Neg (x) }}>"""
IN_FUNCTION = """y = own.normalized <groups = {groups}> (x, s, b) }}
<domain: "own", opset_import: ["": {opset}]> normalized <groups> (x, s, b) => (y)
{{ y = GroupNormalization <num_groups: int = @groups, epsilon = 0.25> (x, s, b)"""


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["static", "symbolic"])
@pytest.mark.parametrize(
    ("nodes", "dtype", "groups", "source"),
    [
        (NORMALIZED, F32, 1, 18),
        (NORMALIZED, F32, 2, 19),
        (NORMALIZED, F32, 4, 20),
        (NORMALIZED, F64, 2, 20),
        (NORMALIZED, F16, 2, 20),
        (IN_IF, F32, 2, 20),
        (IN_FUNCTION, F64, 2, 20),
    ],
    ids=["one", "two", "four", "double", "half", "branch", "function"],
)
def test_version_18_is_read(nodes: str, sizes: str, dtype: Any, groups: int, source: int) -> None:
    fields = {"dtype": dtype_name(dtype), "groups": groups, "opset": source}
    fields |= {"channels": 4, "length": groups} if sizes == "static" else {"channels": "c", "length": "g"}
    model = parse_model(EIGHTEEN.format(nodes=nodes.format(**fields), **fields))
    feeds = {"x": IMAGE[:, :, 0, :3], "s": numbers(groups), "b": numbers(groups)}
    feeds = {name: value.astype(dtype) for name, value in feeds.items()}
    ((wanted,),) = run(model, [feeds])
    meaning = GroupNormalization(groups, 0.25, None, "group")
    near = {F32: 2e-6, F64: 1e-14, F16: 4e-3}[dtype]  # some units of rounding, of numbers up to 4
    np.testing.assert_allclose(groupnormalization.oracle(meaning, *feeds.values()), wanted, rtol=near, atol=near)
    for opset in (7, 17, 20, 21):
        result = opshift.convert(model, opset=opset)
        assert result.report is not None
        assert result.report.verdict == "equal"
        onnx.checker.check_model(result.rewritten)
        ((found,),) = run(result.rewritten, [feeds])
        if opset >= 21 and dtype is not F16:  # of float16, onnxruntime leaves out casts between the nodes of a body
            np.testing.assert_array_equal(found, wanted)
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("GroupNormalization <num_groups = 2> (x, s)", "input size 2"),
        ("GroupNormalization (x, s, b)", "num_groups"),
        ('GroupNormalization <num_groups = "two"> (x, s, b)', "num_groups"),
        ("GroupNormalization <num_groups = 2, stash_type = 1> (x, s, b)", "stash_type"),
        ("GroupNormalization <num_groups = 2> (x, s, q)", "'q'"),
        ("GroupNormalization <num_groups = 2, num_groups = 2> (x, s, b)", "multiple times"),
    ],
)
def test_version_18_is_held_to_its_schema(node: str, words: str) -> None:
    model = parse_model(EIGHTEEN.format(opset=18, dtype="float", channels=4, length=2, nodes=f"y = {node}"))
    with pytest.raises(opshift.InvalidModelError, match=words):
        opshift.convert(model, opset=21)


@pytest.mark.parametrize(
    "text",
    [
        '<ir_version: 9, opset_import: ["": 11]> g (float[3] x, int64[1] i, float[1] u) => (float[3] y) '
        "{ y = Scatter (x, i, u) }",
        '<ir_version: 9, opset_import: ["": 10]> g (float[3] x, float[1] s) => (float[6] y) { y = Upsample (x, s) }',
        '<ir_version: 9, opset_import: ["": 21, "own": 1]> g (float[1,4] x, float[2] s) => (float[1,4] y) '
        '{ y = own.f (x, s) } <domain: "own", opset_import: ["": 18]> f (x, s) => (y) '
        "{ y = GroupNormalization <num_groups = 2> (x, s, s) }",
    ],
    ids=["Scatter-11", "Upsample-10", "a function of opset 18 in a model of 21"],
)
def test_no_other_deprecated_version_is_read(text: str) -> None:
    with pytest.raises(opshift.InvalidModelError):
        opshift.convert(parse_model(text), opset=22)


def layered(name: str, x: Array, what: Any, *shape: int, bias: bool = True) -> Case:
    scale = numbers(*shape, dtype=x.dtype)
    return Case(name, [x, scale, numbers(*shape, dtype=x.dtype) if bias else None], what)


class TestLayerNormalization(Table):
    operator = layernormalization.OPERATOR
    tolerance = 2e-6
    cases = (
        *(
            layered(f"axis {axis}, bias {bias}", IMAGE, LayerNormalization(axis), *IMAGE.shape[axis:], bias=bias)
            for axis in (-1, -2, 0, 1, 3)
            for bias in (True, False)
        ),
        layered("epsilon", IMAGE, LayerNormalization(-1, 0.5), 5),
        layered("one scale", IMAGE, LayerNormalization(-2), 1),
        layered("vector", IMAGE[0, 0, 0], LayerNormalization(), 5),
        layered("double", IMAGE.astype(F64), LayerNormalization(stash_type=TensorProto.DOUBLE), 5),
        layered("double, statistics in float", IMAGE.astype(F64), LayerNormalization(wider=True), 5),
    )


def squared(name: str, x: Array, what: RMSNormalization, *shape: int) -> Case:
    return Case(name, [x, numbers(*shape, dtype=x.dtype)], what)


class TestRMSNormalization(Table):
    operator = rmsnormalization.OPERATOR
    tolerance = 2e-6
    cases = (
        *(squared(f"axis {axis}", IMAGE, RMSNormalization(axis), *IMAGE.shape[axis:]) for axis in (-1, -2, 0, 1, 3)),
        squared("epsilon", IMAGE, RMSNormalization(-1, 0.5), 5),
        squared("one scale", IMAGE, RMSNormalization(-2), 1),
        squared("vector", IMAGE[0, 0, 0], RMSNormalization(), 5),
        squared("double", IMAGE.astype(F64), RMSNormalization(stash_type=TensorProto.DOUBLE), 5),
        Case(
            "double scale",
            [IMAGE, numbers(5, dtype=F64)],
            RMSNormalization(),
            departs="onnxruntime does not load two types",
        ),
    )


class TestMeanVarianceNormalization(Table):
    operator = meanvariancenormalization.OPERATOR
    tolerance = 2e-6
    cases = (
        Case("images", [IMAGE]),
        Case("far from zero", [np.round(IMAGE * 64) / 64 + F32(16)]),
        Case("large", [IMAGE * F32(1e16)]),
        Case("all axes", [IMAGE], MeanVarianceNormalization((0, 1, 2, 3))),
        Case("last axis", [IMAGE], MeanVarianceNormalization((3,))),
        Case("equal", [np.full((2, 3, 2, 2), 7, F32)]),
    )


class TestSqrt(Table):
    operator = sqrt.OPERATOR
    cases = (
        Case("float", [np.array([0, 1, 4, np.inf, -1, np.nan], F32)]),
        Case("below zero", [np.array([-np.inf, -4, -1e-30], F32)]),
        Case("double", [np.array([[0.25, 2**40]], F64)]),
        Case("empty", [np.zeros((0, 2), F32)]),
    )


class TestReciprocal(Table):
    operator = reciprocal.OPERATOR
    cases = (
        Case("float", [np.array([0, 1, 4, np.inf, -0.5, np.nan], F32)]),
        Case("double", [np.array([[0.25, 2**40]], F64)]),
        Case("empty", [np.zeros((0, 2), F32)]),
    )


OWN = """<ir_version: 8, opset_import: ["": 18, "own": 1]> g (float[2,6,4] x, float[2] s) => (float[2,6,4] y) { CALL }
<domain: "own", opset_import: ["": 18]> f (x, s, b) => (y) { y = GroupNormalization <num_groups: int = 2> (x, s, b) }"""


@pytest.mark.parametrize("opset", [17, 18, 21])
def test_version_18_in_a_function(opset: int) -> None:
    result = opshift.convert(parse_model(OWN.replace("CALL", "y = own.f (x, s, s)")), opset=opset)
    assert result.report is not None
    assert result.report.verdict == "equal"


@pytest.mark.parametrize("opset", [17, 18, 21])
def test_version_18_in_a_function_that_nobody_calls(opset: int) -> None:
    with refused("missing-fact: GroupNormalization-18 at function f/GroupNormalization_0"):
        opshift.convert(parse_model(OWN.replace("CALL", "y = Relu (x)")), opset=opset)


@pytest.mark.parametrize("shape", [(3, 4, 2, 5), (3, 0, 2, 5), (0, 4, 2, 5), (7,), (2, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 3])
@pytest.mark.parametrize("request_", [{"opset": 11}, {"opset": 16}, {"decompose": ["LayerNormalization"]}], ids=str)
def test_layer_normalization_of_any_rank(request_: dict[str, Any], axis: int, shape: tuple[int, ...]) -> None:
    if axis >= len(shape) or 0 in shape[axis:]:
        return  # onnxruntime: "Size of X.shape[axis:] must be at least 1"
    text = (
        '<ir_version: 8, opset_import: ["": 18]> g (float[N] flat, int64[R] shape, float[1] s, float b) => '
        "(float y, float mean, float inverse) { x = Reshape<allowzero=1>(flat, shape) "
        f"y, mean, inverse = LayerNormalization<axis={axis}>(x, s, b) }}"
    )
    model = parse_model(text)
    for value in (*model.graph.output, model.graph.input[3]):
        value.type.tensor_type.ClearField("shape")  # the text has no word for an unknown rank
    x = np.resize(IMAGE, shape) + F32(3000)  # where the difference of two means of squares cancels
    feed = {"flat": x.reshape(-1), "shape": np.array(shape), "s": np.array([2], F32), "b": np.array([1], F32)}
    result = opshift.convert(model, verify=False, **request_).model
    assert isinstance(result, onnx.ModelProto)
    for one, other in zip(run(model, [feed])[0], run(result, [feed])[0], strict=True):
        assert one.shape == other.shape
        # Numbers about 3000 are 2**-12 apart; both means are rounded to that, and divided by a deviation above 1.
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=2 * 2**-12 * 2)


@pytest.mark.parametrize(
    ("oracle", "what", "shapes"),
    [
        (groupnormalization.oracle, GroupNormalization(3), [(1, 4, 2), (4,), (4,)]),
        (groupnormalization.oracle, GroupNormalization(3), [(1, 1, 0), (1,), (1,)]),
        (groupnormalization.oracle, GroupNormalization(2), [(1, 0, 2), (0,), (0,)]),
        (groupnormalization.oracle, GroupNormalization(2), [(1, 4, 2), (2,), (4,)]),
        (groupnormalization.oracle, GroupNormalization(2), [(1, 4, 2), (4,), (1,)]),
        (groupnormalization.oracle, GroupNormalization(2, scaled="group"), [(1, 4, 2), (4,), (4,)]),
        (layernormalization.oracle, LayerNormalization(), [(2, 1), (3,)]),
        (layernormalization.oracle, LayerNormalization(), [(2, 3), (3,), (1, 2, 3)]),
        (rmsnormalization.oracle, RMSNormalization(), [(2, 1), (3,)]),
        (rmsnormalization.oracle, RMSNormalization(), [(2, 3), (1, 2, 3)]),
    ],
)
def test_oracles_reject_shapes_that_do_not_fit(oracle: Any, what: Any, shapes: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"fit|shape"):
        oracle(what, *(np.ones(shape, F32) for shape in shapes))


@pytest.mark.parametrize(
    ("shape", "axis", "meant"),
    [
        ((0,), -1, False),
        ((2, 0), -1, False),
        ((2, 0, 3), 1, False),
        ((0, 3), 0, False),
        ((0, 3), 1, True),
        ((2, 3), 0, True),
    ],
)
def test_rows_without_elements_have_no_mean(shape: tuple[int, ...], axis: int, meant: bool) -> None:
    """As in onnxruntime 1.32.0, whose kernel runs on no such rows: what ReduceMean makes of them is undefined."""
    x, scale = np.ones(shape, F32), np.ones(shape[axis:], F32)
    text = f"""<ir_version: 8, opset_import: ["": 17]> g (float{list(shape)} x, float{list(shape[axis:])} s)
        => (float{list(shape)} y) {{ y = LayerNormalization <axis = {axis}> (x, s) }}"""
    if meant:
        assert layernormalization.oracle(LayerNormalization(axis), x, scale)[0].shape == shape
        assert run(parse_model(text), [{"x": x, "s": scale}])[0][0].shape == shape
    else:
        with pytest.raises(ValueError, match="no mean"):
            layernormalization.oracle(LayerNormalization(axis), x, scale)
        with pytest.raises(Exception, match="Size"):
            run(parse_model(text), [{"x": x, "s": scale}])


@pytest.mark.slow
@pytest.mark.parametrize("stash", [TensorProto.BFLOAT16, TensorProto.FLOAT])
@pytest.mark.parametrize("kind", ["float", "float16"])
def test_a_normalization_with_statistics_of_another_type_is_verified(stash: int, kind: str) -> None:
    """onnxruntime 1.32.0 has no kernel with statistics in bfloat16: the oracle takes its place."""
    second = "float" if stash == TensorProto.FLOAT else "bfloat16"
    model = parse_model(f"""<ir_version: 10, opset_import: ["": 25]> g ({kind}[n] x, {kind}[k] s)
        => ({kind}[n] y, {second}[1] m, {second}[1] i)
        {{ y, m, i = LayerNormalization <stash_type = {stash}> (x, s) }}""")
    report = opshift.convert(model, opset=16).report
    assert report is not None
    assert [check.verdict for check in (*report.nodes, report.whole)] == [opshift.Verdict.EQUAL] * 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("shape", [(1, 4, 0), (0, 4, 2), (1, 4, 0, 2)])
def test_a_group_of_no_elements_stays_empty(shape: tuple[int, ...]) -> None:
    found = groupnormalization.oracle(GroupNormalization(2), np.ones(shape, F32), np.ones(4, F32), np.ones(4, F32))
    assert found.shape == shape


@pytest.mark.parametrize(("kind", "scaled"), [(F32, F64), (F64, F32), (F16, F32), (F32, F16)])
@pytest.mark.parametrize("axis", [-1, 1])
def test_a_scale_of_another_type_is_that_of_the_result(kind: Any, scaled: Any, axis: int) -> None:
    """By the schema; onnx infers the type of X, and its body multiplies two types: onnxruntime loads neither."""
    names = [dtype_name(one) for one in (kind, scaled)]
    model = parse_model(
        f'<ir_version: 10, opset_import: ["": 23]> g ({names[0]}[3,4,5] x, {names[1]}[5] s) => ({names[1]}[3,4,5] y) '
        f"{{ t = Identity (x) n = RMSNormalization <axis = {axis}> (t, s) y = Identity (n) }}"
    )
    result = opshift.convert(model, opset=22)
    assert result.report is not None
    assert [check.verdict for check in result.report.nodes] == [opshift.Verdict.EQUAL]
    x, scale = numbers(3, 4, 5, dtype=kind), numbers(5, dtype=scaled)
    found = run(result.rewritten, [{"x": x, "s": scale}])[0][0]
    expected = rmsnormalization.oracle(RMSNormalization(axis), x, scale)
    assert found.dtype == expected.dtype == scaled
    np.testing.assert_allclose(found, expected, rtol=2e-6 if F16 not in (kind, scaled) else 2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [7, 13, 18])
@pytest.mark.parametrize("dims", ["n,6,h,w", "n,c,h,w"])
def test_groups_of_no_elements_run(dims: str, opset: int) -> None:
    """ONNX's body reshapes to the dimensions, where one that is zero copies another."""
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 21]> g (float[{dims}] x, float[6] s, float[6] b) => (float[{dims}] y) '
        "{ y = GroupNormalization <num_groups = 3> (x, s, b) }"
    )
    converted = opshift.convert(model, opset=opset).rewritten
    for shape in ((0, 6, 3, 2), (2, 6, 0, 3), (2, 6, 3, 0), (2, 6, 3, 2)):
        feeds = {"x": numbers(*shape), "s": numbers(6), "b": numbers(6)}
        found = run(converted, [feeds])[0][0]
        expected = groupnormalization.oracle(GroupNormalization(3), *feeds.values())
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


class TestLpNormalization(Table):
    operator = lpnormalization.OPERATOR
    tolerance = 1e-6
    cases = tuple(
        Case(f"{name}, axis {axis}, p {p}", [x], LpNormalization(axis, p))
        for p in (1, 2)
        for name, x, axis in (
            ("matrix", IMAGE[0, 0], 0),
            ("matrix", IMAGE[0, 0], -1),
            ("image", IMAGE, 1),
            ("double", IMAGE.astype(F64), 2),
            ("halves", IMAGE.astype(F16) * F16(90), -1),
            ("zeros", np.array([[0, 0], [-0.0, 0], [3, -4]], F32), 1),
            ("squares that underflow", np.array([[1e-30, 0], [1e-30, -2e-30]], F32), 1),
            ("empty rows", IMAGE[:0, 0], 1),
        )
    )


class TestLRN(Table):
    operator = lrn.OPERATOR
    tolerance = 2e-6
    cases = (
        *(Case(f"size {size}", [IMAGE], LRN(size=size)) for size in (1, 3, 5, 9)),
        *(Case(f"numbers, size {size}", [IMAGE], LRN(0.5, 0.5, 2, size)) for size in (1, 3)),
        Case("halves", [IMAGE.astype(F16) * F16(90)], LRN(0.001, 1, 1, 3)),
        *(
            Case(f"{name} of double", [x.astype(F64)], LRN(0.5, 1.5, 0.5, size))
            for name, x, size in (("matrix", IMAGE[..., 0, 0], 3), ("sequence", IMAGE[:, :, 0], 2), ("image", IMAGE, 4))
        ),
        Case("empty batch", [IMAGE[:0]], LRN(size=3)),
        Case("no channels", [IMAGE[:, :0]], LRN(size=3)),
        Case("no rows", [IMAGE[:, :, :0]], LRN(size=3)),
    )


SMALL_EPSILONS: dict[str, tuple[int, str, str]] = {
    "BatchNormalization": (15, "float16[3] s, float16[3] m, float16[3] v", "(x, s, s, m, v)"),
    "GroupNormalization": (21, "float16[3] s", "(x, s, s)"),
    "InstanceNormalization": (13, "float16[3] s", "(x, s, s)"),
    "LayerNormalization": (17, "float16[4] s", "(x, s)"),
    "RMSNormalization": (23, "float16[4] s", "(x, s)"),
}
"""Opset, further inputs, and how the operator is called."""


@pytest.mark.parametrize("epsilon", ["1e-7", "1e-12"])
@pytest.mark.parametrize("name", SMALL_EPSILONS)
def test_an_epsilon_that_float16_does_not_hold_counts(name: str, epsilon: str) -> None:
    opset, inputs, called = SMALL_EPSILONS[name]
    groups = "num_groups = 3, " if name == "GroupNormalization" else ""
    call = f"y = {name}<{groups}epsilon = {epsilon}>{called}"
    graph = f"g (float16[2,3,4] x, {inputs}) => (float16[2,3,4] y) {{ {call} }}"
    model = parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {graph}')
    x = np.array([np.zeros((3, 4)), [[1, 1, 1, 1], [5, 5, 5, 5], [1, 2, 3, 4]]], np.float16)
    values = {"x": x, "s": np.ones(4 if "[4]" in inputs else 3, np.float16)}
    if "m" in called:
        values |= {"m": np.array([0, 5, 2.5], np.float16), "v": np.array([0, 0, 1], np.float16)}
    report = opshift.convert(model, decompose=[name], inputs=values).report
    assert report is not None
    assert report.verdict == "equal"
    assert {check.verdict for check in report.nodes} == {"equal"}
