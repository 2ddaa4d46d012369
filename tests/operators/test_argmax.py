"""ArgMax and ArgMin: the first or the last extreme along an axis, of every element type and in every shape."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto
from running import run

import opshift
from operators.harness import BF16, F16, F32, F64, INF, NAN, Case, Table, arr, fragment_model, lifted, only, outputs_of
from opshift.opsets.facts import Facts
from opshift.opsets.lowering import Lowering, Reason
from opshift.opsets.operator import Lifted
from opshift.opsets.operators import argmax, argmin
from opshift.opsets.operators.argmax import ArgMax
from opshift.opsets.operators.argmin import ArgMin
from opshift.opsets.target import Legality
from opshift.passes.derive import Deriver, Fragment

FEW = np.random.default_rng(3).integers(-2, 3, (2, 3, 4)).astype(F32)
DEEP = arr([[-INF, -INF, -INF], [-INF, 5, 5], [INF, 1, INF]])
NANS = arr([[NAN, 1, 2], [1, NAN, 1], [NAN, NAN, NAN], [-INF, NAN, -INF], [2, 1, NAN], [-INF, -INF, NAN]])
LARGE = np.random.default_rng(5).integers(0, 50, (40, 240)).astype(F32)
LARGE[3:6] = -INF
LARGE[4, 100:] = INF
TALL = np.random.default_rng(6).integers(0, 20, (4, 60, 40)).astype(F32)
"""Large enough for blocks, and full of ties."""
BROAD = np.random.default_rng(7).integers(0, 3, (4, 65537)).astype(F32)
BROAD[2:, 100:200] = INF
BROAD[:, 200:300] = -INF
"""Large enough to be looked at in parts, which the length behind does not divide into."""
BROAD_NANS = np.random.default_rng(9).choice([-INF, 0, 1, NAN], (3, 65537)).astype(F32)
HALVES = np.random.default_rng(10).choice([0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, -1, -(2**31)], (5, 300))
"""On both sides of where onnxruntime mistakes the order of int64."""
TIED = np.random.default_rng(8).choice([-INF, -0.0, 0.0, 1, INF], (2, 12, 6)).astype(F32)
WIDE = [[2**31, 0, 2**31, 1], [2**33 + 2**31, 2**33, 2**33 + 2**31, 0], [2**53, 2**53 + 1, 2**53 + 1, 2**53]]
LOW = [[-(2**63), 2**63 - 1, 2**63 - 1, -1], [-(2**63), -(2**63), -(2**63), -(2**63)], [-1, -(2**32), -(2**31), -1]]
HIGH = [[2**64 - 1, 2**63, 2**64 - 1, 0], [0, 2**63 - 1, 2**63, 2**63], [2**32 - 1, 2**32, 2**32, 1]]
INTEGERS = {
    np.int8: ([[-128, 127, 127, 0]], 7),
    np.uint8: ([[0, 255, 255, 3]], 7),
    np.int16: ([[-32768, 32767, 32767, 0]], 7),
    np.uint16: ([[0, 65535, 65535, 3]], 7),
    np.int32: ([[-(2**31), 2**31 - 1, 2**31 - 1, 0], [-(2**31)] * 4], 7),
    np.uint32: ([[0, 2**32 - 1, 2**32 - 1, 2**31], [2**31, 2**31 - 1, 2**31, 0]], 7),
    np.int64: (WIDE + LOW, 7),
    np.uint64: (WIDE + HIGH, 7),
}


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small arrays reach what is for large ones."""
    monkeypatch.setattr(argmax, "_MANY", 0)


class TestArgMax(Table):
    operator = argmax.OPERATOR
    cases = (
        *(
            Case(f"axis {axis}, keepdims {keep}, last {last}", [FEW], ArgMax(axis, keep, last))
            for axis, keep, last in itertools.product((0, 1, 2, -1, -2, -3), (0, 1), (0, 1))
        ),
        *(
            Case(f"{dtype.__name__}, axis {axis}, last {last}", [np.array(rows, dtype)], ArgMax(axis, 1, last))
            for (dtype, (rows, _)), axis, last in itertools.product(INTEGERS.items(), (0, 1, -1), (0, 1))
        ),
        *(
            Case(f"{what}, keepdims {keep}, last {last}", [array], ArgMax(1, keep, last))
            for (what, array), keep, last in itertools.product(
                {
                    "rows of -inf": DEEP,
                    "zeros of both signs": arr([[0.0, -0.0, 0.0], [-0.0, 0.0, -1]]),
                    "rows of one": arr([[4], [-INF]]),
                    "no rows": np.zeros((0, 3), F32),
                    "no rows of int64": np.zeros((0, 3), np.int64),
                    "double": np.array([[1e308, 1e-320, 1e308], [-INF, -INF, -INF]]),
                    "float16": DEEP.astype(F16),
                    "a long row": np.random.default_rng(4).integers(0, 9, (2, 5000)).astype(F32),
                    "NaN": NANS,
                    "NaN in double": NANS.astype(F64),
                }.items(),
                (0, 1),
                (0, 1),
            )
        ),
        *(
            Case(f"no rows and no columns, {array.dtype} of {array.shape}, keepdims {keep}, last {last}", [array], what)
            for array, axis in (
                (np.zeros((0, 0), F32), 0),
                (np.zeros((2, 0, 0), np.int32), 1),
                (np.zeros((2, 0, 3, 0), np.int64), -1),
            )
            for keep, last in itertools.product((0, 1), (0, 1))
            for what in (ArgMax(axis, keep, last),)
        ),
        *(Case(f"bfloat16, last {last}", [DEEP.astype(BF16)], ArgMax(1, 1, last), least=13) for last in (0, 1)),
        *(
            Case(
                f"{array.dtype} as {dtype}, axis {axis}, keepdims {keep}, last {last}",
                [array],
                ArgMax(axis, keep, last, "any", dtype),
            )
            for dtype, axis, keep, last in itertools.product(
                (TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT8), (0, -1), (0, 1), (0, 1)
            )
            for array in (FEW, FEW.astype(F64))
        ),
        *(
            Case(f"{what}, any NaN, last {last}", [array], ArgMax(1, 1, last, "any"))
            for last, (what, array) in itertools.product((0, 1), {"few": FEW, "infinities": DEEP}.items())
        ),
        *(
            Case(
                f"large, {array.dtype}, {array.ndim} axes, axis {axis}, keepdims {keep}, last {last}",
                [array],
                ArgMax(axis, keep, last),
            )
            for keep, last in itertools.product((0, 1), (0, 1))
            for array, axis in ((LARGE, 1), (LARGE, 0), (LARGE.astype(F64), 1), (TALL, 1), (TALL.astype(np.int32), -2))
        ),
        *(Case(f"broad, last {last}", [BROAD], ArgMax(0, 1, last)) for last in (0, 1)),
        *(Case(f"halves, last {last}", [HALVES], ArgMax(0, 1, last)) for last in (0, 1)),
        *(
            Case(f"NaN in {what}, last {last}", [array], ArgMax(0, 1, last))
            for what, array in {"rows": NANS, "rows of double": NANS.astype(F64), "broad rows": BROAD_NANS}.items()
            for last in (0, 1)
        ),
        Case("vector", [arr([1, 3, 3])], ArgMax(0, 0, 0)),
        Case("vector, last", [arr([1, 3, 3])], ArgMax(-1, 0, 1)),
        *(
            Case(f"{np.dtype(dtype)} vector {row}, last {last}", [arr(row, dtype)], ArgMax(0, 1, last))
            for row, last, dtype in itertools.product(
                ([2, NAN, NAN], [NAN, 2, NAN], [-INF, -INF], [NAN, NAN], [1, NAN, 1], [0.0, -0.0]), (0, 1), (F32, F64)
            )
            if last or not np.isnan(row).any()
        ),
    )

    def lifts_to(self, back: Lifted, whole: Lifted) -> bool:
        # That NaN does not matter is said by lowerings; no version says it.
        back = dataclasses.replace(back, meaning=dataclasses.replace(back.meaning, nan=whole.meaning.nan))
        return super().lifts_to(back, whole)


@pytest.mark.parametrize("operator", ["ArgMin", "ArgMax"])
@pytest.mark.parametrize("dims", ["5", "40", "n"])
def test_a_vector_goes(operator: str, dims: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["":13]> g (float[{dims}] x) => (int64[1] y) {{ y = {operator}<axis=0>(x) }}'
    )
    report = opshift.convert(model, decompose=["ArgMin", "ArgMax"]).report
    assert report is not None
    assert report.verdict == "equal"


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8"])
@pytest.mark.parametrize("operator", ["ArgMin", "ArgMax"])
def test_integers_need_nothing_for_nan(operator: str, dtype: str) -> None:
    gone = ["ArgMin", "ArgMax", "Where", "IsNaN", "Equal", "Gather", "Less", "Greater", "ReduceMax", "ReduceMin"]
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["":13]> g ({dtype}[3,5] x) => (int64[3,1] y) {{ y = {operator}<axis=1>(x) }}'
    )
    (step,) = opshift.convert(model, decompose=gone).plan.lowered
    assert step.narrows == ()
    assert "TopK" in step.becomes


def test_the_proof_feeds_what_max_mistakes() -> None:
    """Integers in one row whose upper halves are equal, and whose lower halves are on both sides of 2^31."""
    rng = np.random.default_rng(0)
    drawn = [argmax.hostile(rng, {"data": np.zeros((1, 4), np.int64)})["data"][0].tolist() for _ in range(100)]
    assert any({2**31 - 1, 2**31} <= set(row) for row in drawn)


@pytest.mark.parametrize("lowering", argmax.OPERATOR.lowerings, ids=lambda lowering: lowering.name)
def test_of_nan_there_is_no_index_out_of_range(lowering: Lowering) -> None:
    """Where any will do: what is looked up by it later is there."""
    rng = np.random.default_rng(0)
    for shape, axis in (((3, 5), 1), ((48, 180), 1), ((9, 36, 26), 1), ((2, 5, 30000), 1), ((9, 36, 900), 1)):
        x = np.where(rng.random(shape) < 0.5, NAN, rng.standard_normal(shape)).astype(F32)
        x[0], x[1, 1:] = NAN, NAN
        for last, keep in itertools.product((0, 1), (0, 1)):
            case = Case("", [x], ArgMax(axis, keep, last, "any"))
            for label, model in ways_of(lowering, case):
                (index,) = run(model, [{"data": x}])[0]
                assert index.min() >= 0, label
                assert index.max() < shape[axis], label


def ways_of(lowering: Lowering, case: Case) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield what the lowering makes of a case without having `nan` allowed, and what serves it best below."""
    kinds = ("static", "symbolic") if outputs_of(argmax.OPERATOR, case)[0].size < 9 else ("static",)
    for kind, opset, gone in itertools.product(kinds, (9, 18), ({"ArgMax"}, {"ArgMax", "TopK"})):
        whole = lifted(only(argmax.OPERATOR, lowering), case, kind)
        fragment = Deriver(Legality(opset, frozenset(gone), runnable=True)).derive(whole)
        if isinstance(fragment, Fragment):
            yield f"{kind} {opset} {gone} {case.meaning}", fragment_model(case, whole, fragment, opset, kind)


@pytest.mark.parametrize(
    ("way", "shape"), [(argmax.in_turn, (9, 8, 8)), (argmax.first_block_in_turn, (8, 64, 32))], ids=["rows", "blocks"]
)
def test_of_unknown_elements_there_may_be_nan(way: Lowering, shape: tuple[int, ...]) -> None:
    reason = way.body_for(ArgMax(1, 1), (Facts(None, shape),))
    assert isinstance(reason, Reason)
    assert reason.missing
    assert not isinstance(way.body_for(ArgMax(1, 1), (Facts(TensorProto.FLOAT, shape),)), Reason)


@pytest.mark.parametrize(
    ("shape", "many", "missing"),
    [
        ((None, 5, 8, 8), 320, None),
        ((None, 5, 8, 8), 321, True),
        ((3, 5, 8, 8), 960, None),
        ((3, 5, 8, 8), 961, False),
        ((0, 5, None, 8), 1, False),
        ((9, None, 8, 8), 1, True),
        ((9, 33, 8, 8), 1, False),
        ((9, 1, 8, 8), 1, False),
    ],
)
def test_rows_are_many_enough_as_far_as_is_known(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int | None, ...], many: int, missing: bool | None
) -> None:
    monkeypatch.setattr(argmax, "_MANY", many)
    reason = argmax.in_turn.body_for(ArgMax(1, 1), (Facts(TensorProto.FLOAT, shape),))
    assert (reason.missing if isinstance(reason, Reason) else None) == missing


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("shape", ["n,5,128,128", "n,5,1,70000", "5,n,300,300"])
def test_rows_are_looked_at_in_turn_whatever_else_is_unknown(shape: str, last: int) -> None:
    """In parts too, where what is known is enough for them."""
    axis = shape.split(",").index("5")
    node = f"y = ArgMax <axis = {axis}, keepdims = 0, select_last_index = {last}> (data)"
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 13]> g (int32[{shape}] data) => (int64[a,b,c] y) {{ {node} }}'
    )
    turned = opshift.convert(model, decompose=["ArgMax"], verify=False).model
    assert isinstance(turned, onnx.ModelProto)
    made = [node.op_type for node in turned.graph.node]
    assert {"Slice", "Max"} < set(made)
    assert ("Concat" in made) == (shape != "n,5,128,128")
    rng = np.random.default_rng(0)
    for count in (1, 3, 0):
        x = rng.integers(0, 3, [int(dim.replace("n", str(count))) for dim in shape.split(",")]).astype(np.int32)
        (expected,) = run(model, [{"data": x}])[0]
        (index,) = run(turned, [{"data": x}])[0]
        np.testing.assert_array_equal(index, expected)


class TestArgMin(Table):
    operator = argmin.OPERATOR
    cases = (
        *(
            Case(f"axis {axis}, keepdims {keep}, last {last}", [FEW], ArgMin(axis, keep, last))
            for axis, keep, last in itertools.product((0, 1, -1), (0, 1), (0, 1))
        ),
        *(
            Case(f"{dtype.__name__}, last {last}", [np.array(rows, dtype)], ArgMin(1, 1, last))
            for (dtype, (rows, _)), last in itertools.product(INTEGERS.items(), (0, 1))
        ),
        *(
            Case(f"{what}, last {last}", [array], ArgMin(-1, 1, last))
            for (what, array), last in itertools.product(
                {
                    "infinities": -DEEP,
                    "zeros of both signs": arr([[0.0, -0.0, 0.0], [-0.0, 0.0, 1]]),
                    "no rows": np.zeros((0, 3), F32),
                    "double": np.array([[1e308, 1e-320, 1e-320], [INF, INF, INF]]),
                    "float16": DEEP.astype(F16),
                    "NaN": NANS,
                    "NaN in double": NANS.astype(F64),
                    "vector": arr([2, -0.0, 0.0, 1]),
                }.items(),
                (0, 1),
            )
        ),
        Case("NaN in a vector, last 1", [arr([2, NAN, 1, 1])], ArgMin(0, 1, 1)),
        *(Case(f"bfloat16, last {last}", [DEEP.astype(BF16)], ArgMin(1, 1, last), least=13) for last in (0, 1)),
    )
