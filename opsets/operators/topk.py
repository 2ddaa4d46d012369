"""TopK: the largest or smallest elements along an axis, and their indices. The rule for ties came with 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first, one_axis
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import along_axis
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, INTEGERS, Tensor, constant
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import all_bits
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED


@dataclass(frozen=True)
class TopK:
    """The axis, largest or smallest, whether the result is sorted, and which of equal elements comes first."""

    axis: int = -1
    largest: int = 1
    sorted: int = 1
    ties: str = "lower"


def oracle(what: TopK, x: np.ndarray[Any, Any], k: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """TopK-11: "Given two equivalent values, this operator uses the indices along the axis as a tiebreaker"."""
    if k.item() < 0:
        raise ValueError('TopK-11: K is "a single positive value"')
    key = -x.astype(np.float64) if what.largest else x
    order = np.argsort(key, axis=what.axis, kind="stable").take(range(int(k.item())), axis=what.axis)
    return np.take_along_axis(x, order, what.axis), order.astype(np.int64)


def _untied(attributes: Mapping[str, Any]) -> TopK:
    # TopK-11 was the first to say which: "the element with the lower index will appear first".
    return TopK(attributes["axis"], ties="any")


def _ties(what: TopK, operands: Operands) -> Reason | None:
    return None if what.ties == "any" else Reason("which of equal elements comes first is not defined")


def _write(what: TopK, operands: Operands) -> Mapping[str, Any]:
    ends = {"largest": what.largest, "sorted": what.sorted}
    return {"axis": what.axis, **{name: value for name, value in ends.items() if value != 1}}


def _write_first(what: TopK, operands: Operands) -> Mapping[str, Any] | Reason:
    if not (what.largest and what.sorted):
        return Reason("it gives the largest elements, sorted")
    return {"axis": what.axis}


def normal(what: TopK, operands: Operands) -> tuple[TopK, Operands]:
    """Count the axis from the front where the rank is known; have K, a number at version 1, as a list of one."""
    count = operands[1]
    known = count.known if count else None
    if known is not None and known.ndim == 0:
        operands = operands[0], constant(known.reshape(1))
    return one_axis(what, operands)


def _unsorted(what: TopK, operands: Operands) -> Reason | None:
    return Reason("the result is sorted") if what.sorted else None


@lowering(13, applies_if=_unsorted)
def in_order(x, k):
    """Sort the elements, although the order is undefined."""
    return meaning.Same(x, k, sorted=1)


def _smallest(what: TopK, operands: Operands) -> Reason | None:
    if what.largest:
        return Reason("the largest are wanted")
    if reason := dtype_known(what, operands):
        return reason
    return None if first(operands).dtype in FLOATS else Reason("not all numbers of the type have a negative")


@lowering(13, applies_if=_smallest)
def of_negatives(x, k):
    """Find the largest of the negatives."""
    values, index = meaning.Same(op.Neg(x), k, largest=1)
    return op.Neg(values), index


def _smallest_integers(what: TopK, operands: Operands) -> Reason | None:
    if what.largest:
        return Reason("the largest are wanted")
    dtype = first(operands).dtype
    return None if dtype in INTEGERS else Reason("they are not of integers", missing=dtype is None)


# Not of negatives: the lowest integer has none, and unsigned ones have not either.
@lowering(13, applies_if=_smallest_integers, bind=all_bits)
def of_complements(x, k, ones: Sequence[int]):
    """Subtract integers from the one with all bits set, which turns the order, find the largest, and subtract again."""
    values, index = meaning.Same(op.Sub(ones, x), k, largest=1)
    return op.Sub(ones, values), index


MOST = 4096
"""The longest row whose elements are all compared with each other, where its length is known."""


def _countable(what: TopK, operands: Operands) -> Reason | None:
    x = first(operands)
    if not (what.largest and what.sorted):
        return Reason("it gives the largest elements, sorted, and of equal ones the first")
    length = x.dim(what.axis)
    if x.dtype is None or x.rank is None:
        return Reason("the element type or the rank is unknown", missing=True)
    return Reason(f"the axis is longer than {MOST}") if isinstance(length, int) and length > MOST else None


def _around(what: TopK, operands: Operands) -> Mapping[str, Any]:
    behind = (first(operands).rank or 0) - what.axis - 1
    return {
        "axis": what.axis,
        "at": (what.axis,),
        "after": (what.axis + 1,),
        "behind": tuple(range(1, 1 + behind)),
        "behind_pairs": tuple(range(2, 2 + behind)),
        "along": (-1, 1, *[1] * behind),
    }


@lowering(18, applies_if=_countable, bind=_around, cost=20)
def counted(
    x,
    k,
    axis: int,
    at: Sequence[int],
    after: Sequence[int],
    behind: Sequence[int],
    behind_pairs: Sequence[int],
    along: Sequence[int],
):
    """Count for each element those before it: larger ones, and equal ones with a lower index."""
    place = op.Cast(op.Range(0, op.Squeeze(op.Gather(op.Shape(x), at, axis=0), [0]), 1), to=1)
    sooner = op.Unsqueeze(op.Less(op.Unsqueeze(place, [0]), op.Unsqueeze(place, [1])), behind_pairs)
    one = op.Unsqueeze(x, after)
    other = op.Unsqueeze(x, at)
    before = op.Or(op.Greater(other, one), op.And(op.Equal(other, one), sooner))
    rank = op.Cast(op.ReduceSum(op.Cast(before, to=1), after, keepdims=0), to=7)
    wanted = op.Reshape(op.Range(0, op.Squeeze(k, [0]), 1), along)
    hit = op.Cast(op.Equal(op.Unsqueeze(rank, at), wanted), to=1)
    # NaN is neither larger nor equal, so several elements have one rank: their sum may be out of range.
    index = op.Cast(op.ReduceMax(hit * op.Unsqueeze(place, behind), after, keepdims=0), to=7)
    return meaning.GatherElements(x, index, axis=axis), index


def _parts(what: TopK, operands: Operands) -> tuple[int, int, int] | Reason:
    """Return how many parts a long row is cut into, how long each is, and how many elements are wanted of each."""
    data, wanted = first(operands), operands[1]
    if not (what.largest and what.sorted):
        return Reason("it gives the largest elements, sorted, and of equal ones the first")
    length = data.dim(what.axis)
    if data.dtype is None or not isinstance(length, int) or wanted is None or wanted.known is None:
        return Reason("the element type, the length of the axis or k is unknown", missing=True)
    if length <= MOST:
        return Reason("the axis is short")
    count = -(-length // MOST)
    each, k = -(-length // count), int(wanted.known.item())
    # What is left must be shorter by far, or the cut would be repeated for ever.
    few = k > 0 and 2 * count * k <= length and data.dtype in FLOATS | INTEGERS
    return (count, each, k) if few else Reason(f"more than half of {MOST} elements are wanted of a longer axis")


def _long(what: TopK, operands: Operands) -> Reason | None:
    parts = _parts(what, operands)
    if isinstance(parts, Reason):
        return parts
    return None if what.axis == (first(operands).rank or 0) - 1 else Reason("it is not the last axis")


def _long_elsewhere(what: TopK, operands: Operands) -> Reason | None:
    parts = _parts(what, operands)
    if isinstance(parts, Reason):
        return parts
    return Reason("it is the last axis") if what.axis == (first(operands).rank or 0) - 1 else None


def _cut(what: TopK, operands: Operands) -> Mapping[str, Any]:
    data, parts = first(operands), _parts(what, operands)
    assert not isinstance(parts, Reason)
    count, each, k = parts
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(data.dtype or TensorProto.FLOAT)
    lowest = np.iinfo(numpy_type).min if data.dtype in INTEGERS else -np.inf
    same = (0,) * ((data.rank or 1) - 1)
    length = data.dim(what.axis)
    pads = (*same, 0, *same, count * each - length if isinstance(length, int) else 0)
    return {
        "pads": pads,
        "lowest": Tensor(np.array(lowest, numpy_type)),
        "apart": (*same, count, each),
        "together": (*same, count * k),
        "starts": Tensor(np.arange(count)[:, None] * each),
        "axis": what.axis,
    }


# The lowest number behind the row is never among the largest: as many elements as are wanted come before.
@lowering(18, applies_if=_long, bind=_cut)
def of_parts(
    x,
    k,
    pads: Sequence[int],
    lowest: Sequence[int],
    apart: Sequence[int],
    together: Sequence[int],
    starts: Sequence[int],
    axis: int,
):
    """Find the largest of each part of a long row, and the largest of these."""
    parts = op.Reshape(op.Pad(x, pads, lowest), apart)
    largest, places = meaning.TopK(parts, k)
    values, which = meaning.TopK(op.Reshape(largest, together), k)
    return values, op.GatherElements(op.Reshape(places + starts, together), which, axis=axis)


def _to_last(what: TopK, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 1
    perm = list(range(rank))
    perm[what.axis], perm[-1] = perm[-1], perm[what.axis]
    return {"perm": tuple(perm)}


@lowering(18, applies_if=_long_elsewhere, bind=_to_last)
def along_last(x, k, perm: Sequence[int]):
    """Exchange the axis with the last one."""
    values, index = meaning.TopK(op.Transpose(x, perm=perm), k)
    return op.Transpose(values, perm=perm), op.Transpose(index, perm=perm)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """As many as the shortest axis has, or fewer, whichever the axis is."""
    if "K" not in feeds or not feeds["K"].flags.writeable:
        return feeds
    return {**feeds, "K": np.full_like(feeds["K"], rng.integers(0, min(feeds["X"].shape, default=0) + 1))}


OPERATOR = Operator(
    name="TopK",
    meaning=TopK,
    versions=(
        Version(1, lift=_untied, write=_write_first, applies_if=_ties, renamed={"K": "k"}),
        Version(10, lift=_untied, write=_write_first, applies_if=_ties),
        Version(11, write=_write),
        Version(24, write=_write),
    ),
    operands=("X", "K"),
    oracle=oracle,
    normal=normal,
    adversarial=adversarial,
    longest=MOST,
    lowerings=(in_order, of_negatives, of_complements, counted, of_parts, along_last),
    wider_types=ORDERED,
    weight=4.0,
    nan_defined=lambda what, operands: first(operands).dtype in INTEGERS,
    traits=Traits(
        merges=along_axis,
        value_range=value_ranges.moved_and_positions,
        floats=(Trait.MOVES,),
        counts=(1,),
        decided={"sorted": 1},
        moved=(0,),
        positions_after=True,
        decides=True,
        nan_undefined=True,
    ),
)
