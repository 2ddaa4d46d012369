"""com.microsoft::MultiHeadAttention: Attention-25 with a mask of keys that adds a number, and biases of projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators import attention
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, values_of
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, times
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]

FILTER = -10000.0
"""What a mask adds by default where a key is masked."""

LARGE = 1000.0
"""What a mask adds at most for the sums with products to keep enough digits."""


@dataclass(frozen=True)
class MultiHeadAttention:
    """How many heads there are, what products are scaled by (0: by the root of their length), and what masks add."""

    num_heads: int = 1
    mask_filter_value: float = FILTER
    scale: float = 0.0
    unidirectional: int = 0


def allowed(mask: Array, batch: int, keys: int) -> Array:
    """Return which keys take part, in a shape that broadcasts with (batch, heads, queries, keys).

    MultiHeadAttention-1 and Attention-1: a mask of 1 and 0 of "shape (batch_size, total_sequence_length)" or
    "(batch_size, sequence_length, total_sequence_length)", or lengths, "(batch_size)", or, "(2 * batch_size)", ends and
    then starts. Of "(3 * batch_size + 2)" the first are lengths, and the others follow from them: sums of lengths.
    """
    if mask.ndim == 1:
        ends, starts = mask[:batch], mask[batch:] if len(mask) == 2 * batch else np.zeros(batch, mask.dtype)
        place = np.arange(keys)
        return np.asarray((starts[:, None] <= place) & (place < ends[:, None]))[:, None, None]
    kept = mask > 0
    return np.asarray(kept[:, None, None] if mask.ndim == 2 else kept[:, None])


def oracle(
    what: MultiHeadAttention,
    query: Array,
    key: Array | None,
    value: Array | None,
    bias: Array | None = None,
    mask: Array | None = None,
    added: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    *others: Array | None,
) -> tuple[Array, ...]:
    """MultiHeadAttention-1: "Multi-Head Self/Cross Attention. Bias from input projection is included".

    A mask adds a number, and so leaves the weights of a row alone of which it masks every key; a large one takes the
    last digits of the products away, so that rounding decides these weights, and they are not compared.
    """
    query, key, value = apart(query, key, value)
    if bias is not None:
        query, key, value = with_bias(query, key, value, bias)
    if not query.size or not key.size:
        raise ValueError("ONNX's body of Attention-25 does not run for an empty batch or sequence")
    query, key, value = (_by_head(one, what.num_heads) for one in (query, key, value))
    keys = key.shape[-2] + (0 if past_key is None else past_key.shape[2])
    total = None if added is None else added.astype(np.float64)
    if mask is not None:
        if mask.ndim > 1 and mask.shape[-1] != keys:
            raise ValueError("MultiHeadAttention-1: the mask is not as long as there are keys")
        kept = allowed(mask, len(query), keys)
        if abs(what.mask_filter_value) > LARGE and _has_none(what, kept, query.shape[-2], keys):
            raise ValueError("rounding decides the weights of a row of which every key is masked")
        numbers = np.where(kept, 0, what.mask_filter_value)
        total = numbers if total is None else total + numbers
    meant = attention.Attention(is_causal=what.unidirectional, scale=what.scale or None)
    y, *rest = attention.oracle(meant, query, key, value, total, past_key, past_value)
    y = y.swapaxes(1, 2).reshape(len(y), y.shape[2], y.shape[1] * y.shape[3])
    return (y, *(one.astype(query.dtype) for one in rest))


def apart(query: Array, key: Array | None, value: Array | None) -> tuple[Array, Array, Array]:
    """Return queries, keys and values, each a tensor of its own.

    MultiHeadAttention-1: "packed QKV with shape (batch_size, kv_sequence_length, num_heads, 3, head_size)", "packed KV
    with shape (batch_size, kv_sequence_length, num_heads, 2, head_size)".
    """
    if key is not None and value is not None:
        return query, key, value
    packed, rows = (query, []) if key is None else (key, [query])
    if packed.ndim != 5 or packed.shape[3] != 3 - len(rows) or value is not None:
        raise ValueError("MultiHeadAttention-1: packed keys and values have the shape (batch, tokens, heads, 2, size)")
    rows += [packed[:, :, :, place].reshape(*packed.shape[:2], -1) for place in range(packed.shape[3])]
    return rows[0], rows[1], rows[2]


def with_bias(query: Array, key: Array, value: Array, bias: Array) -> tuple[Array, Array, Array]:
    """Return queries, keys and values with the bias of each projection; keys and values that have heads get none.

    The text has no such exception, and the kernel of onnxruntime 1.32.0 does.
    """
    parts = np.split(bias, [query.shape[-1], 2 * query.shape[-1]])
    return query + parts[0], *((key, value) if key.ndim == 4 else (key + parts[1], value + parts[2]))


def with_bias_at(place: int) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that adds the bias, an input, to the first three inputs, and leaves zeros."""

    def added(inputs: Sequence[Any]) -> Sequence[Any]:
        if len(inputs) <= place or inputs[place] is None:
            return inputs
        sums = with_bias(*apart(*inputs[:3]), inputs[place])
        return (*sums, *inputs[3:place], np.zeros_like(inputs[place]), *inputs[place + 1 :])

    return added


def _by_head(rows: Array, heads: int) -> Array:
    """Return rows of all heads with an axis of heads, in front of the tokens."""
    return rows if rows.ndim == 4 else rows.reshape(*rows.shape[:2], heads, rows.shape[2] // heads).swapaxes(1, 2)


def _has_none(what: MultiHeadAttention, kept: Array, queries: int, keys: int) -> bool:
    """Return whether there is a query that may see no key that is kept."""
    seen = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries if what.unidirectional else np.True_
    return not bool((kept & seen).any(axis=-1).all())


def _lift(attributes: Mapping[str, Any]) -> MultiHeadAttention:
    present = {name: value for name, value in attributes.items() if value is not None}
    return MultiHeadAttention(**present)


def _known(what: MultiHeadAttention, operands: Operands) -> Reason | None:
    query, key, value = (facts.rank if facts is not None else None for facts in operands[:3])
    if operands[2] is None:
        return Reason("")
    if query is None or key is None or value is None:
        return Reason("a rank is unknown", missing=True)
    if query != 3 or key != value or key not in (3, 4):
        return Reason("keys and values have other ranks than 3 or 4")
    if operands[8] is not None or operands[9] is not None:
        return Reason("the past is a buffer that is shared (past_sequence_length, cache_indirection)")
    return None


def _packed(count: int) -> Callable[[MultiHeadAttention, Operands], Reason | None]:
    """Return whether this many of queries, keys and values are one tensor."""

    def applies_if(what: MultiHeadAttention, operands: Operands) -> Reason | None:
        if operands[2] is not None or (operands[1] is None) != (count == 3):
            return Reason("")
        packed = (operands[3 - count] or Facts()).shape
        if packed is None:
            return Reason("the rank of what is packed is unknown", missing=True)
        if len(packed) != 5 or packed[3] not in (count, None):
            return Reason(f"what is packed has another shape than (batch, tokens, heads, {count}, size)")
        return None

    return applies_if


@lowering(18, applies_if=_packed(3))
def of_one_tensor(query, key, value, bias, mask, added, past_key, past_value, buffered, beams):
    """Split the tensor that holds queries, keys and values."""
    one, two, three = op.Split(query, axis=3, num_outputs=3)
    y, keys, values, products = meaning.Same(
        op.Reshape(one, [0, 0, -1]), op.Reshape(two, [0, 0, -1]), op.Reshape(three, [0, 0, -1]), bias, mask, added,
        past_key, past_value, buffered, beams,
    )  # fmt: skip
    return y, keys, values, products


@lowering(18, applies_if=_packed(2))
def of_two_tensors(query, key, value, bias, mask, added, past_key, past_value, buffered, beams):
    """Split the tensor that holds keys and values."""
    two, three = op.Split(key, axis=3, num_outputs=2)
    y, keys, values, products = meaning.Same(
        query, op.Reshape(two, [0, 0, -1]), op.Reshape(three, [0, 0, -1]), bias, mask, added, past_key, past_value,
        buffered, beams,
    )  # fmt: skip
    return y, keys, values, products


def _stage(what: MultiHeadAttention, operands: Operands) -> str:
    """Name what is left to be done away with: the bias, then the mask, then keys with heads."""
    if operands[3] is not None:
        return "bias"
    if operands[4] is not None:
        return "mask"
    return "heads" if (operands[1] or Facts()).rank == 4 else ""


def _biased(rank: int) -> Callable[[MultiHeadAttention, Operands], Reason | None]:
    def applies_if(what: MultiHeadAttention, operands: Operands) -> Reason | None:
        if (reason := _known(what, operands)) is not None:
            return reason
        return None if _stage(what, operands) == "bias" and (operands[1] or Facts()).rank == rank else Reason("")

    return applies_if


@lowering(18, applies_if=_biased(3), rounds=True)
def biased(query, key, value, bias, mask, added, past_key, past_value, buffered, beams):
    """Add the bias of each projection."""
    one = op.Shape(query, start=2, end=3)
    two = one + one
    y, keys, values, products = meaning.Same(
        query + op.Slice(bias, [0], one, [0]),
        key + op.Slice(bias, one, two, [0]),
        value + op.Slice(bias, two, [2147483647], [0]),
        None,
        mask,
        added,
        past_key,
        past_value,
    )
    return y, keys, values, products


@lowering(18, applies_if=_biased(4), rounds=True)
def biased_queries(query, key, value, bias, mask, added, past_key, past_value, buffered, beams):
    """Add the bias of the queries: keys and values that have heads are added none."""
    y, keys, values, products = meaning.Same(
        query + op.Slice(bias, [0], op.Shape(query, start=2, end=3), [0]),
        key,
        value,
        None,
        mask,
        added,
        past_key,
        past_value,
    )
    return y, keys, values, products


def _masked(form: str, more: bool) -> Callable[[MultiHeadAttention, Operands], Reason | None]:
    def applies_if(what: MultiHeadAttention, operands: Operands) -> Reason | None:
        if (reason := _known(what, operands)) is not None:
            return reason
        if _stage(what, operands) != "mask" or (operands[5] is not None) != more:
            return Reason("")
        found = form_of_mask(first(operands), operands[4] or Facts())
        return found if isinstance(found, Reason) else None if found == form else Reason("")

    return applies_if


def form_of_mask(data: Facts, mask: Facts) -> str | Reason:
    """Return the form of a mask: lengths, spans, sums, any, keys or pairs; of data whose first dim is the batch."""
    if mask.rank is None:
        return Reason("the rank of the mask is unknown", missing=True)
    if mask.rank in (2, 3):
        return {2: "keys", 3: "pairs"}[mask.rank]
    if mask.rank != 1:
        return Reason("a mask of such a rank is for a buffer")
    count, batch = mask.dim(0), data.dim(0)
    if count is not None and count == batch:
        return "lengths"
    if isinstance(count, int) and isinstance(batch, int):
        forms = {2 * batch: "spans", 3 * batch + 2: "sums"}
        return forms.get(count, Reason(f"a mask of {count} elements has no form for a batch of {batch}"))
    return "any"


def _filter(what: MultiHeadAttention, operands: Operands) -> Mapping[str, Any]:
    return {"masked": what.mask_filter_value}


def _batch(what: MultiHeadAttention, operands: Operands) -> Mapping[str, Any]:
    count = first(operands).dim(0)
    return {"masked": what.mask_filter_value, "batch": (count if isinstance(count, int) else 0,)}


@lowering(18, applies_if=_masked("keys", False), bind=_filter)
def keys_alone(query, key, value, bias, mask, added, past_key, past_value, buffered, beams, masked: float):
    """Add a number to the products of masked keys; onnxruntime's Attention requires it for each query."""
    kept = op.Unsqueeze(op.Greater(mask, 0), [1, 2])
    row = op.Where(kept, op.CastLike(0.0, query), op.CastLike(masked, query))
    numbers = op.Expand(row, op.Concat([1, 1], op.Shape(query, start=1, end=2), [1], axis=0))
    y, keys, values, products = meaning.Same(query, key, value, None, None, numbers, past_key, past_value)
    return y, keys, values, products


@lowering(18, applies_if=_masked("keys", True), bind=_filter, rounds=True)
def keys_and_numbers(query, key, value, bias, mask, added, past_key, past_value, buffered, beams, masked: float):
    """Add a number to the products of keys that are masked, and the others that are given."""
    kept = op.Unsqueeze(op.Greater(mask, 0), [1, 2])
    numbers = op.Where(kept, op.CastLike(0.0, query), op.CastLike(masked, query)) + added
    y, keys, values, products = meaning.Same(query, key, value, None, None, numbers, past_key, past_value)
    return y, keys, values, products


@lowering(18, applies_if=_masked("pairs", False), bind=_filter)
def pairs_alone(query, key, value, bias, mask, added, past_key, past_value, buffered, beams, masked: float):
    """Add a number to the products that are masked."""
    kept = op.Unsqueeze(op.Greater(mask, 0), [1])
    numbers = op.Where(kept, op.CastLike(0.0, query), op.CastLike(masked, query))
    y, keys, values, products = meaning.Same(query, key, value, None, None, numbers, past_key, past_value)
    return y, keys, values, products


@lowering(18, applies_if=_masked("pairs", True), bind=_filter, rounds=True)
def pairs_and_numbers(query, key, value, bias, mask, added, past_key, past_value, buffered, beams, masked: float):
    """Add a number to the products that are masked, and the others that are given."""
    kept = op.Unsqueeze(op.Greater(mask, 0), [1])
    numbers = op.Where(kept, op.CastLike(0.0, query), op.CastLike(masked, query)) + added
    y, keys, values, products = meaning.Same(query, key, value, None, None, numbers, past_key, past_value)
    return y, keys, values, products


def _listed(form: str, past: bool) -> Callable[[MultiHeadAttention, Operands], Reason | None]:
    def applies_if(what: MultiHeadAttention, operands: Operands) -> Reason | None:
        if (operands[6] is not None) != past:
            return Reason("")
        more = operands[5] is not None
        return _masked(form, more)(what, operands)

    return applies_if


@lowering(18, applies_if=_listed("lengths", False))
def by_lengths(query, key, value, bias, mask, added, past_key, past_value, buffered, beams):
    """Mask the keys from each length on."""
    count = op.Squeeze(op.Shape(key, start=-2, end=-1), [0])
    places = op.Cast(op.Range(0, count, 1), to=6)
    kept = op.Cast(op.Less(places, op.Unsqueeze(mask, [1])), to=6)
    y, keys, values, products = meaning.Same(query, key, value, None, kept, added, past_key, past_value)
    return y, keys, values, products


@lowering(18, applies_if=_listed("lengths", True))
def by_lengths_after_a_past(query, key, value, bias, mask, added, past_key, past_value, buffered, beams):
    """Mask the keys from each length on, those of the past counted."""
    count = op.Squeeze(op.Shape(key, start=-2, end=-1) + op.Shape(past_key, start=2, end=3), [0])
    places = op.Cast(op.Range(0, count, 1), to=6)
    kept = op.Cast(op.Less(places, op.Unsqueeze(mask, [1])), to=6)
    y, keys, values, products = meaning.Same(query, key, value, None, kept, added, past_key, past_value)
    return y, keys, values, products


@lowering(
    18, applies_if=_listed("spans", False), bind=lambda what, operands: {"batch": _batch(what, operands)["batch"]}
)
def by_spans(query, key, value, bias, mask, added, past_key, past_value, buffered, beams, batch: Sequence[int]):
    """Mask the keys before each start, and from each end on."""
    count = op.Squeeze(op.Shape(key, start=-2, end=-1), [0])
    places = op.Cast(op.Range(0, count, 1), to=6)
    ends = op.Unsqueeze(op.Slice(mask, [0], batch, [0]), [1])
    starts = op.Unsqueeze(op.Slice(mask, batch, [2147483647], [0]), [1])
    kept = op.Cast(op.And(op.Less(places, ends), op.Not(op.Less(places, starts))), to=6)
    y, keys, values, products = meaning.Same(query, key, value, None, kept, added, past_key, past_value)
    return y, keys, values, products


@lowering(18, applies_if=_listed("spans", True), bind=lambda what, operands: {"batch": _batch(what, operands)["batch"]})
def by_spans_after_a_past(
    query, key, value, bias, mask, added, past_key, past_value, buffered, beams, batch: Sequence[int]
):
    """Mask the keys before each start, and from each end on, those of the past counted."""
    count = op.Squeeze(op.Shape(key, start=-2, end=-1) + op.Shape(past_key, start=2, end=3), [0])
    places = op.Cast(op.Range(0, count, 1), to=6)
    ends = op.Unsqueeze(op.Slice(mask, [0], batch, [0]), [1])
    starts = op.Unsqueeze(op.Slice(mask, batch, [2147483647], [0]), [1])
    kept = op.Cast(op.And(op.Less(places, ends), op.Not(op.Less(places, starts))), to=6)
    y, keys, values, products = meaning.Same(query, key, value, None, kept, added, past_key, past_value)
    return y, keys, values, products


def _sums(what: MultiHeadAttention, operands: Operands) -> Reason | None:
    if (reason := _known(what, operands)) is not None:
        return reason
    if _stage(what, operands) != "mask":
        return Reason("")
    found = form_of_mask(first(operands), operands[4] or Facts())
    return found if isinstance(found, Reason) else None if found == "sums" else Reason("")


@lowering(18, applies_if=_sums, bind=lambda what, operands: {"batch": _batch(what, operands)["batch"]})
def by_sums(query, key, value, bias, mask, added, past_key, past_value, buffered, beams, batch: Sequence[int]):
    """Take the lengths in front of their sums."""
    y, keys, values, products = meaning.Same(
        query, key, value, None, op.Slice(mask, [0], batch, [0]), added, past_key, past_value
    )
    return y, keys, values, products


@lowering(18, applies_if=_listed("any", False))
def by_any(query, key, value, bias, mask, added, past_key, past_value, buffered, beams):
    """Mask the keys from each end on, and those before each start, where there are as many starts as ends."""
    count = op.Squeeze(op.Shape(key, start=-2, end=-1), [0])
    places = op.Cast(op.Range(0, count, 1), to=6)
    batch = op.Shape(query, end=1)
    every = op.Concat(mask, op.Cast(op.ConstantOfShape(batch), to=6), axis=0)
    ends = op.Unsqueeze(op.Slice(every, [0], batch, [0]), [1])
    behind = op.Unsqueeze(op.Slice(every, batch, batch + batch, [0]), [1])
    starts = behind * op.Cast(op.Equal(op.Shape(mask), batch + batch), to=6)
    kept = op.Cast(op.And(op.Less(places, ends), op.Not(op.Less(places, starts))), to=6)
    y, keys, values, products = meaning.Same(query, key, value, None, kept, added, past_key, past_value)
    return y, keys, values, products


@lowering(18, applies_if=_listed("any", True))
def by_any_after_a_past(query, key, value, bias, mask, added, past_key, past_value, buffered, beams):
    """Mask the keys from each end on, and those before each start, those of the past counted."""
    count = op.Squeeze(op.Shape(key, start=-2, end=-1) + op.Shape(past_key, start=2, end=3), [0])
    places = op.Cast(op.Range(0, count, 1), to=6)
    batch = op.Shape(query, end=1)
    every = op.Concat(mask, op.Cast(op.ConstantOfShape(batch), to=6), axis=0)
    ends = op.Unsqueeze(op.Slice(every, [0], batch, [0]), [1])
    behind = op.Unsqueeze(op.Slice(every, batch, batch + batch, [0]), [1])
    starts = behind * op.Cast(op.Equal(op.Shape(mask), batch + batch), to=6)
    kept = op.Cast(op.And(op.Less(places, ends), op.Not(op.Less(places, starts))), to=6)
    y, keys, values, products = meaning.Same(query, key, value, None, kept, added, past_key, past_value)
    return y, keys, values, products


def _last(rank: int) -> Callable[[MultiHeadAttention, Operands], Reason | None]:
    def applies_if(what: MultiHeadAttention, operands: Operands) -> Reason | None:
        if (reason := _known(what, operands)) is not None:
            return reason
        stage = _stage(what, operands)
        return None if stage == ("heads" if rank == 4 else "") else Reason("")

    return applies_if


def _attributes(what: MultiHeadAttention, operands: Operands) -> Mapping[str, Any]:
    return {"heads": what.num_heads, "factor": what.scale or None, "causal": what.unidirectional}


@lowering(23, applies_if=_last(3), bind=_attributes, rounds=True)
def by_attention(
    query, key, value, bias, mask, added, past_key, past_value, buffered, beams, heads: int, factor: float, causal: int
):
    """Write it as Attention, whose mask is added."""
    y, keys, values, products = meaning.Attention(
        query, key, value, added, past_key, past_value,
        q_num_heads=heads, kv_num_heads=heads, scale=factor, is_causal=causal, short_mask="spread",
    )  # fmt: skip
    return y, keys, values, products


def _apart(what: MultiHeadAttention, operands: Operands) -> Mapping[str, Any]:
    return {"factor": what.scale or None, "causal": what.unidirectional, "apart": (0, 0, what.num_heads, -1)}


@lowering(23, applies_if=_last(4), bind=_apart, rounds=True)
def of_heads(
    query, key, value, bias, mask, added, past_key, past_value, buffered, beams,
    factor: float, causal: int, apart: Sequence[int],
):  # fmt: skip
    """Give the queries an axis of heads, as keys and values have one."""
    each = op.Transpose(op.Reshape(query, apart), perm=[0, 2, 1, 3])
    y, keys, values, products = meaning.Attention(
        each, key, value, added, past_key, past_value, scale=factor, is_causal=causal, short_mask="spread"
    )
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, -1]), keys, values, products


def masks_none_or_all(mask: Array, batch: int, keys: int) -> bool:
    """Return whether a mask is not as long as there are keys, or lengths leave a row without any.

    Kernels leave out a mask of one element, say. The weights of a row without keys are what rounding makes of them.
    """
    if mask.ndim > 1:
        return bool(mask.shape[-1] != keys)
    return len(mask) not in (batch, 2 * batch, 3 * batch + 2) or not bool(allowed(mask, batch, keys).any(axis=-1).all())


def of_other_length(inputs: Sequence[Any]) -> bool:
    """Return whether a mask of keys does not say which of them are left."""
    query, key, mask, past = (inputs[place] if place < len(inputs) else None for place in (0, 1, 4, 6))
    key = query if key is None else key
    if not isinstance(key, np.ndarray) or not isinstance(mask, np.ndarray) or key.ndim < 3 or not mask.ndim:
        return False
    keys = key.shape[1 if key.ndim == 5 else -2]
    return masks_none_or_all(mask, len(key), keys + (0 if past is None else past.shape[-2]))


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw numbers of moderate size, and masks that leave each query the first key."""
    return {**attention.adversarial(rng, feeds), **unmasked_first(feeds, "key_padding_mask")}


def unmasked_first(feeds: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mask in which the first key of each query is kept, or in which lengths are positive."""
    mask = feeds.get(name)
    if not isinstance(mask, np.ndarray) or not mask.size or not mask.flags.writeable:
        return {}
    kept = np.maximum(mask, 1) if mask.ndim == 1 else np.array(mask)
    if mask.ndim > 1:
        kept[..., 0] = 1
    return {name: kept}


LENGTH = 4
"""How long the heads are that the proof draws where nothing tells."""


def equal_dims(node: NodeShapes) -> Pairs:
    """Yield the dims of queries, keys, values, a bias and a past that are equal."""
    query, key, value, bias, _, _, past_key, past_value, *_ = (*node.inputs, *(None,) * 8)
    yield from _equal_packed(node, query, key, value)
    if not query or not key or not value or len(query) != 3 or len(key) != len(value):
        return
    heads = int(node.attributes.get("num_heads", 1))
    width = query[2] if isinstance(query[2], int) else LENGTH * heads
    axis = len(key) - 2
    wide = value[-1] if isinstance(value[-1], int) else width if axis == 1 else width // heads
    yield from ((query[2], width), (query[0], key[0]), (key[0], value[0]), (key[axis], value[axis]), (value[-1], wide))
    yield key[-1], width if axis == 1 else width // heads
    if axis == 2:
        yield from ((key[1], heads), (value[1], heads))
    if bias:
        yield bias[0], 2 * width + (wide if axis == 1 else wide * heads)
    for past, one in ((past_key, width), (past_value, wide)):
        if past and len(past) == 4 and axis == 1:
            yield from ((past[0], query[0]), (past[1], heads), (past[3], one // heads))
    if past_key and past_value:
        yield from zip(past_key[:3], past_value[:3], strict=False)


def _equal_packed(node: NodeShapes, query: Shape | None, key: Shape | None, value: Shape | None) -> Pairs:
    """Yield the dims of a tensor that holds keys and values, or queries too."""
    packed, count = (query, 3) if key is None else (key, 2)
    if value is not None or packed is None or len(packed) != 5:
        return
    heads, size = int(node.attributes.get("num_heads", 1)), packed[4]
    yield from ((packed[2], heads), (packed[3], count), (size, size if isinstance(size, int) else LENGTH))
    if query and len(query) == 3:
        yield query[0], packed[0]
        yield query[2], heads * (size if isinstance(size, int) else LENGTH)


def _shape(what: MultiHeadAttention, operands: Operands) -> tuple[Dim, ...] | None:
    """Return the batch and the tokens of the queries, and the width of all values."""
    query, value = first(operands), operands[2]
    if value is None:
        packed = query if operands[1] is None else operands[1]
        width = times(packed.dim(4), what.num_heads) if packed.rank == 5 else None
        return (query.dim(0), query.dim(1), width if isinstance(width, int) else None) if query.rank else None
    if query.rank != 3:
        return None
    width = times(value.dim(3), what.num_heads) if value.rank == 4 else value.dim(2)
    return query.dim(0), query.dim(1), width if isinstance(width, int) else None


OPERATOR = Operator(
    name="MultiHeadAttention",
    domain=MICROSOFT,
    meaning=MultiHeadAttention,
    versions=(Version(1, lift=_lift),),
    operands=(
        "query",
        "key",
        "value",
        "bias",
        "key_padding_mask",
        "attention_bias",
        "past_key",
        "past_value",
        "past_sequence_length",
        "cache_indirection",
    ),
    oracle=oracle,
    shape=_shape,
    lowerings=(
        of_one_tensor,
        of_two_tensors,
        biased,
        biased_queries,
        keys_alone,
        keys_and_numbers,
        pairs_alone,
        pairs_and_numbers,
        by_lengths,
        by_lengths_after_a_past,
        by_spans,
        by_spans_after_a_past,
        by_sums,
        by_any,
        by_any_after_a_past,
        by_attention,
        of_heads,
    ),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    refused="`past_sequence_length`, `cache_indirection`",
    # Without an output for keys and values its kernel reads a past of zeros, or of what memory holds.
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        inner_sum=InnerSum(SumUse.ATTENTION, data=values_of(2, 7)),
        adds_first=with_bias_at(3),
        equal_dims=equal_dims,
        meaningless=of_other_length,
        refuses=lambda inputs: len(inputs) < 3 or not inputs[2],
        aborts=True,
        outputs_for={6: 3, 7: 3},
    ),
)
