"""LSTMTokens: an LSTM of one direction over its tokens, whose products with W are given. Lowerings use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opshift.opsets.families.recurrent import (
    Array,
    Cell,
    bound_cell,
    facts_of_tokens,
    few,
    forwards,
    no_token,
    reversed_order,
    run_tokens,
    tokens_of,
)
from opshift.opsets.operators import lstmcell
from opshift.opsets.registry.lowering import lowering, meaning, op, unrolled
from opshift.opsets.registry.operator import Operator


def oracle(
    what: Cell,
    count: Array,
    h: Array,
    c: Array,
    gates: Array,
    mask: Array | None,
    r: Array,
    p_i: Array | None = None,
    p_o: Array | None = None,
    p_f: Array | None = None,
    r_scale: Array | None = None,
    r_zero: Array | None = None,
    read: Array | None = None,
) -> tuple[Array, ...]:
    """Return the last states, and the states h after all tokens."""

    def step(
        what: Cell, h: Array, c: Array, gates: Array, mask: Array | None, read: Array | None, *others: Any
    ) -> tuple[Array, ...]:
        return lstmcell.oracle(what, h, c, gates, mask, *others, read)

    return run_tokens(step, what, (h, c), (gates, mask, read), r, p_i, p_o, p_f, r_scale, r_zero)


@unrolled(18, applies_if=few(3), bind=bound_cell, turns=tokens_of(3), scanned=("gates", "mask", "read"), carries=2)
def token_after_token(
    count,
    h,
    c,
    gates,
    mask,
    r,
    p_i,
    p_o,
    p_f,
    r_scale,
    r_zero,
    read,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
    variant: int,
):
    """Write the cell once for each token."""
    next_h, next_c = meaning.LSTMCell(
        h,
        c,
        gates,
        mask,
        r,
        p_i,
        p_o,
        p_f,
        r_scale,
        r_zero,
        read,
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
    )
    return next_h, next_c, op.Identity(next_h)


# Written at 10 for its Gather, whose index needs no guard here: it is not negative.
@lowering(10, applies_if=forwards(3), bind=bound_cell, rounds=True, carries=2)
def token(
    number,
    h,
    c,
    gates,
    mask,
    r,
    p_i,
    p_o,
    p_f,
    r_scale,
    r_zero,
    read,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
    variant: int,
):
    """Process one token in a Loop."""
    at = op.Reshape(number, [1])
    next_h, next_c = meaning.LSTMCell(
        h,
        c,
        op.Gather(gates, at, axis=0),
        op.Gather(mask, at, axis=0),
        r,
        p_i,
        p_o,
        p_f,
        r_scale,
        r_zero,
        op.Gather(read, at, axis=0),
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
    )
    return next_h, next_c, op.Identity(next_h)


@lowering(18, applies_if=reversed_order(3))
def backwards(count, h, c, gates, mask, r, p_i, p_o, p_f, r_scale, r_zero, read):
    """Reverse the tokens, and the rows."""
    last_h, last_c, rows = meaning.Same(
        count,
        h,
        c,
        op.Slice(gates, [-1], [-9223372036854775807], [0], [-1]),
        op.Slice(mask, [-1], [-9223372036854775807], [0], [-1]),
        r,
        p_i,
        p_o,
        p_f,
        r_scale,
        r_zero,
        op.Slice(read, [-1], [-9223372036854775807], [0], [-1]),
        backwards=0,
    )
    return last_h, last_c, op.Slice(rows, [-1], [-9223372036854775807], [0], [-1])


@lowering(18, applies_if=no_token(3))
def nothing(count, h, c, gates, mask, r, p_i, p_o, p_f, r_scale, r_zero, read):
    """Return the states as they are, and no row."""
    rows, _, _, _ = op.Split(gates, axis=2, num_outputs=4)
    return op.Identity(h), op.Identity(c), op.Unsqueeze(rows, [1])


OPERATOR = Operator(
    name="LSTMTokens",
    domain="opshift.step",
    meaning=Cell,
    versions=(),
    operands=("count", "h", "c", "gates", "mask", "r", "p_i", "p_o", "p_f", "r_scale", "r_zero", "read"),
    oracle=oracle,
    lowerings=(token_after_token, token, backwards, nothing),
    facts=facts_of_tokens(states=2, gates=3),
)
