"""LinearAttention: token by token, for each rule, number of heads and width of its gates."""

from __future__ import annotations

from typing import Any

import numpy as np

from operators.harness import BF16, F16, F32, Array, Case, Code, Refused, Table
from opshift.opsets.operators import linearattention
from opshift.opsets.operators.linearattention import LinearAttention

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
            '<ir_version: 13, opset_import: ["": 27]> g (float[1,t,4] q, float[1,t,4] k, float[1,t,4] v) '
            "=> (float[1,t,4] y, float[1,2,2,2] s) "
            '{ y, s = LinearAttention <q_num_heads=2, kv_num_heads=2, update_rule="linear"> (q, k, v) }',
            Code.MISSING_FACT,
            "the number of tokens is unknown",
            {"opset": 26},
        ),
        Refused(
            '<ir_version: 13, opset_import: ["": 27]> g (float[1,500,4] q, float[1,500,4] k, float[1,500,4] v) '
            "=> (float[1,500,4] y, float[1,2,2,2] s) "
            '{ y, s = LinearAttention <q_num_heads=2, kv_num_heads=2, update_rule="linear"> (q, k, v) }',
            Code.ABSENT_OPERATOR,
            "there are more than 128 tokens",
            {"opset": 26},
        ),
    )
