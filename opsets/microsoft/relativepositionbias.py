"""com.microsoft::RelativePositionBias: what T5 adds to products, by the distance of a query and a key."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class RelativePositionBias:
    """The distance from which on all are alike, and whether keys behind a query have numbers of their own."""

    max_distance: int = 128
    is_bidirectional: int = 0


def buckets(what: RelativePositionBias, count: int) -> Array:
    """Return the bucket of each distance from 0 on up to the largest: small ones have their own, others share it."""
    half = count // 2
    distance = np.arange(max(what.max_distance, half) + 1)
    far = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(half), dtype=np.float32)
    share = far / np.float32(math.log(what.max_distance / half)) * np.float32(count - half)
    large = np.minimum(half + np.maximum(share, 0).astype(np.int64), count - 1)
    return np.where(distance < half, distance, large)


def oracle(what: RelativePositionBias, table: Array, queries: Array, keys: Array) -> Array:
    """RelativePositionBias-1: "the relative position bias for T5 model", of "bias_table [num_buckets, num_heads]"."""
    count = len(table) // 2 if what.is_bidirectional else len(table)
    known = buckets(what, count)
    apart = np.arange(int(keys[0])) - np.arange(int(queries[0]))[:, None]
    distance = np.abs(apart) if what.is_bidirectional else np.maximum(-apart, 0)
    places = known[np.minimum(distance, len(known) - 1)] + np.where((apart > 0) & bool(what.is_bidirectional), count, 0)
    return np.asarray(np.moveaxis(table[places], -1, 0)[None])


def fault(what: RelativePositionBias, operands: Operands) -> str | None:
    """Return what is wrong with the largest distance."""
    return None if what.max_distance > 0 else f"max_distance is {what.max_distance}"


def _of(both: bool) -> Callable[[RelativePositionBias, Operands], Reason | None]:
    def applies_if(what: RelativePositionBias, operands: Operands) -> Reason | None:
        count = first(operands).dim(0)
        if not isinstance(count, int):
            return Reason("the number of buckets is unknown", missing=True)
        if bool(what.is_bidirectional) != both:
            return Reason("")
        half = (count // 2 if both else count) // 2
        return (
            None if 0 < half < what.max_distance else Reason("the largest distance is no more than those of their own")
        )

    return applies_if


def _bind(what: RelativePositionBias, operands: Operands) -> Mapping[str, Any]:
    length = first(operands).dim(0)
    count = (length if isinstance(length, int) else 0) // (2 if what.is_bidirectional else 1)
    bounded(what.max_distance)
    known = buckets(what, count)
    return {"bucket": Tensor(known), "last": Tensor(np.asarray(len(known) - 1)), "count": Tensor(np.asarray(count))}


def _without_count(what: RelativePositionBias, operands: Operands) -> Mapping[str, Any]:
    every = _bind(what, operands)
    return {"bucket": every["bucket"], "last": every["last"]}


@lowering(18, applies_if=_of(False), bind=_without_count)
def of_keys_before(table, queries, keys, bucket: Sequence[int], last: Sequence[int]):
    """Look the distance of earlier keys up, and gather from the table."""
    query = op.Unsqueeze(op.Range(0, op.Squeeze(queries), 1), [1])
    distance = op.Max(query - op.Range(0, op.Squeeze(keys), 1), 0)
    places = op.Gather(bucket, op.Min(distance, last), axis=0)
    return op.Unsqueeze(op.Transpose(op.Gather(table, places, axis=0), perm=[2, 0, 1]), [0])


@lowering(18, applies_if=_of(True), bind=_bind)
def of_all_keys(table, queries, keys, bucket: Sequence[int], last: Sequence[int], count: Sequence[int]):
    """Look the distance up, in another half of the table for later keys, and gather from it."""
    query = op.Unsqueeze(op.Range(0, op.Squeeze(queries), 1), [1])
    apart = op.Range(0, op.Squeeze(keys), 1) - query
    near = op.Gather(bucket, op.Min(op.Abs(apart), last), axis=0)
    places = near + op.Where(op.Greater(apart, 0), count, 0)
    return op.Unsqueeze(op.Transpose(op.Gather(table, places, axis=0), perm=[2, 0, 1]), [0])


OPERATOR = Operator(
    name="RelativePositionBias",
    domain=MICROSOFT,
    meaning=RelativePositionBias,
    versions=(Version(1),),
    operands=("bias_table", "query_length", "key_length"),
    oracle=oracle,
    fault=fault,
    lowerings=(of_keys_before, of_all_keys),
    refused="a table of an unknown number of buckets",
    traits=Traits(floats=(Trait.MOVES,), moved=(0,), counts=(1, 2)),
)
