"""Attention: values, weighed by how well their keys go with queries. Since version 23."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits, Undefined
from opshift.opsets.registry.wider_types import COMPUTED

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Attention:
    """The attributes of Attention-25, and what becomes of a mask that is shorter than there are keys.

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
    masked = capped + bias
    none = bias.max(axis=-1, keepdims=True, initial=-np.inf) == -np.inf
    top = masked.max(axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(masked - np.where(none, 0, top))
    weights = np.where(none, 0, powers / np.where(none, 1, powers.sum(axis=-1, keepdims=True)))
    y = weights @ wide_v
    seen = (products, capped, masked, weights)[what.qk_matmul_output_mode]
    if queries.ndim == 3:
        y = y.swapaxes(1, 2).reshape(*queries.shape[:2], -1)
    return y.astype(queries.dtype), k, v, seen.astype(queries.dtype)


def _heads(x: Array, heads: int | None) -> Array:
    """Input Q: "4D tensor with shape (batch_size, num_heads, sequence_length, head_size) or 3D", all heads in a row."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads or 1, -1).swapaxes(1, 2)


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
    """Tell masks apart only where one may be short: one that is spread is of one element, or as long as the keys."""
    length = _last(operands, 3, -1)
    whole = operands[3] is None or (length is not None and length == _keys(operands))
    if whole or (what.short_mask == "spread" and isinstance(length, int) and length > 1):
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


@lowering(18, given=_without_past)
def spread(q, k, v, mask, past_key, past_value, lengths):
    """Repeat a mask of one element for each key."""
    wide = op.Expand(mask, op.Shape(k, start=-2, end=-1))
    y, keys, values, products = meaning.Same(q, k, v, wide, past_key, past_value, lengths, short_mask="padded")
    return y, keys, values, products


def hostile(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
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


OPERATOR = Operator(
    name="Attention",
    meaning=Attention,
    versions=(
        Version(23, lift=_of_23, write=_as_23, given=_may_be_short),
        Version(24, given=_is_spread),
        Version(25, given=_is_spread),
    ),
    operands=("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"),
    oracle=oracle,
    normal=normal,
    lowerings=(spread,),
    carriers=COMPUTED,
    hostile=hostile,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), undefined=Undefined.PADDED_ROWS),
)
