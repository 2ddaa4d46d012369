"""ReverseSequence: reverse the first elements along an axis, a number for each entry of the batch. Since 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first, rank_known
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED


@dataclass(frozen=True)
class ReverseSequence:
    """The batch axis and the time axis, which are the first two."""

    batch_axis: int = 1
    time_axis: int = 0


_Array = np.ndarray[Any, Any]


def oracle(what: ReverseSequence, x: _Array, sequence_lens: _Array) -> _Array:
    """ReverseSequence-10: "reverses the first sequence_lens[i] elements on time axis", for each i of the batch."""
    y = np.moveaxis(x.copy(), (what.batch_axis, what.time_axis), (0, 1))
    if np.any((sequence_lens < 0) | (sequence_lens > y.shape[1])):
        raise ValueError("a sequence is longer than the axis of time, or has a negative length")
    for entry, length in zip(y, sequence_lens, strict=True):
        entry[:length] = entry[:length][::-1].copy()
    return np.moveaxis(y, (0, 1), (what.batch_axis, what.time_axis))


def _bound(what: ReverseSequence, operands: Operands) -> Mapping[str, Any]:
    return {
        "time": what.time_axis,
        "at": (what.time_axis,),
        "along_batch": (what.time_axis,),
        "along_time": (what.batch_axis,),
        "behind": tuple(range(2, first(operands).rank or 2)),
    }


@lowering(18, applies_if=rank_known, bind=_bound)
def looked_up(
    x,
    sequence_lens,
    time: int,
    at: Sequence[int],
    along_batch: Sequence[int],
    along_time: Sequence[int],
    behind: Sequence[int],
):
    """Look each element up: the one as far from the end of its sequence, or behind that itself."""
    shape = op.Shape(x)
    lengths = op.Unsqueeze(sequence_lens, along_batch)
    place = op.Unsqueeze(op.Range(0, op.Squeeze(op.Gather(shape, at, axis=0), [0]), 1), along_time)
    index = meaning.Where(op.Less(place, lengths), lengths - 1 - place, place)
    return meaning.GatherElements(x, op.Expand(op.Unsqueeze(index, behind), shape), axis=time)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Lengths from one to the shorter of the first two axes, whichever is that of time."""
    lengths = feeds["sequence_lens"]
    if not lengths.flags.writeable:
        return feeds
    most = min(feeds["input"].shape[:2], default=1)
    return {**feeds, "sequence_lens": rng.integers(1, max(most, 1) + 1, lengths.shape).astype(np.int64)}


OPERATOR = Operator(
    name="ReverseSequence",
    meaning=ReverseSequence,
    versions=(Version(10), Version(28)),
    operands=("input", "sequence_lens"),
    oracle=oracle,
    adversarial=adversarial,
    lowerings=(looked_up,),
    wider_types=MOVED,
    traits=Traits(floats=(Trait.MOVES,), moved=(0,)),
)
