"""A step: what is added to the products of queries and keys, of which each query sees some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class VisibleKeys:
    """Whether later keys are masked, and how many there are in a window that ends with the query's own (-1: all)."""

    causal: int = 1
    window: int = -1


def oracle(
    what: VisibleKeys, queries: Array, before: Array, ends: Array, count: Array, added: Array | None = None
) -> Array:
    """Return negative infinity for keys that are not seen, and for the others what is added, or zero."""
    keys = np.arange(int(count[0]))
    places = (before + np.arange(queries.shape[1]))[:, None, :, None]
    kept = (keys < ends[:, :, None, None]) & np.ones_like(places, bool)
    if what.causal:
        kept = kept & (keys <= places)
    if what.window > 0:
        kept = kept & (keys > places - what.window)
    return np.where(kept, np.zeros((), queries.dtype) if added is None else added, np.array(-np.inf, queries.dtype))


def _form(causal: bool, windowed: bool, added: bool) -> Callable[[VisibleKeys, Operands], Reason | None]:
    def applies_if(what: VisibleKeys, operands: Operands) -> Reason | None:
        found = bool(what.causal), what.window > 0, operands[4] is not None
        return None if found == (causal, windowed, added) else Reason("")

    return applies_if


def _low(what: VisibleKeys, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype((operands[0] or Facts()).dtype or 0)
    return {"low": Tensor(np.asarray(-np.inf, dtype))}


def _low_and_window(what: VisibleKeys, operands: Operands) -> Mapping[str, Any]:
    return {**_low(what, operands), "window": Tensor(np.asarray(what.window, np.int64))}


def _without(what: VisibleKeys, operands: Operands) -> Reason | None:
    return None if operands[4] is None else Reason("")


@lowering(18, applies_if=_without)
def of_zeros(queries, before, ends, count, added):
    """Add zero for keys that are seen."""
    return meaning.Same(queries, before, ends, count, op.Expand(op.CastLike(0.0, queries), [1, 1, 1, 1]))


@lowering(18, applies_if=_form(False, False, True), bind=_low)
def up_to_the_end(queries, before, ends, count, added, low: Sequence[int]):
    """Mask the keys from each length on, for each query."""
    keys = op.Range(0, op.Squeeze(count, [0]), 1)
    kept = op.Less(keys, op.Unsqueeze(ends, [1, 2]))
    shape = op.Concat([1, 1], op.Shape(queries, start=1, end=2), [1], axis=0)
    return op.Where(kept, op.Expand(added, shape), low)


@lowering(18, applies_if=_form(True, False, True), bind=_low)
def up_to_the_query(queries, before, ends, count, added, low: Sequence[int]):
    """Mask the keys behind each query, and from each length on."""
    keys = op.Range(0, op.Squeeze(count, [0]), 1)
    tokens = op.Range(0, op.Squeeze(op.Shape(queries, start=1, end=2), [0]), 1)
    places = op.Unsqueeze(before + tokens, [1, 3])
    later = op.Or(op.Greater(keys, places), op.Not(op.Less(keys, op.Unsqueeze(ends, [1, 2]))))
    return op.Where(later, low, added)


@lowering(18, applies_if=_form(True, True, True), bind=_low_and_window)
def in_a_window(queries, before, ends, count, added, low: Sequence[int], window: Sequence[int]):
    """Mask the keys in front of each query's window and behind it, and from each length on."""
    keys = op.Range(0, op.Squeeze(count, [0]), 1)
    tokens = op.Range(0, op.Squeeze(op.Shape(queries, start=1, end=2), [0]), 1)
    places = op.Unsqueeze(before + tokens, [1, 3])
    later = op.Or(op.Greater(keys, places), op.Not(op.Less(keys, op.Unsqueeze(ends, [1, 2]))))
    return op.Where(op.And(op.Not(later), op.Greater(keys, places - window)), added, low)


def _facts(what: VisibleKeys, operands: Operands) -> tuple[Facts, ...]:
    queries = operands[0] or Facts()
    added = operands[4]
    heads = 1 if added is None else added.dim(1)
    return (Facts(queries.dtype, (queries.dim(0), heads, queries.dim(1), None)),)


OPERATOR = Operator(
    name="VisibleKeys",
    domain="opshift.step",
    meaning=VisibleKeys,
    versions=(),
    operands=("queries", "before", "ends", "count", "added"),
    oracle=oracle,
    lowerings=(of_zeros, up_to_the_end, up_to_the_query, in_a_window),
    facts=_facts,
)
