"""Pad: grow a tensor at its borders; pads and value are attributes below 11."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import END, distinct_axes, first, resolve
from opshift.opsets.families.merged_axes import Stages, apart, in_shape, shape_of, vector
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Facts, Tensor, constant
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED

MODES = ("constant", "reflect", "edge", "wrap")


@dataclass(frozen=True)
class Pad:
    """The padding mode: `constant`, `reflect`, `edge` or `wrap`."""

    mode: str = "constant"


def oracle(
    what: Pad,
    data: np.ndarray[Any, Any],
    pads: np.ndarray[Any, Any],
    value: np.ndarray[Any, Any] | None = None,
    axes: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Pad-18: "pads should be a 1D tensor of shape [2 * num_axes]", all begins, then all ends."""
    places = tuple(range(data.ndim)) if axes is None else distinct_axes(axes, data.ndim)
    if pads.shape != (2 * len(places),):
        raise ValueError(f"Pad-18: {len(places)} axes have {2 * len(places)} pads, not {pads.shape}")
    width = [(0, 0)] * data.ndim
    for index, axis in enumerate(places):
        width[axis] = int(pads[index]), int(pads[index + len(places)])
    if any(max(-low, 0) + max(-high, 0) > size for (low, high), size in zip(width, data.shape, strict=True)):
        raise ValueError("Pad-18: negative pads cut off more elements than there are")
    if what.mode == "reflect" and any(
        size - max(-low, 0) - max(-high, 0) == 1 and max(low, high) > 0
        for (low, high), size in zip(width, data.shape, strict=True)
    ):
        raise ValueError("Pad-18: beside one element there is none that is mirrored")
    inside = tuple(slice(max(-low, 0), data.shape[axis] - max(-high, 0)) for axis, (low, high) in enumerate(width))
    grown = [(max(low, 0), max(high, 0)) for low, high in width]
    if what.mode == "constant":
        return np.pad(data[inside], grown, constant_values=0 if value is None else value.item())
    return np.pad(data[inside], grown, mode=what.mode)  # type: ignore[call-overload, no-any-return]


def _typed(what: Pad, operands: Operands) -> tuple[Pad, Operands]:
    """Give the value, which Pad-2 has as a float attribute, the type of the data, and known axes that of positions."""
    data, pads, value, axes = operands
    if what.mode != "constant" and pads is not None and pads.known is not None and not (pads.known > 0).any():
        # All modes cut alike. But onnxruntime 1.32.0 repeats no edge where nothing is left, though it adds none.
        what, value = Pad(), None
    if axes is not None and axes.known is not None and axes.dtype == onnx.TensorProto.INT32:
        axes = constant(axes.known.astype(np.int64))
    operands = data, pads, value, axes
    known = value.known if value else None
    dtype = None if data is None else data.dtype
    told = dtype is None and pads is not None and pads.known is not None
    if told and known is not None and known.dtype.kind == "f" and known.item() == 0 and not np.signbit(known):
        return what, (data, pads, None, axes)  # the default for every type, which Pad-2 does not state
    if dtype is None or value is None or known is None or value.dtype == dtype:
        return what, operands
    same = known.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    return what, (data, pads, constant(same, dtype), axes)


def _as_float(what: Pad, operands: Operands) -> Reason | None:
    value = operands[2].known if operands[2] else None
    if value is not None and not _is_float(value):
        return Reason(f"its value is a float, which does not hold {value.item()}")
    return _since(2, MODES[:3])(what, operands)


def _is_float(value: np.ndarray[Any, Any]) -> bool:
    """Return whether a float32 holds the value, which may also be a string or complex."""
    if value.dtype.kind in "OSUc":
        return False
    return bool(np.isnan(value).any()) or float(np.float32(value.item())) == value.item()


def _since(first: int, modes: tuple[str, ...]) -> Callable[[Pad, Operands], Reason | None]:
    def applies_if(what: Pad, operands: Operands) -> Reason | None:
        if first > 2 and operands[2] is not None and (operands[0] is None or operands[0].dtype is None):
            return Reason("the type of the data is unknown, which the value must have", missing=True)
        return None if what.mode in modes else Reason(f"mode {what.mode} came later than {first}")

    return applies_if


# --- the axes -----------------------------------------------------------------------------------------------------


def _some_axes(what: Pad, operands: Operands) -> Reason | None:
    data, axes = first(operands), operands[3]
    if axes is None:
        return Reason("pads are given for all axes")
    if axes.known is None:
        return Reason("the axes are computed at run time", missing=True)
    return Reason("the rank is unknown", missing=True) if data.rank is None else None


def _places(what: Pad, operands: Operands) -> Mapping[str, Any]:
    axes, rank = operands[3], first(operands).rank or 0
    named = [] if axes is None or axes.known is None else [int(axis) % rank for axis in axes.known]
    # What is behind all pads is a zero, for the axes that are not named.
    ends = [(end, axis) for end in range(2) for axis in range(rank)]
    place = {axis: index for index, axis in enumerate(named)}
    return {
        "mode": what.mode,
        "index": tuple(place[axis] + end * len(named) if axis in place else 2 * len(named) for end, axis in ends),
    }


@lowering(18, applies_if=_some_axes, bind=_places)
def placed(data, pads, value, axes, index: Sequence[int], mode: str):
    """Add pads of zero for the axes that are not named."""
    return meaning.Itself(data, op.Gather(op.Concat(pads, [0], axis=0), index, axis=0), value, mode=mode)


def _named(what: Pad, operands: Operands) -> Reason | None:
    data, axes = first(operands), operands[3]
    if axes is None or axes.known is not None:
        return Reason("the axes are known")
    return Reason("the rank is unknown", missing=True) if data.rank is None else None


def _rank(what: Pad, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    return {"mode": what.mode, "rank": (rank,), "places": Tensor(np.arange(rank).reshape(1, rank, 1))}


@lowering(18, applies_if=_named, bind=_rank)
def placed_at_run_time(data, pads, value, axes, rank: Sequence[int], places: Sequence[int], mode: str):
    """Compute pads for all axes: for each axis, the sum over its one entry in `axes`, or none."""
    forward = op.Cast(axes, to=7)
    forward = forward + op.Cast(op.Less(forward, 0), to=7) * rank
    met = op.Cast(op.Equal(places, forward), to=1)
    ends = op.Reshape(pads, op.Concat([2, 1], op.Shape(forward), axis=0), allowzero=1)
    every = op.Cast(op.ReduceSum(met * op.Cast(ends, to=1), [2], keepdims=0), to=7)
    return meaning.Itself(data, op.Reshape(every, [-1]), value, mode=mode)


# --- axis by axis -------------------------------------------------------------------------------------------------


def _known_pads(what: Pad, operands: Operands) -> Reason | None:
    data, pads, _, axes = operands
    if axes is not None:
        return Reason("it names axes")
    if pads is None or pads.known is None:
        return Reason("the pads are computed at run time", missing=True)
    if data is None or data.rank is None:
        return Reason("the rank is unknown", missing=True)
    return None if pads.known.any() else Reason("it adds nothing")


def _last(operands: Operands) -> tuple[int, int, int, tuple[int, ...]]:
    """Return the last axis with pads, these, and the pads of the other axes."""
    pads = operands[1].known if operands[1] else None
    left = np.zeros(0, np.int64) if pads is None else pads.copy()
    rank = left.size // 2
    axis = max(axis for axis in range(rank) if left[axis] or left[axis + rank])
    low, high = int(left[axis]), int(left[axis + rank])
    left[[axis, axis + rank]] = 0
    return axis, low, high, tuple(left.tolist())


def _crops(what: Pad, operands: Operands) -> Reason | None:
    if operands[3] is not None:
        return Reason("its axes are named")
    pads = (operands[1] or Facts()).known
    if pads is None:
        return Reason("its pads are computed at run time", missing=True)
    return None if (pads < 0).any() else Reason("no pad is negative")


def _cut(what: Pad, operands: Operands) -> Mapping[str, Any]:
    pads = (operands[1] or Facts()).known
    assert pads is not None
    low, high = pads.reshape(2, -1).tolist()
    return {
        "starts": tuple(max(-one, 0) for one in low),
        "ends": tuple(one if one < 0 else END for one in high),
        "axes_cut": tuple(range(len(low))),
        "left": tuple(max(one, 0) for one in (*low, *high)),
        "mode": what.mode,
    }


@lowering(18, applies_if=_crops, bind=_cut)
def cropped(
    data,
    pads,
    value,
    axes,
    starts: Sequence[int],
    ends: Sequence[int],
    axes_cut: Sequence[int],
    left: Sequence[int],
    mode: str,
):
    """Cut off what negative pads remove, then pad."""
    return meaning.Itself(op.Slice(data, starts, ends, axes_cut), left, value, mode=mode)


def _zeros(what: Pad, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return Reason("the value is given") if operands[2] is not None or what.mode != "constant" else None


def _zero(what: Pad, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    return {"zero": Tensor(np.zeros((), dtype) if dtype.kind != "O" else np.array("", dtype))}


@lowering(18, applies_if=_zeros, bind=_zero)
def with_zero(data, pads, value, axes, zero: Sequence[int]):
    """Give the value, "(default is 0, empty string or False)"."""
    return meaning.Itself(data, pads, zero, axes)


def _grows(what: Pad, operands: Operands) -> Reason | None:
    if what.mode != "constant" or operands[2] is None:
        return Reason("it is not filled with a constant that is given")
    if reason := _known_pads(what, operands):
        return reason
    return Reason("it cuts") if min(_last(operands)[1:3]) < 0 else None


def _beside(what: Pad, operands: Operands) -> Mapping[str, Any]:
    axis, low, high, left = _last(operands)
    return {"axis": axis, "axes_before": (axis,), "after": (axis + 1,), "low": (low,), "high": (high,), "left": left}


@lowering(18, applies_if=_grows, bind=_beside)
def joined(
    data,
    pads,
    value,
    axes,
    axis: int,
    axes_before: Sequence[int],
    after: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
    left: Sequence[int],
):
    """Concatenate the value before and after the data along the last padded axis, then along the others."""
    shape = op.Shape(data)
    front = op.Slice(shape, [0], axes_before)
    back = op.Slice(shape, after, [2147483647])
    below = op.Expand(value, op.Concat(front, low, back, axis=0))
    above = op.Expand(value, op.Concat(front, high, back, axis=0))
    return meaning.Itself(op.Concat(below, data, above, axis=axis), left, value)


def _mirrors(what: Pad, operands: Operands) -> Reason | None:
    if what.mode == "constant":
        return Reason("it is filled with a constant")
    if reason := _known_pads(what, operands):
        return reason
    length = first(operands).dim(_last(operands)[0])
    return None if isinstance(length, int) else Reason("the length of an axis is unknown", missing=True)


def _positions(what: Pad, operands: Operands) -> Mapping[str, Any]:
    axis, low, high, left = _last(operands)
    length = first(operands).dim(axis)
    places = np.arange(bounded(length if isinstance(length, int) else 0))
    index = oracle(what, places, np.array([low, high]))
    return {"axis": axis, "index": tuple(index.tolist()), "left": left, "mode": what.mode}


@lowering(18, applies_if=_mirrors, bind=_positions)
def indexed(data, pads, value, axes, axis: int, index: Sequence[int], left: Sequence[int], mode: str):
    """Look the elements up along the last axis that grows, then along the others."""
    return meaning.Itself(op.Gather(data, index, axis=axis), left, mode=mode)


# --- pads that are computed ---------------------------------------------------------------------------------------


def _computed(what: Pad, operands: Operands) -> Reason | None:
    data, pads, _, axes = operands
    if axes is not None and axes.known is None:
        return Reason("the axes are computed at run time", missing=True)
    if data is None or data.rank is None:
        return Reason("the rank is unknown", missing=True)
    if not data.rank or (axes is not None and axes.size == 0):
        return Reason("it names no axis")
    if pads is None or (pads.known is not None and not pads.known.any()):
        return Reason("it adds nothing")
    known = pads.known is not None and all(isinstance(dim, int) for dim in data.shape or ())
    return Reason("the pads and the shape are known") if known else None


def _bordered(what: Pad, operands: Operands) -> Reason | None:
    if what.mode != "constant" or operands[2] is None:
        return Reason("it is not filled with a constant that is given")
    return _computed(what, operands)


def _last_of(operands: Operands) -> dict[str, Any]:
    """Bind the last axis that is named, where its pads are, and where those of the others are."""
    data, _, _, axes = operands
    rank = (data.rank if data else None) or 0
    named = list(range(rank)) if axes is None or axes.known is None else [int(axis) % rank for axis in axes.known]
    count, axis = len(named), named[-1]
    return {
        "axis": axis,
        "at": (axis,),
        "after": (axis + 1,),
        "low": (count - 1,),
        "high": (2 * count - 1,),
        "others": (*range(count - 1), *range(count, 2 * count - 1)),
        "axes_left": tuple(named[:-1]),
    }


@lowering(18, applies_if=_bordered, bind=lambda what, operands: _last_of(operands))
def bordered(
    data,
    pads,
    value,
    axes,
    axis: int,
    at: Sequence[int],
    after: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
    others: Sequence[int],
    axes_left: Sequence[int],
):
    """Add one value at both ends of the last axis, and repeat it as an edge; then pad the other axes."""
    shape = op.Shape(data)
    border = op.Expand(value, op.Concat(op.Slice(shape, [0], at), [1], op.Slice(shape, after, [2147483647]), axis=0))
    ends = op.Concat(op.Gather(pads, low, axis=0), op.Gather(pads, high, axis=0), axis=0)
    grown = meaning.Pad(op.Concat(border, data, border, axis=axis), ends - 1, None, at, mode="edge")
    return meaning.Itself(grown, op.Gather(pads, others, axis=0), value, axes_left)


def _held(what: Pad, operands: Operands) -> Reason | None:
    return _computed(what, operands) if what.mode == "edge" else Reason("it does not repeat the edges")


def _last_axis(what: Pad, operands: Operands) -> dict[str, Any]:
    return {name: value for name, value in _last_of(operands).items() if name != "after"} | {"mode": what.mode}


@lowering(18, applies_if=_held, bind=_last_axis)
def held(
    data,
    pads,
    value,
    axes,
    axis: int,
    at: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
    others: Sequence[int],
    axes_left: Sequence[int],
    mode: str,
):
    """Look the elements up along the last axis, those outside at its edges, then along the others."""
    before = op.Gather(pads, low, axis=0)
    length = op.Gather(op.Shape(data), at, axis=0)
    behind = op.Gather(pads, high, axis=0)
    place = op.Range(0, op.Squeeze(before + length + behind, [0]), 1) - before
    # Where negative pads cut, no place is beyond the cut: the edge there is not asked for.
    grown = op.Gather(data, meaning.Max(meaning.Min(place, length - 1), [0]), axis=axis)
    return meaning.Itself(grown, op.Gather(pads, others, axis=0), None, axes_left, mode=mode)


def _repeated(what: Pad, operands: Operands) -> Reason | None:
    return (
        _computed(what, operands) if what.mode in ("reflect", "wrap") else Reason("it is neither mirrored nor wrapped")
    )


def _period(what: Pad, operands: Operands) -> Mapping[str, Any]:
    # Wrapped, an axis of n elements repeats after n, mirrored after 2 n - 2.
    mirrored = what.mode == "reflect"
    return {**_last_axis(what, operands), "turns": (1 + mirrored,), "ends": (2 * mirrored,)}


@lowering(18, applies_if=_repeated, bind=_period)
def repeated(
    data,
    pads,
    value,
    axes,
    axis: int,
    at: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
    others: Sequence[int],
    axes_left: Sequence[int],
    turns: Sequence[int],
    ends: Sequence[int],
    mode: str,
):
    """Look the elements up along the last axis, around and around what negative pads leave, then along the others."""
    before = op.Gather(pads, low, axis=0)
    behind = op.Gather(pads, high, axis=0)
    length = op.Gather(op.Shape(data), at, axis=0)
    cut = meaning.Min(before, [0])
    inside = length + cut + meaning.Min(behind, [0])
    place = op.Range(0, op.Squeeze(before + length + behind, [0]), 1) - meaning.Max(before, [0])
    index = meaning.Mod(place, meaning.Max(inside * turns - ends, [1]))
    index = index - ends * meaning.Max(index - inside + 1, [0])
    grown = op.Gather(data, index - cut, axis=axis)
    return meaning.Itself(grown, op.Gather(pads, others, axis=0), None, axes_left, mode=mode)


def _nothing(what: Pad, operands: Operands) -> Reason | None:
    pads = operands[1]
    if pads is None or pads.known is None:
        return Reason("the pads are computed at run time", missing=True)
    return Reason("there are pads") if pads.known.any() else None


@lowering(18, applies_if=_nothing)
def unpadded(data, pads, value, axes):
    """Copy the data: all pads are zero."""
    return op.Identity(data)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Few elements more or less at each end, of axes that the data has."""
    drawn = dict(feeds)
    if "pads" in feeds and feeds["pads"].flags.writeable:
        drawn["pads"] = rng.integers(-1, 4, feeds["pads"].shape)
    rank, axes = np.ndim(feeds.get("data", 0)), feeds.get("axes")
    if axes is not None and axes.flags.writeable and axes.size <= rank:
        places = rng.permutation(rank)[: axes.size]
        drawn["axes"] = (places - rank * rng.integers(0, 2, places.shape)).astype(axes.dtype)
    return drawn


def _with_fewer_axes(what: Pad, operands: Operands, most: int) -> Stages | None:
    """Merge neighbours that are not padded."""
    data, pads, value, axes = operands
    if data is None or data.shape is None or pads is None or pads.known is None or (axes and axes.known is None):
        return None
    rank = len(data.shape)
    low, high = pads.known.reshape(2, -1).tolist()
    named = range(rank) if axes is None or axes.known is None else [resolve(int(axis), rank) for axis in axes.known]
    ends = {axis: (before, after) for axis, before, after in zip(named, low, high, strict=True) if before or after}
    groups = apart(data.shape, [*ends], most)
    if groups is None:
        return None
    own = [next((ends[axis] for axis in group if axis in ends), (0, 0)) for group in groups]
    less = vector([before for before, _ in own] + [after for _, after in own])
    return ((what, (in_shape(data, shape_of(data.shape, groups)), less, value, None)),)


OPERATOR = Operator(
    name="Pad",
    meaning=Pad,
    versions=(
        Version(1, renamed={"pads": "paddings", "constant_value": "value"}),
        Version(2, applies_if=_as_float, renamed={"constant_value": "value"}),
        *(Version(since, applies_if=_since(since, MODES[:3])) for since in (11, 13, 18)),
        *(Version(since, applies_if=_since(since, MODES)) for since in (19, 21, 23, 24, 25)),
    ),
    operands=("data", "pads", "constant_value", "axes"),
    oracle=oracle,
    normal=_typed,
    adversarial=adversarial,
    wider_types=MOVED,
    fault=lambda what, operands: None if what.mode in MODES else f"its mode is {what.mode!r}, and there is no such",
    idle=lambda what, operands: _nothing(what, operands) is None,
    lowerings=(cropped, placed, placed_at_run_time, with_zero, joined, indexed, bordered, held, repeated, unpadded),
    traits=Traits(
        merges=_with_fewer_axes,
        value_range=value_ranges.chosen(0, 2),
        floats=(Trait.MOVES,),
        counts=(1,),
        moved=(0,),
        unchecked=True,
        grows=True,
    ),
)
