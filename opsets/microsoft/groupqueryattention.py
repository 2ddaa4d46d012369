"""com.microsoft::GroupQueryAttention: attention onto a cache of keys and values, which heads of queries share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.microsoft import groupedheads
from opshift.opsets.microsoft.groupedheads import GroupedHeads
from opshift.opsets.operators import attention, rotaryembedding
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Dim, Facts, Tensor
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, values_of
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GroupQueryAttention:
    """The heads, how they are turned, scaled, capped and masked, and how a cache would be quantized."""

    num_heads: int = 1
    kv_num_heads: int = 1
    causal: int = 1
    do_rotary: int = 0
    k_quant_type: str = "NONE"
    kv_cache_bit_width: int = 0
    local_window_size: int = -1
    qk_output: int = 0
    rotary_interleaved: int = 0
    scale: float = 0.0
    sliding_window_cache: int = 0
    smooth_softmax: int = -1
    softcap: float = 0.0
    v_quant_type: str = "NONE"


_NORMS = ("q_norm_epsilon", "k_norm_epsilon", "qk_norm_epsilon")
"""Attributes of norms, without which they are of no effect: nodes that have them are refused."""


def _lift(attributes: Mapping[str, Any]) -> GroupQueryAttention:
    present = {name: value for name, value in attributes.items() if value is not None and name not in _NORMS}
    return GroupQueryAttention(**present)


@dataclass(frozen=True)
class _Cache:
    """Where tokens are in a cache, by batch: the keys before them, all keys with them; and how long the cache is."""

    before: Array
    lengths: Array
    total: int
    present: int


def _cache(tokens: int, past: int, lengths: Array, total: Array) -> _Cache:
    """Return where tokens are.

    GroupQueryAttention-1: seqlens_k "is equivalent to (total_sequence_lengths - 1)", total_sequence_length "is either
    sequence_length" of a prompt "or past_sequence_length + kv_sequence_length". A past that is longer is a buffer.
    """
    ends, count = lengths.reshape(-1).astype(np.int64) + 1, int(total.reshape(-1)[0])
    before = np.zeros_like(ends) if tokens == count else ends - tokens
    if (ends < 1).any() or (ends > count).any() or (before < 0).any() or (before > past).any():
        raise ValueError("GroupQueryAttention-1: a length is none of tokens behind a past")
    if count > past and count != past + tokens:
        raise ValueError("GroupQueryAttention-1: the total length is that of neither a past and tokens nor a buffer")
    if tokens > 1 and tokens != count and len(ends) > 1:
        raise ValueError("onnxruntime runs several tokens behind a past for a batch of one")
    return _Cache(before, ends, count, max(count, past))


def _by_head(rows: Array, heads: int) -> Array:
    return rows.reshape(*rows.shape[:2], heads, rows.shape[2] // heads).swapaxes(1, 2)


def _joined(cache: _Cache, past: Array | None, new: Array) -> Array:
    """Return keys or values of a cache after tokens: zeros beyond them."""
    present = np.zeros((*new.shape[:2], cache.present, new.shape[3]), new.dtype)
    for entry, start in enumerate(cache.before):
        if past is not None:
            present[entry, :, :start] = past[entry, :, :start]
        present[entry, :, start : start + new.shape[2]] = new[entry]
    return present


def oracle(
    what: GroupQueryAttention,
    query: Array,
    key: Array | None,
    value: Array | None,
    past_key: Array | None,
    past_value: Array | None,
    lengths: Array,
    total: Array,
    cosines: Array | None = None,
    sines: Array | None = None,
    positions: Array | None = None,
    added: Array | None = None,
    sink: Array | None = None,
    *others: Array | None,
) -> tuple[Array, ...]:
    """GroupQueryAttention-1: "Group Query Self/Cross Attention with KV Cache Quantization Support"."""
    heads, shared = what.num_heads, what.kv_num_heads
    if key is None or value is None:
        size = query.shape[2] // (heads + 2 * shared)
        query, key, value = np.split(query, [heads * size, (heads + shared) * size], axis=2)
    if not query.size:
        raise ValueError("onnxruntime runs no empty batch or sequence")
    tokens = query.shape[1]
    cache = _cache(tokens, 0 if past_key is None else past_key.shape[2], lengths, total)
    places = cache.before[:, None] + np.arange(tokens)
    if what.do_rotary and cosines is not None and sines is not None:
        where = places if positions is None else positions
        if not 0 <= where.min() <= where.max() < len(cosines) or len(cosines) < cache.total:
            raise ValueError("GroupQueryAttention-1: a position is outside of the caches of angles")
        part = 2 * cosines.shape[1]
        query, key = (
            rotaryembedding.oracle(
                rotaryembedding.RotaryEmbedding(
                    count, 0 if part == rows.shape[2] // count else part, what.rotary_interleaved
                ),
                *(rows, cosines, sines, where),
            )
            for rows, count in ((query, heads), (key, shared))
        )
    keys = _joined(cache, past_key, _by_head(key, shared))
    values = _joined(cache, past_value, _by_head(value, shared))
    place = np.arange(cache.total)
    kept = place < cache.lengths[:, None, None]
    if what.causal:
        kept = kept & (place <= places[..., None])
    if what.local_window_size > 0:
        kept = kept & (place > places[..., None] - what.local_window_size)
    if not np.broadcast_to(kept, (*places.shape, cache.total)).any(axis=-1).all():
        raise ValueError("where a window leaves padding no key, onnxruntime reads keys that nobody wrote")
    numbers = np.where(kept, 0, -np.inf)[:, None] + (0 if added is None else added.astype(np.float64))
    more = None if sink is None else sink.astype(np.float64)
    if sink is None and what.smooth_softmax == 1:
        more = np.zeros(heads)
    meant = GroupedHeads(heads, shared, what.scale, what.softcap)
    y = groupedheads.oracle(meant, query, keys[:, :, : cache.total], values[:, :, : cache.total], numbers, more)
    return y, keys, values


# --- lowerings --------------------------------------------------------------------------------------------------------


def _known(what: GroupQueryAttention, operands: Operands) -> Reason | None:
    if what.k_quant_type != "NONE" or what.v_quant_type != "NONE" or operands[12] or operands[13]:
        return Reason("its cache is quantized (k_quant_type, v_quant_type)")
    if what.kv_cache_bit_width:
        return Reason("its cache has numbers of few bits (kv_cache_bit_width)")
    if operands[14] is not None or operands[15] is not None:
        return Reason("it normalizes queries and keys (q_norm_weight, k_norm_weight), which no kernel of the CPU does")
    if operands[16] is not None:
        return Reason("a prompt of several lengths is packed (query_seqlens)")
    if what.sliding_window_cache:
        return Reason("its cache drops its oldest entries (sliding_window_cache)")
    if what.qk_output:
        return Reason("it returns products (qk_output)")
    if what.local_window_size == 0 or what.local_window_size < -1:
        return Reason(f"a window of {what.local_window_size} keys is none (local_window_size)")
    if not what.causal and what.local_window_size > 0:
        return Reason("it has a window without being causal, which kernels refuse")
    if (operands[3] is None) != (operands[4] is None):
        return Reason("of keys and values one alone has a past")
    if first(operands).rank != 3 or first(operands).dtype is None:
        return Reason("the rank or the element type of the queries is unknown", missing=True)
    return None


def _stage(what: GroupQueryAttention, operands: Operands) -> str:
    """Name what is left to be done away with: one tensor of all rows, positions that are counted, turned heads."""
    if operands[1] is None:
        return "packed"
    if what.do_rotary:
        return "counted" if operands[9] is None else "turned"
    if what.smooth_softmax == 1 and operands[11] is None:
        return "smooth"
    return "prompt" if operands[3] is None else "past"


def _of(stage: str) -> Callable[[GroupQueryAttention, Operands], Reason | None]:
    def applies_if(what: GroupQueryAttention, operands: Operands) -> Reason | None:
        if reason := _known(what, operands):
            return reason
        if _stage(what, operands) != stage:
            return Reason("")
        if stage == "turned" and not isinstance((operands[7] or Facts()).dim(1), int):
            return Reason("the width of the caches of angles is unknown", missing=True)
        return None

    return applies_if


def _size(what: GroupQueryAttention, operands: Operands) -> int:
    """Return how long a head is, -1 if nothing tells."""
    more = 2 * what.kv_num_heads if operands[1] is None else 0
    for operand, axis, count in ((0, 2, what.num_heads + more), (1, 2, what.kv_num_heads), (3, 3, 1)):
        dim = (operands[operand] or Facts()).dim(axis)
        if isinstance(dim, int):
            return dim // count
    return -1


def _parts(what: GroupQueryAttention, operands: Operands) -> Mapping[str, Any]:
    shared = what.kv_num_heads
    return {"parts": (what.num_heads, shared, shared), "every": what.num_heads + 2 * shared}


@lowering(18, applies_if=_of("packed"), bind=_parts)
def packed(
    rows, key, value, past_key, past_value, lengths, total, cosines, sines, positions, added, sink,
    k_scale, v_scale, q_norm, k_norm, query_lengths, parts: Sequence[int], every: int,
):  # fmt: skip
    """Split rows of queries, keys and values."""
    q, k, v = op.Split(rows, op.Shape(rows, start=2, end=3) / every * parts, axis=2)
    y, keys, values = meaning.Same(
        q, k, v, past_key, past_value, lengths, total, cosines, sines, positions, added, sink
    )
    return y, keys, values


@lowering(18, applies_if=_of("counted"))
def counted(
    q, k, v, past_key, past_value, lengths, total, cosines, sines, positions, added, sink,
    k_scale, v_scale, q_norm, k_norm, query_lengths,
):  # fmt: skip
    """Count positions: from 0 in a prompt, and from what the cache has behind one."""
    tokens = op.Shape(q, start=1, end=2)
    ends = op.Cast(op.Reshape(lengths, [-1, 1]), to=7) + 1
    prompt = op.Equal(tokens, op.Cast(total, to=7))
    before = op.Where(prompt, 0, ends - tokens)
    places = before + op.Range(0, op.Squeeze(tokens, [0]), 1)
    y, keys, values = meaning.Same(q, k, v, past_key, past_value, lengths, total, cosines, sines, places, added, sink)
    return y, keys, values


def _angles(what: GroupQueryAttention, operands: Operands) -> Mapping[str, Any]:
    half = (operands[7] or Facts()).dim(1)
    part = 2 * half if isinstance(half, int) else 0
    return {
        "heads": what.num_heads,
        "shared": what.kv_num_heads,
        "part": 0 if part == _size(what, operands) else part,
        "interleaved": what.rotary_interleaved,
    }


@lowering(23, applies_if=_of("turned"), bind=_angles)
def turned(
    q, k, v, past_key, past_value, lengths, total, cosines, sines, positions, added, sink,
    k_scale, v_scale, q_norm, k_norm, query_lengths, heads: int, shared: int, part: int, interleaved: int,
):  # fmt: skip
    """Turn queries and keys by their positions."""
    turned_q = meaning.RotaryEmbedding(
        q, cosines, sines, positions, num_heads=heads, rotary_embedding_dim=part, interleaved=interleaved
    )
    turned_k = meaning.RotaryEmbedding(
        k, cosines, sines, positions, num_heads=shared, rotary_embedding_dim=part, interleaved=interleaved
    )
    y, keys, values = meaning.Same(
        turned_q, turned_k, v, past_key, past_value, lengths, total, None, None, None, added, sink,
        do_rotary=0, rotary_interleaved=0,
    )  # fmt: skip
    return y, keys, values


def _fields(what: GroupQueryAttention, operands: Operands) -> Mapping[str, Any]:
    return {
        "causal": what.causal,
        "window": what.local_window_size,
        "heads": what.num_heads,
        "shared": what.kv_num_heads,
        "size": _size(what, operands),
        "factor": what.scale,
        "cap": what.softcap,
    }


def _no_sinks(what: GroupQueryAttention, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    return {"zeros": Tensor(np.zeros(what.num_heads, dtype))}


@lowering(18, applies_if=_of("smooth"), bind=_no_sinks)
def smooth(
    q, k, v, past_key, past_value, lengths, total, cosines, sines, positions, added, sink,
    k_scale, v_scale, q_norm, k_norm, query_lengths, zeros: Sequence[int],
):  # fmt: skip
    """Write a Softmax that is smooth as one beside a sink of zero for each head."""
    y, keys, values = meaning.Same(
        q, k, v, past_key, past_value, lengths, total, None, None, None, added, zeros, smooth_softmax=-1
    )
    return y, keys, values


@lowering(18, applies_if=_of("prompt"), bind=_fields, rounds=True)
def prompt(
    q, k, v, past_key, past_value, lengths, total, cosines, sines, positions, added, sink,
    k_scale, v_scale, q_norm, k_norm, query_lengths,
    causal: int, window: int, heads: int, shared: int, size: int, factor: float, cap: float,
):  # fmt: skip
    """Mask the keys of other tokens, and weigh their values; without a past all keys are new."""
    ends = op.Cast(op.Reshape(lengths, [-1, 1]), to=7) + 1
    keys = meaning.CachedRows(k, heads=shared, size=size)
    values = meaning.CachedRows(v, heads=shared, size=size)
    tokens = op.Shape(q, start=1, end=2)
    numbers = meaning.VisibleKeys(q, ends - ends, ends, tokens, added, causal=causal, window=window)
    y = meaning.GroupedHeads(
        q, keys, values, numbers, sink, num_heads=heads, kv_num_heads=shared, scale=factor, softcap=cap
    )
    return y, keys, values


@lowering(18, applies_if=_of("past"), bind=_fields, rounds=True)
def behind_a_past(
    q, k, v, past_key, past_value, lengths, total, cosines, sines, positions, added, sink,
    k_scale, v_scale, q_norm, k_norm, query_lengths,
    causal: int, window: int, heads: int, shared: int, size: int, factor: float, cap: float,
):  # fmt: skip
    """Put keys and values into the cache where its keys end, mask those of other tokens, and weigh the values."""
    count = op.Cast(op.Reshape(total, [1]), to=7)
    tokens = op.Shape(q, start=1, end=2)
    ends = op.Cast(op.Reshape(lengths, [-1, 1]), to=7) + 1
    before = op.Where(op.Equal(tokens, count), 0, ends - tokens)
    keys = meaning.CachedRows(k, past_key, before, count, heads=shared, size=size)
    values = meaning.CachedRows(v, past_value, before, count, heads=shared, size=size)
    numbers = meaning.VisibleKeys(q, before, ends, count, added, causal=causal, window=window)
    y = meaning.GroupedHeads(
        q, op.Slice(keys, [0], count, [2]), op.Slice(values, [0], count, [2]), numbers, sink,
        num_heads=heads, kv_num_heads=shared, scale=factor, softcap=cap,
    )  # fmt: skip
    return y, keys, values


# --- what is fed ------------------------------------------------------------------------------------------------------


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw numbers of moderate size, and lengths that the cache has: of prompts, padded ones too, and behind a past."""
    made = dict(attention.adversarial(rng, feeds))
    query, past, lengths, total = (
        feeds.get(name, np.zeros(0)) for name in ("query", "past_key", "seqlens_k", "total_sequence_length")
    )
    if not (query.size and lengths.size and total.size):
        return made
    batch, tokens, room = query.shape[0], query.shape[1], past.shape[2] if past.ndim == 4 else 0
    counts = [tokens] if room in (0, tokens) or room > tokens else []
    if room and (tokens == 1 or batch == 1):
        counts += [room + tokens, *range(tokens + 1, room + 1)]
    if not counts:
        return made
    count = int(rng.choice(counts))
    least = 1 if count == tokens else max(tokens, count - room)
    ends = rng.integers(least, count + 1, lengths.shape) if batch > 1 or rng.random() < 0.5 else count
    if total.flags.writeable:
        made["total_sequence_length"] = np.full_like(total, count)
    if lengths.flags.writeable:
        made["seqlens_k"] = np.full(lengths.shape, ends - 1).astype(lengths.dtype)
    positions = feeds.get("position_ids")
    if isinstance(positions, np.ndarray) and positions.flags.writeable:
        made["position_ids"] = np.broadcast_to(np.arange(tokens), positions.shape).astype(positions.dtype)
    return made


def apart(inputs: Sequence[Any]) -> bool:
    """Return whether positions of several tokens are not those that the first one counts for the whole batch.

    The kernel of onnxruntime 1.32.0 reads no others.
    """
    query, positions = (inputs[place] if place < len(inputs) else None for place in (0, 9))
    if not isinstance(query, np.ndarray) or query.ndim != 3:
        return False
    tokens = query.shape[1]
    if isinstance(positions, np.ndarray) and positions.size and tokens > 1:
        return not np.array_equal(positions, np.broadcast_to(positions.flat[0] + np.arange(tokens), positions.shape))
    return False


LENGTH = 16
"""How long the heads are that the proof draws where nothing tells: the kernel turns those of a multiple of it."""


def equal_dims(node: NodeShapes) -> Pairs:
    """Yield the dims of queries, keys, values, a past and lengths that are equal."""
    query, key, value, past_key, past_value, lengths, *_ = (*node.inputs, *(None,) * 6)
    if query is None or len(query) != 3:
        return
    shared = int(node.attributes.get("kv_num_heads", 1))
    count = int(node.attributes.get("num_heads", 1)) + (0 if key else 2 * shared)
    size = query[2] // count if isinstance(query[2], int) else LENGTH
    yield query[2], size * count
    if key and len(key) == 3:
        yield from ((query[0], key[0]), (query[1], key[1]), (key[2], size * shared))
        yield from zip(key, value or (), strict=False)
    if past_key and past_value and len(past_key) == len(past_value) == 4:
        yield from zip(past_key, past_value, strict=True)
        yield from ((past_key[0], query[0]), (past_key[1], shared), (past_key[3], size))
    if lengths:
        yield lengths[0], query[0]


def _shape(what: GroupQueryAttention, operands: Operands) -> tuple[Dim, ...] | None:
    """Return the batch and the tokens of the queries, and the width of all heads."""
    query, size = first(operands), _size(what, operands)
    return (query.dim(0), query.dim(1), None if size < 0 else size * what.num_heads) if query.rank == 3 else None


OPERATOR = Operator(
    name="GroupQueryAttention",
    domain=MICROSOFT,
    meaning=GroupQueryAttention,
    versions=(Version(1, lift=_lift),),
    operands=(
        *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache"),
        *("sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight"),
        *("k_norm_weight", "query_seqlens"),
    ),
    oracle=oracle,
    shape=_shape,
    lowerings=(packed, counted, turned, smooth, prompt, behind_a_past),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    refused=(
        "a quantized cache, norms of queries and keys, `query_seqlens`, `sliding_window_cache`, `qk_output`, a window "
        "without `causal`"
    ),
    # Without an output for keys and values the kernel reads no past.
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        inner_sum=InnerSum(SumUse.ATTENTION, data=values_of(2, 4)),
        meaningless=apart,
        outputs_for={3: 3, 4: 3},
        equal_dims=equal_dims,
        spreads=False,
    ),
)
