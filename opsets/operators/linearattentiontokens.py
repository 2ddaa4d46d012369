"""LinearAttentionTokens: a LinearAttention as a Loop over its tokens. Lowerings say it; no model has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.opsets.operators import linearattention
from opshift.opsets.operators.linearattention import LinearAttention
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


def oracle(what: LinearAttention, count: Array, state: Array, *others: Array | None) -> tuple[Array, Array]:
    """Return the last state, and the outputs of all tokens, which are the first axis."""
    query, key, value, decay, beta = (*others, None, None)[:5]
    assert query is not None
    assert key is not None
    assert value is not None
    output, state = linearattention.oracle(what, query, key, value, state, decay, beta)
    return state, output.swapaxes(0, 1)


def _facts(what: LinearAttention, operands: Operands) -> tuple[Facts, ...]:
    state, query, value = (operands[index] or Facts() for index in (1, 2, 4))
    width = value.dim(2)
    packed = width // what.kv_num_heads * what.q_num_heads if isinstance(width, int) else None
    return Facts(state.dtype, state.shape), Facts(query.dtype, (query.dim(1), query.dim(0), packed))


def _told(what: LinearAttention, operands: Operands) -> Mapping[str, Any]:
    return dataclasses.asdict(what)


# Written at 10 for its Gather, whose index needs no guard here: it is not negative.
@lowering(10, bind=_told, rounds=True, carries=1)
def token(
    number,
    state,
    query,
    key,
    value,
    decay,
    beta,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str,
    scale: float,
    chunk_size: int,
):
    """Process one token with the state after the previous token."""
    at = op.Reshape(number, [1])
    output, present_state = meaning.LinearAttention(
        op.Gather(query, at, axis=1),
        op.Gather(key, at, axis=1),
        op.Gather(value, at, axis=1),
        state,
        op.Gather(decay, at, axis=1),
        op.Gather(beta, at, axis=1),
        q_num_heads=q_num_heads,
        kv_num_heads=kv_num_heads,
        update_rule=update_rule,
        scale=scale,
        chunk_size=chunk_size,
    )
    return present_state, op.Squeeze(output, axes=[1])


OPERATOR = Operator(
    name="LinearAttentionTokens",
    domain="opshift.step",
    meaning=LinearAttention,
    versions=(),
    operands=("count", "state", "query", "key", "value", "decay", "beta"),
    oracle=oracle,
    lowerings=(token,),
    facts=_facts,
)
