"""Define what Hardmax, Softmax and LogSoftmax share: operators on rows, with three definitions of a row.

Since 13 a row lies along one axis. Before, all axes from `axis` on form one row: "input will be coerced into a
2-dimensional tensor with dimensions [a_0 * ... * a_{k-1}, a_k * ... * a_{n-1}]" (Hardmax-11). DirectML accepts any set
of axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import END, axis_fault, first, fixed, product, rank_known, rank_unknown
from opshift.opsets.registry.facts import FLOATS, type_name
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Version


@dataclass(frozen=True)
class Rows:
    """The axes that form a row together; with `to_end`, the one axis given and all that follow."""

    axes: tuple[int, ...] = (-1,)
    to_end: int = 0


def normal(rows: Rows, operands: Operands) -> tuple[Rows, Operands]:
    """Count axes from the front if the rank is known, and list them if `to_end` can be listed."""
    rank = first(operands).rank
    axes = rows.axes
    if fault(rows, operands):
        return rows, operands
    if rank is not None:
        axes = tuple(axis % rank for axis in axes)
        axes = tuple(range(axes[0], rank)) if rows.to_end else axes
        return Rows(tuple(sorted(set(axes)))), operands
    if rows.to_end and axes[0] < 0:
        return Rows(tuple(range(axes[0], 0))), operands
    return Rows(tuple(sorted(set(axes), key=lambda axis: (axis < 0, axis))), rows.to_end), operands


def fault(rows: Rows, operands: Operands) -> str | None:
    """Return the error of the axes: "Accepted range is [-r, r-1] where r = rank(input)" (Hardmax-13)."""
    data = first(operands)
    if not rows.axes:
        return "it names no axes"
    if data.dtype is not None and data.dtype not in FLOATS:
        return f"its input is of type {type_name(data.dtype)}, and it takes floats only"
    if len(rows.axes) == 1:
        return axis_fault(rows.axes[0], data.rank)
    if data.rank is not None and not all(-data.rank <= axis < data.rank for axis in rows.axes):
        return f"its axes {list(rows.axes)} are out of range: the input has rank {data.rank}"
    return None


def trailing(rows: Rows, operands: Operands) -> int | None:
    """Return the first axis of the row if it consists of the last axes, or None."""
    rank = first(operands).rank
    stop = 0 if rank is None else rank
    if rows.to_end or rows.axes == tuple(range(rows.axes[0], stop)):
        return rows.axes[0]
    return None


def _lift_from_axis(attributes: Mapping[str, Any]) -> Rows:
    return Rows((attributes["axis"],), to_end=1)


def _lift_axis(attributes: Mapping[str, Any]) -> Rows:
    return Rows((attributes["axis"],))


def _write_axis(rows: Rows, operands: Operands) -> Mapping[str, Any] | Reason:
    if rows.to_end or len(rows.axes) != 1:
        return Reason("a row has one axis only")
    return {"axis": rows.axes[0]}


def _write_from_axis(rows: Rows, operands: Operands) -> Mapping[str, Any] | Reason:
    axis = trailing(rows, operands)
    return Reason("a row is made of the last axes only") if axis is None else {"axis": axis}


def _axis_from_front(rows: Rows, operands: Operands) -> Reason | None:
    axis = trailing(rows, operands)
    negative = axis is not None and axis < 0
    return Reason("no negative axis is defined, and the rank is unknown", missing=True) if negative else None


VERSIONS = (
    Version(1, lift=_lift_from_axis, write=_write_from_axis, applies_if=_axis_from_front),
    Version(11, lift=_lift_from_axis, write=_write_from_axis),
    Version(13, lift=_lift_axis, write=_write_axis),
)


def in_rows(rows: Rows, x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], tuple[int, ...], tuple[int, ...]]:
    """Return x as (rows, elements of a row), with the permutation and the shape for `from_rows`."""
    if not all(-x.ndim <= axis < x.ndim for axis in rows.axes):
        raise ValueError(f"axes {rows.axes} are out of range for rank {x.ndim}")
    axes = (
        tuple(range(rows.axes[0] % x.ndim, x.ndim))
        if rows.to_end
        else tuple(sorted({axis % x.ndim for axis in rows.axes}))
    )
    order = tuple(axis for axis in range(x.ndim) if axis not in axes) + axes
    moved = x.transpose(order)
    length = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    count = int(np.prod([x.shape[axis] for axis in order[: x.ndim - len(axes)]], dtype=np.int64))
    return moved.reshape(count, length), order, moved.shape


def from_rows(y: np.ndarray[Any, Any], order: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Undo `in_rows`."""
    return y.reshape(shape).transpose(np.argsort(order))


# --- lowerings that all three share -------------------------------------------------------------------------------


def _not_last(rows: Rows, operands: Operands) -> Reason | None:
    if reason := rank_known(rows, operands):
        return reason
    return None if trailing(rows, operands) is None else Reason("the row is made of the last axes already")


def _permutation(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    rank = len(first(operands).shape or ())
    order = [axis for axis in range(rank) if axis not in rows.axes] + list(rows.axes)
    return {
        "order": tuple(order),
        "back": tuple(int(axis) for axis in np.argsort(order)),
        "axes": tuple(range(rank - len(rows.axes), rank)),
    }


@lowering(18, applies_if=_not_last, bind=_permutation)
def permuted(x, order: Sequence[int], back: Sequence[int], axes: Sequence[int]):
    """Move the axes of a row to the end."""
    return op.Transpose(meaning.Itself(op.Transpose(x, perm=order), axes=axes), perm=back)


def _several_last(rows: Rows, operands: Operands) -> Reason | None:
    if trailing(rows, operands) is None:
        return Reason("the row is not made of the last axes")
    return None if rows.to_end or len(rows.axes) > 1 else Reason("the row has one axis already")


@lowering(18, applies_if=_several_last, bind=lambda rows, operands: {"axis": trailing(rows, operands)})
def flattened(x, axis: int):
    """Merge the axes of a row into one, and restore the shape."""
    rows = meaning.Itself(op.Flatten(x, axis=axis), axes=[1])
    # With allowzero, a dimension of zero is explicit; without it, zero would copy a dimension of the flattened input.
    return op.Reshape(rows, op.Shape(x), allowzero=1)


def _scattered(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    # NonZero takes no double in onnxruntime, and Max no bfloat16.
    narrow = first(operands).dtype == TensorProto.FLOAT16
    return {"axis": trailing(rows, operands), "like": TensorProto.FLOAT16 if narrow else TensorProto.FLOAT}


@lowering(13, applies_if=_several_last, bind=_scattered, cost=1)
def scattered(x, axis: int, like: int):
    """Merge the axes of a row into one, and scatter the elements to the positions of x in order.

    Below opset 14 no Reshape writes a dimension of zero that is not the input's.
    """
    rows = meaning.Itself(op.Flatten(x, axis=axis), axes=[1])
    # No element is zero, since each is at least one or NaN: all positions are found, in order.
    places = op.Transpose(op.NonZero(op.Max(op.Cast(x, to=like), op.Cast(1.0, to=like))), perm=[1, 0])
    return op.ScatterND(x, places, op.Reshape(rows, [-1]))


def _matrix(rows: Rows, operands: Operands) -> tuple[int, ...] | None:
    dims, axis = first(operands).shape or (), trailing(rows, operands)
    return None if axis is None else fixed((product(dims[:axis]), product(dims[axis:])))


def _merged(rows: Rows, operands: Operands) -> Reason | None:
    if reason := _several_last(rows, operands) or rank_known(rows, operands):
        return reason
    known = fixed(first(operands).shape) and _matrix(rows, operands)
    return None if known else Reason("more than one dimension is unknown", missing=True)


@lowering(
    18,
    applies_if=_merged,
    bind=lambda rows, operands: {"matrix": _matrix(rows, operands), "shape": fixed(first(operands).shape)},
)
def merged(x, matrix: Sequence[int], shape: Sequence[int]):
    """Merge the axes of a row into one, and restore the shape, of which all dimensions except one are known."""
    return op.Reshape(meaning.Itself(op.Reshape(x, matrix), axes=[1]), shape)


def _one_end(rows: Rows, operands: Operands) -> Reason | None:
    if rows.to_end or _both_ends(rows):
        return Reason("the axes are not counted from one end")
    return rank_unknown(rows, operands)


def _both_ends(rows: Rows) -> bool:
    return min(rows.axes) < 0 <= max(rows.axes)


def ranked_axes(axes: Sequence[int]) -> Mapping[str, Any]:
    """Bind the shape with the fewest axes that has all of `axes`: leading ones, a merged one, trailing ones."""
    front = max((axis + 1 for axis in axes if axis >= 0), default=0)
    behind = max((-axis for axis in axes if axis < 0), default=0)
    return {
        "front": (front,),
        "behind": (-behind if behind else END,),
        "fronts": (front,),
        "behinds": (behind,),
        "axes": tuple(axis if axis >= 0 else front + 1 + behind + axis for axis in axes),
    }


@lowering(18, applies_if=_one_end, bind=lambda rows, operands: ranked_axes(rows.axes))
def ranked(
    x, front: Sequence[int], behind: Sequence[int], fronts: Sequence[int], behinds: Sequence[int], axes: Sequence[int]
):
    """Reshape an input of unknown rank to a known rank, by merging the axes outside the row."""
    shape = op.Shape(x)
    # Reshape to a constant length keeps the rank known, unlike a Slice of a shape of unknown length.
    before = op.Reshape(op.Slice(shape, [0], front), fronts, allowzero=1)
    after = op.Reshape(op.Slice(shape, behind, [2147483647]), behinds, allowzero=1)
    rest = op.ReduceProd(op.Slice(shape, front, behind), keepdims=1)
    y = meaning.Itself(op.Reshape(x, op.Concat(before, rest, after, axis=0), allowzero=1), axes=axes)
    return op.Reshape(y, shape, allowzero=1)


def _two_ends(rows: Rows, operands: Operands) -> Reason | None:
    if rows.to_end or not _both_ends(rows):
        return Reason("the axes are counted from one end")
    return rank_unknown(rows, operands)


def _split(rows: Rows, operands: Operands) -> Mapping[str, Any]:
    front = max(rows.axes) + 1
    behind = -min(rows.axes)
    negative = [axis for axis in rows.axes if axis < 0]
    return {
        "front": (front,),
        "behind": (-behind,),
        "fronts": (2 * front,),
        "behinds": (behind,),
        "places": tuple(range(front)),
        "chosen": tuple(int(place in rows.axes) for place in range(front)),
        "negative": tuple(negative),
        "backward": tuple(range(-behind, 0)),
        "axes": (*range(1, 2 * front, 2), *(2 * front + 1 + behind + axis for axis in negative)),
    }


@lowering(18, applies_if=_two_ends, bind=_split)
def ranked_from_both_ends(
    x,
    front: Sequence[int],
    behind: Sequence[int],
    fronts: Sequence[int],
    behinds: Sequence[int],
    places: Sequence[int],
    chosen: Sequence[int],
    negative: Sequence[int],
    backward: Sequence[int],
    axes: Sequence[int],
):
    """Reshape an input of unknown rank to a known rank if its leading and trailing row axes may coincide.

    Each leading axis becomes two, of which the second belongs to the row: the inapplicable one has length 1. A trailing
    axis that is also a leading one is counted there.
    """
    shape = op.Shape(x)
    rank = op.Shape(shape)
    met = op.Cast(op.Equal(op.Unsqueeze(places, [1]), op.Unsqueeze(rank + negative, [0])), to=6)
    inside = op.Cast(op.Cast(op.ReduceMax(met, [1], keepdims=0) + op.Cast(chosen, to=6), to=9), to=7)
    outside = 1 - inside
    dims = op.Slice(shape, [0], front)
    pairs = op.Concat(op.Unsqueeze(dims * outside + inside, [1]), op.Unsqueeze(dims * inside + outside, [1]), axis=1)
    before = op.Reshape(pairs, fronts)
    rest = op.ReduceProd(op.Slice(shape, front, behind), keepdims=1)
    apart = op.Cast(op.Less(op.Cast(front, to=11), op.Cast(rank + backward + 1, to=11)), to=7)
    after = op.Reshape(op.Slice(shape, behind, [2147483647]), behinds, allowzero=1) * apart + (1 - apart)
    y = meaning.Itself(op.Reshape(x, op.Concat(before, rest, after, axis=0), allowzero=1), axes=axes)
    return op.Reshape(y, shape, allowzero=1)


LOWERINGS = (permuted, flattened, scattered, merged, ranked, ranked_from_both_ends)
