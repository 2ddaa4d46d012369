"""com.microsoft::DecoderMaskedMultiHeadAttention: MultiHeadAttention of one token, put into a buffer of the past."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.microsoft import multiheadattention
from opshift.opsets.microsoft.multiheadattention import FILTER, MultiHeadAttention
from opshift.opsets.operators import attention
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, values_of
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class DecoderMaskedMultiHeadAttention:
    """The heads, what a mask adds, whether the past is a buffer, and whether products are returned."""

    num_heads: int = 1
    mask_filter_value: float = FILTER
    output_qk: int = 0
    past_present_share_buffer: int = 0
    scale: float = 0.0


def _lift(attributes: Mapping[str, Any]) -> DecoderMaskedMultiHeadAttention:
    return DecoderMaskedMultiHeadAttention(**{name: value for name, value in attributes.items() if value is not None})


def oracle(
    what: DecoderMaskedMultiHeadAttention,
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    added: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    place: Array | None = None,
    beams: Array | None = None,
    indirection: Array | None = None,
    bias: Array | None = None,
) -> tuple[Array, ...]:
    """DecoderMaskedMultiHeadAttention-1: "only supports a single token and uses past_sequence_length" as its place."""
    if query.shape[1] != 1:
        raise ValueError("DecoderMaskedMultiHeadAttention-1: there is more than one token")
    if bias is not None:
        query, key, value = multiheadattention.with_bias(query, key, value, bias)
    meant = MultiHeadAttention(what.num_heads, what.mask_filter_value, what.scale)
    if key.ndim == 3 and key.shape[1] != 1:
        raise ValueError("DecoderMaskedMultiHeadAttention-1: keys in rows are those of one token")
    if past_key is None or past_value is None or place is None:
        y, *_ = multiheadattention.oracle(meant, query, key, value, None, mask, added)
        return (y,)
    at = int(place.reshape(-1)[0])
    if not 0 <= at < past_key.shape[2]:
        raise ValueError("DecoderMaskedMultiHeadAttention-1: the token's place is outside of the buffer")
    keys, values = past_key.copy(), past_value.copy()
    for buffer, rows in ((keys, key), (values, value)):
        buffer[:, :, at] = rows.reshape(len(rows), what.num_heads, -1)
    y, *_ = multiheadattention.oracle(meant, query, keys[:, :, : at + 1], values[:, :, : at + 1], None, mask, added)
    return y, keys, values


def _known(what: DecoderMaskedMultiHeadAttention, operands: Operands) -> Reason | None:
    if operands[1] is None or operands[2] is None:
        return Reason("queries, keys and values are packed into one tensor")
    if what.output_qk:
        return Reason("it returns products (output_qk)")
    if operands[8] is not None or operands[9] is not None:
        return Reason("beams share the buffer (beam_width, cache_indirection)")
    ranks = [first(operands).rank, (operands[1] or Facts()).rank]
    if ranks not in ([3, 3], [3, 4]):
        return Reason("a rank is unknown", missing=True)
    tokens = (operands[1] or Facts()).dim(1)
    if ranks[1] == 3 and isinstance(tokens, int) and tokens != 1:
        return Reason(f"keys in rows are those of one token, and there are {tokens}; more need an axis of heads")
    if operands[5] is not None and not what.past_present_share_buffer:
        return Reason("the past is no buffer (past_present_share_buffer), which kernels refuse")
    if (operands[5] is None) != (operands[7] is None) or (operands[5] is None) != (operands[6] is None):
        return Reason("a past and its length must both be present, or both absent")
    if operands[10] is not None and operands[5] is None and ranks[1] == 3:
        return Reason("without a past, the kernel of onnxruntime 1.32.0 adds the bias to the queries alone")
    if operands[10] is not None and not isinstance(first(operands).dim(2), int):
        return Reason("the width of the queries is unknown", missing=True)
    return None


def _of(stage: str) -> Callable[[DecoderMaskedMultiHeadAttention, Operands], Reason | None]:
    def applies_if(what: DecoderMaskedMultiHeadAttention, operands: Operands) -> Reason | None:
        if reason := _known(what, operands):
            return reason
        crossed = (operands[1] or Facts()).rank == 4
        found = "crossed" if crossed else "rows"
        if operands[10] is None:
            found = "alone" if operands[5] is None else "buffer"
        return None if found == stage else Reason("")

    return applies_if


def _width(what: DecoderMaskedMultiHeadAttention, operands: Operands) -> Mapping[str, Any]:
    width = first(operands).dim(2)
    count = width if isinstance(width, int) else 0
    return {"one": (count,), "two": (2 * count,)}


@lowering(18, applies_if=_of("rows"), bind=_width, rounds=True)
def biased(
    query, key, value, mask, added, past_key, past_value, place, beams, indirection, bias,
    one: Sequence[int], two: Sequence[int],
):  # fmt: skip
    """Add the bias of each projection."""
    y, keys, values = meaning.Same(
        query + op.Slice(bias, [0], one, [0]),
        key + op.Slice(bias, one, two, [0]),
        value + op.Slice(bias, two, [2147483647], [0]),
        mask, added, past_key, past_value, place,
    )  # fmt: skip
    return y, keys, values


@lowering(
    18,
    applies_if=_of("crossed"),
    bind=lambda what, operands: {"one": _width(what, operands)["one"]},
    rounds=True,
)
def biased_queries(
    query, key, value, mask, added, past_key, past_value, place, beams, indirection, bias, one: Sequence[int]
):
    """Add the bias of the queries: keys and values that have heads are added none."""
    return meaning.Same(query + op.Slice(bias, [0], one, [0]), key, value, mask, added)


def _fields(what: DecoderMaskedMultiHeadAttention, operands: Operands) -> Mapping[str, Any]:
    return {"heads": what.num_heads, "masked": what.mask_filter_value, "factor": what.scale}


@lowering(18, applies_if=_of("alone"), bind=_fields, rounds=True)
def alone(
    query, key, value, mask, added, past_key, past_value, place, beams, indirection, bias,
    heads: int, masked: float, factor: float,
):  # fmt: skip
    """Write it as MultiHeadAttention."""
    y, _keys, _values, _products = meaning.MultiHeadAttention(
        query, key, value, None, mask, added, num_heads=heads, mask_filter_value=masked, scale=factor
    )
    return y


@lowering(
    18,
    applies_if=_of("buffer"),
    bind=lambda what, operands: {**_fields(what, operands), "apart": (0, 0, what.num_heads, -1)},
    rounds=True,
)
def in_a_buffer(
    query, key, value, mask, added, past_key, past_value, place, beams, indirection, bias,
    heads: int, masked: float, factor: float, apart: Sequence[int],
):  # fmt: skip
    """Put key and value into the buffer at their place, and write it as MultiHeadAttention of what it has up to it."""
    at = op.Cast(op.Reshape(place, [1]), to=7)
    room = op.Squeeze(op.Shape(past_key, start=2, end=3), [0])
    here = op.Unsqueeze(op.Equal(op.Range(0, room, 1), at), [1])
    keys = op.Where(here, op.Transpose(op.Reshape(key, apart), perm=[0, 2, 1, 3]), past_key)
    values = op.Where(here, op.Transpose(op.Reshape(value, apart), perm=[0, 2, 1, 3]), past_value)
    y, _keys, _values, _products = meaning.MultiHeadAttention(
        query, op.Slice(keys, [0], at + 1, [2]), op.Slice(values, [0], at + 1, [2]), None, mask, added,
        num_heads=heads, mask_filter_value=masked, scale=factor,
    )  # fmt: skip
    return y, keys, values


def _shape(what: DecoderMaskedMultiHeadAttention, operands: Operands) -> tuple[Dim, ...]:
    return first(operands).dim(0), first(operands).dim(1), first(operands).dim(2)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw numbers of moderate size, masks that leave a key, and a place in the buffer that the mask goes up to."""
    made = {**attention.adversarial(rng, feeds), **multiheadattention.unmasked_first(feeds, "mask_index")}
    place, past = feeds.get("past_sequence_length"), feeds.get("past_key")
    mask, added = feeds.get("mask_index"), feeds.get("attention_bias")
    if place is not None and past is not None and past.ndim == 4 and past.shape[2] and place.flags.writeable:
        ends = [one.shape[-1] - 1 for one in (mask, added) if one is not None]
        at = ends[0] if ends else int(rng.integers(0, past.shape[2]))
        made["past_sequence_length"] = np.full_like(place, at)
    return made


def _of_more_tokens(inputs: Sequence[Any]) -> bool:
    """Return whether keys in rows are of more tokens than one: the kernel takes the rows for others than they are."""
    key = inputs[1] if len(inputs) > 1 else None
    return key is not None and key.ndim == 3 and key.shape[1] != 1


OPERATOR = Operator(
    name="DecoderMaskedMultiHeadAttention",
    domain=MICROSOFT,
    meaning=DecoderMaskedMultiHeadAttention,
    versions=(Version(1, lift=_lift),),
    operands=(
        *("query", "key", "value", "mask_index", "attention_bias", "past_key", "past_value", "past_sequence_length"),
        *("beam_width", "cache_indirection", "bias"),
    ),
    oracle=oracle,
    shape=_shape,
    lowerings=(biased, biased_queries, alone, in_a_buffer),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    refused=(
        "queries, keys and values in one tensor; `output_qk`; `beam_width`, `cache_indirection`; a past that is no "
        "buffer; a bias without a past, beside keys in rows"
    ),
    # Without an output for keys and values the kernel ends the process.
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        inner_sum=InnerSum(SumUse.ATTENTION, data=values_of(2, 6)),
        adds_first=multiheadattention.with_bias_at(10),
        outputs_for={5: 3, 6: 3},
        meaningless=_of_more_tokens,
    ),
)
