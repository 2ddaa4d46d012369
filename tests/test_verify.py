"""What verification must tell apart: equal, different, and what nobody could check."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

import opshift
from opshift.passes.base import limits as limits_module
from opshift.passes.base.errors import InvalidModelError, UsageError
from opshift.passes.base.report import Check, Verdict
from opshift.passes.proof import node_pairs, pair_executors, signature
from opshift.passes.proof.equality import differs
from opshift.passes.proof.inputs import generator
from opshift.passes.proof.node_pairs import compare_pairs
from opshift.passes.proof.pair import Pair
from opshift.passes.proof.pair_executors import ORACLE
from opshift.passes.proof.rounding.bound import Bound
from opshift.passes.proof.rounding.wide_run import WideModel
from opshift.passes.proof.tolerance import Rounding
from opshift.passes.proof.verify import verify
from opshift.passes.runtime import ort_models, ort_opsets, ort_session

Arrays = Mapping[str, Any]


def model(graph: str, opset: int = 13, ir_version: int = 8) -> onnx.ModelProto:
    return parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> {graph}')


def pair(original: str, rewritten: str, opset: int = 13, to: int | None = None, **more: Any) -> Pair:
    before, after = model(original, opset), model(rewritten, to or opset)
    return Pair("main/node", f"{before.graph.node[0].op_type}-{opset}", before, after, **more)


def proved(one: Pair, **more: Any) -> Check:
    (check,) = compare_pairs([one], **more)
    return check


def numbers(value: Any) -> int:
    """Return how many numbers nested lists hold."""
    return sum(map(numbers, value)) if isinstance(value, list) else 1


# --- pairs that are equal, and planted mistakes that are not --------------------------------------------------------

ARGMAX = "g (float[N, 2] x) => (int64[N, 1] y) { y = ArgMax<axis = -1>(x) }"
ARGMAX_TOPK = """g (float[N, 2] x) => (int64[N, 1] y)
    <int64[1] one = {1}> { top, y = TopK(x, one) }"""
HARDMAX = "g (float[N, 2] x) => (float[N, 2] y) { y = Hardmax<axis = -1>(x) }"
HARDMAX_SCORE = """g (float[N, 2] x) => (float[N, 2] y)
    <int64 zero = {0}, int64 one = {1}> {
        q = ArgMax<axis = -1, keepdims = 1>(x)
        shape = Shape(x)
        d = Gather(shape, one)
        iota = Range(zero, d, one)
        hot = Equal(iota, q)
        y = Cast<to = 1>(hot)
    }"""
ONEHOT = """g (int64[N] indices, float[2] values) => (float[N, 4] y) <int64 depth = {4}>
    { y = OneHot(indices, depth, values) }"""
ONEHOT_WHERE = """g (int64[N] indices, float[2] values) => (float[N, 4] y)
    <int64[4] iota = {0, 1, 2, 3}, int64 zero = {0}, int64 one = {1}, int64 depth = {4}, int64[1] last = {1}> {
        low = Less(indices, zero)
        wrapped = Add(indices, depth)
        index = Where(low, wrapped, indices)
        column = Unsqueeze(index, last)
        hot = Equal(column, iota)
        off = Gather(values, zero)
        on = Gather(values, one)
        y = Where(hot, on, off)
    }"""


def onehot_inputs(rng: np.random.Generator, feeds: Arrays) -> Arrays:
    assert int(feeds["depth"]) == 4
    return {"indices": rng.integers(-6, 7, feeds["indices"].shape), "values": np.array([-0.5, 7], np.float32)}


EQUAL = {
    "argmax": pair(ARGMAX, ARGMAX_TOPK, exclude_nan=True),
    "hardmax": pair(HARDMAX, HARDMAX_SCORE, exclude_nan=True),
    "onehot": pair(ONEHOT, ONEHOT_WHERE, adversarial=onehot_inputs),
    "strings": pair(
        "g (string[N] x) => (string[N, 1] y) <int64[1] a = {1}> { y = Unsqueeze(x, a) }",
        "g (string[N] x) => (string[N, 1] y) <int64[2] s = {-1, 1}> { y = Reshape(x, s) }",
    ),
    "bool": pair(
        "g (bool[N] x) => (bool[N] y) { y = Not(x) }",
        "g (bool[N] x) => (bool[N] y) <bool t = {1}> { y = Xor(x, t) }",
    ),
    "opset": pair("g (int8[N] x) => (int8[N] y) { y = Identity(x) }", "g (int8[N] a) => (int8[N] y) { y = Identity(a) }"
                  .replace("a", "x"), to=9),
    "two outputs": pair(
        "g (float[4, N] x) => (float[2, N] a, float[2, N] b) { a, b = Split<axis = 0>(x) }",
        """g (float[4, N] x) => (float[2, N] a, float[2, N] b) <int64[2] low = {0, 1}, int64[2] high = {2, 3}>
           { a = Gather<axis = 0>(x, low) b = Gather<axis = 0>(x, high) }""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_equal(name: str) -> None:
    check = proved(EQUAL[name])
    assert (check.verdict, check.reason) == (Verdict.EQUAL, "")
    assert check.judge == ort_models.name()
    assert check.inputs > 20
    assert check.counterexample is None


DIFFERENT = {
    "the last of equal maxima": pair(
        ARGMAX, "g (float[N, 2] x) => (int64[N, 1] y) { y = ArgMax<axis = -1, select_last_index = 1>(x) }"
    ),
    "another axis": pair(
        HARDMAX, "g (float[N, 2] x) => (float[N, 2] y) { y = Hardmax<axis = 0>(x) }", exclude_nan=True
    ),
    "rows of -inf": pair(
        HARDMAX,
        """g (float[N, 2] x) => (float[N, 2] y) <float lowest = {-3.4e38}> {
            z = Max(x, lowest)  m = ReduceMax<axes = [-1]>(x)  e = Equal(z, m)  f = Cast<to = 1>(e)
            h = Hardmax(x)  y = Mul(f, h) }""",
        exclude_nan=True,
    ),
    "every maximum": pair(
        HARDMAX,
        "g (float[N, 2] x) => (float[N, 2] y) { m = ReduceMax<axes = [-1]>(x) e = Equal(x, m) y = Cast<to = 1>(e) }",
        exclude_nan=True,
    ),
    "on and off swapped": pair(ONEHOT, ONEHOT_WHERE.replace("Where(hot, on, off)", "Where(hot, off, on)"),
                               adversarial=onehot_inputs),
    "depth - 1 missed": pair(ONEHOT, ONEHOT_WHERE.replace("{0, 1, 2, 3}", "{0, 1, 2, 4}"), adversarial=onehot_inputs),
    "negative indices missed": pair(ONEHOT, ONEHOT_WHERE.replace("Where(low, wrapped, indices)", "Identity(indices)"),
                                    adversarial=onehot_inputs),
    "the low words of int64": pair(
        "g (int64[N, D] x) => (int64[N, 1] y) { y = ArgMax<axis = -1>(x) }",
        """g (int64[N, D] x) => (int64[N, 1] y) <int64 high = {4294967296}> {
           h = Div(x, high) u = Mul(h, high) l = Sub(x, u) s = Cast<to = 6>(l) w = Cast<to = 7>(s) z = Add(u, w)
           y = ArgMax<axis = -1>(z) }""",
    ),
    "int64 as float": pair(
        "g (int64[N, D] x) => (int64[N, 1] y) { y = ArgMax<axis = -1>(x) }",
        "g (int64[N, D] x) => (int64[N, 1] y) { f = Cast<to = 11>(x) y = ArgMax<axis = -1>(f) }",
    ),
    "the type of an output": pair(ARGMAX, "g (float[N, 2] x) => (int32[N, 1] y) { i = ArgMax(x) y = Cast<to = 6>(i) }"),
    "the type of an untyped output": pair(
        "g (float[N] x) => (y) { y = ArgMax(x) }", "g (float[N] x) => (y) { i = ArgMax(x) y = Cast<to = 6>(i) }"
    ),
    "the name of an output": pair(ARGMAX, ARGMAX.replace("y", "z")),
    "the order of outputs": pair(
        "g (float[4] x) => (float[2] a, float[2] b) { a, b = Split<axis = 0>(x) }",
        "g (float[4] x) => (float[2] b, float[2] a) { a, b = Split<axis = 0>(x) }",
    ),
    "outputs exchanged": pair(
        "g (float[4] x) => (float[2] a, float[2] b) { a, b = Split<axis = 0>(x) }",
        "g (float[4] x) => (float[2] a, float[2] b) { b, a = Split<axis = 0>(x) }",
    ),
    "a batch other than 1": pair(
        "g (float[N, 2] x) => (float[N, 2] y) { y = Identity(x) }",
        "g (float[N, 2] x) => (float[N, 2] y) <int64[2] s = {1, 3}> { y = Reshape(x, s) }",
    ),
    "empty dims": pair(
        "g (float[N, M] x) => (float[N, 1, M] y) <int64[1] a = {1}> { y = Unsqueeze(x, a) }",
        "g (float[N, M] x) => (float[N, 1, M] y) <int64[3] s = {0, 1, -1}> { y = Reshape(x, s) }",
    ),
    "both zeros": pair(
        "g (float[N] x) => (float[N] y) { y = Identity(x) }",
        "g (float[N] x) => (float[N] y) <float zero = {0}> { y = Add(x, zero) }",
    ),
    "NaN": pair(
        "g (float[N] x) => (float[N] y) { y = Identity(x) }",
        """g (float[N] x) => (float[N] y) <float zero = {0}>
           { bad = IsNaN(x) y = Where(bad, zero, x) }""",
    ),
    "strings": pair(
        "g (string[N] x) => (string[N] y) { y = Identity(x) }",
        "g (string[N] x) => (string[N] y) <string[1] s = {\"a\"}> { n = Shape(x) y = Expand(s, n) }",
    ),
    "the extremes of uint8": pair(
        "g (uint8[N] x) => (uint8[N] y) { y = Identity(x) }",
        "g (uint8[N] x) => (uint8[N] y) { i = Cast<to = 3>(x) f = Cast<to = 1>(i) g = Abs(f) y = Cast<to = 2>(g) }",
    ),
    "two symbols that are equal": pair(
        "g (float[N, M] x) => (float[M, N] y) { y = Transpose(x) }",
        "g (float[N, M] x) => (float[M, N] y) { s = Shape(x) y = Reshape(x, s) }",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_planted_mistake_is_caught(name: str) -> None:
    check = proved(DIFFERENT[name])
    assert check.verdict is Verdict.DIFFERENT
    assert check.reason
    if check.inputs:
        assert check.counterexample is not None
        assert all(numbers(value) <= 16 for value in check.counterexample.inputs.values())


def counting(dtype: int) -> Pair:
    """Return an ArgMax over a free dim whose replacement counts in this type."""
    return pair(
        "g (float[D] x) => (int64 y) { y = ArgMax<axis = 0, keepdims = 0>(x) }",
        f"g (float[D] x) => (int64 y) {{ i = ArgMax<axis = 0, keepdims = 0>(x) n = Cast<to = {dtype}>(i)"
        " w = Cast<to = 6>(n) y = Cast<to = 7>(w) }",
        exclude_nan=True,
    )


@pytest.mark.parametrize("dtype", [TensorProto.INT8, TensorProto.UINT8, TensorProto.UINT16, TensorProto.FLOAT16])
def test_rows_longer_than_a_narrow_type_counts(dtype: int) -> None:
    assert proved(counting(dtype)).verdict is Verdict.DIFFERENT


def test_wide_enough_counts_are_equal() -> None:
    assert proved(counting(TensorProto.INT32)).verdict is Verdict.EQUAL


def test_a_mistake_in_a_large_static_tensor() -> None:
    """The last row alone is wrong: it is never fed anything but values that tell."""
    wrong = """g (float[64, 1000] x) => (int64[64, 1] y) <int64[1] one = {1}, int64[2] split = {63, 1}>
        { a, b = Split<axis = 0>(x, split) i = ArgMax<axis = -1>(a) j = ArgMax<axis = -1, select_last_index = 1>(b)
          y = Concat<axis = 0>(i, j) }"""
    check = proved(pair(ARGMAX.replace("N, D", "64, 1000").replace("N, 1", "64, 1"), wrong))
    assert check.verdict is Verdict.DIFFERENT
    assert check.counterexample is not None
    assert len(str(check.counterexample)) < 1000


@pytest.mark.parametrize("optimised", [False, True])
def test_optimisations_off_and_on_are_both_compared(monkeypatch: pytest.MonkeyPatch, optimised: bool) -> None:
    genuine = ort_session.Session

    class Faulty(genuine):  # type: ignore[misc, valid-type]
        """Adds one to what the replacement gives in one of the two modes."""

        def __init__(self, source: ort_models.Runnable, *, optimised: bool, limits: limits_module.Limits) -> None:
            super().__init__(source, optimised=optimised, limits=limits)
            self.broken = optimised is mode and source.proto.graph.node[0].op_type == "TopK"

        def run_all(self, batch: Sequence[ort_models.Feeds]) -> list[Any]:
            results = super().run_all(batch)
            return [tuple(value + self.broken for value in one) if isinstance(one, tuple) else one for one in results]

    mode = optimised
    monkeypatch.setattr(ort_session, "Session", Faulty)
    check = proved(EQUAL["argmax"])
    assert check.verdict is Verdict.DIFFERENT
    assert f"optimisations {'on' if optimised else 'off'}" in check.reason


def test_a_replacement_that_does_not_load_or_run_is_different() -> None:
    unknown = proved(pair(ARGMAX, "g (float[N, 2] x) => (int64[N, 1] y) { y = NoSuchOperator(x) }"))
    assert (unknown.verdict, unknown.counterexample) == (Verdict.DIFFERENT, None)
    assert "does not load" in unknown.reason
    failing = proved(pair(
        "g (float[N] x) => (float[N] y) { y = Identity(x) }",
        "g (float[N] x) => (float[N] y) <int64 first = {0}> { e = Gather(x, first) z = Sub(e, e) y = Identity(x) }",
    ))  # fmt: skip
    assert failing.verdict is Verdict.DIFFERENT
    assert failing.counterexample is not None
    assert failing.counterexample.inputs == {"x": []}
    assert "does not run" in failing.reason


def test_the_counterexample_is_small_and_true() -> None:
    check = proved(DIFFERENT["the last of equal maxima"])
    shown = check.counterexample
    assert shown is not None
    assert shown.inputs == {"x": [[0.0, 0.0]]}
    assert (shown.output, shown.expected, shown.actual) == ("y", [[0]], [[1]])
    json.dumps(dataclasses.asdict(check))


# --- who judges -----------------------------------------------------------------------------------------------------


def hardmax(feeds: Arrays, limits: limits_module.Limits) -> Arrays:
    x = feeds["x"]
    return {"y": (np.arange(x.shape[-1]) == x.argmax(-1)[..., None]).astype(x.dtype)}


DOUBLE = HARDMAX.replace("float", "double")
DOUBLE_SCORE = HARDMAX_SCORE.replace("float", "double").replace("to = 1", "to = 11")


def test_the_oracle_judges_where_onnxruntime_has_no_kernel() -> None:
    check = proved(pair(DOUBLE, DOUBLE_SCORE, oracle=hardmax, exclude_nan=True))
    assert (check.verdict, check.judge) == (Verdict.EQUAL, ORACLE)
    assert "Hardmax" in check.reason
    wrong = DOUBLE_SCORE.replace("keepdims = 1", "keepdims = 1, select_last_index = 1")
    check = proved(pair(DOUBLE, wrong, oracle=hardmax, exclude_nan=True))
    assert (check.verdict, check.judge) == (Verdict.DIFFERENT, ORACLE)


def test_without_kernel_and_oracle_nothing_is_checked() -> None:
    mine = "g (double[n,4] x) => (double[n,4] y) { y = ThresholdedRelu <alpha = 1.0> (x) }"
    other = "g (double[n,4] x) => (double[n,4] y) { y = Identity (x) }"
    check = proved(pair(mine, other))
    assert (check.verdict, check.inputs) == (Verdict.UNCHECKED, 0)
    assert "oracle" in check.reason


def test_an_oracle_that_accepts_nothing_leaves_it_unchecked() -> None:
    def oracle(feeds: Arrays, limits: limits_module.Limits) -> Arrays:
        raise ValueError("not mine")

    check = proved(pair(DOUBLE, DOUBLE_SCORE, oracle=oracle))
    assert check.verdict is Verdict.UNCHECKED
    assert "not mine" in check.reason


def test_under_spec_the_oracle_judges_what_onnxruntime_could() -> None:
    def all_off(feeds: Arrays, limits: limits_module.Limits) -> Arrays:
        off, on = feeds["values"]
        return {"y": np.where(feeds["indices"][:, None] == np.arange(4), on, off)}

    text = ONEHOT_WHERE.replace("Where(low, wrapped, indices)", "Identity(indices)")
    one = pair(ONEHOT, text, opset=13, adversarial=onehot_inputs, oracle=all_off)
    assert proved(one, semantics="spec").verdict is Verdict.EQUAL
    assert proved(one, semantics="spec").judge == ORACLE
    assert proved(one, semantics="runtime").verdict is Verdict.DIFFERENT


@pytest.fixture
def loads_26(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take onnxruntime for one that loads no newer opset, as 1.31.1 does not."""
    monkeypatch.setattr(ort_opsets, "newest_opset", lambda: 26)


def test_an_opset_newer_than_onnxruntime_is_relabelled_where_nothing_changed(loads_26: None) -> None:
    newest = onnx.defs.onnx_opset_version()
    negated = "g (float[N] x) => (float[N] y) { z = Neg(x) y = Neg(z) }"
    check = proved(pair("g (float[N] x) => (float[N] y) { y = Identity(x) }", negated, opset=newest))
    assert check.verdict is Verdict.EQUAL
    assert f"opset {newest} was read as 26" in check.reason
    assert proved(pair(ONEHOT, ONEHOT_WHERE, opset=28, adversarial=onehot_inputs)).verdict is Verdict.EQUAL


@pytest.mark.parametrize(
    ("stash", "verdict"), [("", "equal"), ("<stash_type = 1>", "equal"), ("<stash_type = 10>", "equal")]
)
def test_an_attribute_that_onnxruntime_does_not_know_is_dropped_where_it_adds_nothing(
    stash: str, verdict: str, loads_26: None
) -> None:
    count = f"""g (float[D] x) => (int64[D] y) <int64 zero = {{0}}, int64 one = {{1}}>
        {{ n = Size(x) y = Range{stash}(zero, n, one) }}"""
    ones = """g (float[D] x) => (int64[D] y) <int64 zero = {0}, int64 one = {1}>
        { n = Shape(x) o = Expand(one, n) s = CumSum(o, zero) y = Sub(s, o) }"""
    whole = verify(model(count, 27), model(ones, 26)).whole
    assert whole.verdict == verdict
    assert ("numpy oracle of Range-27" in whole.judge) is ("10" in stash)


def test_an_operator_that_onnxruntime_is_too_old_for_is_unchecked(
    monkeypatch: pytest.MonkeyPatch, loads_26: None
) -> None:
    monkeypatch.setattr(ort_opsets, "_relabelled", lambda node, old, new: node.op_type != "StringConcat")
    joined = "g (string[N] x) => (string[N] y) { y = StringConcat(x, x) }"
    moved = "g (string[N] x) => (string[N] y) { y = Identity(x) }"
    for one in (pair(joined, moved, opset=28), pair(moved, joined, opset=28)):
        assert proved(one).verdict is Verdict.UNCHECKED
        assert "StringConcat-20" in proved(one).reason
    whole = verify(model(joined, 28), model(moved, 28)).whole
    assert whole.verdict is Verdict.UNCHECKED
    assert "StringConcat" in whole.reason


def test_inputs_that_the_original_rejects_are_dropped() -> None:
    gather = "g (float[N] x, int64[M] i) => (float[M] y) { y = Gather(x, i) }"
    check = proved(pair(gather, gather.replace("Gather(x", "GatherElements(x")))
    assert check.verdict is Verdict.EQUAL
    never = "g (float[2] x) => (float[3] y) <int64[1] s = {3}> { y = Reshape(x, s) }"
    check = proved(pair(never, never.replace("Reshape(x, s)", "Expand(x, s)")))
    assert check.verdict is Verdict.UNCHECKED


def test_empty_inputs_on_which_onnxruntime_is_wrong_do_not_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """ArgMax of shape [0, 2] over axis -1 gives [0, 2] in onnxruntime 1.31.1; Hardmax accepts axis 1 of shape [0]."""
    assert verify(model(ARGMAX), model(ARGMAX_TOPK)).whole.verdict is Verdict.EQUAL

    def oracle(feeds: Arrays, limits: limits_module.Limits) -> Arrays:
        assert not feeds["x"].size
        return {"y": np.zeros((0, 7), np.int64)}

    with monkeypatch.context() as patched:
        patched.setattr(
            pair_executors, "contradiction", lambda model, feeds, values, strict: "" if feeds["x"].size else "wrong"
        )
        check = proved(pair(ARGMAX, ARGMAX_TOPK, oracle=oracle, exclude_nan=True))
    assert check.verdict is Verdict.DIFFERENT
    assert "[0, 7]" in check.reason
    original = model("g (float[N] x) => (y) { y = Hardmax<axis = 1>(x) }")
    original.graph.input[0].type.tensor_type.ClearField("shape")
    empty = np.zeros(0, np.float32)
    ort_session.Session(ort_models.Runnable(original), optimised=False).run({"x": empty})
    with pytest.raises(ort_models.RejectedError, match="onnx"):
        signature.contradiction(original, {"x": empty}, {"y": empty}, strict=True)


def test_types_without_oracle_that_cannot_be_fed_are_unchecked() -> None:
    doubled = "g (complex64[N] x) => (complex64[N] y) { y = Softsign(x) }"
    check = proved(pair(doubled, "g (complex64[N] x) => (complex64[N] y) { y = Identity(x) }"))
    assert check.verdict is Verdict.UNCHECKED
    assert "complex numbers" in check.reason


@pytest.mark.parametrize(("index", "verdict"), [("0", Verdict.EQUAL), ("1", Verdict.DIFFERENT)])
def test_complex_numbers_are_judged_and_run_by_oracles(index: str, verdict: Verdict) -> None:
    values = "complex64[2] v"
    original = f"g ({values}) => (complex64[1] y) <int64[1] i = {{0}}> {{ y = Gather(v, i) }}"
    rewritten = f"g ({values}) => (complex64[1] y) <int64[1] i = {{{index}}}> {{ y = Gather(v, i) }}"
    check = proved(pair(original, rewritten, oracle=lambda feeds, limits: {"y": feeds["v"][:1]}))
    assert (check.verdict, check.judge) == (verdict, ORACLE)
    assert verify(model(original), model(rewritten.replace("g (", "h ("))).verdict is verdict


def test_bfloat16_goes_in_and_comes_out() -> None:
    same = "g (bfloat16[N] x) => (bfloat16[N] y) { f = Cast<to = 1>(x) y = Cast<to = 16>(f) }"
    wrong = "g (bfloat16[N] x) => (bfloat16[N] y) { f = Cast<to = 1>(x) a = Abs(f) y = Cast<to = 16>(a) }"
    original = "g (bfloat16[N] x) => (bfloat16[N] y) { y = Identity(x) }"
    assert proved(pair(original, same, opset=16)).verdict is Verdict.EQUAL
    check = proved(pair(original, wrong, opset=16))
    assert check.verdict is Verdict.DIFFERENT
    assert check.counterexample is not None
    json.dumps(check.counterexample.inputs)


# --- what is not known ----------------------------------------------------------------------------------------------


def untyped(text: str, *, shapes: bool = False, opset: int = 13) -> onnx.ModelProto:
    """Return a model whose inputs and outputs have no element type and, unless `shapes`, no rank."""
    found = model(text, opset)
    for value in (*found.graph.input, *found.graph.output):
        value.type.tensor_type.elem_type = TensorProto.UNDEFINED
        if not shapes:
            value.type.tensor_type.ClearField("shape")
    return found


def test_unknown_types_and_ranks_are_tried() -> None:
    mirrored = ARGMAX.replace("axis = -1", "axis = -1, select_last_index = 1")
    check = compare_pairs([Pair("f/node", "ArgMax-13", untyped(ARGMAX), untyped(ARGMAX))])[0]
    assert check.verdict is Verdict.EQUAL
    assert (
        compare_pairs([Pair("f/node", "ArgMax-13", untyped(ARGMAX), untyped(mirrored))])[0].verdict is Verdict.DIFFERENT
    )


def test_a_mistake_that_only_some_types_and_ranks_show() -> None:
    as_float = ARGMAX.replace("y = ArgMax<axis = -1>(x)", "f = Cast<to = 1>(x) y = ArgMax<axis = -1>(f)")
    check = compare_pairs([Pair("f/node", "ArgMax-13", untyped(ARGMAX), untyped(as_float))])[0]
    assert check.verdict is Verdict.DIFFERENT
    second = ARGMAX.replace("axis = -1", "axis = 1")
    check = compare_pairs([Pair("f/node", "ArgMax-13", untyped(ARGMAX), untyped(second))])[0]
    assert check.verdict is Verdict.DIFFERENT


@pytest.mark.slow
@pytest.mark.parametrize("opset", [11, 12])
def test_types_that_no_model_of_the_opset_holds_are_not_tried(opset: int) -> None:
    """Hardmax-13 of a function that is never called has any type, and below 13 none is bfloat16."""
    text = """<ir_version: 8, opset_import: ["": 17, "local": 1]> g (float[2,3] x) => (float[2,3] y) { y = Relu (x) }
    <domain: "local", opset_import: ["": 17]> Fn (a) => (b) { b = Hardmax (a) }"""
    result = opshift.convert(parse_model(text), opset=opset)
    assert result.report is not None
    assert [check.verdict for check in result.report.nodes] == [Verdict.EQUAL]


def test_inputs_that_share_a_type_variable_get_one_type() -> None:
    unknown = untyped("g (float[N] a, float[N] b) => (float[N] y) { y = Add(a, b) }")
    tried = list(generator.guesses(unknown, 17))
    assert len(tried) > 5
    assert all(types["a"] == types["b"] for types in tried)
    unknown.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
    assert list(generator.guesses(unknown, 17)) == [{"b": TensorProto.INT32}]


def test_a_symbol_has_one_size_wherever_it_stands() -> None:
    found = generator.specs(model("g (float[N, 3, M] a, float[N, M] b) => (c) { c = Identity(a) }").graph)
    shapes = list(generator.sizes(found, whole=False))
    assert all(each["a"][0] == each["b"][0] and each["a"][2] == each["b"][1] and each["a"][1] == 3 for each in shapes)
    assert {each["b"] for each in shapes} >= {(1, 1), (0, 0), (0, 3), (2, 0), (2, 3)}


def test_blank_dims_are_independent() -> None:
    found = generator.specs(model("g (float[?, ?] a) => (c) { c = Identity(a) }").graph)
    assert any(each["a"][0] != each["a"][1] for each in generator.sizes(found, whole=False))


# --- one verdict for equal pairs, the same report for the same seed -------------------------------------------------


def test_pairs_that_differ_in_names_alone_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    genuine = node_pairs.PairComparison.check

    def noting(proof: node_pairs.PairComparison) -> Check:
        compared.append(proof.pair.node)
        return genuine(proof)

    monkeypatch.setattr(node_pairs.PairComparison, "check", noting)
    wrong = DIFFERENT["the last of equal maxima"]
    first = dataclasses.replace(wrong, node="first")
    second = pair(
        "h (float[B, 2] data) => (int64[B, 1] out) { out = ArgMax<axis = -1>(data) }",
        "h (float[B, 2] data) => (int64[B, 1] out) { out = ArgMax<axis = -1, select_last_index = 1>(data) }",
    )
    third = EQUAL["argmax"]
    checks = compare_pairs([first, dataclasses.replace(second, node="second"), third])
    assert compared == ["first", third.node]
    assert [check.verdict for check in checks] == [Verdict.DIFFERENT, Verdict.DIFFERENT, Verdict.EQUAL]
    assert [check.node for check in checks] == ["first", "second", third.node]
    shown = checks[1].counterexample
    assert shown is not None
    assert (set(shown.inputs), shown.output) == ({"data"}, "out")


def test_a_report_depends_on_the_seed_alone() -> None:
    one = DIFFERENT["on and off swapped"]
    first, again = (verify(one.original, one.rewritten, pairs=[one], seed=7) for _ in range(2))
    assert first == again
    assert first.seed == 7
    assert set(first.versions) == {"opshift", "onnx", "onnxruntime", "numpy", "python"}


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    one = EQUAL["argmax"]
    verify(one.original, one.rewritten, pairs=[one, one], progress=lambda *step: told.append(step))
    assert told[:2] == [("nodes", 1, 2), ("nodes", 2, 2)]
    assert [stage for stage, _, _ in told[2:]] == ["whole"] * len(told[2:])
    done = [number for _, number, _ in told[2:]]
    assert done == sorted(done)
    assert told[2][1] == 0
    assert told[-1][1] == told[-1][2] == 2 * verify(one.original, one.rewritten).whole.inputs


# --- whole models ---------------------------------------------------------------------------------------------------

EMBEDDING = """g (int64[B, S] tokens) => (float[B, S, 2] y)
    <float[5, 2] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}> { y = Gather(table, tokens) }"""


def test_a_whole_model_is_equal() -> None:
    report = verify(model(HARDMAX), model(HARDMAX_SCORE))
    assert report.verdict is Verdict.EQUAL
    assert report.whole.inputs > 20
    assert report.nodes == ()


def test_a_whole_model_is_different_and_shows_where() -> None:
    one = DIFFERENT["every maximum"]
    report = verify(one.original, one.rewritten)
    assert report.verdict is Verdict.DIFFERENT
    assert report.whole.counterexample is not None
    assert report.whole.counterexample.inputs == {"x": [[0.0, 0.0]]}


def test_the_same_model_is_equal_without_a_run() -> None:
    report = verify(model(DOUBLE), model(DOUBLE))
    assert (report.verdict, report.whole.inputs) == (Verdict.EQUAL, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ARGMAX.replace("x", "z"), "inputs are z instead of x"),
        (ARGMAX.replace("y", "z"), "outputs are z instead of y"),
        ("g (float[N, 2] x, float q) => (int64[N, 1] y) { y = ArgMax<axis = -1>(x) }", "inputs are x, q instead of x"),
        (ARGMAX.replace("float", "double"), "input x is tensor(double) instead of tensor(float)"),
        ("g (float[N, 2] x) => (int32[N, 1] y) { i = ArgMax<axis = -1>(x) y = Cast<to = 6>(i) }",
         "output y is tensor(int32) instead of tensor(int64)"),
    ],
)  # fmt: skip
def test_inputs_and_outputs_must_agree(text: str, words: str) -> None:
    whole = verify(model(ARGMAX), model(text)).whole
    assert whole.verdict is Verdict.DIFFERENT
    assert words in whole.reason


def test_an_input_with_an_initializer_need_not_be_fed() -> None:
    given = model(EMBEDDING)
    also = onnx.ModelProto()
    also.CopyFrom(given)
    also.graph.input.append(helper.make_tensor_value_info("table", TensorProto.FLOAT, [5, 2]))
    assert verify(given, also).verdict is Verdict.EQUAL


def test_integers_that_are_indices_find_their_range() -> None:
    wrong = EMBEDDING.replace("8, 9}", "8, 10}")
    assert verify(model(EMBEDDING), model(EMBEDDING.replace("g (", "h ("))).verdict is Verdict.EQUAL
    whole = verify(model(EMBEDDING), model(wrong)).whole
    assert whole.verdict is Verdict.DIFFERENT
    assert whole.counterexample is not None
    assert whole.counterexample.inputs["tokens"] in ([[4]], [[-1]])


def test_sizes_that_the_original_rejects_are_passed_over() -> None:
    """Only S of 64 or more leaves something after six halvings."""
    halvings = "\n".join(f"p{i + 1} = MaxPool<kernel_shape = [2], strides = [2]>(p{i})" for i in range(6))
    text = f"g (float[B, 1, S] p0) => (float[B, 1, T] y) {{ {halvings} y = OP(p6) }}"
    report = verify(model(text.replace("OP", "Identity")), model(text.replace("OP", "Abs")))
    assert report.verdict is Verdict.DIFFERENT


def test_input_shapes_replace_the_sizes() -> None:
    picky = "g (float[N, D] x) => (float[N, D] y) <int64[2] s = {7, 11}> { y = Reshape(x, s) }"
    same = picky.replace("g (", "h (")
    assert verify(model(picky), model(same)).verdict is Verdict.EQUAL
    assert verify(model(picky), model(same), input_shapes={"x": (7, 11)}).verdict is Verdict.EQUAL
    whole = verify(model(picky), model(same), input_shapes={"x": (7, 12)}).whole
    assert (whole.verdict, whole.inputs) == (Verdict.UNCHECKED, 0)


@pytest.mark.parametrize("shapes", [{"z": (1,)}, {"x": (1, 2, 3)}])
def test_input_shapes_that_do_not_fit_are_a_usage_error(shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(UsageError, match=r"x|z"):
        verify(model(HARDMAX), model(HARDMAX_SCORE), input_shapes=shapes)


def test_semantics_are_two() -> None:
    with pytest.raises(UsageError, match="mine"):
        verify(model(ARGMAX), model(ARGMAX), semantics="mine")


def test_what_cannot_be_fed_or_loaded_is_unchecked() -> None:
    sparse = model("g (float[N] s) => (float[N] y) { y = Identity(s) }")
    sparse.graph.input[0].type.sparse_tensor_type.elem_type = TensorProto.FLOAT
    other = onnx.ModelProto()
    other.CopyFrom(sparse)
    other.graph.name = "other"
    whole = verify(sparse, other).whole
    assert whole.verdict is Verdict.UNCHECKED
    assert "input s is a sparse_tensor" in whole.reason
    strange = "g (float[N] x) => (float[N] y) { y = NoSuchOperator(x) }"
    whole = verify(model(strange), model(strange.replace("g (", "h ("))).whole
    assert whole.verdict is Verdict.UNCHECKED
    assert "NoSuchOperator" in whole.reason


@pytest.mark.slow
def test_without_a_kernel_a_whole_model_runs_node_by_node() -> None:
    whole = verify(model(DOUBLE), model(DOUBLE_SCORE)).whole
    assert whole.verdict is Verdict.EQUAL
    assert whole.judge == f"{ort_models.name()} node by node, the numpy oracle of Hardmax-13"
    assert "no kernel" in whole.reason or "implementation" in whole.reason
    wrong = DOUBLE_SCORE.replace("keepdims = 1", "keepdims = 1, select_last_index = 1")
    assert verify(model(DOUBLE), model(wrong)).whole.verdict is Verdict.DIFFERENT


def test_a_random_model_is_unchecked() -> None:
    noisy = "g (float[N] x) => (float[N] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    whole = verify(model(noisy), model(noisy.replace("{ r", "{ z = Abs(x) r"))).whole
    assert whole.verdict is Verdict.UNCHECKED
    assert "random" in whole.reason


@pytest.mark.slow
def test_a_nan_inside_a_selection_does_not_count() -> None:
    """Softmax of infinities is NaN, where Hardmax and its replacement part; ties still count."""
    before = "g (float[N, 2] x) => (float[N, 2] y) { s = Softmax(x) y = Hardmax(s) }"
    after = HARDMAX_SCORE.replace("ArgMax<axis = -1, keepdims = 1>(x)", "ArgMax<axis = -1, keepdims = 1>(z)").replace(
        "q =", "z = Softmax(x) q ="
    )
    report = verify(model(before), model(after))
    assert report.verdict is Verdict.EQUAL
    tied = after.replace("keepdims = 1", "keepdims = 1, select_last_index = 1")
    assert verify(model(before), model(tied)).verdict is Verdict.DIFFERENT


def test_sequences_and_maps_of_outputs_are_compared() -> None:
    text = """<ir_version: 8, opset_import: ["": 13, "ai.onnx.ml": 1]> g (float[N, 2] x) => (z) {
        z = ai.onnx.ml.ZipMap<classlabels_int64s = [LABELS]>(x) }"""
    first, second, other = (parse_model(text.replace("LABELS", labels)) for labels in ("0, 1", "0, 1", "0, 2"))
    second.graph.name = "second"
    assert verify(first, second).verdict is Verdict.EQUAL
    assert verify(first, other).verdict is Verdict.DIFFERENT


# --- tolerance ------------------------------------------------------------------------------------------------------


def sums(order: str) -> onnx.ModelProto:
    """Return a + b + c in one order of summation."""
    return model(f"g (float[N] a, float[N] b, float[N] c) => (float[N] y) {{ {order} }}")


def test_another_order_of_summation_is_equal_but_not_exactly() -> None:
    before, after = sums("s = Add(a, b) y = Add(s, c)"), sums("s = Add(b, c) y = Add(a, s)")
    assert verify(before, after, exact=True).verdict is Verdict.DIFFERENT
    assert verify(before, after).verdict is Verdict.EQUAL


def bounds(text: str, opset: int = 13, **feeds: Any) -> Sequence[Bound]:
    """Return what rounding makes of the outputs of a model on an input."""
    source = ort_models.Runnable(model(text, opset))
    outputs = ort_session.Session(source, optimised=False).run(feeds)
    return Rounding(source, limits_module.Limits()).bounds(feeds, outputs)


def test_what_is_exact_has_no_bound() -> None:
    text = """g (float[N] x, float[N] z) => (float y, float[N] m, float[N] h)
        { p = Mul(x, z) y = ReduceSum<keepdims = 0>(p) m = Max(x, z) h = Hardmax<axis = 0>(p) }"""
    whole = bounds(text, x=single([1, 2, 3]), z=single([4, 5, 6]))
    assert [bound.slack for bound in whole] == [0, 0, 0]
    rounded = bounds(text, x=single([0.1, 0.2, 0.3]), z=single([0.4, 0.5, 0.6]))
    assert 1e-8 < rounded[0].slack < 1e-5
    assert rounded[1] == Bound(unsigned=True)
    assert rounded[2].unstable is None


def test_the_bound_grows_with_what_cancels() -> None:
    text = "g (float[N] x) => (float y) { y = ReduceSum<keepdims = 0>(x) }"
    (small,) = bounds(text, x=single([0.1] * 1000))
    (large,) = bounds(text, x=single([1e6, 0.1, -1e6] * 300))
    assert small.slack < 1e-2
    assert large.slack > 1e-2


def test_a_batch_that_is_normalized_is_rounded_as_large_as_it_was() -> None:
    """Kernels take x * scale + (bias - mean * scale), or scale the difference from the mean."""
    text = """g (float[N,4] x, float[4] s, float[4] b, float[4] m, float[4] v) => (float[N,4] y, float[4] p, float[4] q)
        { y, p, q = BatchNormalization<training_mode = 1>(x, s, b, m, v) }"""
    one, zero = single([1] * 4), single([0] * 4)
    feeds = {"x": single([[3, 1, 1, 1]]), "s": one, "b": single([1e-30] * 4), "m": zero, "v": zero}
    bound, *_ = bounds(text, 15, **feeds)
    assert bound.graded is None
    assert 1e-30 < bound.slack < 1


def test_a_whole_number_that_never_jumps_has_no_bound_beside_one_that_does() -> None:
    text = "g (float[N] a, float[N] b) => (float[N] y) { s = Add(a, b) d = Sub(s, a) y = Floor(d) }"
    (bound,) = bounds(text, a=single([1e8, 0]), b=single([0.9, 0.2]))
    assert bound.graded is not None
    assert bound.graded[0] >= 1
    assert bound.graded[1] == 0


def test_bounds_that_are_enough_take_no_disturbed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ort_models.Runnable(
        model("g (float[N] x) => (float y, float[N] z) { y = ReduceSum<keepdims = 0>(x) z = Exp(x) }")
    )
    feeds = {"x": single([1e6, 0.1, -1e6] * 300)}
    outputs = ort_session.Session(source, optimised=False).run(feeds)
    runs: list[int] = []
    once = WideModel.run

    def counted(self: WideModel, *rest: Any, **named: Any) -> Any:
        runs.append(1)
        return once(self, *rest, **named)

    monkeypatch.setattr(WideModel, "run", counted)
    few = Rounding(source, limits_module.Limits()).bounds(feeds, outputs, enough=lambda found: True)
    assert len(runs) == 1
    every = Rounding(source, limits_module.Limits()).bounds(feeds, outputs, enough=lambda found: False)
    assert len(runs) > 2
    assert all(0 < one.slack <= other.slack for one, other in zip(few, every, strict=True))


def test_rounding_that_decides_everything_leaves_elements_out() -> None:
    text = "g (float[N] a, float[N] b) => (float[N] y) { s = Add(a, b) y = Sub(s, a) }"
    (bound,) = bounds(text, a=single([3e38, 1]), b=single([3e38, 2]))
    assert bound.unstable is not None
    assert bound.unstable.tolist() == [True, False]


def single(values: Any) -> Any:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("expected", "actual", "slack", "same"),
    [
        (single([np.nan]), -single([np.nan]), 0, True),
        (single([0.0]), single([-0.0]), 0, False),
        (single([1.0]), single([1.5]), 0.5, True),
        (single([1.0]), single([1.5]), 0.4, False),
        (single([np.inf]), single([-np.inf]), 1e30, False),
        (single([np.nan]), single([1]), 1e30, False),
        (single([1]), np.array([1]), 0, False),
        (single([1]), single([[1]]), 0, False),
        (np.float32(1), single([1]), 0, False),
        (np.array(["a"], object), np.array(["a"]), 0, True),
        (np.array(["a"], object), np.array(["b"]), 0, False),
        (np.array([1], ml_dtypes.bfloat16), np.array([1], ml_dtypes.bfloat16), 0, True),
        (np.array([1], ml_dtypes.bfloat16), np.array([2], ml_dtypes.bfloat16), 0, False),
        ([single([1])], [single([1]), single([1])], 0, False),
        ({"a": 1.0}, {"b": 1.0}, 0, False),
        (None, None, 0, True),
        (single([1]), None, 0, False),
        (np.zeros((0, 3)), np.zeros((0, 3)), 0, True),
        (np.zeros((0, 3)), np.zeros((0, 4)), 0, False),
    ],
)
def test_values_are_compared_bit_for_bit(expected: Any, actual: Any, slack: float, same: bool) -> None:
    assert (differs(expected, actual, Bound(slack)) is None) is same


# --- files, weights and dangers -------------------------------------------------------------------------------------


def external(folder: Path, values: list[float]) -> Path:
    """Save x + w with w in a file of its own."""
    text = f"g (float[N, {len(values)}] x) => (float[N, {len(values)}] y) {{ y = Add(x, w) }}"
    found = model(text)
    found.graph.initializer.append(numpy_helper.from_array(single(values), "w"))
    folder.mkdir()
    onnx.save(found, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    return folder / "m.onnx"


def test_external_data_of_paths_and_of_protobufs(tmp_path: Path) -> None:
    first, second = external(tmp_path / "a", [1, 2, 3]), external(tmp_path / "b", [1, 2, 4])
    assert verify(first, second).verdict is Verdict.DIFFERENT
    one, two = (onnx.load(path, load_external_data=False) for path in (first, second))
    two.graph.name = "two"
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    report = verify(one, two, original_dir=first.parent, rewritten_dir=first.parent)
    assert (report.verdict, report.whole.inputs > 0) == (Verdict.EQUAL, True)
    assert verify(first, two, rewritten_dir=second.parent).verdict is Verdict.DIFFERENT
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}


def test_onnx_text_is_read(tmp_path: Path) -> None:
    text = f'<ir_version: 8, opset_import: ["": 13]> {HARDMAX}'
    (tmp_path / "m.onnxtxt").write_text(text)
    assert verify(tmp_path / "m.onnxtxt", model(HARDMAX_SCORE)).verdict is Verdict.EQUAL


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"not a model")
    for name in ("m.onnx", "missing.onnx"):
        with pytest.raises(InvalidModelError):
            verify(tmp_path / name, model(HARDMAX))


def test_without_onnxruntime_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    ort_models.runtime.cache_clear()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match="pip install 'onnxruntime>="):
        verify(model(ARGMAX), model(ARGMAX_TOPK))
    with pytest.raises(UsageError):
        compare_pairs([EQUAL["argmax"]])
    ort_models.runtime.cache_clear()


@pytest.mark.parametrize(
    ("text", "steered"),
    [
        ("g (int64[1] n, float x) => (y) { z = ConstantOfShape(n) y = Add(z, x) }", {"n"}),
        ("g (int64 n, float x) => (y) <int64 a = {0}, int64 b = {1}> { m = Add(n, b) y = Range(a, m, b) }", {"n"}),
        ("g (float[N] n) => (y) { s = Shape(n) y = ConstantOfShape(s) }", set()),
        ("g (int64[N] i, int64 d, float[2] v) => (y) { y = OneHot(i, d, v) }", {"d"}),
        (
            """g (int64 n, bool c, float x, float limit) => (y) { y = Loop(n, c, x) <body = b (int64 i, bool k, float s)
               => (bool go, float t) { t = Add(s, x) go = Less(t, limit) }> }""",
            {"n", "c", "x", "limit"},
        ),
    ],
)
def test_inputs_that_set_a_size_stay_small(text: str, steered: set[str]) -> None:
    found = model(text)
    assert generator.position_inputs(found) & {"n", "d", "c", "x", "limit"} == steered
    draft = generator.Draft(generator.specs(found.graph), generator.position_inputs(found), generator.Allowed())
    rng = np.random.default_rng(0)
    for shape in generator.sizes(draft.specs, whole=False):
        for turn in range(draft.turns()):
            feeds = draft.feeds(rng, shape, turn)
            assert all(abs(feeds[name].astype(np.float64)).max(initial=0) <= 3 for name in draft.position_inputs)


def test_the_least_integer_is_not_divided() -> None:
    """onnxruntime's Div of the least integer by -1 ends the process."""
    divide = "g (int64[N] a, int64[N] b) => (int64[N] y) { y = Div(a, b) }"
    assert generator.divides(model(divide))
    assert not generator.divides(model("g (int64[N] a) => (int64[N] y) <int64 b = {2}> { y = Div(a, b) }"))
    assert proved(pair(divide, divide.replace("g (", "h ("))).verdict is Verdict.EQUAL


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_what_floats_are_fed(dtype: str) -> None:
    element = {"float32": 1, "float64": 11, "float16": 10, "bfloat16": 16}[dtype]
    for allowed in (generator.Allowed(), generator.Allowed(nan=False), generator.Allowed(nan=False, infinite=False)):
        draft = generator.Draft((generator.Spec("x", element, (4, 5)),), frozenset(), allowed)
        rng = np.random.default_rng(0)
        drawn = [draft.feeds(rng, {"x": (4, 5)}, turn)["x"] for turn in range(3 * draft.turns())]
        values = np.concatenate([array.astype(np.float64).ravel() for array in drawn])
        assert all(str(array.dtype) == dtype for array in drawn)
        assert np.isnan(values).any() == allowed.nan
        assert bool(np.isposinf(values).any()) is bool(np.isneginf(values).any()) is allowed.infinite
        assert any((array == -math.inf).all() for array in drawn) == allowed.infinite
        assert {math.copysign(1, value) for value in values[values == 0]} == {1, -1}
        assert any((row == row[0]).all() for array in drawn for row in array[:, :])


def test_what_int64_is_fed() -> None:
    draft = generator.Draft((generator.Spec("x", TensorProto.INT64, (4, 5)),), frozenset(), generator.Allowed())
    rng = np.random.default_rng(0)
    values = {int(v) for turn in range(60) for v in draft.feeds(rng, {"x": (4, 5)}, turn)["x"].ravel()}
    wide = {2**31, 2**32 - 1, 2**33 + 2**31, 2**53 + 1}
    assert values >= wide | {-value for value in wide} | {0, 1, 2, -(2**63), 2**63 - 1}


def bound_of(text: str, opset: int = 13, **feeds: Any) -> Bound:
    source = ort_models.Runnable(model(text, opset))
    outputs = ort_session.Session(source, optimised=False).run(feeds)
    return Rounding(source, limits_module.Limits()).bounds(feeds, outputs)[0]


def added_up(terms: Any) -> Any:
    """Return the sum of floats of which each is added to the ones before, which rounds equal ones in one direction."""
    return np.add.accumulate(terms.astype(np.float32))[-1]


def test_equal_numbers_are_rounded_in_one_direction() -> None:
    text = "g (float[N] x) => (float y) { s = ReduceSum<keepdims = 0>(x) y = Log(s) }"
    x = single([0.001] * 4096)
    wrong = abs(float(np.log(added_up(x))) - float(np.log(x.astype(np.float64).sum())))
    assert wrong < bound_of(text, x=x).slack < 4096 * 2.0**-23
    various = bound_of(text, x=np.random.default_rng(0).uniform(0.0005, 0.0015, 4096).astype(np.float32))
    assert various.slack < 1e-4


@pytest.mark.parametrize("condition", ["b", "c"])
def test_a_sum_in_a_branch_is_bounded_as_one_outside(condition: str) -> None:
    """The condition of the If is its first input, and what the branches sum comes after it."""
    branch = "() => (float u) { u = ReduceLogSum<keepdims = 0>(x) }"
    text = f"g (float[N] x, bool b) => (float y) {{ y = If (b) <then_branch = t {branch}, else_branch = e {branch}> }}"
    x = single([0.001] * 1024)
    inside = bound_of(text, x=x, b=np.array(condition == "b"))
    outside = bound_of("g (float[N] x) => (float y) { y = ReduceLogSum<keepdims = 0>(x) }", x=x)
    wrong = abs(float(np.log(added_up(x))) - float(np.log(x.astype(np.float64).sum())))
    assert wrong < inside.slack
    assert inside.slack == pytest.approx(outside.slack, rel=0.5)


@pytest.mark.parametrize(
    ("node", "opset", "expected"),
    [
        ("LogSoftmax<axis = 0>(x)", 13, lambda x: x - x.max() - np.log(added_up(np.exp(x - x.max())))),
        ("LogSoftmax<axis = 0>(x)", 11, lambda x: x - x.max() - np.log(added_up(np.exp(x - x.max())))),
        ("Softmax<axis = 0>(x)", 13, lambda x: np.exp(x - x.max()) / added_up(np.exp(x - x.max()))),
        ("ReduceLogSumExp<keepdims = 1>(x)", 13, lambda x: x.max() + np.log(added_up(np.exp(x - x.max())))),
        ("LpNormalization<axis = 0>(x)", 13, lambda x: x / np.sqrt(added_up(x * x))),
        (
            "MeanVarianceNormalization<axes = [0]>(x)",
            13,
            lambda x: (x - x.mean()) / np.sqrt(added_up((x - x.mean()) ** 2) / np.float32(x.size)),
        ),
    ],
)
@pytest.mark.parametrize("low", [0.0, 1.0])
def test_a_sum_that_is_not_returned_bounds_the_result_too(node: str, opset: int, expected: Any, low: float) -> None:
    """One peak after 31 equal numbers, and 2,968 after it: each of them is rounded in the same direction."""
    x = single([low] * 3000)
    x[31] += 1
    text = f"g (float[N] x) => (float[M] y) {{ y = {node} }}"
    source = ort_models.Runnable(model(text, opset))
    (right,) = ort_session.Session(source, optimised=False).run({"x": x})
    bound = bound_of(text, opset, x=x)
    away = np.abs(expected(x).astype(np.float64) - right).max()
    assert away <= bound.slack
    # The difference of squares of numbers that are about 1 loses half of the digits.
    assert bound.slack < 3000 * 2.0**-22 * max(1.0, float(np.abs(right).max())) or (low and "Variance" in node)


def test_a_row_without_spread_decides_nothing() -> None:
    """The mean of ten times 1000.1 is rounded: away from it each is 0 or a unit, which becomes NaN, 1 or -1."""
    text = "g (double[N,M] x) => (double[N,M] y) { y = MeanVarianceNormalization<axes = [1]>(x) }"
    other = """g (double[N,M] x) => (double[N,M] y) {
        m = ReduceMean<axes = [1]>(x) d = Sub(x, m) q = Mul(d, d)
        v = ReduceMean<axes = [1]>(q) s = Sqrt(v) y = Div(d, s) }"""
    x = np.full((1, 10), 1000.1)
    x[0, 3] = np.nextafter(1000.1, 2000)
    whole = verify(model(text), model(other), inputs={"x": x}).whole
    assert whole.verdict is Verdict.EQUAL
    assert verify(model(text), model(other), inputs={"x": x + np.arange(10.0)}).whole.verdict is Verdict.EQUAL
    wrong = other.replace("Sub(x, m)", "Sub(m, x)")
    assert verify(model(text), model(wrong), inputs={"x": x + np.arange(10.0)}).whole.verdict is Verdict.DIFFERENT


# --- kernels that compute something else -----------------------------------------------------------------------------

_PAST = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
g (float[1,2,4] q, float[1,2,4] k, float[1,2,4] v, float[1,2,3,2] p, float[1,2,3,2] r) => (float[1,2,4] y)
{ y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.75> (q, k, v, "", "", "", p, r) }"""


@pytest.mark.parametrize(("scale", "verdict"), [("0.75", Verdict.EQUAL), ("1.5", Verdict.DIFFERENT)])
def test_what_a_kernel_computes_of_a_past_alone_hides_nothing(scale: str, verdict: Verdict) -> None:
    """MultiHeadAttention without an output for keys and values reads another past (onnxruntime 1.32.0)."""
    original = parse_model(_PAST)
    scaled = parse_model(_PAST.replace("0.75", scale))
    rewritten = opshift.convert(scaled, decompose=["com.microsoft::MultiHeadAttention"], verify=False).model
    whole = verify(original, rewritten).whole
    assert whole.verdict is verdict
    assert "MultiHeadAttention has all its outputs" in whole.reason


@pytest.mark.parametrize(
    ("opset", "signature", "before", "after", "verdict"),
    [
        # onnxruntime 1.32.0 wraps the square of an integer, and cuts what a double holds of it.
        (
            15,
            "int32[n] x, int32[1] p) => (int32[n] y",
            "y = Pow(x, p)",
            "d = Cast<to = 11>(x) e = Cast<to = 11>(p) f = Pow(d, e) y = Cast<to = 6>(f)",
            Verdict.EQUAL,
        ),
        (
            24,
            "float[1,4,0] x, float[4] s, float[4] b, float[4] m, float[4] v) => (float[1,4,0] y, float[4] o",
            "y, o, w = BatchNormalization<training_mode = 1>(x, s, b, m, v)",
            "y, p, w = BatchNormalization<training_mode = 1>(x, s, b, m, v) o = Neg(p)",
            Verdict.EQUAL,
        ),
        (
            24,
            "float[1,4,0] x, float[4] s, float[4] b, float[4] m, float[4] v) => (float[1,4,0] y",
            "y = BatchNormalization(x, s, b, m, v)",
            "z = Concat<axis = 0>(s, s) y = BatchNormalization(x, z, b, m, v)",
            Verdict.DIFFERENT,
        ),
    ],
)
def test_what_no_text_defines_does_not_count(
    opset: int, signature: str, before: str, after: str, verdict: Verdict
) -> None:
    one, other = (model(f"g ({signature}) {{ {nodes} }}", opset) for nodes in (before, after))
    assert verify(one, other).whole.verdict is verdict


@pytest.mark.parametrize("asked", [{"inputs": "nope"}, {"inputs": {"nope": [1.0]}}, {"input_shapes": {"zz": (1,)}}])
def test_what_does_not_fit_is_refused_for_two_models_that_are_the_same(asked: dict[str, Any]) -> None:
    path = Path(__file__).parents[1] / "fixtures" / "hardmax-opset13.onnxtxt"
    with pytest.raises(UsageError):
        opshift.verify(path, path, **asked)
    assert opshift.verify(path, path).verdict == "equal"


def test_the_rank_of_an_undefined_number_is_defined() -> None:
    """What the logarithm of integers is cut to no text defines; its shape it does, also in a branch."""
    text = """<ir_version: 8, opset_import: ["": 11]> g (int64[2,4] x, bool c) => (int64[1,1] y) { y = If(c)
        <then_branch = g () => (int64[] t) { t = ReduceLogSumExp(x) },
        else_branch = g () => (int64[] e) { e = ReduceLogSumExp<keepdims = KEPT>(x) }> }"""
    before, after = (parse_model(text.replace("KEPT", kept)) for kept in "10")
    report = opshift.verify(before, after)
    assert report.verdict is Verdict.DIFFERENT
    assert "shape [] instead of [1, 1]" in report.whole.reason
