"""ArgMax and ArgMin: the first or the last extreme along an axis, of every element type and in every shape."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto
from running import run

import opshift
from operators.harness import (
    BF16,
    F16,
    F32,
    F64,
    INF,
    NAN,
    Array,
    Case,
    Table,
    arr,
    fragment_model,
    lifted,
    only,
    outputs_of,
)
from opshift.opsets import faster
from opshift.opsets.families.rows import Rows
from opshift.opsets.operators import argmax, argmin, hardmax
from opshift.opsets.operators.argmax import ArgMax
from opshift.opsets.operators.argmin import ArgMin
from opshift.opsets.registry.lowering import Lowering
from opshift.opsets.registry.operator import Operator
from opshift.opsets.runtimes.target import Legality
from opshift.passes.rewrite.fragment import Fragment
from opshift.passes.rewrite.lowering_search import Deriver

FEW = np.random.default_rng(3).integers(-2, 3, (2, 3, 4)).astype(F32)
DEEP = arr([[-INF, -INF, -INF], [-INF, 5, 5], [INF, 1, INF]])
LARGE = np.random.default_rng(5).integers(0, 50, (40, 240)).astype(F32)
LARGE[3:6] = -INF
LARGE[4, 100:] = INF
TALL = np.random.default_rng(6).integers(0, 20, (4, 60, 40)).astype(F32)
"""Large enough for blocks, and full of ties."""
HALVES = np.random.default_rng(10).choice([0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, -1, -(2**31)], (5, 300))
"""On both sides of where onnxruntime mistakes the order of int64."""
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
                ArgMax(axis, keep, last, dtype),
            )
            for dtype, axis, keep, last in itertools.product(
                (TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT8), (0, -1), (0, 1), (0, 1)
            )
            for array in (FEW, FEW.astype(F64))
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
        *(Case(f"halves, last {last}", [HALVES], ArgMax(0, 1, last)) for last in (0, 1)),
        Case("vector", [arr([1, 3, 3])], ArgMax(0, 0, 0)),
        Case("vector, last", [arr([1, 3, 3])], ArgMax(-1, 0, 1)),
        *(
            Case(f"{np.dtype(dtype)} vector {row}, last {last}", [arr(row, dtype)], ArgMax(0, 1, last))
            for row, last, dtype in itertools.product(([-INF, -INF], [-INF, 1, 1], [0.0, -0.0]), (0, 1), (F32, F64))
        ),
    )


@pytest.mark.parametrize("operator", ["ArgMin", "ArgMax"])
@pytest.mark.parametrize("dims", ["5", "40", "n"])
def test_a_vector_goes(operator: str, dims: str) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["":13]> g (float[{dims}] x) => (int64[1] y) {{ y = {operator}<axis=0>(x) }}'
    )
    report = opshift.convert(model, decompose=["ArgMin", "ArgMax"]).report
    assert report is not None
    assert report.verdict == "equal"


def test_the_proof_feeds_what_max_mistakes() -> None:
    """Integers in one row whose upper halves are equal, and whose lower halves are on both sides of 2^31."""
    rng = np.random.default_rng(0)
    drawn = [argmax.adversarial(rng, {"data": np.zeros((1, 4), np.int64)})["data"][0].tolist() for _ in range(100)]
    assert any({2**31 - 1, 2**31} <= set(row) for row in drawn)


def with_nan(shape: tuple[int, ...], seed: int) -> Array:
    """Return rows of numbers and NaN, some of which hold only NaN, or NaN behind the first element."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < 0.5, NAN, rng.standard_normal(shape)).astype(F32)
    x[0], x[1, 1:] = NAN, NAN
    return x


LOWERINGS = {
    f"{operator.name}.{one.name}": (operator, one)
    for operator in (argmax.OPERATOR, argmin.OPERATOR, hardmax.OPERATOR)
    for one in faster.every(operator)
}


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "lowering"), LOWERINGS.values(), ids=list(LOWERINGS))
def test_a_row_with_nan_has_an_index_in_range(operator: Operator, lowering: Lowering) -> None:
    for number, shape in enumerate(((3, 5), (48, 180), (9, 36, 26))):
        x = with_nan(shape, number)
        all_meanings = itertools.product((0, 1), (0, 1)) if number == 0 else ((number % 2, 1),)
        for last, keep in all_meanings if operator is not hardmax.OPERATOR else ((0, 1),):
            meanings = {"ArgMax": ArgMax(1, keep, last), "ArgMin": ArgMin(1, keep, last), "Hardmax": Rows((1,))}
            what = meanings[operator.name]
            for label, model in ways_of(operator, lowering, Case("", [x], what)):
                name = operator.operands[0]
                (found,) = run(model, [{name: x}])[0]
                if operator is hardmax.OPERATOR:
                    np.testing.assert_array_equal(found.sum(axis=1), 1, err_msg=label)
                    continue
                assert found.min() >= 0, label
                assert found.max() < shape[1], label


def ways_of(operator: Operator, lowering: Lowering, case: Case) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield what the lowering makes of a case without an assumption, and what serves it best below."""
    kinds = ("static", "symbolic") if outputs_of(operator, case)[0].size < 2000 else ("static",)
    for kind, opset, gone in itertools.product(kinds, (9, 18), ({operator.name}, {operator.name, "ArgMax", "TopK"})):
        whole = lifted(only(operator, lowering), case, kind)
        fragment = Deriver(Legality(opset, frozenset(gone), runnable=True), optimize=True).derive(whole)
        if isinstance(fragment, Fragment):
            yield f"{kind} {opset} {gone} {case.meaning}", fragment_model(case, whole, fragment, opset, kind)


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
                    "vector": arr([2, -0.0, 0.0, 1]),
                }.items(),
                (0, 1),
            )
        ),
        *(Case(f"bfloat16, last {last}", [DEEP.astype(BF16)], ArgMin(1, 1, last), least=13) for last in (0, 1)),
    )
