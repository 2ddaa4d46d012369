"""com.microsoft::QAttention: Attention whose input and weights are quantized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families import steps
from opshift.opsets.families.axes import first
from opshift.opsets.microsoft import multiheadattention, projectedattention
from opshift.opsets.microsoft.multiheadattention import FILTER
from opshift.opsets.microsoft.projectedattention import ProjectedAttention
from opshift.opsets.operators import attention, matmulinteger
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QAttention:
    """The fields of Attention; queries, keys and values are a third of a row each."""

    num_heads: int = 1
    do_rotary: int = 0
    mask_filter_value: float = FILTER
    past_present_share_buffer: int = 0
    scale: float = 0.0
    unidirectional: int = 0


def _lift(attributes: Mapping[str, Any]) -> QAttention:
    return QAttention(**{name: value for name, value in attributes.items() if value is not None})


def oracle(
    what: QAttention,
    x: Array,
    weights: Array,
    bias: Array,
    x_scale: Array,
    w_scale: Array,
    mask: Array | None = None,
    x_zero: Array | None = None,
    w_zero: Array | None = None,
    past: Array | None = None,
) -> tuple[Array, ...]:
    """QAttention-1: "Quantization of Multi-Head Self Attention"."""
    total = matmulinteger.oracle(Plain(), x, weights, x_zero, w_zero).astype(np.float64)
    rows = total * (x_scale.astype(np.float64) * w_scale) + bias
    third = (weights.shape[1] // 3,) * 3
    meant = ProjectedAttention(third, what.mask_filter_value, what.num_heads, what.scale, what.unidirectional)
    results = projectedattention.oracle(meant, rows, mask, None if past is None else past.astype(np.float64))
    return tuple(result.astype(bias.dtype) for result in results)


def normal(what: QAttention, operands: Operands) -> tuple[QAttention, Operands]:
    """Omit a mask of one column, which masks nothing."""
    if (operands[5] or Facts()).rank != 2 or (operands[5] or Facts()).dim(1) != 1:
        return what, operands
    return what, (*operands[:5], None, *operands[6:])


def _known(what: QAttention, operands: Operands) -> Reason | None:
    if what.do_rotary:
        return Reason("it turns queries and keys (do_rotary), which no kernel of the CPU does")
    if what.past_present_share_buffer:
        return Reason("the past is a buffer that is shared (past_present_share_buffer)")
    if not isinstance((operands[1] or Facts()).dim(1), int):
        return Reason("the width of the weights is unknown", missing=True)
    if (operands[2] or Facts()).dtype is None:
        return Reason("the element type of the bias is unknown", missing=True)
    if (operands[3] or Facts()).size is None:
        return Reason("the shape of the scale of the input is unknown", missing=True)
    return None if (operands[3] or Facts()).size == 1 else Reason("the input has more than one scale")


def _bind(what: QAttention, operands: Operands) -> Mapping[str, Any]:
    width = (operands[1] or Facts()).dim(1)
    return {
        "sizes": ((width if isinstance(width, int) else 0) // 3,) * 3,
        "heads": what.num_heads,
        "masked": what.mask_filter_value,
        "factor": what.scale,
        "causal": what.unidirectional,
        "to": (operands[2] or Facts()).dtype,
    }


@lowering(18, applies_if=_known, bind=_bind, rounds=True)
def projected(
    x, weights, bias, x_scale, w_scale, mask, x_zero, w_zero, past,
    sizes: Sequence[int], heads: int, masked: float, factor: float, causal: int, to: int,
):  # fmt: skip
    """Project the input with integers, scale the sums, and add the bias."""
    total = op.MatMulInteger(x, weights, x_zero, w_zero)
    y, present = meaning.ProjectedAttention(
        op.Cast(total, to=to) * (x_scale * w_scale) + bias, mask, past, None,
        sizes=sizes, num_heads=heads, mask_filter_value=masked, scale=factor, unidirectional=causal,
    )  # fmt: skip
    return y, present


def of_other_length(inputs: Sequence[Any]) -> bool:
    """Return whether a mask of keys is not as long as there are keys, or a scale is none."""
    x, mask, past = (inputs[place] if place < len(inputs) else None for place in (0, 5, 8))
    if steps.far_apart(3, 4)(inputs):
        return True
    if not isinstance(x, np.ndarray) or not isinstance(mask, np.ndarray) or x.ndim != 3 or not mask.ndim:
        return False
    keys = x.shape[1] + (0 if past is None else past.shape[-2])
    return multiheadattention.masks_none_or_all(mask, len(x), keys)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw numbers of moderate size, scales above zero, and masks that leave each query the first key."""
    made = {**attention.adversarial(rng, feeds), **multiheadattention.unmasked_first(feeds, "mask_index")}
    return {
        **made,
        **{
            name: rng.choice([0.0078125, 0.015625], feeds[name].shape).astype(feeds[name].dtype)
            for name in ("input_scale", "weight_scale")
            if isinstance(feeds.get(name), np.ndarray) and feeds[name].flags.writeable
        },
    }


def _shape(what: QAttention, operands: Operands) -> tuple[Dim, ...]:
    """Return the batch and the tokens of the input, and the width of the values."""
    width = (operands[1] or Facts()).dim(1)
    return first(operands).dim(0), first(operands).dim(1), width // 3 if isinstance(width, int) else None


OPERATOR = Operator(
    name="QAttention",
    domain=MICROSOFT,
    meaning=QAttention,
    versions=(Version(1, lift=_lift),),
    operands=(
        *("input", "weight", "bias", "input_scale", "weight_scale", "mask_index", "input_zero_point"),
        *("weight_zero_point", "past"),
    ),
    oracle=oracle,
    normal=normal,
    shape=_shape,
    lowerings=(projected,),
    adversarial=adversarial,
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    refused="`do_rotary`; `past_present_share_buffer`; masks of rank 4",
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS),
        factors=3,
        byte_factors=(0, 1),
        meaningless=of_other_length,
        outputs_for={8: 2},
    ),
)
