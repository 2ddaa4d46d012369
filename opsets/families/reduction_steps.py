"""Express Reduce operators by themselves: axis by axis, the last axis, one row of all elements, halving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first, rank_known, resolve
from opshift.opsets.registry.facts import FLOATS, INTEGERS, SIGNED, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands


def reduced_axes(what: Any, operands: Operands) -> tuple[int, ...] | None:
    """Return the axes to reduce, from the front if the rank is known; None if they are all axes of an unknown rank.

    Raises:
        ValueError: the axes are computed at run time.
    """
    axes, rank = operands[1], first(operands).rank
    if axes is None:
        return () if what.noop_with_empty_axes else None if rank is None else tuple(range(rank))
    if axes.known is None:
        raise ValueError("the axes are computed at run time")
    return tuple(sorted(resolve(int(axis), rank) for axis in axes.known.flat))


def one_axis_of(what: Any, operands: Operands) -> int | None:
    """Return the axis to reduce, if there is exactly one."""
    axes = operands[1]
    if axes is not None and axes.known is None:
        return None
    found = reduced_axes(what, operands)
    return found[0] if found is not None and len(found) == 1 else None


def _unknown(operands: Operands) -> bool:
    """Return whether the axes or the shape of the data are unknown."""
    return first(operands).size is None or (operands[1] is not None and operands[1].known is None)


def _known(operands: Operands) -> Reason | None:
    axes = operands[1]
    return (
        Reason("the axes are computed at run time", missing=True) if axes is not None and axes.known is None else None
    )


def _several(what: Any, operands: Operands) -> Reason | None:
    if reason := _known(operands):
        return reason
    axes = reduced_axes(what, operands)
    if axes is None or len(axes) < 2:
        return Reason("it reduces no two known axes")
    if not what.keepdims and min(axes) < 0:
        return Reason("where an axis goes, what an axis from the end is depends on the rank, which is unknown")
    return None


def _last_and_rest(what: Any, operands: Operands) -> Mapping[str, Any]:
    axes = reduced_axes(what, operands) or ()
    return {"last": axes[-1:], "rest": axes[:-1], "keepdims": what.keepdims}


@lowering(18, applies_if=_several, bind=_last_and_rest)
def one_by_one(data, axes, last: Sequence[int], rest: Sequence[int], keepdims: int):
    """Reduce the last of the axes, then the others."""
    return meaning.Itself(meaning.Itself(data, last, keepdims=keepdims), rest, keepdims=keepdims)


def _everything(what: Any, operands: Operands) -> Reason | None:
    """Require that all of several axes are reduced."""
    data, axes = first(operands), operands[1]
    if reason := _known(operands):
        return reason
    if what.noop_with_empty_axes and axes is None:
        return Reason("it reduces no axis")
    if data.rank is None:
        return None if axes is None else Reason("the rank is unknown", missing=True)
    every = len(reduced_axes(what, operands) or ()) == data.rank
    return None if every and data.rank > 1 else Reason("it does not reduce all of several axes")


def _all_gone(what: Any, operands: Operands) -> Reason | None:
    return Reason("reduced axes stay") if what.keepdims else _everything(what, operands)


def _all_kept(what: Any, operands: Operands) -> Reason | None:
    if not what.keepdims:
        return Reason("reduced axes go")
    return _everything(what, operands) or rank_known(what, operands)


def _all_kept_of_unknown_rank(what: Any, operands: Operands) -> Reason | None:
    if not what.keepdims:
        return Reason("reduced axes go")
    return _everything(what, operands) or (None if first(operands).rank is None else Reason("the rank is known"))


@lowering(18, applies_if=_all_gone)
def in_one_row(data, axes):
    """Reshape to one row, and reduce it."""
    return meaning.Itself(op.Reshape(data, [-1]), [0], keepdims=0)


def _ones(what: Any, operands: Operands) -> Mapping[str, Any]:
    return {"ones": (1,) * (first(operands).rank or 0)}


@lowering(18, applies_if=_all_kept, bind=_ones)
def in_one_row_with_axes(data, axes, ones: Sequence[int]):
    """Reshape to one row, reduce it, and add axes of length 1."""
    return op.Reshape(meaning.Itself(op.Reshape(data, [-1]), [0], keepdims=1), ones)


@lowering(18, applies_if=_all_kept_of_unknown_rank)
def in_one_row_of_any_rank(data, axes):
    """Reshape to one row, reduce it, and add as many axes of length 1 as there were axes."""
    ones = op.Expand([1], op.Shape(op.Shape(data)))
    return op.Reshape(meaning.Itself(op.Reshape(data, [-1]), [0], keepdims=1), ones)


def _gone(what: Any, operands: Operands) -> Reason | None:
    if what.keepdims:
        return Reason("reduced axes stay")
    if reason := _known(operands):
        return reason
    axes = reduced_axes(what, operands)
    return None if axes else Reason("no axis is known to go", missing=axes is None)


def _places(what: Any, operands: Operands) -> Mapping[str, Any]:
    return {"places": reduced_axes(what, operands) or ()}


@lowering(18, applies_if=_gone, bind=_places)
def kept_first(data, axes, places: Sequence[int]):
    """Keep the reduced axes, then drop them."""
    return op.Squeeze(meaning.Itself(data, places, keepdims=1), places)


def _not_last(what: Any, operands: Operands) -> Reason | None:
    if reason := rank_known(what, operands):
        return reason
    axis = one_axis_of(what, operands)
    if axis is None or not what.keepdims:
        return Reason("it is not one known axis that stays")
    return Reason("it is the last axis") if axis == (first(operands).rank or 0) - 1 else None


def _exchange(what: Any, operands: Operands) -> Mapping[str, Any]:
    rank, axis = first(operands).rank or 1, one_axis_of(what, operands) or 0
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return {"perm": tuple(perm), "last": (rank - 1,)}


@lowering(18, applies_if=_not_last, bind=_exchange)
def moved_last(data, axes, perm: Sequence[int], last: Sequence[int]):
    """Exchange the axis with the last one, and reduce that."""
    return op.Transpose(meaning.Itself(op.Transpose(data, perm=perm), last, keepdims=1), perm=perm)


MOVED = (in_one_row, in_one_row_with_axes, in_one_row_of_any_rank, kept_first, moved_last)
"""Lowerings to the reduction of a last axis that stays."""


# --- halving ----------------------------------------------------------------------------------------------------------


def length_of(what: Any, operands: Operands) -> int | None:
    """Return the length of the single axis to reduce, if both are known."""
    axis = one_axis_of(what, operands)
    length = None if axis is None else first(operands).dim(axis)
    return length if isinstance(length, int) else None


def halvable(what: Any, operands: Operands) -> Reason | None:
    """Require one axis of a known length of at least 2."""
    length = length_of(what, operands)
    if length is None:
        return Reason("it is not one axis whose length is known", missing=_unknown(operands))
    return None if length > 1 else Reason("there is nothing to halve")


def _overlapping(what: Any, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype not in INTEGERS | FLOATS:
        return Reason("it is not of numbers", missing=dtype is None)
    return halvable(what, operands)


def _computed(what: Any, operands: Operands) -> Reason | None:
    """Require float or double, or integers of 64 bits, whose products beyond 2^53 onnxruntime rounds."""
    dtype = first(operands).dtype
    if dtype not in {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT64}:
        return Reason("it is not of float, double, or integers of 64 bits", missing=dtype is None)
    return halvable(what, operands)


def _of_few_bits(what: Any, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    few = dtype in {TensorProto.INT32, TensorProto.UINT32}
    return None if few else Reason("it is not of integers of 32 bits", missing=dtype is None)


def _within(what: Any, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype
    least, most = (Tensor(end.astype(np.float64)) for end in _ends(dtype))
    noop = what.noop_with_empty_axes
    return {"keepdims": what.keepdims, "noop": noop, "least": least, "most": most, "to": dtype}


def _wrapped(what: Any, operands: Operands) -> Reason | None:
    """Require floats, or integers, whose sums wrap around in any order."""
    dtype = first(operands).dtype
    if dtype not in INTEGERS | {TensorProto.FLOAT, TensorProto.DOUBLE}:
        return Reason("it is not of float, double or integers", missing=dtype is None)
    return halvable(what, operands)


def _halves(what: Any, operands: Operands) -> Mapping[str, Any]:
    length = length_of(what, operands) or 2
    half = (length + 1) // 2
    return {
        "axis": (one_axis_of(what, operands) or 0,),
        "half": (half,),
        "rest": (length - half,),
        "keepdims": what.keepdims,
    }


def _even(what: Any, operands: Operands) -> Reason | None:
    return Reason("the axis is of odd length") if (length_of(what, operands) or 0) % 2 else None


@lowering(18, applies_if=_overlapping, bind=_halves)
def larger_half(data, axes, axis: Sequence[int], half: Sequence[int], rest: Sequence[int], keepdims: int):
    """Compute the larger of both halves (which overlap at a middle element) until one element is left."""
    larger = op.Max(op.Slice(data, [0], half, axis), op.Slice(data, rest, [2147483647], axis))
    return meaning.Itself(larger, axis, keepdims=keepdims)


@lowering(18, applies_if=_overlapping, bind=_halves)
def smaller_half(data, axes, axis: Sequence[int], half: Sequence[int], rest: Sequence[int], keepdims: int):
    """Compute the smaller of both halves (which overlap at a middle element) until one element is left."""
    smaller = op.Min(op.Slice(data, [0], half, axis), op.Slice(data, rest, [2147483647], axis))
    return meaning.Itself(smaller, axis, keepdims=keepdims)


def _even_computed(what: Any, operands: Operands) -> Reason | None:
    return _computed(what, operands) or _even(what, operands)


def _odd_computed(what: Any, operands: Operands) -> Reason | None:
    return _computed(what, operands) or (None if _even(what, operands) else Reason("the axis is of even length"))


def _even_wrapped(what: Any, operands: Operands) -> Reason | None:
    return _wrapped(what, operands) or _even(what, operands)


def _odd_wrapped(what: Any, operands: Operands) -> Reason | None:
    return _wrapped(what, operands) or (None if _even(what, operands) else Reason("the axis is of even length"))


@lowering(18, applies_if=_even_computed, bind=_halves, rounds=True)
def product_of_halves(data, axes, axis: Sequence[int], half: Sequence[int], keepdims: int):
    """Multiply both halves until one element is left."""
    product = op.Slice(data, [0], half, axis) * op.Slice(data, half, [2147483647], axis)
    return meaning.Itself(product, axis, keepdims=keepdims)


@lowering(18, applies_if=_of_few_bits, bind=_within)
def product_in_double(
    data, axes, keepdims: int, noop: int, least: Sequence[int], most: Sequence[int], to: int
):  # fmt: skip
    """Multiply in double, and take the least or largest integer for what is beyond, as onnxruntime does."""
    product = op.ReduceProd(op.Cast(data, to=11), axes, keepdims=keepdims, noop_with_empty_axes=noop)
    return op.Cast(op.Max(op.Min(product, most), least), to=to)


@lowering(18, applies_if=_odd_computed, bind=_halves, rounds=True)
def product_with_last(data, axes, axis: Sequence[int], keepdims: int):
    """Multiply all but the last element, an even number, and the last one."""
    others = meaning.Itself(op.Slice(data, [0], [-1], axis), axis, keepdims=1)
    return meaning.Itself(others * op.Slice(data, [-1], [2147483647], axis), axis, keepdims=keepdims)


@lowering(18, applies_if=_even_wrapped, bind=_halves, rounds=True)
def sum_of_halves(data, axes, axis: Sequence[int], half: Sequence[int], keepdims: int):
    """Add both halves until one element is left."""
    added = op.Slice(data, [0], half, axis) + op.Slice(data, half, [2147483647], axis)
    return meaning.Itself(added, axis, keepdims=keepdims)


@lowering(18, applies_if=_odd_wrapped, bind=_halves, rounds=True)
def sum_with_last(data, axes, axis: Sequence[int], keepdims: int):
    """Add all but the last element, an even number, and the last one."""
    others = meaning.Itself(op.Slice(data, [0], [-1], axis), axis, keepdims=1)
    return meaning.Itself(others + op.Slice(data, [-1], [2147483647], axis), axis, keepdims=keepdims)


# --- maximum and minimum ----------------------------------------------------------------------------------------------


def _pooled(what: Any, operands: Operands) -> Reason | None:
    """Require all axes after the first two, which a global pool reduces; TopK and pools need one float type each."""
    data = first(operands)
    if reason := rank_known(what, operands) or _known(operands):
        return reason
    if data.dtype != TensorProto.FLOAT:
        return Reason("it is not of float", missing=data.dtype is None)
    rank = data.rank or 0
    whole = rank > 2 and reduced_axes(what, operands) == tuple(range(2, rank))
    if not (whole and what.keepdims):
        return Reason("it does not reduce the axes behind the first two, which stay")
    # onnxruntime 1.32.0 pools an empty batch, but refuses all other dimensions of 0.
    filled = all(isinstance(dim, int) and dim for dim in (data.shape or ())[1:])
    return None if filled else Reason("an axis behind the first may be empty", missing=True)


@lowering(18, applies_if=_pooled, rounds=True)
def global_average(data, axes):
    """Pool the axes after the first two."""
    return op.GlobalAveragePool(data)


def _ordered(what: Any, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype not in INTEGERS | FLOATS:
        return Reason("it is not of numbers", missing=dtype is None)
    one = one_axis_of(what, operands) is not None
    return None if one else Reason("it is not one known axis", missing=_unknown(operands))


def _top(what: Any, operands: Operands) -> Reason | None:
    if not what.keepdims:
        return Reason("reduced axes go")
    if reason := _ordered(what, operands):
        return reason
    return None if length_of(what, operands) else Reason("the axis may be empty", missing=True)


def _along(what: Any, operands: Operands) -> Mapping[str, Any]:
    return {"axis": one_axis_of(what, operands)}


@lowering(11, applies_if=_top, bind=_along)
def largest(data, axes, axis: int):
    """Take the largest element of TopK with k = 1."""
    values, _indices = meaning.TopK(data, [1], axis=axis, ties="any")
    return values


def _padded(what: Any, operands: Operands) -> Reason | None:
    if not what.keepdims:
        return Reason("reduced axes go")
    if reason := _ordered(what, operands) or rank_known(what, operands):
        return reason
    return Reason("the axis is not empty") if length_of(what, operands) else None


def _beside_lowest(what: Any, operands: Operands) -> Mapping[str, Any]:
    data, axis = first(operands), one_axis_of(what, operands) or 0
    rank, pads = data.rank or 1, np.zeros((2, data.rank or 1), np.int64)
    pads[1, axis % rank] = 1
    return {"axis": axis, "pads": tuple(pads.ravel().tolist()), "lowest": Tensor(_ends(data.dtype)[0])}


def _ends(dtype: int | None) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(dtype or TensorProto.FLOAT)
    if dtype in INTEGERS:
        return np.array(np.iinfo(numpy_type).min, numpy_type), np.array(np.iinfo(numpy_type).max, numpy_type)
    return np.array(-np.inf, numpy_type), np.array(np.inf, numpy_type)


@lowering(13, applies_if=_padded, bind=_beside_lowest)
def largest_beside_lowest(data, axes, axis: int, pads: Sequence[int], lowest: Sequence[int]):
    """Append the lowest number to an axis that may be empty, and take the largest element of TopK with k = 1."""
    values, _indices = meaning.TopK(op.Pad(data, pads, lowest), [1], axis=axis, ties="any")
    return values


def _signed_floats(what: Any, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in FLOATS else Reason("it is not of floats", missing=dtype is None)


def _integers(what: Any, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    return None if dtype in INTEGERS else Reason("it is not of integers", missing=dtype is None)


def _fields(what: Any, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(dtype or TensorProto.INT64)
    end = np.array(-1, numpy_type) if dtype in SIGNED else _ends(dtype)[1]
    return {"keepdims": what.keepdims, "noop": what.noop_with_empty_axes, "end": Tensor(end)}


@lowering(18, applies_if=_signed_floats, bind=_fields)
def least_negative(data, axes, keepdims: int, noop: int):
    """Compute the negative of the least negative."""
    return op.Neg(op.ReduceMin(op.Neg(data), axes, keepdims=keepdims, noop_with_empty_axes=noop))


@lowering(18, applies_if=_signed_floats, bind=_fields)
def greatest_negative(data, axes, keepdims: int, noop: int):
    """Compute the negative of the greatest negative."""
    return op.Neg(op.ReduceMax(op.Neg(data), axes, keepdims=keepdims, noop_with_empty_axes=noop))


@lowering(18, applies_if=_integers, bind=_fields)
def least_complement(data, axes, keepdims: int, noop: int, end: Sequence[int]):
    """Compute the complement of the least complement: -1 - x, or the greatest number minus x, reverses the order."""
    return end - op.ReduceMin(end - data, axes, keepdims=keepdims, noop_with_empty_axes=noop)


@lowering(18, applies_if=_integers, bind=_fields)
def greatest_complement(data, axes, keepdims: int, noop: int, end: Sequence[int]):
    """Compute the complement of the greatest complement: -1 - x, or the greatest number minus x, reverses the order."""
    return end - op.ReduceMax(end - data, axes, keepdims=keepdims, noop_with_empty_axes=noop)
