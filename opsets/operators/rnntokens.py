"""RNNTokens: an RNN of one direction over its tokens, whose products with W are given. Lowerings use it."""

from __future__ import annotations

from collections.abc import Sequence

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
from opshift.opsets.operators import rnncell
from opshift.opsets.registry.lowering import lowering, meaning, op, unrolled
from opshift.opsets.registry.operator import Operator


def oracle(
    what: Cell, count: Array, h: Array, gates: Array, mask: Array | None, *others: Array | None
) -> tuple[Array, ...]:
    """Return the last states, and the states h after all tokens."""
    return run_tokens(rnncell.oracle, what, (h,), (gates, mask), *others)


@unrolled(18, applies_if=few(2), bind=bound_cell, turns=tokens_of(2), scanned=("gates", "mask"), carries=1)
def token_after_token(
    count,
    h,
    gates,
    mask,
    r,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
    variant: int,
):
    """Write the cell once for each token."""
    next_h = meaning.RNNCell(
        h,
        gates,
        mask,
        r,
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
    )
    return next_h, op.Identity(next_h)


# Written at 10 for its Gather, whose index needs no guard here: it is not negative.
@lowering(10, applies_if=forwards(2), bind=bound_cell, rounds=True, carries=1)
def token(
    number,
    h,
    gates,
    mask,
    r,
    functions: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float],
    variant: int,
):
    """Process one token in a Loop."""
    at = op.Reshape(number, [1])
    next_h = meaning.RNNCell(
        h,
        op.Gather(gates, at, axis=0),
        op.Gather(mask, at, axis=0),
        r,
        functions=functions,
        alphas=alphas,
        betas=betas,
        clips=clips,
        variant=variant,
    )
    return next_h, op.Identity(next_h)


@lowering(18, applies_if=reversed_order(2))
def backwards(count, h, gates, mask, r):
    """Reverse the tokens, and the rows."""
    last_h, rows = meaning.Same(
        count,
        h,
        op.Slice(gates, [-1], [-9223372036854775807], [0], [-1]),
        op.Slice(mask, [-1], [-9223372036854775807], [0], [-1]),
        r,
        backwards=0,
    )
    return last_h, op.Slice(rows, [-1], [-9223372036854775807], [0], [-1])


@lowering(18, applies_if=no_token(2))
def nothing(count, h, gates, mask, r):
    """Return the state as it is, and no row."""
    return op.Identity(h), op.Unsqueeze(gates, [1])


OPERATOR = Operator(
    name="RNNTokens",
    domain="opshift.step",
    meaning=Cell,
    versions=(),
    operands=("count", "h", "gates", "mask", "r"),
    oracle=oracle,
    lowerings=(token_after_token, token, backwards, nothing),
    facts=facts_of_tokens(states=1, gates=2),
)
