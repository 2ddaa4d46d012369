"""Interpolated: along some axes, each element is a weighted sum of a few others. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator


@dataclass(frozen=True)
class Interpolated:
    """The axes, in order; how many elements each has afterwards; how many elements (taps) a sum has.

    `places` and `weights` hold, axis by axis and tap by tap, one number for each element of the result.
    """

    axes: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    taps: int = 2
    places: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()


Array = np.ndarray[Any, Any]


def _shaped(weights: Sequence[float], axis: int, rank: int, dtype: Any) -> Array:
    return np.array(weights, dtype).reshape(-1, *(1,) * (rank - 1 - axis))


def oracle(what: Interpolated, x: Array) -> Array:
    """Add up the weighted taps of one axis after the other."""
    start = 0
    for axis, size in zip(what.axes, what.sizes, strict=True):
        total: Any = 0
        for tap in range(what.taps):
            part = slice(start + tap * size, start + (tap + 1) * size)
            total = total + x.take(what.places[part], axis) * _shaped(what.weights[part], axis, x.ndim, x.dtype)
        x, start = total, start + what.taps * size
    return x


MANY = 0
"""Any other number of taps than those for which each sum is written out."""


def _has(taps: int) -> Callable[[Interpolated, Operands], Reason | None]:
    def applies_if(what: Interpolated, operands: Operands) -> Reason | None:
        if (what.taps if what.taps in (1, 2, 4) else MANY) != taps:
            return Reason(f"a sum has {what.taps} elements")
        if first(operands).rank is None:
            return Reason("the rank is unknown", missing=True)
        return None if what.axes else Reason("no axis is left")

    return applies_if


def _next(what: Interpolated, operands: Operands) -> Mapping[str, Any]:
    data = first(operands)
    axis, size = what.axes[0], what.sizes[0]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(data.dtype or 1)
    count = bounded(size * what.taps)
    found: dict[str, Any] = {
        "axis": axis,
        "axes": what.axes[1:],
        "sizes": what.sizes[1:],
        "places": what.places[count:],
        "weights": what.weights[count:],
    }
    for tap in range(what.taps):
        part = slice(tap * size, (tap + 1) * size)
        found[f"place_{tap}"] = what.places[part]
        found[f"weight_{tap}"] = Tensor(_shaped(what.weights[part], axis, data.rank or 0, dtype))
    return found


@lowering(18, applies_if=_has(2), bind=_next)
def of_two(
    x, axis: int, place_0: Sequence[int], place_1: Sequence[int], weight_0: Sequence[int], weight_1: Sequence[int],
    axes: Sequence[int], sizes: Sequence[int], places: Sequence[int], weights: Sequence[float],
):  # fmt: skip
    """Look up the two elements of each sum along one axis, then along the others."""
    low = op.Mul(op.Gather(x, place_0, axis=axis), weight_0)
    high = op.Mul(op.Gather(x, place_1, axis=axis), weight_1)
    return meaning.Same(op.Add(low, high), axes=axes, sizes=sizes, places=places, weights=weights)


@lowering(18, applies_if=_has(4), bind=_next)
def of_four(
    x, axis: int, place_0: Sequence[int], place_1: Sequence[int], place_2: Sequence[int], place_3: Sequence[int],
    weight_0: Sequence[int], weight_1: Sequence[int], weight_2: Sequence[int], weight_3: Sequence[int],
    axes: Sequence[int], sizes: Sequence[int], places: Sequence[int], weights: Sequence[float],
):  # fmt: skip
    """Look up the four elements of each sum along one axis, then along the others."""
    one = op.Mul(op.Gather(x, place_0, axis=axis), weight_0)
    two = op.Mul(op.Gather(x, place_1, axis=axis), weight_1)
    three = op.Mul(op.Gather(x, place_2, axis=axis), weight_2)
    four = op.Mul(op.Gather(x, place_3, axis=axis), weight_3)
    total = op.Add(op.Add(op.Add(one, two), three), four)
    return meaning.Same(total, axes=axes, sizes=sizes, places=places, weights=weights)


@lowering(18, applies_if=_has(1), bind=_next)
def of_one(
    x, axis: int, place_0: Sequence[int], axes: Sequence[int], sizes: Sequence[int], places: Sequence[int],
    weights: Sequence[float],
):  # fmt: skip
    """Look up elements along one axis, then along the others."""
    return meaning.Same(op.Gather(x, place_0, axis=axis), axes=axes, sizes=sizes, places=places, weights=weights)


def _window(what: Interpolated, operands: Operands) -> Mapping[str, Any]:
    data = first(operands)
    axis, count = what.axes[0], bounded(what.sizes[0] * what.taps)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(data.dtype or 1)
    rows = [np.array(one[:count]).reshape(what.taps, -1).T for one in (what.places, what.weights)]
    behind = (1,) * ((data.rank or 0) - 1 - axis)
    return {
        "axis": axis,
        "tap": (axis + 1,),
        "window": Tensor(rows[0].astype(np.int64)),
        "factors": Tensor(rows[1].astype(dtype).reshape(*rows[1].shape, *behind)),
        "axes": what.axes[1:],
        "sizes": what.sizes[1:],
        "places": what.places[count:],
        "weights": what.weights[count:],
    }


@lowering(18, applies_if=_has(MANY), bind=_window)
def of_many(
    x, axis: int, tap: Sequence[int], window: Sequence[int], factors: Sequence[int], axes: Sequence[int],
    sizes: Sequence[int], places: Sequence[int], weights: Sequence[float],
):  # fmt: skip
    """Look up all elements of each sum along one axis, and add them; then along the others."""
    sums = op.ReduceSum(op.Mul(op.Gather(x, window, axis=axis), factors), tap, keepdims=0)
    return meaning.Same(sums, axes=axes, sizes=sizes, places=places, weights=weights)


def _facts(what: Interpolated, operands: Operands) -> tuple[Facts, ...]:
    data = first(operands)
    if data.shape is None:
        return (Facts(data.dtype),)
    sizes = dict(zip(what.axes, what.sizes, strict=True))
    return (Facts(data.dtype, tuple(sizes.get(axis, dim) for axis, dim in enumerate(data.shape))),)


OPERATOR = Operator(
    name="Interpolated",
    domain="opshift.step",
    meaning=Interpolated,
    versions=(),
    operands=("x",),
    oracle=oracle,
    lowerings=(of_one, of_two, of_four, of_many),
    facts=_facts,
    idle=lambda what, operands: not what.axes,
)
