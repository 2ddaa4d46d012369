"""Sampled: elements of an axis, interpolated at points between them. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators.resize import taps_at
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator


@dataclass(frozen=True)
class Sampled:
    """The axis, and attributes of Resize. `alone`: an element that a point is at is not added to any other."""

    axis: int = 0
    alone: int = 0
    mode: str = "nearest"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0


Array = np.ndarray[Any, Any]


def oracle(what: Sampled, x: Array, points: Array) -> Array:
    """Weigh the elements around each point; the first and the last stand for those outside."""
    places, weights = taps_at(what, points, x.shape[what.axis])
    if what.alone:
        whole = points == np.floor(points)
        low = np.clip(points, 0, x.shape[what.axis] - 1).astype(np.int64)
        places, weights = np.where(whole, low, places), np.where(whole, np.float32(1) / len(places), weights)
    behind = (1,) * (x.ndim - 1 - what.axis)
    taps = zip(places, weights, strict=True)
    return np.asarray(sum(x.take(at, what.axis) * by.astype(x.dtype).reshape(-1, *behind) for at, by in taps))


def _rounded(*modes: str) -> Callable[[Sampled, Operands], Reason | None]:
    def applies_if(what: Sampled, operands: Operands) -> Reason | None:
        nearest = what.mode == "nearest" and what.nearest_mode in modes
        return None if nearest else Reason("nearest are others, or it mixes elements")

    return applies_if


def _linear(what: Sampled, operands: Operands) -> Reason | None:
    return Reason(f"its mode is {what.mode}") if what.mode != "linear" else _ranked(operands)


def _cubic(all_taps: bool) -> Callable[[Sampled, Operands], Reason | None]:
    def applies_if(what: Sampled, operands: Operands) -> Reason | None:
        if what.mode != "cubic" or all_taps == bool(what.alone or what.exclude_outside):
            return Reason(f"its mode is {what.mode}, or other elements count")
        return _ranked(operands)

    return applies_if


def _ranked(operands: Operands) -> Reason | None:
    return None if first(operands).rank is not None else Reason("the rank is unknown", missing=True)


def _bound(what: Sampled, operands: Operands) -> Mapping[str, Any]:
    behind = (1,) * ((first(operands).rank or 0) - 1 - what.axis)
    free = np.float32(what.cubic_coeff_a)
    return {
        "axis": what.axis,
        "along": (what.axis,),
        "shift": 0.5 if what.nearest_mode.startswith("round") else 0.0,
        "column": (-1, *behind),
        "rows": (-1, 4, *behind),
        "taps": (what.axis + 1,),
        "step": 1.0 - what.alone,
        "outside": 1.0 - what.exclude_outside,
        "around": Tensor(np.array([-1, 0, 1, 2], np.float32)),
        "near": Tensor(free + np.array([2, 3], np.float32)),
        "far": Tensor(free * np.array([1, 5, 8, 4], np.float32)),
    }


@lowering(18, applies_if=_rounded("round_prefer_floor", "ceil"), bind=_bound)
def nearest_above(x, points, axis: int, along: Sequence[int], shift: float):
    """Look up the elements at the next whole points."""
    last = op.Gather(op.Shape(x), along, axis=0) - 1
    return op.Gather(x, op.Max(op.Min(op.Cast(op.Ceil(points - shift), to=7), last), 0), axis=axis)


@lowering(18, applies_if=_rounded("round_prefer_ceil", "floor"), bind=_bound)
def nearest_below(x, points, axis: int, along: Sequence[int], shift: float):
    """Look up the elements at the whole points before."""
    last = op.Gather(op.Shape(x), along, axis=0) - 1
    return op.Gather(x, op.Max(op.Min(op.Cast(op.Floor(points + shift), to=7), last), 0), axis=axis)


@lowering(18, applies_if=_linear, bind=_bound, rounds=True)
def of_two(x, points, axis: int, along: Sequence[int], step: float, column: Sequence[int]):
    """Weigh the elements before and behind each point."""
    last = op.Cast(op.Gather(op.Shape(x), along, axis=0) - 1, to=1)
    at = op.Max(op.Min(points, last), 0.0)
    low = op.Floor(at)
    high = op.Min(op.Max(low + step, op.Ceil(at)), last)
    one = op.Equal(low, high)
    near = op.CastLike(op.Reshape(op.Where(one, 0.5, high - at), column), x)
    far = op.CastLike(op.Reshape(op.Where(one, 0.5, at - low), column), x)
    lows = op.Mul(op.Gather(x, op.Cast(low, to=7), axis=axis), near)
    return op.Add(lows, op.Mul(op.Gather(x, op.Cast(high, to=7), axis=axis), far))


# Weights are the bits of onnxruntime 1.32.0: where products cancel out, others show.
@lowering(18, applies_if=_cubic(all_taps=True), bind=_bound, rounds=True)
def of_four(
    x, points, axis: int, along: Sequence[int], rows: Sequence[int], taps: Sequence[int], around: Sequence[int],
    near: Sequence[int], far: Sequence[int],
):  # fmt: skip
    """Weigh the four elements around each point by cubic convolution."""
    at = op.Unsqueeze(points, [1])
    whole = op.Floor(at) + around
    apart = op.Abs(at - whole)
    n1, n0 = op.Split(near, num_outputs=2)
    f3, f2, f1, f0 = op.Split(far, num_outputs=4)
    nearby = (n1 * apart - n0) * apart * apart + 1.0
    farther = ((f3 * apart - f2) * apart + f1) * apart - f0
    weights = op.CastLike(op.Reshape(op.Where(op.Greater(apart, 1.0), farther, nearby), rows), x)
    places = op.Max(op.Min(op.Cast(whole, to=7), op.Gather(op.Shape(x), along, axis=0) - 1), 0)
    return op.ReduceSum(op.Mul(op.Gather(x, places, axis=axis), weights), taps, keepdims=0)


@lowering(18, applies_if=_cubic(all_taps=False), bind=_bound, rounds=True)
def of_some(
    x, points, axis: int, along: Sequence[int], step: float, rows: Sequence[int], taps: Sequence[int],
    around: Sequence[int], near: Sequence[int], far: Sequence[int], outside: float,
):  # fmt: skip
    """Weigh those of the four elements that count; with `alone`, all of them are the one that a point is at."""
    at = op.Unsqueeze(points, [1])
    low = op.Floor(at)
    whole = low + around * op.Max(op.Cast(op.Greater(at, low), to=1), step)
    apart = op.Abs(at - whole)
    n1, n0 = op.Split(near, num_outputs=2)
    f3, f2, f1, f0 = op.Split(far, num_outputs=4)
    nearby = (n1 * apart - n0) * apart * apart + 1.0
    farther = ((f3 * apart - f2) * apart + f1) * apart - f0
    places = op.Max(op.Min(op.Cast(whole, to=7), op.Gather(op.Shape(x), along, axis=0) - 1), 0)
    counted = op.Max(op.Cast(op.Equal(op.Cast(whole, to=7), places), to=1), outside)
    weights = op.Where(op.Greater(apart, 1.0), farther, nearby) * counted
    shares = op.CastLike(op.Reshape(weights / op.ReduceSum(weights, [1], keepdims=1), rows), x)
    return op.ReduceSum(op.Mul(op.Gather(x, places, axis=axis), shares), taps, keepdims=0)


def _facts(what: Sampled, operands: Operands) -> tuple[Facts, ...]:
    data, points = first(operands), operands[1] or Facts()
    shape = data.shape and tuple(points.dim(0) if axis == what.axis else dim for axis, dim in enumerate(data.shape))
    return (Facts(data.dtype, shape),)


OPERATOR = Operator(
    name="Sampled",
    domain="opshift.step",
    meaning=Sampled,
    versions=(),
    operands=("x", "points"),
    oracle=oracle,
    lowerings=(nearest_above, nearest_below, of_two, of_four, of_some),
    facts=_facts,
)
