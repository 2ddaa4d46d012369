"""com.microsoft::EmbedLayerNormalization: LayerNormalization of a sum of embeddings, which ids look up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.microsoft.skiplayernormalization import EPSILON
from opshift.opsets.operators import layernormalization
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, from_axis
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import AlongAxis, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class EmbedLayerNormalization:
    """The epsilon; with `mask_index_type` 1, an output counts the mask, which it always does."""

    epsilon: float = EPSILON
    mask_index_type: int | None = None


def oracle(
    what: EmbedLayerNormalization,
    ids: Array,
    segments: Array | None,
    words: Array,
    places: Array,
    kinds: Array | None,
    gamma: Array,
    beta: Array,
    mask: Array | None = None,
    position_ids: Array | None = None,
) -> tuple[Array, ...]:
    """EmbedLayerNormalization-1: "The embedding layer takes input_ids (word IDs) and segment_ids (sentence IDs)".

    "The last input mask is optional. If mask is provided, mask index (that is position of first 0 in mask, or number
    of words) will be calculated". onnxruntime 1.32.0 counts the ones.
    """
    total = embedded([ids, segments, words, places, kinds, gamma, beta, mask, position_ids])
    y, _, _ = layernormalization.oracle(
        layernormalization.LayerNormalization(epsilon=what.epsilon, wider=True), total, gamma, beta
    )
    counted = np.zeros(len(ids), np.int32) if mask is None else (mask == 1).sum(axis=1).astype(np.int32)
    return y, counted, total


def embedded(inputs: Sequence[Any]) -> Array:
    """Return the sum of what is looked up."""
    ids, segments, words, places, kinds = inputs[:5]
    position_ids = inputs[8] if len(inputs) > 8 else None
    for one, table in ((ids, words), (segments, kinds), (position_ids, places)):
        if one is not None and table is not None and one.size and not 0 <= one.min() <= one.max() < len(table):
            raise ValueError("EmbedLayerNormalization-1: an id is outside of its table")
    place = places[: ids.shape[1]][None] if position_ids is None else places[position_ids]
    total = words[ids] + place
    return np.asarray(total if segments is None or kinds is None else total + kinds[segments])


def _unmasked(what: EmbedLayerNormalization, operands: Operands) -> Reason | None:
    return Reason("") if operands[7] is not None else None


def _form(segmented: bool, placed: bool) -> Callable[[EmbedLayerNormalization, Operands], Reason | None]:
    def applies_if(what: EmbedLayerNormalization, operands: Operands) -> Reason | None:
        if operands[7] is None or (operands[1] is not None) != segmented or (operands[8] is not None) != placed:
            return Reason("")
        lacking = segmented and operands[4] is None
        return Reason("there are segments, and no embeddings of them") if lacking else None

    return applies_if


def _epsilon(what: EmbedLayerNormalization, operands: Operands) -> dict[str, Any]:
    return {"epsilon": what.epsilon}


@lowering(18, applies_if=_unmasked)
def unmasked(ids, segments, words, places, kinds, gamma, beta, mask, position_ids):
    """Count none: without a mask there are no ones."""
    none = op.Expand(op.Cast([0], to=6), op.Shape(ids))
    y, counted, total = meaning.Same(ids, segments, words, places, kinds, gamma, beta, none, position_ids)
    return y, counted, total


@lowering(18, applies_if=_form(False, False), bind=_epsilon, rounds=True)
def of_words(ids, segments, words, places, kinds, gamma, beta, mask, position_ids, epsilon: float):
    """Add the embeddings of words and of their places."""
    total = op.Gather(words, ids, axis=0) + op.Slice(places, [0], op.Shape(ids, start=1, end=2), [0])
    y = op.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    return y, op.ReduceSum(op.Cast(op.Equal(mask, 1), to=6), [1], keepdims=0), total


@lowering(18, applies_if=_form(False, True), bind=_epsilon, rounds=True)
def of_placed_words(ids, segments, words, places, kinds, gamma, beta, mask, position_ids, epsilon: float):
    """Add the embeddings of words and of the places given."""
    total = op.Gather(words, ids, axis=0) + op.Gather(places, position_ids, axis=0)
    y = op.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    return y, op.ReduceSum(op.Cast(op.Equal(mask, 1), to=6), [1], keepdims=0), total


@lowering(18, applies_if=_form(True, False), bind=_epsilon, rounds=True)
def of_segments(ids, segments, words, places, kinds, gamma, beta, mask, position_ids, epsilon: float):
    """Add the embeddings of words, of their places, and of segments."""
    near = op.Gather(words, ids, axis=0) + op.Slice(places, [0], op.Shape(ids, start=1, end=2), [0])
    total = near + op.Gather(kinds, segments, axis=0)
    y = op.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    return y, op.ReduceSum(op.Cast(op.Equal(mask, 1), to=6), [1], keepdims=0), total


@lowering(18, applies_if=_form(True, True), bind=_epsilon, rounds=True)
def of_placed_segments(ids, segments, words, places, kinds, gamma, beta, mask, position_ids, epsilon: float):
    """Add the embeddings of words, of the places given, and of segments."""
    near = op.Gather(words, ids, axis=0) + op.Gather(places, position_ids, axis=0)
    total = near + op.Gather(kinds, segments, axis=0)
    y = op.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    return y, op.ReduceSum(op.Cast(op.Equal(mask, 1), to=6), [1], keepdims=0), total


def _shape(what: EmbedLayerNormalization, operands: Operands) -> tuple[Dim, ...]:
    """Return the shape of the ids, and the width of the words: sums with segments of another shape hide it."""
    ids = first(operands)
    return ids.dim(0), ids.dim(1), (operands[2] or Facts()).dim(1)


OPERATOR = Operator(
    name="EmbedLayerNormalization",
    domain=MICROSOFT,
    meaning=EmbedLayerNormalization,
    versions=(Version(1),),
    operands=(
        "input_ids",
        "segment_ids",
        "word_embedding",
        "position_embedding",
        "segment_embedding",
        "gamma",
        "beta",
        "mask",
        "position_ids",
    ),
    oracle=oracle,
    shape=_shape,
    lowerings=(unmasked, of_words, of_placed_words, of_segments, of_placed_segments),
    traits=Traits(
        floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS),
        indices={
            0: AlongAxis(data=2, axis=0, negative=False),
            1: AlongAxis(data=4, axis=0, negative=False),
            8: AlongAxis(data=3, axis=0, negative=False),
        },
        inner_sum=InnerSum(
            SumUse.CENTERED, from_axis, data=embedded, scale=5, bias=6, epsilon=EPSILON, by_squares=True
        ),
    ),
)
