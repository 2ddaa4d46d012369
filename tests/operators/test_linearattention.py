"""LinearAttention: token by token, for each rule, number of heads and width of its gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from running import nodes_of, run, same

import opshift
from operators.harness import BF16, F16, F32, Array, Case, Code, Refused, Table, converted
from opshift.opsets.operators import linearattention, linearattentiontokens
from opshift.opsets.operators.linearattention import LinearAttention
from opshift.passes.base.report import Verdict

RNG = np.random.default_rng(0)


def tokens(
    count: int, *, queries: int, heads: int, gate: int = 0, rate: int = 0, past: bool, dtype: Any = F32
) -> list[Any]:
    """Queries and keys of size 3 and values of size 2 for a batch of two, then state, decay and beta."""

    def drawn(*shape: int) -> Array:
        return RNG.standard_normal((2, *shape)).astype(dtype)

    return [
        drawn(count, queries * 3),
        drawn(count, heads * 3),
        drawn(count, heads * 2),
        drawn(heads, 3, 2) if past else None,
        -np.abs(drawn(count, gate)) if gate else None,
        drawn(count, rate) if rate else None,
    ]


def calm(arrays: list[Any]) -> list[Any]:
    """The same of short keys and rates from 0 to 1, with which a state does not grow from token to token."""
    query, key, value, state, decay, beta = arrays
    return [query, key / 4, value, state, decay, None if beta is None else np.abs(np.tanh(beta))]


def whole(count: int, *, past: bool, dtype: Any) -> list[Any]:
    """The same of small integers, which are not rounded."""
    drawn = tokens(count, queries=2, heads=2, past=past)
    return [None if array is None else np.rint(array).astype(dtype) for array in drawn]


def empty(arrays: list[Any]) -> list[Any]:
    """The same of a batch of none."""
    return [None if array is None else array[:0] for array in arrays]


class TestLinearAttention(Table):
    operator = linearattention.OPERATOR
    tolerance = 1e-5
    cases = (
        Case("linear", tokens(3, queries=2, heads=2, past=True), LinearAttention(2, 2, "linear")),
        Case("no state", tokens(3, queries=2, heads=2, past=False), LinearAttention(2, 2, "linear")),
        Case("one token", tokens(1, queries=2, heads=2, past=False), LinearAttention(2, 2, "linear")),
        Case("scaled", tokens(2, queries=2, heads=2, past=True), LinearAttention(2, 2, "linear", 0.3)),
        Case("gated", tokens(3, queries=2, heads=2, gate=6, past=True), LinearAttention(2, 2, "gated")),
        Case(
            "gated by head",
            tokens(2, queries=2, heads=2, gate=2, past=True),
            LinearAttention(2, 2, "gated"),
            symbolic=27,
        ),
        Case("delta", tokens(3, queries=2, heads=2, rate=2, past=True), LinearAttention(2, 2, "delta")),
        Case(
            "delta, one rate",
            tokens(3, queries=2, heads=2, rate=1, past=True),
            LinearAttention(2, 2, "delta"),
            symbolic=27,
        ),
        Case(
            "both, shared heads",
            tokens(4, queries=4, heads=2, gate=6, rate=2, past=True),
            LinearAttention(4, 2),
        ),
        Case("one head for all", tokens(2, queries=3, heads=1, gate=3, rate=1, past=True), LinearAttention(3, 1)),
        *(
            Case(
                f"one token, {rule}",
                tokens(1, queries=4, heads=2, gate=gate, rate=rate, past=True),
                LinearAttention(4, 2, rule),
            )
            for rule, gate, rate in (("linear", 0, 0), ("gated", 6, 0), ("delta", 0, 2), ("gated_delta", 2, 1))
        ),
        Case("many", calm(tokens(130, queries=2, heads=2, rate=2, past=True)), LinearAttention(2, 2, "delta")),
        Case("nobody", empty(tokens(2, queries=2, heads=2, past=True)), LinearAttention(2, 2, "linear")),
        *(
            Case(
                f"{dtype.__name__}, past {past}", whole(3, past=past, dtype=dtype), LinearAttention(2, 2, "linear", 0.5)
            )
            for dtype in (F16, BF16)
            for past in (False, True)
        ),
    )
    refusals = (
        Refused(
            '<ir_version: 13, opset_import: ["": 27]> g (float[1,t,w] q, float[1,t,w] k, float[1,t,4] v) '
            "=> (float[1,t,4] y, float[1,2,n,2] s) "
            '{ y, s = LinearAttention <q_num_heads=2, kv_num_heads=2, update_rule="linear"> (q, k, v) }',
            Code.MISSING_FACT,
            "the size of a head is unknown",
            {"opset": 26},
        ),
    )


def first_of_tokens(arrays: list[Any]) -> list[Any]:
    """The operands of the loop: the number of tokens, the state, and the rest."""
    query, key, value, state, decay, beta = arrays
    return [np.array(query.shape[1]), state, query, key, value, decay, beta]


class TestLinearAttentionTokens(Table):
    operator = linearattentiontokens.OPERATOR
    tolerance = 1e-5
    cases = tuple(
        Case(f"{rule}, {count} tokens", first_of_tokens(calm(arrays)), LinearAttention(4, 2, rule))
        for rule, gate, rate in (("linear", 0, 0), ("gated", 6, 0), ("delta", 0, 2), ("gated_delta", 2, 1))
        for count in (0, 1, 3, 200)
        for arrays in (tokens(count, queries=4, heads=2, gate=gate, rate=rate, past=True),)
    )


NODE = "LinearAttention <q_num_heads = 2, kv_num_heads = 2, update_rule = {rule!r}> (q, k, v, {state}, {decay}, {beta})"
LONG = {
    "linear": ("", ""),
    "gated": ("d", ""),
    "delta": ("", "b"),
    "gated_delta": ("d", "b"),
}
SHAPES = {"q": "2,t,6", "k": "2,t,6", "v": "2,t,4", "s": "2,2,3,2", "d": "2,t,6", "b": "2,t,2"}


@pytest.mark.parametrize("target", [7, 8, 11, 13, 18, 26])
@pytest.mark.parametrize("rule", LONG)
@pytest.mark.parametrize("state", ["", "s"])
@pytest.mark.parametrize("where", ["graph", "branch", "function"])
def test_as_many_tokens_as_there_are(rule: str, state: str, where: str, target: int) -> None:
    decay, beta = LONG[rule]
    node = NODE.format(rule=rule, state=state, decay=decay, beta=beta).replace("'", '"')
    inputs = ["q", "k", "v", *filter(None, (state, decay, beta))]
    declared = ", ".join(f"float[{SHAPES[name]}] {name}" for name in inputs)
    outputs = "(float[2,t,4] y, float[2,2,3,2] p)"
    head = '<ir_version: 10, opset_import: ["": 27, "f": 1]>'
    bodies = {
        "graph": f"g ({declared}) => {outputs} {{ y, p = {node} }}",
        "function": f"g ({declared}) => {outputs} {{ y, p = f.Whole ({', '.join(inputs)}) }} "
        f'<domain: "f", opset_import: ["": 27]> Whole ({", ".join(inputs)}) => (y, p) {{ y, p = {node} }}',
        "branch": f"g (bool c, {declared}) => {outputs} {{ y, p = If (c) <then_branch = a () => (float[2,t,4] u, "
        f"float[2,2,3,2] w) {{ u, w = {node} }}, else_branch = b () => (float[2,t,4] u, float[2,2,3,2] w) "
        f"{{ u, w = {node} }}> }}",
    }
    model = converted(parse_model(head + bodies[where]), opset=target)
    onnx.checker.check_model(model, full_check=True)
    loops = [item for item in nodes_of(model) if item.op_type == "Loop"]
    assert len(loops) == 1 + (where == "branch")
    for count in (0, 1, 5, 300):
        arrays = calm(tokens(count, queries=2, heads=2, gate=6 * bool(decay), rate=2 * bool(beta), past=bool(state)))
        feeds = {name: array for name, array in zip("qkvsdb", arrays, strict=True) if array is not None}
        expected = linearattention.oracle(LinearAttention(2, 2, rule), *arrays)
        for optimised in (False, True):
            outputs_made = run(model, [{**feeds, "c": np.array(True)}], optimised=optimised)[0]
            assert all(same(wanted, got, 1e-5) for wanted, got in zip(expected, outputs_made, strict=True))


def test_rates_have_as_many_tokens_as_the_queries() -> None:
    """ONNX's body runs with those of two tokens for four, which "beta (B, T, H_kv)" excludes: none are fed."""
    text = (
        '<ir_version: 10, opset_import: ["": 27]> g (float[2,4,6] q, float[2,4,6] k, float[2,4,4] v, float[2,2,3,2] s,'
        " float[2,n,2] b) => (float[2,4,4] y, float[2,2,3,2] p) { y, p = LinearAttention"
        '<q_num_heads = 2, kv_num_heads = 2, update_rule = "delta"> (q, k, v, s, "", b) }'
    )
    arrays = calm(tokens(4, queries=2, heads=2, rate=2, past=True))
    feeds = {name: array for name, array in zip("qkvsdb", arrays, strict=True) if array is not None}
    what = LinearAttention(2, 2, "delta")
    result = opshift.convert(parse_model(text), opset=18)
    assert result.report is not None
    assert result.report.verdict is Verdict.EQUAL
    assert isinstance(result.model, onnx.ModelProto)
    assert all(
        same(wanted, got, 1e-5)
        for wanted, got in zip(linearattention.oracle(what, *arrays), run(result.model, [feeds])[0], strict=True)
    )
    query, key, value, state, decay, beta = arrays
    with pytest.raises(ValueError, match="shape"):
        linearattention.oracle(what, query, key, value, state, decay, None if beta is None else beta[:, :2])
