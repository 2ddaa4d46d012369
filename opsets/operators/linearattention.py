"""LinearAttention: a state of keys and values, changed by each token and read by it. Since version 27."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class LinearAttention:
    """The heads, the update rule of the state, and the scale of outputs (0: derived from the size of a key)."""

    q_num_heads: int = 0
    kv_num_heads: int = 0
    update_rule: str = "gated_delta"
    scale: float = 0.0
    chunk_size: int = 64
    """How many tokens a kernel may take at a time: "does not affect output correctness"."""


_Array = np.ndarray[Any, Any]


def _heads(packed: _Array, count: int) -> _Array:
    """The heads of each token: [batch, tokens, heads, size], in double."""
    return packed.astype(np.float64).reshape(*packed.shape[:2], count, packed.shape[2] // count)


def oracle(
    what: LinearAttention,
    query: _Array,
    key: _Array,
    value: _Array,
    past_state: _Array | None = None,
    decay: _Array | None = None,
    beta: _Array | None = None,
) -> tuple[_Array, _Array]:
    """LinearAttention-27: "Equivalent to running the recurrent update sequentially for each token"."""
    count = what.kv_num_heads
    # ONNX's body reshapes rates for other tokens: those of 2 tokens for 2 heads it takes as those of 4 for both.
    if any(one.shape[:2] != query.shape[:2] for one in (key, value, decay, beta) if one is not None):
        raise ValueError('LinearAttention-27: key, value, decay and beta have the "shape (B, T, ...)" of the query')
    q, k, v = _heads(query, what.q_num_heads), _heads(key, count), _heads(value, count)
    size = k.shape[3]
    if q.shape[3] != size:
        raise ValueError('LinearAttention-27: "(B, T, H_q * d_k)" and "(B, T, H_kv * d_k)" have heads of one size')
    if decay is not None and decay.shape[2] not in (count, count * size):
        raise ValueError('LinearAttention-27: "(B, T, H_kv * d_k) ... or (B, T, H_kv)" is the shape of decay')
    if beta is not None and beta.shape[2] not in (count, 1):
        raise ValueError('LinearAttention-27: "(B, T, H_kv) or (B, T, 1)" is the shape of beta')
    if past_state is not None and past_state.shape != (len(k), count, size, v.shape[3]):
        raise ValueError('LinearAttention-27: "(B, H_kv, d_k, d_v)" is the shape of the state')
    state = np.zeros((*k.shape[:1], count, size, v.shape[3])) if past_state is None else past_state.astype(np.float64)
    output = np.zeros((*q.shape[:3], v.shape[3]))
    for token in range(q.shape[1]):
        written = v[:, token]
        if decay is not None:
            state = state * np.exp(_heads(decay, count)[:, token, :, :, None])
        if beta is not None:
            written = _heads(beta, beta.shape[2])[:, token] * (written - np.einsum("bhkv,bhk->bhv", state, k[:, token]))
        state = state + k[:, token, :, :, None] * written[:, :, None, :]
        shared = np.repeat(state, what.q_num_heads // count, axis=1)
        output[:, token] = np.einsum("bhk,bhkv->bhv", q[:, token], shared) * (what.scale or 1 / math.sqrt(size))
    packed = output.reshape(*query.shape[:2], what.q_num_heads * v.shape[3])
    return packed.astype(query.dtype), state.astype((query if past_state is None else past_state).dtype)


# --- to float -----------------------------------------------------------------------------------------------------


def _narrow(what: LinearAttention, operands: Operands) -> Reason | None:
    dtypes = {facts.dtype for facts in operands if facts is not None}
    if None in dtypes:
        return Reason("an element type is unknown", missing=True)
    return Reason("all is of float") if dtypes == {TensorProto.FLOAT} else None


def _types(what: LinearAttention, operands: Operands) -> Mapping[str, Any]:
    query, state = first(operands), operands[3]
    return {"to": query.dtype, "stored": query.dtype if state is None else state.dtype}


@lowering(18, applies_if=_narrow, bind=_types, rounds=True)
def in_float(query, key, value, past_state, decay, beta, to: int, stored: int):
    """Compute all tokens in float, and round once."""
    output, state = meaning.Same(
        op.Cast(query, to=1),
        op.Cast(key, to=1),
        op.Cast(value, to=1),
        op.Cast(past_state, to=1),
        op.Cast(decay, to=1),
        op.Cast(beta, to=1),
    )
    return op.Cast(output, to=to), op.Cast(state, to=stored)


# --- token by token -----------------------------------------------------------------------------------------------

_MOST = 128
"""Tokens: each is some ten nodes."""


def _sizes(what: LinearAttention, operands: Operands) -> tuple[int, int] | None:
    """Return the size of a key and of a value, where they are known."""
    query, _, value, _, _, _ = operands
    of_query, of_value = (None if facts is None else facts.dim(2) for facts in (query, value))
    if not isinstance(of_query, int) or not isinstance(of_value, int):
        return None
    return of_query // what.q_num_heads, of_value // what.kv_num_heads


def _sized(what: LinearAttention, operands: Operands) -> Reason | None:
    """Ask for float, and for the sizes that the nodes name."""
    dtypes = {facts.dtype for facts in operands if facts is not None}
    if dtypes != {TensorProto.FLOAT}:
        return Reason("not all is known to be of float", missing=None in dtypes)
    gates = (facts.dim(2) for facts in operands[4:] if facts is not None)
    if _sizes(what, operands) is None or not all(isinstance(dim, int) for dim in gates):
        return Reason("the size of a head is unknown", missing=True)
    return None


def _known(what: LinearAttention, operands: Operands) -> Reason | None:
    """Ask for the number of tokens too."""
    if reason := _sized(what, operands):
        return reason
    known = isinstance(first(operands).dim(1), int)
    return None if known else Reason("the number of tokens is unknown", missing=True)


def _tokens(operands: Operands) -> int:
    count = first(operands).dim(1)
    return count if isinstance(count, int) else 0


def _no_state(what: LinearAttention, operands: Operands) -> Reason | None:
    return _sized(what, operands) or (Reason("there is a state") if operands[3] is not None else None)


def _state(what: LinearAttention, operands: Operands) -> Mapping[str, Any]:
    key, value = _sizes(what, operands) or (0, 0)
    return {"sizes": (what.kv_num_heads, key, value)}


@lowering(18, applies_if=_no_state, bind=_state)
def from_nothing(query, key, value, past_state, decay, beta, sizes: Sequence[int]):
    """Begin with a state of zeros."""
    zeros = op.Expand(0.0, op.Concat(op.Shape(query, start=0, end=1), sizes, axis=0))
    return meaning.Same(query, key, value, zeros, decay, beta)


def _many(what: LinearAttention, operands: Operands) -> Reason | None:
    if _tokens(operands) > _MOST:
        return Reason(f"there are more than {_MOST} tokens")
    if reason := _known(what, operands):
        return reason
    if operands[3] is None:
        return Reason("there is no state")
    return None if _tokens(operands) > 1 else Reason("there is one token at most")


@lowering(18, applies_if=_many, bind=lambda what, operands: {"half": (_tokens(operands) // 2,)}, rounds=True)
def by_halves(query, key, value, past_state, decay, beta, half: Sequence[int]):
    """Process the first half of the tokens, then the second half with the resulting state."""
    before, state = meaning.Same(
        op.Slice(query, [0], half, [1]),
        op.Slice(key, [0], half, [1]),
        op.Slice(value, [0], half, [1]),
        past_state,
        op.Slice(decay, [0], half, [1]),
        op.Slice(beta, [0], half, [1]),
    )
    after, present_state = meaning.Same(
        op.Slice(query, half, [2147483647], [1]),
        op.Slice(key, half, [2147483647], [1]),
        op.Slice(value, half, [2147483647], [1]),
        state,
        op.Slice(decay, half, [2147483647], [1]),
        op.Slice(beta, half, [2147483647], [1]),
    )
    return op.Concat(before, after, axis=1), present_state


def _in_a_loop(what: LinearAttention, operands: Operands) -> Reason | None:
    if reason := _sized(what, operands):
        return reason
    if operands[3] is None:
        return Reason("there is no state")
    few = isinstance(first(operands).dim(1), int) and _tokens(operands) <= _MOST
    return Reason(f"there are {_MOST} tokens at most") if few else None


@lowering(18, applies_if=_in_a_loop, bind=lambda what, operands: dataclasses.asdict(what), rounds=True)
def in_a_loop(
    query,
    key,
    value,
    past_state,
    decay,
    beta,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str,
    scale: float,
    chunk_size: int,
):
    """Process the tokens one by one in a Loop."""
    count = op.Squeeze(op.Shape(query, start=1, end=2), [0])
    present_state, rows = meaning.LinearAttentionTokens(
        count,
        past_state,
        query,
        key,
        value,
        decay,
        beta,
        q_num_heads=q_num_heads,
        kv_num_heads=kv_num_heads,
        update_rule=update_rule,
        scale=scale,
        chunk_size=chunk_size,
    )
    return op.Transpose(rows, perm=[1, 0, 2]), present_state


def _one(*rules: str) -> Callable[[LinearAttention, Operands], Reason | None]:
    def applies_if(what: LinearAttention, operands: Operands) -> Reason | None:
        if reason := _known(what, operands):
            return reason
        if what.update_rule not in rules:
            return Reason(f"the rule is {what.update_rule}")
        if operands[3] is None or _tokens(operands) != 1:
            return Reason("there is not one token, with a state")
        lacks = ("gated" in what.update_rule and not operands[4]) or ("delta" in what.update_rule and not operands[5])
        return Reason(f"the rule {what.update_rule} asks for decay or beta, which is left out") if lacks else None

    return applies_if


def _gates(what: LinearAttention, operands: Operands) -> Mapping[str, Any]:
    width = None if operands[4] is None else operands[4].dim(2)
    size = width // what.kv_num_heads if isinstance(width, int) else 0
    return {"column": (0, what.kv_num_heads, size, 1), "rest": "delta" if "delta" in what.update_rule else "linear"}


@lowering(18, applies_if=_one("gated", "gated_delta"), bind=_gates, rounds=True)
def decayed(query, key, value, past_state, decay, beta, column: Sequence[int], rest: str):
    """Let the state decay, then continue without decay."""
    state = op.Mul(past_state, op.Exp(op.Reshape(decay, column)))
    return meaning.Same(query, key, value, state, None, beta, update_rule=rest)


def _shapes(what: LinearAttention, operands: Operands) -> Mapping[str, Any]:
    """Bind the shapes of a token's rows and columns; 0 is the batch's."""
    key, value = _sizes(what, operands) or (0, 0)
    heads = what.kv_num_heads
    return {
        "scale": what.scale or 1 / math.sqrt(key),
        "queries": (0, heads, what.q_num_heads // heads, key),
        "row": (0, heads, 1, key),
        "column": (0, heads, key, 1),
        "values": (0, heads, 1, value),
        "rates": (0, None if operands[5] is None else operands[5].dim(2), 1, 1),
        "written": (0, 1, heads * value),
        "packed": (0, 1, what.q_num_heads * value),
    }


@lowering(18, applies_if=_one("delta"), bind=_shapes, rounds=True)
def corrected(
    query,
    key,
    value,
    past_state,
    decay,
    beta,
    row: Sequence[int],
    values: Sequence[int],
    rates: Sequence[int],
    written: Sequence[int],
):
    """Write only the difference between the value and the state, at its rate."""
    lacking = op.Reshape(value, values) - op.MatMul(op.Reshape(key, row), past_state)
    new = op.Reshape(op.Reshape(beta, rates) * lacking, written)
    return meaning.Same(query, key, new, past_state, update_rule="linear")


@lowering(18, applies_if=_one("linear"), bind=_shapes, rounds=True)
def added(
    query,
    key,
    value,
    past_state,
    decay,
    beta,
    scale: float,
    queries: Sequence[int],
    column: Sequence[int],
    values: Sequence[int],
    packed: Sequence[int],
):
    """Add the product of the key and the value to the state, and read it."""
    state = past_state + op.Reshape(key, column) * op.Reshape(value, values)
    read = op.MatMul(op.Reshape(query, queries), state) * scale
    return op.Reshape(read, packed), state


@of_two
def equal_dims(node: NodeShapes, query: Shape, key: Shape) -> Pairs:
    """Yield the batches and tokens, which all but the state have; heads whose size is open have two numbers each.

    Heads of keys are as large as those of queries.
    """
    value, _, decay, beta = (node.inputs[at] if at < len(node.inputs) else None for at in range(2, 6))
    for other in (key, value, decay, beta):
        yield from zip(query[:2], other or (), strict=False)
    keys, queries = (node.attributes.get(name) or 1 for name in ("kv_num_heads", "q_num_heads"))
    known = ((dims[2], count) for dims, count in ((query, queries), (key, keys)) if dims and len(dims) == 3)
    size = next((dim // count for dim, count in known if isinstance(dim, int)), 2)
    sizes = ((query, size * queries), (key, size * keys), (value, 2 * keys), (decay, keys), (beta, keys))
    yield from ((dims[2], dim) for dims, dim in sizes if dims and len(dims) == 3)


OPERATOR = Operator(
    name="LinearAttention",
    meaning=LinearAttention,
    versions=(Version(27),),
    operands=("query", "key", "value", "past_state", "decay", "beta"),
    oracle=oracle,
    lowerings=(by_halves, in_float, from_nothing, in_a_loop, decayed, corrected, added),
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), equal_dims=equal_dims, spreads=False, unchecked=True),
)
