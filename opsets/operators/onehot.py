"""OneHot: `on` where an index points, `off` elsewhere, along a new axis. Versions 9, 11 and 28."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opshift.opsets.families.axes import END, axis_fault, first, resolve
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, INTEGERS, SIGNED, UNSIGNED, Dim, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Below, Trait, Traits


@dataclass(frozen=True)
class OneHot:
    """The new axis, and the treatment of indices that are negative or not integers.

    `negative` is `wrap` (from -depth on they count from the back), `off` (they point nowhere), `only` (they count from
    the back, and the others point nowhere) or `absent` (there are none). `fraction` is `truncate` (indices are cast to
    int64), `whole` (floats that are whole, infinite or NaN) or `absent` (floats that are whole and finite).
    """

    axis: int = -1
    negative: str = "wrap"
    fraction: str = "truncate"


def _spec_9(attributes: Mapping[str, Any]) -> OneHot:
    # OneHot-9: "Any entries in the 'indices' input tensor with values outside the range [0, depth)" are all off.
    return OneHot(attributes["axis"], "off")


def _spec_11(attributes: Mapping[str, Any]) -> OneHot:
    # OneHot-11: the range is [-depth, depth-1]; "of non-integer type, the values will be casted to int64 before use".
    # onnxruntime wraps negative indices at version 9 too (seen in 1.31.1 and 1.32.0), and casts since 1.32.0.
    return OneHot(attributes["axis"], "wrap")


def normal(what: OneHot, operands: Operands) -> tuple[OneHot, Operands]:
    """Count the axis from the front where the rank is known; drop what the index type rules out."""
    indices = first(operands)
    axis = resolve(what.axis, None if indices.rank is None else indices.rank + 1)
    negative = "absent" if indices.dtype in UNSIGNED else what.negative
    fraction = "truncate" if indices.dtype in INTEGERS else what.fraction
    return OneHot(axis, negative, fraction), operands


def _write(what: OneHot, operands: Operands) -> Mapping[str, Any] | Reason:
    if what.negative in ("off", "only"):
        return Reason("negative indices would wrap, and others point somewhere")
    return {"axis": what.axis}


def _write_9(what: OneHot, operands: Operands) -> Mapping[str, Any] | Reason:
    if what.negative != "absent":
        return Reason("no negative index is defined")
    # OneHot-9 speaks of one negative axis only: "axis=-1 means ... the innermost/last dimension".
    return (
        {"axis": what.axis}
        if what.axis >= -1
        else Reason("no axis below -1 is defined, and the rank is unknown", missing=True)
    )


def oracle(
    what: OneHot, indices: np.ndarray[Any, Any], depth: np.ndarray[Any, Any], values: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """OneHot-11: "Any entries ... outside the range [-depth, depth-1] will result in ... all 'off_value' values"."""
    if np.size(depth) != 1 or np.shape(values) != (2,) or (count := int(np.reshape(depth, ()))) < 1:
        # onnxruntime 1.31.1 takes no depth of zero, of which the text does not speak.
        raise ValueError("depth is one positive number, and values are two")
    rank = np.ndim(indices)
    if not rank or not -rank - 1 <= what.axis <= rank:
        # onnx's inference and onnxruntime take no scalar as indices.
        raise ValueError("the indices have at least one axis, and the new one is in [-r-1, r]")
    flat, negative = np.asarray(indices).reshape(-1), what.negative
    if np.issubdtype(flat.dtype, np.integer):
        # A uint64 beyond int64 is beyond any depth too.
        exact = (
            np.where(flat > np.iinfo(np.int64).max, -count - 1, flat.astype(np.int64))
            if flat.dtype == np.uint64
            else flat
        )
    else:
        wide = np.trunc(flat.astype(np.float64))
        nowhere = ~np.isfinite(wide) | (np.abs(wide) > count)
        exact = np.where(nowhere, -count - 1, wide)
    exact = exact.astype(np.int64)
    wraps = (exact < 0) & (exact >= -count)
    if negative == "only":
        exact = np.where(wraps, exact, count)
    if negative in ("wrap", "only"):
        exact = np.where(wraps, exact + count, exact)
    off, on = values[0], values[1]
    hit = exact[:, None] == np.arange(count)
    y = np.empty(hit.shape, dtype=values.dtype)
    y[...] = off
    y[hit] = on
    y = y.reshape(*np.shape(indices), count)
    return np.moveaxis(y, -1, resolve(what.axis, y.ndim))


# --- indices and depth in a form that the operator takes ------------------------------------------------------------


_SCALAR = Tensor(np.zeros(0, np.int64))
"""The shape of a scalar."""


def _fields(what: OneHot, operands: Operands) -> Mapping[str, Any]:
    return {"like": first(operands).dtype, "scalar": _SCALAR}


def _typed(what: OneHot, operands: Operands) -> Reason | None:
    return None if first(operands).dtype is not None else Reason("the type of the indices is unknown", missing=True)


def _holdsdepth_of(what: OneHot, operands: Operands) -> Reason | None:
    if first(operands).dtype in FLOATS and what.fraction == "truncate":
        return Reason("the indices are to be cast first: what lies between -1 and 0 is not negative then")
    if first(operands).dtype in (TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE):
        return None
    return _typed(what, operands) or Reason("the type of the indices may be too narrow for depth")


def _may_wrap(what: OneHot, operands: Operands) -> Reason | None:
    return _holdsdepth_of(what, operands) if what.negative == "wrap" else Reason("no index wraps")


@lowering(18, applies_if=_may_wrap, bind=_fields)
def wrapped(indices, depth, values, like: int, scalar: Sequence[int]):
    """Add depth to negative indices."""
    count = op.Cast(op.Reshape(depth, scalar), to=7)
    places = op.Where(op.Less(indices, op.Cast(0, to=like)), indices + op.Cast(count, to=like), indices)
    return meaning.Same(places, count, values, negative="off")


@lowering(18, applies_if=_may_wrap, bind=_fields)
def wrapped_by_product(indices, depth, values, like: int, scalar: Sequence[int]):
    """Add the product of depth and one to negative indices, and that of depth and zero to others."""
    count = op.Cast(op.Reshape(depth, scalar), to=7)
    below = op.Cast(op.Less(indices, op.Cast(0, to=like)), to=like)
    return meaning.Same(indices + op.Cast(count, to=like) * below, count, values, negative="off")


def _may_be_below(what: OneHot, operands: Operands) -> Reason | None:
    return _holdsdepth_of(what, operands) if what.negative == "off" else Reason("negative indices do not point nowhere")


@lowering(18, applies_if=_may_be_below, bind=_fields)
def raised(indices, depth, values, like: int, scalar: Sequence[int]):
    """Replace negative indices, which are out of range, by depth, which is out of range at every version."""
    count = op.Cast(op.Reshape(depth, scalar), to=7)
    below = op.Less(indices, op.Cast(0, to=like))
    return meaning.Same(op.Where(below, op.Cast(count, to=like), indices), count, values, negative="absent")


def _not_int64(what: OneHot, operands: Operands) -> Reason | None:
    indices, depth = (facts.dtype if facts else None for facts in operands[:2])
    if indices is None or depth is None:
        return Reason("the type of the indices or of depth is unknown", missing=True)
    if indices == depth == TensorProto.INT64:
        return Reason("indices and depth are int64 already")
    if indices in FLOATS and what.fraction == "whole":
        return Reason("the indices are whole already")
    # Casting a uint64 above 2^63 makes it negative, where it must not wrap.
    return None


def _as_int64(what: OneHot, operands: Operands) -> Mapping[str, Any]:
    unsigned = first(operands).dtype == TensorProto.UINT64
    return {"negative": "off" if unsigned else what.negative}


@lowering(18, applies_if=_not_int64, bind=_as_int64)
def as_int64(indices, depth, values, negative: str):
    """Cast indices and depth to int64, as the text does: "the values will be casted to int64 before use"."""
    return meaning.Same(op.Cast(indices, to=7), op.Cast(depth, to=7), values, negative=negative, fraction="truncate")


def depth_of(operands: Operands) -> int | None:
    """Return the depth where it is a constant."""
    known = None if operands[1] is None else operands[1].known
    return None if known is None or known.size != 1 or not np.isfinite(known.item()) else int(known.item())


def _counted_by_float(operands: Operands) -> Reason | None:
    depth = depth_of(operands)
    if depth is None:
        return Reason("depth is computed at run time", missing=True)
    return None if 0 < depth < 2**24 else Reason("float does not count to depth")


def _countable(what: OneHot, operands: Operands) -> Reason | None:
    if first(operands).dtype not in INTEGERS:
        return _typed(what, operands) or Reason("the indices are not integers")
    return _counted_by_float(operands)


def _may_have_fractions(what: OneHot, operands: Operands) -> Reason | None:
    if first(operands).dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE) or what.fraction != "truncate":
        return _typed(what, operands) or Reason("the indices are neither float nor double, or have no fraction")
    return _counted_by_float(operands)


@lowering(18, applies_if=_may_have_fractions)
def cut(indices, depth, values):
    """Cut fractions off without a cast, as one to int64 does."""
    return meaning.Same(op.Sign(indices) * op.Floor(op.Abs(indices)), depth, values, fraction="whole")


@lowering(18, applies_if=_may_have_fractions, assumes=lambda what, operands: frozenset({"whole-indices"}))
def taken_as_whole(indices, depth, values):
    """Use floats as integers, for a runtime whose indices are always integers."""
    return meaning.Same(indices, depth, values, fraction="absent")


# What float rounds is beyond 2^24, and stays there.
@lowering(18, applies_if=_countable)
def counted_in_float(indices, depth, values):
    """Cast indices to float, which represents all indices in range exactly."""
    return meaning.Same(op.Cast(indices, to=1), depth, values, fraction="absent")


SHORT: Mapping[int, int] = {TensorProto.INT8: 2**7, TensorProto.INT16: 2**15}
"""The number of positions that a short type can count."""


def _half(what: OneHot, operands: Operands) -> Reason | None:
    return None if first(operands).dtype == TensorProto.FLOAT16 else Reason("the indices are not float16")


@lowering(18, applies_if=_half)
def as_float(indices, depth, values):
    """Cast float16 indices to float, which holds each of their values."""
    return meaning.Same(op.Cast(indices, to=1), depth, values)


def _half_values(what: OneHot, operands: Operands) -> Reason | None:
    dtype = (operands[2] or Facts()).dtype
    return None if dtype == TensorProto.BFLOAT16 else Reason("off and on are not bfloat16")


@lowering(18, applies_if=_half_values)
def values_as_float(indices, depth, values):
    """Select off or on as float, which represents each bfloat16."""
    return op.Cast(meaning.Same(indices, depth, op.Cast(values, to=1)), to=16)


# --- on and off -----------------------------------------------------------------------------------------------------


def _constants(operands: Operands) -> np.ndarray[Any, Any] | None:
    values = operands[2]
    return None if values is None else values.known


def is_mask(operands: Operands) -> bool:
    """Return whether off and on are the constants false and true."""
    values = _constants(operands)
    return values is not None and values.dtype == bool and values.tolist() == [False, True]


def _two_values(what: OneHot, operands: Operands) -> Reason | None:
    return Reason("off and on are false and true already") if is_mask(operands) else None


def _is_zero_and_one(operands: Operands) -> bool:
    values = _constants(operands)
    numbers = (operands[2] or Facts()).dtype in FLOATS | SIGNED | UNSIGNED
    return (
        values is not None and numbers and values.tolist() == [0, 1] and not np.signbit(values.astype(np.float64)).any()
    )


def _zero_and_one(what: OneHot, operands: Operands) -> Reason | None:
    return None if _is_zero_and_one(operands) else Reason("off and on are not the constants 0 and 1")


def _numbers(what: OneHot, operands: Operands) -> Mapping[str, Any]:
    return {"to": (operands[2] or Facts()).dtype}


@lowering(18, applies_if=_zero_and_one, bind=_numbers)
def cast_mask(indices, depth, values, to: int):
    """Cast a mask, where off and on are 0 and 1."""
    return op.Cast(meaning.Same(indices, depth, op.Cast([0, 1], to=9)), to=to)


def _line(what: OneHot, operands: Operands) -> Reason | None:
    values = _constants(operands)
    if values is None or (operands[2] or Facts()).dtype not in (*FLOATS, *INTEGERS):
        return Reason("off and on are not constant numbers")
    if _is_zero_and_one(operands):
        return Reason("off and on are 0 and 1 already")
    off, on = values
    with np.errstate(all="ignore"):
        reached = off + (on - off)
        exact = bool(np.isfinite(np.float64(reached)) and np.isfinite(np.float64(on - off)) and reached == on)
    # Zero times a negative number is -0.0, which the sum with off hides: 0.0, or off.
    signed = any(number == 0 and np.signbit(np.float64(number)) for number in (off, on))
    return None if exact and not signed else Reason("off plus the difference is not on, bit for bit")


@lowering(18, applies_if=_line, bind=_numbers)
def scaled(indices, depth, values, to: int):
    """Multiply zeros and ones by the difference of on and off, and add off."""
    on, off = op.Gather(values, [1]), op.Gather(values, [0])
    return meaning.Same(indices, depth, op.Cast([0, 1], to=to)) * op.Sub(on, off) + off


def _two_products(what: OneHot, operands: Operands) -> Reason | None:
    values = _constants(operands)
    if values is None or (operands[2] or Facts()).dtype not in FLOATS:
        return Reason("off and on are not constant floats")
    if _is_zero_and_one(operands):
        return Reason("off and on are 0 and 1 already")
    wide = values.astype(np.float64)
    negative_zero = (wide == 0) & np.signbit(wide)
    return Reason("off or on is infinite, NaN or -0.0") if (negative_zero | ~np.isfinite(wide)).any() else None


@lowering(18, applies_if=_two_products, bind=_numbers)
def blended(indices, depth, values, to: int):
    """Compute m * on + (1 - m) * off for a mask m of zeros and ones."""
    hot = meaning.Same(indices, depth, op.Cast([0, 1], to=to))
    return hot * op.Gather(values, [1]) + op.Sub(op.Cast(1, to=to), hot) * op.Gather(values, [0])


def _no_negative_zero(what: OneHot, operands: Operands) -> Reason | None:
    if reason := _two_values(what, operands):
        return reason
    values = _constants(operands)
    dtype = (operands[2] or Facts()).dtype
    if dtype in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return Reason("a part of off or on may be -0.0")
    if dtype is None or dtype in FLOATS:
        # onnxruntime's Where adds what is chosen to what is not, as zero: -0.0 becomes 0.0 (seen in 1.31.1).
        if values is None:
            return Reason("off or on may be -0.0", missing=True)
        if (np.signbit(values.astype(np.float64)) & (values == 0)).any():
            return Reason("off or on is -0.0")
    return None


@lowering(18, applies_if=_no_negative_zero)
def where_mask(indices, depth, values):
    """Select off or on by a mask."""
    hit = meaning.Same(indices, depth, op.Cast([0, 1], to=9))
    return op.Where(hit, op.Gather(values, [1]), op.Gather(values, [0]))


# Written at 10 for its Gather, whose indices need no guard here: none is negative.
@lowering(10, applies_if=_two_values)
def gather_mask(indices, depth, values):
    """Gather off or on by a mask; Gather supports every element type."""
    hit = meaning.Same(indices, depth, op.Cast([0, 1], to=9))
    return op.Gather(values, op.Cast(hit, to=6), axis=0)


# --- indices that wrap, apart from those that do not ----------------------------------------------------------------


def _two_sums(what: OneHot, operands: Operands) -> Reason | None:
    return _may_wrap(what, operands) or _zero_and_one(what, operands)


@lowering(18, applies_if=_two_sums)
def added(indices, depth, values):
    """Add the ones of indices that are not negative and those of indices that are."""
    return meaning.Same(indices, depth, values, negative="off") + meaning.Same(indices, depth, values, negative="only")


# --- the mask -------------------------------------------------------------------------------------------------------


def _comparable(what: OneHot, operands: Operands) -> Reason | None:
    if what.negative == "wrap":
        return Reason("negative indices wrap")
    if what.axis >= 0 and first(operands).rank is None:
        return Reason("the rank of the indices is unknown", missing=True)
    dtype = first(operands).dtype
    if dtype in (TensorProto.INT32, TensorProto.INT64):
        return None
    if dtype is not None and dtype in SHORT:
        return None if 0 < (depth_of(operands) or 0) <= SHORT[dtype] else Reason("the positions may not fit their type")
    if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE) and what.fraction != "truncate":
        return None
    return _typed(what, operands) or Reason("the indices are to be cast first")


def _mask_of(what: OneHot, operands: Operands) -> Reason | None:
    return _comparable(what, operands) if is_mask(operands) else Reason("off and on are not false and true")


def _counted_up(what: OneHot, operands: Operands) -> Reason | None:
    return Reason("negative indices alone point") if what.negative == "only" else _mask_of(what, operands)


def _beside(what: OneHot, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank
    behind = -what.axis - 1 if rank is None else rank - resolve(what.axis, rank + 1)
    return {"axes": (what.axis,), "along": (-1, *[1] * behind), **_fields(what, operands)}


@lowering(18, applies_if=_counted_up, bind=_beside)
def equal_iota(indices, depth, values, axes: Sequence[int], along: Sequence[int], like: int, scalar: Sequence[int]):
    """Compare each index with the positions 0 to depth-1."""
    count = op.Cast(op.Reshape(depth, scalar), to=7)
    return op.Equal(op.Unsqueeze(indices, axes), op.Reshape(op.Cast(op.Range(0, count, 1), to=like), along))


def _unranked(what: OneHot, operands: Operands) -> Reason | None:
    if not is_mask(operands):
        return Reason("off and on are not false and true")
    if first(operands).rank is not None or what.axis < 0:
        return Reason("the rank of the indices is known, or the axis counts from the back")
    if what.negative in ("wrap", "only"):
        return Reason("negative indices point")
    return None if first(operands).dtype == TensorProto.INT64 else Reason("the indices are not int64")


@lowering(18, applies_if=_unranked, bind=lambda what, operands: {"axis": what.axis, "axes": (what.axis,)})
def equal_sums(indices, depth, values, axis: int, axes: Sequence[int]):
    """Repeat each index along the new axis, and compare it with the number of elements before it, for any rank."""
    none = op.Expand([0], op.Reshape(op.Cast(depth, to=7), [1]))
    repeated = op.Gather(op.Unsqueeze(indices, axes), none, axis=axis)
    ones = op.Cast(op.Equal(repeated, repeated), to=7)
    return op.Equal(repeated, op.CumSum(ones, axis, exclusive=1))


HELD = 2**20
"""Positions that a lowering holds as a constant, at most."""


def _holds(what: OneHot, operands: Operands) -> Reason | None:
    depth = depth_of(operands)
    if depth is None:
        return Reason("depth is computed at run time", missing=True)
    return None if 0 < depth <= HELD else Reason("depth is too large for a constant")


def _held(what: OneHot, operands: Operands) -> Mapping[str, Any]:
    bound = _beside(what, operands)
    depth = depth_of(operands) or 0
    places = np.arange(-depth, 0) if what.negative == "only" else np.arange(depth)
    dtype = helper.tensor_dtype_to_np_dtype(bound["like"])
    to = (operands[2] or Facts()).dtype
    return {**bound, "positions": Tensor(places.reshape(bound["along"]).astype(dtype)), "to": to}


def _counted_down(what: OneHot, operands: Operands) -> Reason | None:
    if what.negative != "only":
        return Reason("not only negative indices point")
    return _mask_of(what, operands) or _holds(what, operands)


@lowering(18, applies_if=_counted_down, bind=_held)
def equal_below(indices, depth, values, axes: Sequence[int], positions: Sequence[int]):
    """Compare each index with the positions -depth to -1."""
    return op.Equal(op.Unsqueeze(indices, axes), positions)


def _either(what: OneHot, operands: Operands) -> Reason | None:
    if reason := _may_wrap(what, operands) or _holds(what, operands):
        return reason
    return _mask_of(replace(what, negative="only"), operands)


def _both_held(what: OneHot, operands: Operands) -> Mapping[str, Any]:
    below = _held(replace(what, negative="only"), operands)["positions"]
    return {**_held(what, operands), "below": below}


@lowering(18, applies_if=_either, bind=_both_held)
def either(indices, depth, values, axes: Sequence[int], positions: Sequence[int], below: Sequence[int]):
    """Compare each index with the positions from the front and from the back."""
    spread = op.Unsqueeze(indices, axes)
    return op.Or(op.Equal(spread, positions), op.Equal(spread, below))


def _shiftable(what: OneHot, operands: Operands) -> Reason | None:
    return _holdsdepth_of(what, operands) if what.negative == "only" else Reason("not only negative indices point")


@lowering(18, applies_if=_shiftable, bind=_fields)
def shifted(indices, depth, values, like: int, scalar: Sequence[int]):
    """Add depth to all indices, so that only the negative ones are in range."""
    count = op.Cast(op.Reshape(depth, scalar), to=7)
    return meaning.Same(indices + op.Cast(count, to=like), count, values, negative="off")


# --- ones and zeros without comparisons -----------------------------------------------------------------------------


def _arithmetic(what: OneHot, operands: Operands) -> Reason | None:
    if first(operands).dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return _typed(what, operands) or Reason("the indices are neither float nor double")
    return _comparable(what, operands) or _zero_and_one(what, operands) or _holds(what, operands)


def _whole(what: OneHot, operands: Operands) -> Reason | None:
    return _arithmetic(what, operands) if what.fraction == "absent" else Reason("the indices may have fractions")


@lowering(18, applies_if=_whole, bind=_held)
def relu_iota(indices, depth, values, axes: Sequence[int], positions: Sequence[int], like: int, to: int):
    """Compute 1 minus the distance of each position from the index, clipped at zero."""
    away = op.Sub(op.Unsqueeze(indices, axes), positions)
    near = op.Sub(op.Sub(op.Cast(1, to=like), op.Relu(away)), op.Relu(op.Sub(op.Cast(0, to=like), away)))
    return op.Cast(op.Relu(near), to=to)


def _unless_whole(what: OneHot, operands: Operands) -> frozenset[str]:
    return frozenset() if what.fraction == "absent" else frozenset({"no-nan"})


@lowering(18, applies_if=_arithmetic, bind=_held, assumes=_unless_whole)
def sign_iota(indices, depth, values, axes: Sequence[int], positions: Sequence[int], like: int, to: int):
    """Compute 1 minus the squared sign of the distance of each position from the index."""
    sign = op.Sign(op.Sub(op.Unsqueeze(indices, axes), positions))
    return op.Cast(op.Sub(op.Cast(1, to=like), sign * sign), to=to)


# --- on, put into off -----------------------------------------------------------------------------------------------


def _put(what: OneHot, operands: Operands) -> Reason | None:
    if what.negative == "only":
        return Reason("negative indices alone point")
    if first(operands).rank is None:
        return Reason("the rank of the indices is unknown", missing=True)
    if first(operands).dtype != TensorProto.INT64:
        return _typed(what, operands) or Reason("the indices are not int64")
    return None


def _places(what: OneHot, operands: Operands) -> Mapping[str, Any]:
    return {
        "axis": what.axis,
        "axes": (what.axis,),
        "sign": -1 if what.negative == "wrap" else 0,
        "end": (END,),
    }


@lowering(18, applies_if=_put, bind=_places)
def scattered(indices, depth, values, axis: int, axes: Sequence[int], sign: int, end: Sequence[int]):
    """Scatter on to the index; for an index out of range, scatter off to position 0, which is off already."""
    count = op.Reshape(op.Cast(depth, to=7), [1])
    inside = op.And(op.Less(indices, count), op.Not(op.Less(indices, op.Mul(count, sign))))
    places = op.Unsqueeze(op.Mul(indices, op.Cast(inside, to=7)), axes)
    # Gather takes any type, and keeps -0.0.
    put = op.Unsqueeze(op.Gather(values, op.Cast(inside, to=7), axis=0), axes)
    shape = op.Shape(indices)
    whole = op.Concat(op.Slice(shape, [0], axes), count, op.Slice(shape, axes, end), axis=0)
    return op.ScatterElements(op.Expand(op.Gather(values, [0], axis=0), whole), places, put, axis=axis)


def _from_front(what: OneHot, operands: Operands) -> Reason | None:
    if first(operands).rank is not None:
        return Reason("the rank is known")
    return None if what.axis >= 0 else Reason("the axis counts from the back")


@lowering(
    18,
    applies_if=_from_front,
    bind=lambda what, operands: {"front": (what.axis,), "fronts": (what.axis,), "end": (END,)},
)
def ranked(indices, depth, values, front: Sequence[int], fronts: Sequence[int], end: Sequence[int]):
    """Give indices of unknown rank a known one, by merging the axes behind the new one."""
    shape = op.Shape(indices)
    before = op.Reshape(op.Slice(shape, [0], front), fronts, allowzero=1)
    after = op.Slice(shape, front, end)
    merged = op.Reshape(indices, op.Concat(before, op.ReduceProd(after, keepdims=1), axis=0), allowzero=1)
    y = meaning.Same(merged, depth, values)
    count = op.Reshape(op.Cast(depth, to=7), [1])
    return op.Reshape(y, op.Concat(before, count, after, axis=0), allowzero=1)


def _in_front(what: OneHot, operands: Operands) -> Reason | None:
    if first(operands).rank is not None:
        return Reason("the rank is known")
    return None if what.axis == 0 else Reason("the new axis is not the first")


@lowering(18, applies_if=_in_front)
def reversed_axes(indices, depth, values):
    """Put the new axis last, between two Transposes that reverse all axes of indices of unknown rank."""
    return op.Transpose(meaning.Same(op.Transpose(indices), depth, values, axis=-1))


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Indices around -depth, 0 and depth; a small depth; off and on that differ."""
    changed = dict(feeds)
    depth = int(rng.integers(1, 6))
    if "depth" in changed:
        if changed["depth"].flags.writeable:
            # "of non-integer type, the values will be casted to int64": a fraction of a depth does not count.
            part = 0.5 if changed["depth"].dtype.kind == "f" and rng.random() < 0.3 else 0
            changed["depth"] = np.full_like(changed["depth"], depth + part)
        else:
            depth = int(changed["depth"].reshape(-1)[0])
    indices = changed.get("indices")
    if indices is not None and indices.flags.writeable:
        low = 0 if indices.dtype.kind == "u" else -depth - 2
        drawn = rng.integers(low, depth + 3, indices.shape).astype(indices.dtype)
        if indices.dtype.kind == "f" and rng.random() < 0.5:
            # Next to a whole number, and in the middle: where a sum with depth rounds, and where a cast cuts off.
            beside = np.nextafter(drawn, indices.dtype.type(0))
            drawn = np.where(
                rng.random(indices.shape) < 0.5, drawn, np.where(drawn % 2, beside, drawn + drawn.dtype.type(0.5))
            )
        changed["indices"] = drawn.astype(indices.dtype)
    values = changed.get("values")
    if values is not None and values.flags.writeable and values.shape == (2,):
        changed["values"] = (
            np.array(["off", "on"], dtype=object) if values.dtype == object else np.array([0, 1]).astype(values.dtype)
        )
        if values.dtype.kind == "f" and rng.random() < 0.5:
            changed["values"] = np.array([-np.inf, -0.0], dtype=values.dtype)
    return changed


def fault(meaning: OneHot, operands: Operands) -> str | None:
    """Return what is wrong with the axis, which is one of the output, or with the shapes of depth and values."""
    depth, values = (None if facts is None else facts.shape for facts in operands[1:])
    if wrong := axis_fault(meaning.axis, first(operands).rank, added=1):
        return wrong
    if depth is not None and (len(depth) > 1 or any(isinstance(dim, int) and dim != 1 for dim in depth)):
        return f"its depth has the shape {_written(depth)}; it must be one number, of shape [] or [1]"
    if values is not None and (len(values) != 1 or (isinstance(values[0], int) and values[0] != 2)):
        return f"its values have the shape {_written(values)}; they must be two, off and on, of shape [2]"
    return None


def _written(shape: tuple[Dim, ...]) -> str:
    return "[" + ", ".join(str(dim) if isinstance(dim, int) else "?" for dim in shape) + "]"


OPERATOR = Operator(
    name="OneHot",
    meaning=OneHot,
    versions=(
        Version(9, lift=_spec_11, spec=_spec_9, write=_write_9),
        Version(11, lift=_spec_11, write=_write),
        Version(28, lift=_spec_11, write=_write),
    ),
    operands=("indices", "depth", "values"),
    oracle=oracle,
    normal=normal,
    fault=fault,
    adversarial=adversarial,
    lowerings=(
        wrapped,
        wrapped_by_product,
        raised,
        cut,
        taken_as_whole,
        counted_in_float,
        as_int64,
        as_float,
        values_as_float,
        cast_mask,
        scaled,
        blended,
        where_mask,
        gather_mask,
        added,
        equal_iota,
        equal_sums,
        either,
        equal_below,
        shifted,
        relu_iota,
        sign_iota,
        scattered,
        ranked,
        reversed_axes,
    ),
    traits=Traits(
        value_range=value_ranges.chosen(2),
        floats=(Trait.MOVES,),
        counts=(1,),
        indices={0: Below(limit=1)},
        decides=True,
        grows=True,
        rivals=True,
        checked=True,
    ),
)
