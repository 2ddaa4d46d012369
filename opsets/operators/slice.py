"""Slice: a part of a tensor. Starts, ends, axes are attributes below 10; steps came with 10, negative axes with 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.axes import END, axes_operand, first, operand_not_negative, resolve
from opshift.opsets.families.merged_axes import Stages, apart, in_shape, place_of, shape_of, vector
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Trait, Traits

_resolve = axes_operand(3)


def oracle(
    what: Plain,
    data: np.ndarray[Any, Any],
    starts: np.ndarray[Any, Any],
    ends: np.ndarray[Any, Any],
    axes: np.ndarray[Any, Any] | None = None,
    steps: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Slice-13: a start is clamped "to range `[0, dims[axes[i]]-1]` for negative stepping".

    Ends of negative steps are clamped to -1 and more: one far out of range is before the first element.
    """
    index = [slice(None)] * data.ndim
    for place, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        axis = place if axes is None else int(axes[place])
        step = 1 if steps is None else int(steps[place])
        start = max(start, -data.shape[axis]) if step < 0 else start
        index[axis] = slice(start, None if step < 0 and end < -data.shape[axis] else end, step)
    return data[tuple(index)]


def normal(what: Plain, operands: Operands) -> tuple[Plain, Operands]:
    """Leave out steps that are all 1; count axes from the front where the rank is known."""
    steps = operands[4]
    if steps is not None and steps.known is not None and (steps.known == 1).all():
        operands = (*operands[:4], None)
    return _resolve(what, operands)


def _axes_from_front(what: Plain, operands: Operands) -> Reason | None:
    return operand_not_negative(3)(what, operands)


# --- by indices ---------------------------------------------------------------------------------------------------


def _axes(operands: Operands) -> tuple[int, ...] | None:
    """Return the sliced axes; None if they are computed at run time."""
    starts, axes = operands[1] or Facts(), operands[3]
    if axes is not None:
        return None if axes.known is None else tuple(int(axis) for axis in axes.known.flat)
    length = starts.dim(0)
    return tuple(range(length)) if isinstance(length, int) else None


def _steps(operands: Operands) -> tuple[int, ...] | None:
    steps, axes = operands[4], _axes(operands)
    if steps is None:
        return None if axes is None else (1,) * len(axes)
    return None if steps.known is None else tuple(int(step) for step in steps.known.flat)


def _known(operands: Operands) -> Reason | None:
    if _axes(operands) is None or _steps(operands) is None:
        return Reason("its axes or steps are computed at run time", missing=True)
    return None


def _one_axis(what: Plain, operands: Operands) -> Reason | None:
    return _known(operands) or (None if len(_axes(operands) or ()) == 1 else Reason("it cuts more than one axis"))


def _several_axes(what: Plain, operands: Operands) -> Reason | None:
    return _known(operands) or (Reason("it cuts one axis") if len(_axes(operands) or ()) < 2 else None)


def _apart(what: Plain, operands: Operands) -> Mapping[str, Any]:
    axes, steps = _axes(operands) or (), _steps(operands) or ()
    return {"axis": axes[:1], "step": steps[:1], "axes_left": axes[1:], "steps_left": steps[1:]}


@lowering(18, applies_if=_several_axes, bind=_apart)
def one_by_one(
    data,
    starts,
    ends,
    axes,
    steps,
    axis: Sequence[int],
    step: Sequence[int],
    axes_left: Sequence[int],
    steps_left: Sequence[int],
):
    """Cut the first of several axes, then the others."""
    start = op.Cast(starts, to=7)
    end = op.Cast(ends, to=7)
    cut = meaning.Itself(data, op.Slice(start, [0], [1]), op.Slice(end, [0], [1]), axis, step)
    left = op.Slice(start, [1], [2147483647])
    return meaning.Itself(cut, left, op.Slice(end, [1], [2147483647]), axes_left, steps_left)


def _along(what: Plain, operands: Operands) -> Mapping[str, Any]:
    axis, step = (_axes(operands) or (0,))[0], (_steps(operands) or (1,))[0]
    around = {"axis": axis, "at": (axis,), "after": (axis + 1 or END,)}
    return {**around, "step": Tensor(np.array(abs(step), np.int64)), "axes_left": (axis,), "steps_left": (abs(step),)}


def _backward(what: Plain, operands: Operands) -> Reason | None:
    if reason := _one_axis(what, operands):
        return reason
    return Reason("the step is positive") if (_steps(operands) or (1,))[0] > 0 else None


@lowering(18, applies_if=_backward, bind=_along)
def mirrored(
    data,
    starts,
    ends,
    axes,
    steps,
    axis: int,
    at: Sequence[int],
    after: Sequence[int],
    axes_left: Sequence[int],
    steps_left: Sequence[int],
):
    """Reverse the axis and slice forward; index i becomes -1 - i, whichever end i counts from."""
    length = op.Slice(op.Shape(data), at, after)
    backward = op.Sub(length, op.Range(0, op.Squeeze(length, [0]), 1) + 1)
    turned = op.Gather(data, backward, axis=axis)
    last = length - 1
    start = -1 - op.Cast(starts, to=7)
    start = start + (last - start) * op.Cast(op.Greater(op.Cast(start, to=11), op.Cast(last, to=11)), to=7)
    return meaning.Itself(turned, start, -1 - op.Cast(ends, to=7), axes_left, steps_left)


def _forward(what: Plain, operands: Operands) -> Reason | None:
    if reason := _one_axis(what, operands):
        return reason
    # Range has no trouble with a negative step; onnxruntime 1.31.1, optimising, makes a Slice of it, which has.
    return Reason("the step is negative") if (_steps(operands) or (1,))[0] < 0 else None


@lowering(18, applies_if=_forward, bind=_along)
def gathered(data, starts, ends, axes, steps, axis: int, at: Sequence[int], after: Sequence[int], step: Sequence[int]):
    """Look up the positions from the start to the end, both brought into the range of the axis."""
    length = op.Slice(op.Shape(data), at, after)
    # Integers are compared as doubles and chosen by products, which serves every opset; lengths are exact so.
    most = op.Cast(length, to=11)
    start = op.Cast(starts, to=7)
    start = start + length * op.Cast(op.Less(op.Cast(start, to=11), 0.0), to=7)
    start = length + (start - length) * op.Cast(op.Less(op.Cast(start, to=11), most), to=7)
    start = start * op.Cast(op.Greater(op.Cast(start, to=11), 0.0), to=7)
    end = op.Cast(ends, to=7)
    end = end + length * op.Cast(op.Less(op.Cast(end, to=11), 0.0), to=7)
    end = length + (end - length) * op.Cast(op.Less(op.Cast(end, to=11), most), to=7)
    end = end * op.Cast(op.Greater(op.Cast(end, to=11), 0.0), to=7)
    return op.Gather(data, op.Range(op.Squeeze(start, [0]), op.Squeeze(end, [0]), step), axis=axis)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Starts and ends that are mostly in range, from either end."""
    free = {name for name in ("starts", "ends") if name in feeds and feeds[name].flags.writeable}
    most = max(feeds["data"].shape, default=0) + 2
    near = {name: rng.integers(-most, most + 1, feeds[name].shape).astype(feeds[name].dtype) for name in sorted(free)}
    return {**feeds, **near} if rng.integers(4) else feeds


def _forwards(what: Plain, operands: Operands) -> int | None:
    """Return the input if no axis is reversed: a slice of its shape is all of it."""
    steps = operands[4]
    return 0 if steps is None or (steps.known is not None and (steps.known > 0).all()) else None


def _with_fewer_axes(what: Plain, operands: Operands, most: int) -> Stages | None:
    """Merge neighbours that are not cut."""
    data, cut = first(operands), _axes(operands)
    if data.shape is None or cut is None:
        return None
    along = [resolve(axis, data.rank) for axis in cut]
    groups = apart(data.shape, along, most)
    if groups is None:
        return None
    axes = vector([place_of(axis, groups) for axis in along])
    return ((what, (in_shape(data, shape_of(data.shape, groups)), *operands[1:3], axes, operands[4])),)


OPERATOR = Operator(
    name="Slice",
    meaning=Plain,
    versions=(
        Version(1, applies_if=_axes_from_front),
        Version(10, applies_if=_axes_from_front),
        Version(11),
        Version(13),
    ),
    operands=("data", "starts", "ends", "axes", "steps"),
    oracle=oracle,
    normal=normal,
    moves_data=True,
    adversarial=adversarial,
    lowerings=(one_by_one, mirrored, gathered),
    neutral=_forwards,
    traits=Traits(merges=_with_fewer_axes, floats=(Trait.MOVES,), moved=(0,)),
)
