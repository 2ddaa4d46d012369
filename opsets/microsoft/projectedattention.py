"""A step: Attention of com.microsoft once its input is projected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.microsoft import multiheadattention
from opshift.opsets.microsoft.multiheadattention import FILTER, MultiHeadAttention
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ProjectedAttention:
    """The widths of queries, keys and values in a row, and the fields of MultiHeadAttention.

    `placeholder`: a mask of one column stands for none, however many keys there are.
    """

    sizes: tuple[int, ...] = ()
    mask_filter_value: float = FILTER
    num_heads: int = 1
    scale: float = 0.0
    unidirectional: int = 0
    placeholder: int = 1


def oracle(
    what: ProjectedAttention,
    rows: Array,
    mask: Array | None = None,
    past: Array | None = None,
    added: Array | None = None,
) -> tuple[Array, ...]:
    """Attention-1: "past state for key and value" are one tensor, and so is the present one, where sizes agree."""
    query, key, value = np.split(rows, np.cumsum(what.sizes)[:2], axis=-1)
    mask = None if what.placeholder and mask is not None and mask.ndim == 2 and mask.shape[1] == 1 else mask
    old = (None, None) if past is None else (past[0], past[1])
    meant = MultiHeadAttention(what.num_heads, what.mask_filter_value, what.scale, what.unidirectional)
    y, keys, values, _ = multiheadattention.oracle(meant, query, key, value, None, mask, added, *old)
    return (y, np.stack([keys, values])) if keys.shape == values.shape else (y,)


def _doubtful(what: ProjectedAttention, operands: Operands) -> Reason | None:
    """Hold where a mask may have one column beside several keys."""
    rows, mask = operands[0] or Facts(), operands[1] or Facts()
    if not what.placeholder or mask.rank != 2 or (isinstance(width := mask.dim(1), int) and width > 1):
        return Reason("")
    return Reason("") if operands[2] is None and width is not None and width == rows.dim(1) else None


def _form(past: bool) -> Callable[[ProjectedAttention, Operands], Reason | None]:
    def applies_if(what: ProjectedAttention, operands: Operands) -> Reason | None:
        return Reason("") if (operands[2] is not None) != past or _doubtful(what, operands) is None else None

    return applies_if


def _bind(what: ProjectedAttention, operands: Operands) -> Mapping[str, Any]:
    return {
        "sizes": what.sizes,
        "heads": what.num_heads,
        "masked": what.mask_filter_value,
        "factor": what.scale,
        "causal": what.unidirectional,
    }


def _doubtful_form(past: bool) -> Callable[[ProjectedAttention, Operands], Reason | None]:
    def applies_if(what: ProjectedAttention, operands: Operands) -> Reason | None:
        return Reason("") if (operands[2] is not None) != past else _doubtful(what, operands)

    return applies_if


@lowering(18, applies_if=_doubtful_form(False))
def of_a_whole_mask(rows, mask, past, added):
    """Keep every key where the mask has one column."""
    kept = op.Where(op.Equal(op.Shape(mask, start=1), 1), op.CastLike(1, mask), mask)
    whole = op.Expand(kept, op.Concat([1], op.Shape(rows, start=1, end=2), axis=0))
    y, present = meaning.Same(rows, whole, past, added, placeholder=0)
    return y, present


@lowering(18, applies_if=_doubtful_form(True))
def of_a_whole_mask_after_a_past(rows, mask, past, added):
    """Keep every key where the mask has one column, those of the past counted."""
    kept = op.Where(op.Equal(op.Shape(mask, start=1), 1), op.CastLike(1, mask), mask)
    count = op.Shape(rows, start=1, end=2) + op.Shape(past, start=3, end=4)
    y, present = meaning.Same(rows, op.Expand(kept, op.Concat([1], count, axis=0)), past, added, placeholder=0)
    return y, present


@lowering(18, applies_if=_form(False), bind=_bind, rounds=True)
def by_heads(
    rows, mask, past, added, sizes: Sequence[int], heads: int, masked: float, factor: float, causal: int
):  # fmt: skip
    """Write it as MultiHeadAttention of the parts of the rows."""
    query, key, value = op.Split(rows, sizes, axis=2)
    y, keys, values, _products = meaning.MultiHeadAttention(
        query, key, value, None, mask, added,
        num_heads=heads, mask_filter_value=masked, scale=factor, unidirectional=causal,
    )  # fmt: skip
    return y, op.Concat(op.Unsqueeze(keys, [0]), op.Unsqueeze(values, [0]), axis=0)


@lowering(18, applies_if=_form(True), bind=_bind, rounds=True)
def after_a_past(
    rows, mask, past, added, sizes: Sequence[int], heads: int, masked: float, factor: float, causal: int
):  # fmt: skip
    """Write it as MultiHeadAttention of the parts of the rows, and of both halves of the past."""
    query, key, value = op.Split(rows, sizes, axis=2)
    old_keys = op.Squeeze(op.Slice(past, [0], [1], [0]), [0])
    old_values = op.Squeeze(op.Slice(past, [1], [2], [0]), [0])
    y, keys, values, _products = meaning.MultiHeadAttention(
        query, key, value, None, mask, added, old_keys, old_values,
        num_heads=heads, mask_filter_value=masked, scale=factor, unidirectional=causal,
    )  # fmt: skip
    return y, op.Concat(op.Unsqueeze(keys, [0]), op.Unsqueeze(values, [0]), axis=0)


OPERATOR = Operator(
    name="ProjectedAttention",
    domain="opshift.step",
    meaning=ProjectedAttention,
    versions=(),
    operands=("rows", "mask", "past", "added"),
    oracle=oracle,
    lowerings=(of_a_whole_mask, of_a_whole_mask_after_a_past, by_heads, after_a_past),
)
