"""A step: rows of keys or values, put into a cache behind what each of the batch has of it already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CachedRows:
    """How many heads a row has, and how long each is: -1 if that is unknown."""

    heads: int = 1
    size: int = 1


def oracle(
    what: CachedRows, rows: Array, past: Array | None = None, before: Array | None = None, count: Array | None = None
) -> Array:
    """Return heads of the past up to `before`, then those of the rows, then zeros, up to `count` or the past's end."""
    new = rows.reshape(*rows.shape[:2], what.heads, rows.shape[2] // what.heads).swapaxes(1, 2)
    if past is None or before is None or count is None:
        return new
    present = np.zeros((*new.shape[:2], max(int(count[0]), past.shape[2]), new.shape[3]), rows.dtype)
    for entry, (start,) in enumerate(before):
        present[entry, :, :start] = past[entry, :, :start]
        present[entry, :, start : start + new.shape[2]] = new[entry]
    return present


def _form(form: str) -> Callable[[CachedRows, Operands], Reason | None]:
    def applies_if(what: CachedRows, operands: Operands) -> Reason | None:
        rows = operands[0] or Facts()
        found = "alone" if operands[1] is None else "one" if rows.dim(0) == 1 else "each"
        return None if found == form else Reason("")

    return applies_if


def _apart(what: CachedRows, operands: Operands) -> Mapping[str, Any]:
    return {"apart": (0, 0, what.heads, what.size)}


@lowering(18, applies_if=_form("alone"), bind=_apart)
def alone(rows, past, before, count, apart: Sequence[int]):
    """Give the heads an axis in front of the tokens."""
    return op.Transpose(op.Reshape(rows, apart), perm=[0, 2, 1, 3])


@lowering(18, applies_if=_form("one"), bind=_apart)
def of_one(rows, past, before, count, apart: Sequence[int]):
    """Gather from the past and the rows, for a batch of one."""
    new = op.Transpose(op.Reshape(rows, apart), perm=[0, 2, 1, 3])
    room = op.Shape(past, start=2, end=3)
    tokens = op.Shape(rows, start=1, end=2)
    places = op.Range(0, op.Squeeze(op.Max(count, room), [0]), 1)
    start = op.Squeeze(before, [0])
    moved = op.Where(op.Less(places, start), places, places - start + room)
    gathered = op.Gather(op.Concat(past, new, axis=2), op.Min(moved, room + tokens - 1), axis=2)
    kept = op.Unsqueeze(op.Less(places, start + tokens), [1])
    return op.Where(kept, gathered, op.CastLike(0.0, rows))


@lowering(18, applies_if=_form("each"), bind=_apart)
def of_each(rows, past, before, count, apart: Sequence[int]):
    """Gather from the past and the rows, where each of the batch has its own places."""
    new = op.Transpose(op.Reshape(rows, apart), perm=[0, 2, 1, 3])
    room = op.Shape(past, start=2, end=3)
    tokens = op.Shape(rows, start=1, end=2)
    places = op.Range(0, op.Squeeze(op.Max(count, room), [0]), 1)
    moved = op.Where(op.Less(places, before), places, places - before + room)
    each = op.Unsqueeze(op.Min(moved, room + tokens - 1), [1, 3])
    both = op.Concat(past, new, axis=2)
    shape = op.Concat(op.Shape(both, end=2), op.Shape(places), op.Shape(both, start=3), axis=0)
    gathered = op.GatherElements(both, op.Expand(each, shape), axis=2)
    kept = op.Unsqueeze(op.Less(places, before + tokens), [1, 3])
    return op.Where(kept, gathered, op.CastLike(0.0, rows))


def _facts(what: CachedRows, operands: Operands) -> tuple[Facts, ...]:
    rows = operands[0] or Facts()
    tokens = rows.dim(1) if operands[1] is None else None
    return (Facts(rows.dtype, (rows.dim(0), what.heads, tokens, None if what.size < 0 else what.size)),)


OPERATOR = Operator(
    name="CachedRows",
    domain="opshift.step",
    meaning=CachedRows,
    versions=(),
    operands=("rows", "past", "before", "count"),
    oracle=oracle,
    lowerings=(alone, of_one, of_each),
    facts=_facts,
)
