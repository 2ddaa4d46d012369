"""com.microsoft::Attention: projections of one input to queries, keys and values, then MultiHeadAttention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.microsoft import multiheadattention, projectedattention
from opshift.opsets.microsoft.multiheadattention import FILTER
from opshift.opsets.microsoft.projectedattention import ProjectedAttention
from opshift.opsets.operators import attention
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Attention:
    """The fields of MultiHeadAttention, and the widths of queries, keys and values; by default a third each."""

    num_heads: int = 1
    do_rotary: int = 0
    mask_filter_value: float = FILTER
    past_present_share_buffer: int = 0
    qkv_hidden_sizes: tuple[int, ...] = ()
    rotary_embedding_dim: int = 0
    scale: float = 0.0
    unidirectional: int = 0


def _lift(attributes: Mapping[str, Any]) -> Attention:
    present = {name: value for name, value in attributes.items() if value is not None}
    return Attention(**present)


def _sizes(what: Attention, width: int) -> tuple[int, ...]:
    return what.qkv_hidden_sizes or (width // 3,) * 3


def oracle(
    what: Attention,
    x: Array,
    weights: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    past: Array | None = None,
    added: Array | None = None,
    length: Array | None = None,
) -> tuple[Array, ...]:
    """Attention-1: "the weights for input projection of Q, K and V are merged", "past state for key and value"."""
    rows = x.astype(np.float64) @ weights.astype(np.float64)
    rows = rows if bias is None else rows + bias
    sizes = _sizes(what, weights.shape[1])
    meant = ProjectedAttention(sizes, what.mask_filter_value, what.num_heads, what.scale, what.unidirectional)
    results = projectedattention.oracle(meant, rows, mask, None if past is None else past.astype(np.float64), added)
    return tuple(result.astype(x.dtype) for result in results)


def normal(what: Attention, operands: Operands) -> tuple[Attention, Operands]:
    """Leave out a mask of one column, which stands for none: onnxruntime repeats it for all keys."""
    if (operands[3] or Facts()).rank != 2 or (operands[3] or Facts()).dim(1) != 1:
        return what, operands
    return what, (*operands[:3], None, *operands[4:])


def _known(what: Attention, operands: Operands) -> Reason | None:
    if what.do_rotary:
        return Reason("it turns queries and keys (do_rotary), which no kernel of the CPU does")
    if what.past_present_share_buffer or operands[6] is not None:
        return Reason("the past is a buffer that is shared (past_present_share_buffer)")
    if not isinstance((operands[1] or Facts()).dim(1), int):
        return Reason("the width of the weights is unknown", missing=True)
    return None


def _form(biased: bool) -> Callable[[Attention, Operands], Reason | None]:
    def applies_if(what: Attention, operands: Operands) -> Reason | None:
        return _known(what, operands) if (operands[2] is not None) == biased else Reason("")

    return applies_if


def _bind(what: Attention, operands: Operands) -> Mapping[str, Any]:
    width = (operands[1] or Facts()).dim(1)
    return {
        "sizes": _sizes(what, width if isinstance(width, int) else 0),
        "heads": what.num_heads,
        "masked": what.mask_filter_value,
        "factor": what.scale,
        "causal": what.unidirectional,
    }


@lowering(18, applies_if=_form(False), bind=_bind, rounds=True)
def projected(
    x, weights, bias, mask, past, added, length,
    sizes: Sequence[int], heads: int, masked: float, factor: float, causal: int,
):  # fmt: skip
    """Project the input."""
    y, present = meaning.ProjectedAttention(
        op.MatMul(x, weights), mask, past, added,
        sizes=sizes, num_heads=heads, mask_filter_value=masked, scale=factor, unidirectional=causal,
    )  # fmt: skip
    return y, present


@lowering(18, applies_if=_form(True), bind=_bind, rounds=True)
def projected_and_biased(
    x, weights, bias, mask, past, added, length,
    sizes: Sequence[int], heads: int, masked: float, factor: float, causal: int,
):  # fmt: skip
    """Project the input, and add the bias."""
    y, present = meaning.ProjectedAttention(
        op.MatMul(x, weights) + bias, mask, past, added,
        sizes=sizes, num_heads=heads, mask_filter_value=masked, scale=factor, unidirectional=causal,
    )  # fmt: skip
    return y, present


def of_other_length(inputs: Sequence[Any]) -> bool:
    """Return whether a mask of keys is not as long as there are keys; unless that is known, none is left out."""
    x, mask, past = (inputs[place] if place < len(inputs) else None for place in (0, 3, 4))
    if not isinstance(x, np.ndarray) or not isinstance(mask, np.ndarray) or x.ndim != 3 or not mask.ndim:
        return False
    keys = x.shape[1] + (0 if past is None else past.shape[-2])
    return multiheadattention.masks_none_or_all(mask, len(x), keys)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw numbers of moderate size, and masks that leave each query the first key."""
    return {**attention.adversarial(rng, feeds), **multiheadattention.unmasked_first(feeds, "mask_index")}


def _shape(what: Attention, operands: Operands) -> tuple[Dim, ...]:
    """Return the batch and the tokens of the input, and the width of the values."""
    width = (operands[1] or Facts()).dim(1)
    return first(operands).dim(0), first(operands).dim(1), _sizes(what, width)[2] if isinstance(width, int) else None


OPERATOR = Operator(
    name="Attention",
    domain=MICROSOFT,
    meaning=Attention,
    versions=(Version(1, lift=_lift),),
    operands=("input", "weights", "bias", "mask_index", "past", "attention_bias", "past_sequence_length"),
    oracle=oracle,
    normal=normal,
    shape=_shape,
    lowerings=(projected, projected_and_biased),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    refused=("`do_rotary`; `past_present_share_buffer`, `past_sequence_length`; masks of rank 4"),
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), factors=3, meaningless=of_other_length),
)
