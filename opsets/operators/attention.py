"""Attention: values, weighed by how well their keys go with queries. Since version 23."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits, Undefined
from opshift.opsets.registry.wider_types import COMPUTED

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Attention:
    """The attributes of Attention-25, and the treatment of a mask that is shorter than the keys.

    It is `padded` with what masks, or `spread`: one element stands for all keys.
    """

    is_causal: int = 0
    kv_num_heads: int | None = None
    left_window_size: int = -1
    q_num_heads: int | None = None
    qk_matmul_output_mode: int = 0
    right_window_size: int = -1
    scale: float | None = None
    softcap: float = 0.0
    softmax_precision: int | None = None
    short_mask: str = "padded"


def oracle(
    what: Attention,
    queries: Array,
    keys: Array,
    values: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    lengths: Array | None = None,
) -> tuple[Array, ...]:
    """Attention-25: softmax of the scaled products with what masks added, times the values; then keys and values.

    "softcap * tanh(logits / softcap)", "The soft cap is applied before mask / bias addition and softmax". "A
    fully-masked query row (no key attended, including the negative-offset leading rows) produces a zero output row".
    """
    q = _heads(queries, what.q_num_heads).astype(np.float64)
    k, v = (_joined(past, _heads(new, what.kv_num_heads)) for past, new in ((past_key, keys), (past_value, values)))
    # ONNX's body multiplies what can be broadcast.
    if k.shape[:3] != v.shape[:3] or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3] or q.shape[1] % k.shape[1]:
        raise ValueError("Attention-25: keys and values are not of one batch and length, or not of the queries' size")
    if lengths is not None and (lengths.shape != k.shape[:1] or (lengths < 0).any() or (lengths > k.shape[2]).any()):
        raise ValueError("Attention-25: nonpad_kv_seqlen is not a number of keys for each of the batch")
    shared = q.shape[1] // k.shape[1]
    wide_k, wide_v = (np.repeat(one.astype(np.float64), shared, axis=1) for one in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if what.scale is None else what.scale
    products = scale * (q @ wide_k.swapaxes(2, 3))
    capped = what.softcap * np.tanh(products / what.softcap) if what.softcap else products
    allowed = _allowed(what, q.shape[2], k.shape[2], 0 if past_key is None else past_key.shape[2], lengths)
    bias = np.where(allowed, 0, -np.inf) + _bias(what, mask, k.shape[2])
    if np.broadcast_shapes(bias.shape, capped.shape) != capped.shape:
        raise ValueError("Attention-25: the mask is not broadcast to the scores, but these to the mask")
    masked = capped + bias
    none = bias.max(axis=-1, keepdims=True, initial=-np.inf) == -np.inf
    top = masked.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(masked - np.where(none, 0, top))
    weights = np.where(none, 0, powers / np.where(none, 1, powers.sum(axis=-1, keepdims=True)))
    y = weights @ wide_v
    seen = (products, capped, masked, weights)[what.qk_matmul_output_mode]
    if queries.ndim == 3:
        y = y.swapaxes(1, 2).reshape(*queries.shape[:2], y.shape[1] * y.shape[3])
    return y.astype(queries.dtype), k, v, seen.astype(queries.dtype)


def _heads(x: Array, heads: int | None) -> Array:
    """Input Q: "4D tensor with shape (batch_size, num_heads, sequence_length, head_size) or 3D", all heads in a row."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads or 1, x.shape[2] // (heads or 1)).swapaxes(1, 2)


def _joined(past: Array | None, new: Array) -> Array:
    return new if past is None else np.concatenate([past, new], axis=2)


def _allowed(what: Attention, queries: int, keys: int, past: int, lengths: Array | None) -> Array:
    """Query i is at "p = offset + query_index"; the offset is the past's, or "nonpad_kv_seqlen - q_sequence_length"."""
    shifts = np.array([past]) if lengths is None else lengths - queries
    place = shifts[:, None, None, None] + np.arange(queries)[:, None]
    key = np.arange(keys)
    allowed = np.ones((len(shifts), 1, queries, keys), bool)
    if what.is_causal:
        allowed &= key <= place
    if what.left_window_size >= 0:
        allowed &= place - what.left_window_size <= key
    if what.right_window_size >= 0:
        allowed &= key <= place + what.right_window_size
    if lengths is not None:
        allowed &= key < lengths[:, None, None, None]
    return allowed


def _bias(what: Attention, mask: Array | None, keys: int) -> Array:
    """Input attn_mask: "will be padded to `total_sequence_length` with negative infinity"; True takes part."""
    if mask is None:
        return np.zeros(1)
    bias = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask.astype(np.float64)
    if what.short_mask == "spread":
        return np.asarray(bias)
    room = [(0, 0)] * (bias.ndim - 1) + [(0, keys - bias.shape[-1])]
    return np.pad(bias, room, constant_values=-np.inf)


def _last(operands: Operands, index: int, axis: int) -> Dim:
    """Return a dimension counted from the back, None where it is not known."""
    facts = operands[index]
    shape = None if facts is None else facts.shape
    return None if shape is None or len(shape) < -axis else shape[axis]


def _keys(operands: Operands) -> Dim:
    """How many keys there are with those of the past."""
    new, past = _last(operands, 1, -2), 0 if operands[4] is None else _last(operands, 4, -2)
    if past == 0:
        return new
    return new + past if isinstance(new, int) and isinstance(past, int) else None


def normal(what: Attention, operands: Operands) -> tuple[Attention, Operands]:
    """Tell masks apart only where one may be short: one that is spread is of one element, or as long as the keys.

    Where each head has an axis, their number is the length of that.
    """
    if first(operands).rank == 4:
        what = dataclasses.replace(what, q_num_heads=None, kv_num_heads=None)
    length = _last(operands, 3, -1)
    whole = operands[3] is None or (length is not None and length == _keys(operands))
    fits = isinstance(length, int) and length > 1 and not isinstance(_keys(operands), int)
    if whole or (what.short_mask == "spread" and fits):
        what = dataclasses.replace(what, short_mask="padded")
    return what, operands


def _may_be_short(what: Attention, operands: Operands) -> Reason | None:
    length = _last(operands, 3, -1)
    if what.short_mask == "spread" or operands[3] is None or (length is not None and length == _keys(operands)):
        return None
    return Reason("the mask may be shorter than there are keys, and is filled up", missing=True)


def _is_spread(what: Attention, operands: Operands) -> Reason | None:
    return Reason("a mask of one element is spread over all keys") if what.short_mask == "spread" else None


def _without_past(what: Attention, operands: Operands) -> Reason | None:
    if what.short_mask != "spread":
        return Reason("no mask is spread")
    return None if operands[4] is None else Reason("there is a past")


@lowering(18, applies_if=_without_past)
def spread(q, k, v, mask, past_key, past_value, lengths):
    """Repeat a mask of one element for each key."""
    wide = op.Expand(mask, op.Shape(k, start=-2, end=-1))
    y, keys, values, products = meaning.Same(q, k, v, wide, past_key, past_value, lengths, short_mask="padded")
    return y, keys, values, products


def _typed(operands: Operands) -> Reason | None:
    query = first(operands)
    known = query.dtype is not None and query.rank is not None
    return None if known else Reason("the element type or the rank of the queries is unknown", missing=True)


def _per_head(operands: Operands) -> Reason | None:
    rank = first(operands).rank
    if rank is None:
        return Reason("the rank of the queries is unknown", missing=True)
    return None if rank == 4 else Reason("all heads are in a row")


def _masks_by_position(what: Attention) -> bool:
    """Whether the positions of a query and a key decide if the query attends to the key."""
    return bool(what.is_causal) or (what.left_window_size, what.right_window_size) != (-1, -1)


def _bools(what: Attention, operands: Operands) -> Reason | None:
    mask = operands[3]
    if mask is None or mask.dtype not in (None, TensorProto.BOOL):
        return Reason("there is no mask of booleans")
    if mask.dtype is None:
        return Reason("the element type of the mask is unknown", missing=True)
    return _typed(operands)


def _numpy(operands: Operands) -> np.dtype[Any]:
    return onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)


def _ends(what: Attention, operands: Operands) -> Mapping[str, Any]:
    return {name: Tensor(np.array(end).astype(_numpy(operands))) for name, end in (("zero", 0.0), ("low", -np.inf))}


@lowering(18, applies_if=_bools, bind=_ends)
def with_bias(q, k, v, mask, past_key, past_value, lengths, zero: Sequence[int], low: Sequence[int]):
    """Add negative infinity to the scores if the mask is false."""
    bias = op.Where(mask, zero, low)
    y, keys, values, scores = meaning.Same(q, k, v, bias, past_key, past_value, lengths)
    return y, keys, values, scores


def _past(what: Attention, operands: Operands) -> Reason | None:
    if operands[4] is None or operands[5] is None:
        return Reason("there is no past")
    if _masks_by_position(what):
        return Reason("its length decides which keys are masked")
    return _typed(operands) or _per_head(operands)


@lowering(18, applies_if=_past)
def with_past(q, k, v, mask, past_key, past_value, lengths):
    """Concatenate the past and the new keys and values."""
    keys, values = op.Concat(past_key, k, axis=2), op.Concat(past_value, v, axis=2)
    y, every_key, every_value, scores = meaning.Same(q, keys, values, mask, None, None, lengths)
    return y, every_key, every_value, scores


def _shared(what: Attention, operands: Operands) -> Reason | None:
    if operands[4] is not None or operands[5] is not None:
        return Reason("there is a past")
    if reason := _per_head(operands):
        return reason
    queries, keys = (_last(operands, index, -3) for index in (0, 1))
    if not isinstance(queries, int) or not isinstance(keys, int):
        return Reason("the number of heads is unknown", missing=True)
    return None if keys and queries > keys and queries % keys == 0 else Reason("no heads share keys")


def _repeated(what: Attention, operands: Operands) -> Mapping[str, Any]:
    queries, keys = (int(_last(operands, index, -3) or 1) for index in (0, 1))
    return {"head": Tensor(np.repeat(np.arange(keys), queries // keys))}


@lowering(18, applies_if=_shared, bind=_repeated)
def shared_keys(q, k, v, mask, past_key, past_value, lengths, head: Sequence[int]):
    """Repeat keys and values for each head that shares them."""
    y, _keys, _values, scores = meaning.Same(
        q, op.Gather(k, head, axis=1), op.Gather(v, head, axis=1), mask, None, None, lengths
    )
    return y, op.Identity(k), op.Identity(v), scores


_CONSTANT = 2**20  # the largest mask, in elements, that becomes a constant


def _causal(what: Attention, operands: Operands) -> Reason | None:
    if reason := _typed(operands) or _per_head(operands):
        return reason
    if not _masks_by_position(what):
        return Reason("each query attends to all keys")
    if any(operands[3:7]):
        return Reason("it has a mask, a past or lengths")
    lengths = [_last(operands, index, -2) for index in (0, 1)]
    if not all(isinstance(length, int) for length in lengths):
        return Reason("the number of queries or keys is unknown", missing=True)
    return Reason("the mask is large") if math.prod(lengths) > _CONSTANT else None  # type: ignore[arg-type]


def _triangle(what: Attention, operands: Operands) -> Mapping[str, Any]:
    queries, keys = (int(_last(operands, index, -2) or 0) for index in (0, 1))
    allowed = _allowed(what, queries, keys, 0, None)[0, 0]
    return {"bias": Tensor(np.where(allowed, 0.0, -np.inf).astype(_numpy(operands)))}


@lowering(18, applies_if=_causal, bind=_triangle)
def with_triangle(q, k, v, mask, past_key, past_value, lengths, bias: Sequence[int]):
    """Compute a constant mask of the positions that each query attends to."""
    y, keys, values, scores = meaning.Same(
        q, k, v, bias, past_key, past_value, lengths, is_causal=0, left_window_size=-1, right_window_size=-1
    )
    return y, keys, values, scores


_PRODUCTS = (0, 1, 2)  # output modes that are equal without a mask and a soft cap


def _plain(what: Attention, operands: Operands) -> Reason | None:
    """Require that only a mask input excludes keys."""
    if reason := _typed(operands):
        return reason
    if any(operands[4:7]):
        return Reason("it has a past or lengths")
    if what.softcap or _masks_by_position(what):
        return Reason("it masks keys, or caps scores")
    return Reason("it names the type of Softmax") if what.softmax_precision is not None else None


def _own_keys(what: Attention, operands: Operands) -> Reason | None:
    if reason := _per_head(operands):
        return reason
    heads = [_last(operands, index, -3) for index in (0, 1)]
    if None in heads or (what.scale is None and not isinstance(_last(operands, 0, -1), int)):
        return Reason("the number of heads or their size is unknown", missing=True)
    return None if heads[0] == heads[1] else Reason("heads share keys")


def _unmasked(what: Attention, operands: Operands) -> Reason | None:
    if operands[3] is not None:
        return Reason("it has a mask")
    if what.qk_matmul_output_mode not in _PRODUCTS:
        return Reason("it returns the weights")
    return _plain(what, operands)


def _of_products(what: Attention, operands: Operands) -> Reason | None:
    return _unmasked(what, operands) or _own_keys(what, operands)


def _factor(what: Attention, size: Dim, operands: Operands) -> Mapping[str, Any]:
    factor = 1 / math.sqrt(size or 1) if what.scale is None and isinstance(size, int) else what.scale
    return {"factor": Tensor(np.array(factor).astype(_numpy(operands)))}


def _own_factor(what: Attention, operands: Operands) -> Mapping[str, Any]:
    return _factor(what, _last(operands, 0, -1), operands)


@lowering(18, applies_if=_of_products, bind=_own_factor, rounds=True)
def of_products(q, k, v, mask, past_key, past_value, lengths, factor: Sequence[int]):
    """Multiply scaled queries by keys, and their Softmax by values."""
    scores = op.MatMul(q * factor, op.Transpose(k, perm=[0, 1, 3, 2]))
    return op.MatMul(op.Softmax(scores, axis=-1), v), op.Identity(k), op.Identity(v), scores


def _in_rows(what: Attention, operands: Operands) -> Reason | None:
    if reason := _unmasked(what, operands):
        return reason
    if what.q_num_heads != what.kv_num_heads and first(operands).rank == 3:
        return Reason("heads share keys")
    return _row_sizes(operands)


def _row_sizes(operands: Operands) -> Reason | None:
    if first(operands).rank != 3:
        return Reason("each head has an axis")
    known = all(isinstance(_last(operands, index, -1), int) for index in (0, 1, 2))
    return None if known else Reason("the sizes of heads are unknown", missing=True)


def _head_shapes(what: Attention, operands: Operands) -> Mapping[str, Any]:
    """Return shapes without -1, which no tensor without elements is given."""
    heads, shared = what.q_num_heads or 1, what.kv_num_heads or 1
    counts = {"q_heads": heads, "k_heads": shared, "v_heads": shared}
    sizes = [int(_last(operands, index, -1) or 0) // count for index, count in enumerate(counts.values())]
    shapes = {name: (0, 0, count, size) for (name, count), size in zip(counts.items(), sizes, strict=True)}
    return {**shapes, "row": (0, 0, heads * sizes[2])}


def _sizes(what: Attention, operands: Operands) -> Mapping[str, Any]:
    shapes = _head_shapes(what, operands)
    return {**_factor(what, shapes["q_heads"][3], operands), **shapes}


def _masked_rows(what: Attention, operands: Operands) -> Reason | None:
    return _typed(operands) or _row_sizes(operands)


def _axes(what: Attention, operands: Operands) -> Mapping[str, Any]:
    return {**_head_shapes(what, operands), "own": None}


@lowering(18, applies_if=_masked_rows, bind=_axes)
def with_axes_of_heads(
    q,
    k,
    v,
    mask,
    past_key,
    past_value,
    lengths,
    q_heads: Sequence[int],
    k_heads: Sequence[int],
    v_heads: Sequence[int],
    row: Sequence[int],
    own: int,
):
    """Give each head an axis, and put all heads into one row."""
    queries = op.Transpose(op.Reshape(q, q_heads), perm=[0, 2, 1, 3])
    keys = op.Transpose(op.Reshape(k, k_heads), perm=[0, 2, 1, 3])
    values = op.Transpose(op.Reshape(v, v_heads), perm=[0, 2, 1, 3])
    y, all_keys, all_values, scores = meaning.Same(
        queries, keys, values, mask, past_key, past_value, lengths, q_num_heads=own, kv_num_heads=own
    )
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), row), all_keys, all_values, scores


@lowering(18, applies_if=_in_rows, bind=_sizes, rounds=True)
def of_rows(
    q,
    k,
    v,
    mask,
    past_key,
    past_value,
    lengths,
    factor: Sequence[int],
    q_heads: Sequence[int],
    k_heads: Sequence[int],
    v_heads: Sequence[int],
    row: Sequence[int],
):
    """Give each head an axis, multiply as `of_products` does, and put all heads into one row."""
    queries = op.Transpose(op.Reshape(q, q_heads), perm=[0, 2, 1, 3])
    keys = op.Reshape(k, k_heads)
    values = op.Transpose(op.Reshape(v, v_heads), perm=[0, 2, 1, 3])
    scores = op.MatMul(queries * factor, op.Transpose(keys, perm=[0, 2, 3, 1]))
    weighed = op.Transpose(op.MatMul(op.Softmax(scores, axis=-1), values), perm=[0, 2, 1, 3])
    return op.Reshape(weighed, row), op.Transpose(keys, perm=[0, 2, 1, 3]), values, scores


def _biased(what: Attention, operands: Operands) -> Reason | None:
    mask = operands[3]
    if mask is None or mask.dtype == TensorProto.BOOL:
        return Reason("there is no mask of floats")
    if None in (mask.dtype, first(operands).dtype):
        return Reason("the types of the mask and the queries are unknown", missing=True)
    if mask.dtype != first(operands).dtype:
        return Reason("the mask is of another type than the queries")
    if what.qk_matmul_output_mode != 0:
        return Reason("it returns masked scores")
    return _may_be_short(what, operands) or _plain(what, operands) or _own_keys(what, operands)


def _factor_and_low(what: Attention, operands: Operands) -> Mapping[str, Any]:
    return {**_own_factor(what, operands), **_ends(what, operands)}


@lowering(18, applies_if=_biased, bind=_factor_and_low, rounds=True)
def of_biased_products(
    q,
    k,
    v,
    mask,
    past_key,
    past_value,
    lengths,
    factor: Sequence[int],
    zero: Sequence[int],
    low: Sequence[int],
):
    """Add the mask to the products; the weights of a query without any key are 0."""
    scores = op.MatMul(q * factor, op.Transpose(k, perm=[0, 1, 3, 2]))
    weights = op.Softmax(scores + mask, axis=-1)
    none = op.Equal(op.ReduceMax(mask, [-1], keepdims=1), low)
    return op.MatMul(op.Where(none, zero, weights), v), op.Identity(k), op.Identity(v), scores


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have eighths from -2 to 2: of products that overflow, and powers that vanish, the order of scaling decides."""
    return {
        name: array
        if array.dtype.kind in "biu" or not array.flags.writeable
        else np.rint(np.clip(array.astype(np.float64), -2, 2) * 8) / 8
        for name, array in feeds.items()
    }


def _of_23(attributes: Any) -> Attention:
    return Attention(**attributes, short_mask="spread")


def _as_23(what: Attention, operands: Operands) -> Any:
    newer = {name: getattr(what, name) for name in ("left_window_size", "right_window_size")}
    if set(newer.values()) != {-1}:
        return Reason(f"it has no {', '.join(newer)}")
    fields = dataclasses.asdict(what)
    return {
        field.name: fields[field.name]
        for field in dataclasses.fields(what)
        if field.name not in (*newer, "short_mask") and fields[field.name] != field.default
    }


@of_two
def equal_dims(node: NodeShapes, query: Shape, key: Shape) -> Pairs:
    """Yield the dims of queries, keys, values, and a past; heads whose size is open have two numbers each."""
    value, past_key, past_value = (node.inputs[at] if at < len(node.inputs) else None for at in (2, 4, 5))
    if len(query) == len(key) == 3:
        heads = [node.attributes.get(name) or 1 for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
        yield from ((dims[2], 2 * count) for dims, count in zip((query, key, value), heads, strict=True) if dims)
        before: tuple[tuple[int, Dim], ...] = ((1, heads[1]),)
    elif len(query) == len(key) == 4:
        yield from ((query[at], key[at]) for at in (0, 1, 3))
        before = ((1, key[1]), (3, key[3]))
    else:
        return
    yield query[0], key[0]
    yield from zip(key[: len(key) - 1], value or (), strict=False)
    if past_key and past_value and len(past_key) == len(past_value) == 4:
        yield from zip(past_key[:3], past_value, strict=False)
        yield past_key[0], key[0]
        yield from ((past_key[at], dim) for at, dim in before)
        if value and len(value) == 4:
            yield past_value[3], value[3]


def _of_nothing(read: Sequence[Any]) -> bool:
    """Whether there are no keys, whose softmax is 0 / 0, or no values, which bodies of ONNX do not reshape."""
    return any(one is not None and not np.size(one) for one in read[1:3])


OPERATOR = Operator(
    name="Attention",
    meaning=Attention,
    versions=(
        Version(23, lift=_of_23, write=_as_23, applies_if=_may_be_short),
        Version(24, applies_if=_is_spread),
        Version(25, applies_if=_is_spread),
    ),
    operands=("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"),
    oracle=oracle,
    normal=normal,
    lowerings=(
        spread,
        with_bias,
        with_past,
        shared_keys,
        with_triangle,
        of_products,
        of_rows,
        of_biased_products,
        with_axes_of_heads,
    ),
    wider_types=COMPUTED,
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        undefined=Undefined.PADDED_ROWS,
        equal_dims=equal_dims,
        spreads=False,
        unwritten=(0,),
        meaningless=_of_nothing,
        nan_undefined=True,
    ),
)
