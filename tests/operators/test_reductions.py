"""The Reduce operators, CumSum, TopK and NonZero: axes as attribute or input, from both ends, all, or none."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from onnx.parser import parse_model
from running import run

import opshift
from operators.harness import F16, F32, F64, INF, NAN, Array, Case, Code, Refused, Table, arr, converted, dtype_name
from opshift.opsets.families.cumulative import Cumulative
from opshift.opsets.families.reduction import Reduction
from opshift.opsets.operators import (
    cumprod,
    cumsum,
    nonzero,
    reducel1,
    reducel2,
    reducelogsum,
    reducelogsumexp,
    reducemax,
    reducemean,
    reducemin,
    reduceprod,
    reducesum,
    reducesumsquare,
    topk,
)
from opshift.opsets.operators.topk import TopK
from opshift.passes.base.report import Verdict

CUBE = np.random.default_rng(5).integers(1, 5, (2, 3, 4)).astype(F32)
WIDE = np.random.default_rng(6).integers(-128, 256, (2, 7, 5))
SIGNED = CUBE * np.array([1, -1, 1, -1], F32)


def case(
    data: Array, axes: Sequence[int] | None, keepdims: int = 1, noop: int = 0, *, known: bool = True, least: int = 7
) -> Case:
    sign = "signed " if (data < 0).any() else ""
    how = "known" if known else "computed"
    name = f"{sign}{data.dtype}{data.shape} axes {axes}, keepdims {keepdims}, noop {noop}, {how}"
    operand = None if axes is None else np.array(axes, np.int64)
    return Case(name, [data, operand], Reduction(keepdims, noop), known=(1,) * known, least=least)


def reductions(since: int) -> tuple[Case, ...]:
    """Cases of all Reduce operators; `since` is the version that brought axes as an input."""
    return (
        *(case(CUBE, axes, keepdims) for axes in ((0,), (1,), (-1,), (0, 2), (-3, 1), None) for keepdims in (0, 1)),
        case(CUBE, (1,), known=False),
        case(CUBE, (1,), 0, known=False, least=9),
        case(CUBE, (-1, 0), known=False),
        case(CUBE, (-1, 0), 0, known=False, least=9),
        case(CUBE, (-1, 0), 0, 1, known=False, least=9),
        case(CUBE[:, :1], (1,), 0),
        case(CUBE[:, :1], (1,)),
        case(CUBE[:, :1, :1], (-1, 1), 0),
        case(CUBE, (), known=False),
        case(CUBE, (), noop=1),
        case(CUBE, None, noop=1),
        case(CUBE, None, 0, noop=1),
        case(CUBE.astype(F64), (1,)),
        case(CUBE.astype(np.int32), (1,)),
    )


BOOLEANS = (
    *(case(CUBE > 2, axes, keepdims) for axes in ((1,), (0, -1), None) for keepdims in (0, 1)),
    case(CUBE > 2, (1,), known=False),
    case(CUBE > 2, None, noop=1),
)


BYTES = tuple(
    case(WIDE.astype(dtype), axes, keepdims)
    for dtype in (np.int8, np.uint8)
    for axes in ((1,), (-1,))
    for keepdims in (0, 1)
)


class TestReduceMax(Table):
    operator = reducemax.OPERATOR
    cases = (
        *reductions(18),
        case(arr([[-INF, -INF], [INF, 1]]), (1,)),
        case(CUBE.astype(np.int64), (1,)),
        *BYTES,
        *BOOLEANS,
    )


class TestReduceMin(Table):
    operator = reducemin.OPERATOR
    cases = (
        *reductions(18),
        case(arr([[-INF, -INF], [INF, 1]]), (1,)),
        *BYTES,
        *BOOLEANS,
    )


class TestReduceProd(Table):
    operator = reduceprod.OPERATOR
    cases = (
        *reductions(18),
        case(CUBE.astype(np.int64), (1,)),
        case(np.zeros((0,), np.int64), (0,)),
        case(np.full((2, 3), 70000, np.int32), (1,)),
        case(-np.arange(1, 7).reshape(2, 3), (0, 1), keepdims=0),
    )


class TestReduceSum(Table):
    operator = reducesum.OPERATOR
    cases = (*reductions(13), case(CUBE.astype(np.int64), (1,)))


class TestReduceMean(Table):
    operator = reducemean.OPERATOR
    cases = tuple(one for one in reductions(18) if "int32" not in one.name)
    tolerance = 1e-6


class TestReduceL1(Table):
    operator = reducel1.OPERATOR
    cases = (*reductions(18), case(SIGNED, (1,)), case(SIGNED, None, noop=1))


def named(name: str, one: Case) -> Case:
    return dataclasses.replace(one, name=name)


FLOATS = tuple(one for one in reductions(18) if "int32" not in one.name)
DOUBLES = arr([[1 + 1e-12, 2, 3], [1e154, 1e153, -3e153], [1e-150, -2e-150, 1e-160]], F64)
ROOTS = np.array([[3, 4], [2**15, 0], [-5, 12]], np.int32)


class TestReduceL2(Table):
    operator = reducel2.OPERATOR
    cases = (
        *FLOATS,
        named("doubles, one by one", case(DOUBLES[:, None], (1,))),
        named("doubles", case(DOUBLES, (1,))),
        named("whole numbers", case(ROOTS, (1,))),
    )
    tolerance = 1e-6


class TestReduceLogSum(Table):
    operator = reducelogsum.OPERATOR
    cases = (*FLOATS, named("whole numbers", case(CUBE.astype(np.int32), (1,))))
    tolerance = 1e-6


class TestReduceLogSumExp(Table):
    operator = reducelogsumexp.OPERATOR
    cases = (
        *FLOATS,
        *(
            named(f"{np.dtype(one)} from {least} to {most}, {keepdims}", case(arr(rows, one), (1,), keepdims))
            for one in (F32, F64)
            for least, most in ((-1e4, 1e4), (800, 900), (-900, -800))
            for rows in ([[least, most], [most, most], [-INF, -INF], [INF, least], [INF, -INF]],)
            for keepdims in (0, 1)
        ),
        dataclasses.replace(
            named("one of minus infinity", case(arr([[-INF, -800], [-1e30, -INF]]), (1,))),
            departs="onnxruntime 1.32.0 gives -inf for a row that begins with it",
        ),
        named("one by one", case(arr([-INF, INF, -1e30, 3, 0]), None, noop=1)),
    )
    tolerance = 1e-6


class TestReduceSumSquare(Table):
    operator = reducesumsquare.OPERATOR
    cases = (*reductions(18), case(SIGNED, (1,)), case(SIGNED, None, noop=1))


HOW = (Cumulative(), Cumulative(1), Cumulative(0, 1), Cumulative(1, 1))
LONG = (
    '<ir_version: 8, opset_import: ["": 26]> g (float[5000] x) => (float[5000] y) <int64 a = {{0}}> {{ y = {}(x, a) }}'
)


DIGITS = np.arange(54).reshape(2, 9, 3) % 13 - 6


def cumulative(open_integers: int) -> tuple[Case, ...]:
    """Cases of CumSum and CumProd; `open_integers` is the lowest opset for integers of unknown dims."""
    return (
        *(
            Case(f"axis {axis}, {how}", [CUBE, np.array(axis, np.int64)], how, known=(1,))
            for axis in (0, 1, -1)
            for how in HOW
        ),
        *(
            Case(
                f"int64, {how}", [CUBE.astype(np.int64), np.array(1, np.int32)], how, known=(1,), symbolic=open_integers
            )
            for how in HOW
        ),
        *(Case(f"empty, {how}", [CUBE[:, :0], np.array(1, np.int64)], how, known=(1,)) for how in HOW[:2]),
        Case("a vector", [CUBE[0, 0], np.array(0, np.int64)], known=(1,)),
        *(Case(f"computed axis {axis}", [CUBE, np.array(axis, np.int32)], Cumulative(1)) for axis in (0, 1, -1)),
        Case("a computed axis of int64", [CUBE.astype(np.int64), np.array(1, np.int64)], least=open_integers),
    )


class TestCumSum(Table):
    operator = cumsum.OPERATOR
    cases = (
        *cumulative(7),
        *(Case(f"int32, {how}", [CUBE.astype(np.int32), np.array(1)], how, known=(1,)) for how in HOW),
        *(
            Case(f"beyond double, {how}", [np.array([2**62, 1, -(2**61), 3, 2**53 + 1]), np.array(0)], how, known=(1,))
            for how in HOW
        ),
        Case("beyond int32", [np.array([2**31 - 1, 1, -7, 2**31 - 1], np.int32), np.array(0)], known=(1,)),
    )
    refusals = (Refused(LONG.format("CumSum"), Code.ABSENT_OPERATOR, "longer than 4096", {"opset": 10}),)


class TestCumProd(Table):
    operator = cumprod.OPERATOR
    cases = (
        *cumulative(26),
        *(
            Case(f"{np.dtype(one)} that wraps, {how}", [DIGITS.astype(one), np.array(1)], how, known=(1,), symbolic=26)
            for one in (np.int32, np.int64, np.uint32, np.uint64)
            for how in HOW
        ),
    )
    refusals = (Refused(LONG.format("CumProd"), Code.ABSENT_OPERATOR, "longer than 4096", {"opset": 25}),)


TIES = arr([[1, 3, 3, 2], [5, 5, 5, 5], [-INF, 2, -INF, -INF]])


K = np.array([2], np.int64)
LONG_ROW = arr([np.arange(4101) % 1000])
ROWS = arr([[1, 9, 3, 2], [5, 7, 4, 6]])


class TestTopK(Table):
    operator = topk.OPERATOR
    unrun: ClassVar[dict[int, str]] = dict.fromkeys((1, 10), "no rule for ties")
    cases = (
        *(
            Case(
                f"axis {axis}, k {k}, largest {largest}",
                [TIES, np.array([k], np.int64)],
                TopK(axis, largest),
            )
            for axis in (0, 1, -1)
            for k in (1, 3)
            for largest in (0, 1)
        ),
        Case("k is known", [TIES, np.array([2], np.int64)], TopK(), known=(1,)),
        Case("none", [TIES, np.array([0], np.int64)], TopK()),
        Case("in any order", [TIES, np.array([1], np.int64)], TopK(sorted=0)),
        Case("k is known, axis in front", [TIES, np.array([2], np.int64)], TopK(0), known=(1,)),
        Case("k is known, smallest", [TIES, np.array([3], np.int64)], TopK(1, 0), known=(1,)),
        Case("int64", [TIES[:2].astype(np.int64), np.array([2], np.int64)], TopK()),
        Case("a long axis", [LONG_ROW, np.array([2], np.int64)], TopK(), known=(1,), static=True),
        Case("a long axis in front", [LONG_ROW.T, np.array([2], np.int64)], TopK(0), known=(1,), static=True),
        *(
            Case(
                f"{dtype.__name__}, largest {largest}",
                [ROWS.astype(dtype), K],
                TopK(-1, largest),
                known=(1,),
            )
            for dtype in (F64, F16, np.int8, np.int32, np.uint8)
            for largest in (0, 1)
        ),
    )


UNSORTED = """<ir_version: 8, opset_import: ["": 17]>
g (float[n,50] x) => (float[n,k] y, int64[n,k] i, float[n,k] z) <int64[1] k = {7}> {
    y, i = TopK <sorted = %d, largest = %d> (x, k)
    z = GatherElements <axis = 1> (x, i)
}"""


@pytest.mark.slow
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("request_of", [{"decompose": ["TopK"]}, {"opset": 10}], ids=str)
def test_elements_in_any_order_are_sorted_where_topk_is_decomposed(largest: int, request_of: dict[str, Any]) -> None:
    """Without `sorted`, onnxruntime 1.32.0 returns another order, which no specification defines."""
    model = parse_model(UNSORTED % (0, largest))
    result = opshift.convert(model, **request_of)
    assert result.report is not None
    assert result.report.whole.verdict is Verdict.EQUAL
    feeds = {"x": np.random.default_rng(0).integers(0, 40, (3, 50)).astype(F32)}
    wanted, found = (run(one, [feeds])[0] for one in (parse_model(UNSORTED % (1, largest)), result.rewritten))
    assert all(map(np.array_equal, wanted, found))


def test_other_elements_than_the_largest_are_different_in_any_order() -> None:
    sorted_smallest = parse_model(UNSORTED % (1, 0))
    report = opshift.verify(parse_model(UNSORTED % (0, 1)), sorted_smallest)
    assert report.whole.verdict is Verdict.DIFFERENT


def test_elements_in_any_order_are_not_sorted_ones() -> None:
    """A rewritten model that leaves the order open, where the original does not, is compared as it is."""
    report = opshift.verify(parse_model(UNSORTED % (1, 1)), parse_model(UNSORTED % (0, 1)))
    assert report.whole.verdict is Verdict.DIFFERENT


THREE = """<ir_version: 8, opset_import: ["": 17]>
g (float[3,50] x) => (float[3,20] a, float[3,20] b, float[3,20] c) <int64[1] k = {20}> {
    a, i = TopK <sorted = %d> (x, k)
    b, j = TopK <sorted = %d> (x, k)
    c, l = TopK <sorted = %d> (x, k)
}"""


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [((0, 0, 1), (1, 1, 1), Verdict.EQUAL), ((0, 0, 1), (1, 1, 0), Verdict.DIFFERENT)],
)
def test_the_order_that_a_rewritten_model_leaves_open_was_open(
    before: tuple[int, ...], after: tuple[int, ...], verdict: Verdict
) -> None:
    assert opshift.verify(parse_model(THREE % before), parse_model(THREE % after)).whole.verdict is verdict


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [F32, np.int64, np.uint8], ids=lambda dtype: dtype.__name__)
def test_few_elements_of_a_long_axis_are_found_part_by_part(
    axis: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of equal elements the first ones are found, in whatever part they are; 199 elements are cut twice here."""
    monkeypatch.setattr(topk, "MOST", 64)
    x = np.random.default_rng(axis).integers(0, 20, size=(199, 2)).astype(dtype)
    x[97:103] = np.iinfo(dtype).max if dtype is not F32 else INF
    x[:, 1] = np.iinfo(dtype).min if dtype is not F32 else -INF
    x = x if axis == 0 else x.T.copy()
    shape, name = ",".join(map(str, x.shape)), dtype_name(dtype)
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> g ({name}[{shape}] x) => ({name}[d,e] y, int64[d,e] i)'
        f" <int64[1] k = {{19}}> {{ y, i = TopK <axis = {axis}> (x, k) }}"
    )
    result = converted(model, decompose=["TopK"])
    assert "TopK" not in {node.op_type for node in result.graph.node}
    wanted, found = (run(one, [{"x": x}])[0] for one in (model, result))
    assert all(map(np.array_equal, wanted, found))


@pytest.mark.parametrize("request_", [{"decompose": ["TopK"]}, {"opset": 10}, {"opset": 8}], ids=str)
@pytest.mark.parametrize("shape", ["2,4,3", "a,b,c"])
def test_topk_of_nan_runs(request_: dict[str, Any], shape: str) -> None:
    """Which NaN comes where is not said; an index is always one of the axis."""
    model = parse_model(
        f'<ir_version: 8, opset_import: ["": 19]> g (float[{shape}] x, int64[1] k) => (float[d,e,f] y, int64[d,e,f] i) '
        "{ y, i = TopK <axis = 1> (x, k) }"
    )
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(F32)
    x[0, ::2], x[1, 1:] = np.nan, np.nan
    values, indices = run(converted(model, **request_), [{"x": x, "k": K}])[0]
    assert np.array_equal(values, np.take_along_axis(x, indices, 1), equal_nan=True)


@pytest.mark.parametrize("opset", [7, 9, 10])
@pytest.mark.parametrize("shape", ["3,4", "a,b"])
def test_topk_without_a_rule_for_ties_is_decomposed(opset: int, shape: str) -> None:
    """TopK-1 and TopK-10 leave open which of equal elements comes first: the one with the lower index may."""
    count = "<k = 2> (x)" if opset < 10 else "(x, k)"
    k = "" if opset < 10 else ", int64[1] k"
    model = parse_model(
        f'<ir_version: 5, opset_import: ["": {opset}]> g (float[{shape}] x{k}) => (float[d,e] y, int64[d,e] i) '
        f"{{ y, i = TopK {count} }}"
    )
    result = converted(model, decompose=["TopK"])
    assert "TopK" not in {node.op_type for node in result.graph.node}
    feeds = {"x": arr([[1, 3, 3, 2], [0, 0, 0, 0], [-INF, 5, -INF, 5]]), "k": K}
    values, indices = run(result, [feeds])[0]
    assert values.tolist() == [[3, 3], [0, 0], [5, 5]]
    assert indices.tolist() == [[1, 2], [0, 1], [1, 3]]


class TestNonZero(Table):
    operator = nonzero.OPERATOR
    cases = (
        Case("float", [arr([[0, 1, -0.0], [2, 0, 3]])], least=9),
        Case("bool", [np.array([[True, False], [False, True]])], least=9),
        Case("int64", [np.array([0, 5, 0], np.int64)], least=9),
        Case("nothing", [np.zeros((2, 2), np.int64)], least=9),
        Case("empty", [np.zeros((0, 2), np.int64)], least=9),
        Case("empty at the end", [np.zeros((2, 0), bool)], symbolic=9),
        Case("cube", [np.arange(24).reshape(2, 3, 4) % 5 % 2], least=9),
        Case("no numbers", [arr([[[NAN, INF, -0.0, 1e-40]]])], least=9),
        Case("int32", [np.array([[0], [5]], np.int32)], least=9),
    )
