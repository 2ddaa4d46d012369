"""Windowed: sums or maxima of windows, by slices of the whole input. Lowerings use it; no model has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Windowed:
    """The windows along each axis behind the first two, as of a pool without padding; `largest`: no sums, but maxima.

    An input that is shorter than the windows has none; `filled`: there is none so short.
    """

    kernel_shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    largest: int = 0
    filled: int = 0


def oracle(what: Windowed, x: Array) -> Array:
    """Add up the elements of each window, or return the largest."""
    combined = np.maximum if what.largest else np.add
    for axis, (kernel, stride, dilation) in enumerate(
        zip(what.kernel_shape, what.strides, what.dilations, strict=True), 2
    ):
        starts = max(x.shape[axis] - dilation * (kernel - 1), 0)
        parts = [
            np.take(x, range(dilation * one, dilation * one + starts), axis) for one in range(kernel * bool(starts))
        ]
        whole = combined.reduce(parts) if parts else np.take(x, range(0), axis)
        x = np.take(whole, range(0, starts, stride), axis)
    return x


def _facts(what: Windowed, operands: Operands) -> tuple[Facts, ...]:
    data = operands[0] or Facts()
    if data.shape is None:
        return (Facts(data.dtype, None),)
    sizes = [
        max(-(-(size - dilation * (kernel - 1)) // stride), 0) if isinstance(size, int) else None
        for size, kernel, stride, dilation in zip(
            data.shape[2:], what.kernel_shape, what.strides, what.dilations, strict=True
        )
    ]
    return (Facts(data.dtype, (*data.shape[:2], *sizes)),)


def _busy(what: Windowed) -> list[int]:
    """Return the axes along which a window has several elements."""
    return [axis for axis, kernel in enumerate(what.kernel_shape) if kernel > 1]


def _plain(what: Windowed) -> bool:
    return set(what.strides) <= {1}


def _skipping(what: Windowed, operands: Operands) -> Reason | None:
    return Reason("") if _plain(what) else None


def _steps(what: Windowed, operands: Operands) -> Mapping[str, Any]:
    axes = [axis for axis, stride in enumerate(what.strides) if stride > 1]
    return {
        "every": (1,) * len(what.strides),
        "strides": what.strides,
        "zeros": (0,) * len(axes),
        "ends": (2147483647,) * len(axes),
        "axes": tuple(axis + 2 for axis in axes),
        "steps": tuple(what.strides[axis] for axis in axes),
    }


@lowering(18, applies_if=_skipping, bind=_steps)
def strided(
    x, every: Sequence[int], zeros: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
):
    """Compute all windows, and leave out those between the strides."""
    return op.Slice(meaning.Same(x, strides=every), zeros, ends, axes, steps)


def _pooled(what: Windowed, operands: Operands) -> Reason | None:
    if not what.largest:
        return Reason("a pool changes NaN, which a sum has")
    # onnxruntime 1.32.0 pools an empty batch, but refuses all other dimensions of 0.
    return _skipping(what, operands) if what.filled else Reason("there may be no windows")


@lowering(18, applies_if=_pooled, bind=_steps)
def pooled(x, every: Sequence[int], strides: Sequence[int]):
    """Compute all windows, and leave out those between the strides by a pool of single elements."""
    return meaning.MaxPool(meaning.Same(x, strides=every), kernel_shape=every, strides=strides)


def _several(what: Windowed, operands: Operands) -> Reason | None:
    return None if _plain(what) and len(_busy(what)) > 1 else Reason("")


def _first_axis(what: Windowed, operands: Operands) -> Mapping[str, Any]:
    axis = _busy(what)[0]
    along = tuple(kernel if place == axis else 1 for place, kernel in enumerate(what.kernel_shape))
    return {"along": along, "others": tuple(1 if place == axis else n for place, n in enumerate(what.kernel_shape))}


@lowering(18, applies_if=_several, bind=_first_axis)
def axis_by_axis(x, along: Sequence[int], others: Sequence[int]):
    """Combine along the first axis, then along the others."""
    return meaning.Same(meaning.Same(x, kernel_shape=along), kernel_shape=others)


def _along_one_axis(largest: int, odd: bool | None) -> Callable[[Windowed, Operands], Reason | None]:
    def applies(what: Windowed, operands: Operands) -> Reason | None:
        busy = _busy(what)
        if len(busy) != 1 or not _plain(what) or what.largest != largest:
            return Reason("")
        return None if odd in (None, bool(what.kernel_shape[busy[0]] % 2)) else Reason("")

    return applies


def _parts(smaller: Callable[[int], int]) -> Callable[[Windowed, Operands], Mapping[str, Any]]:
    """Return what binds the windows of a smaller kernel, and by how much two of them are apart."""

    def bind(what: Windowed, operands: Operands) -> Mapping[str, Any]:
        axis = _busy(what)[0]
        kernel, dilation = what.kernel_shape[axis], what.dilations[axis]
        part = smaller(kernel)
        return {
            "kernel_shape": (*what.kernel_shape[:axis], part, *what.kernel_shape[axis + 1 :]),
            "axis": (axis + 2,),
            "start": ((kernel - part) * dilation,),
            "end": (-(kernel - part) * dilation,),
            "last": ((kernel - 1) * dilation,),
        }

    return bind


@lowering(18, applies_if=_along_one_axis(1, None), bind=_parts(lambda kernel: (kernel + 1) // 2))
def larger_of_two(x, kernel_shape: Sequence[int], axis: Sequence[int], start: Sequence[int], end: Sequence[int]):
    """Compute the larger of two windows of half the length, which may overlap."""
    part = meaning.Same(x, kernel_shape=kernel_shape)
    return op.Max(op.Slice(part, [0], end, axis), op.Slice(part, start, [2147483647], axis))


@lowering(18, applies_if=_along_one_axis(0, False), bind=_parts(lambda kernel: kernel // 2))
def sum_of_two(x, kernel_shape: Sequence[int], axis: Sequence[int], start: Sequence[int], end: Sequence[int]):
    """Add two windows of half the length."""
    part = meaning.Same(x, kernel_shape=kernel_shape)
    return op.Slice(part, [0], end, axis) + op.Slice(part, start, [2147483647], axis)


@lowering(18, applies_if=_along_one_axis(0, True), bind=_parts(lambda kernel: kernel - 1))
def sum_and_last(x, kernel_shape: Sequence[int], axis: Sequence[int], end: Sequence[int], last: Sequence[int]):
    """Add the last element to a window of the others."""
    part = meaning.Same(x, kernel_shape=kernel_shape)
    return op.Slice(part, [0], end, axis) + op.Slice(x, last, [2147483647], axis)


OPERATOR = Operator(
    name="Windowed",
    domain="opshift.step",
    meaning=Windowed,
    versions=(),
    operands=("X",),
    oracle=oracle,
    lowerings=(strided, pooled, axis_by_axis, larger_of_two, sum_of_two, sum_and_last),
    facts=_facts,
    idle=lambda what, operands: _plain(what) and not _busy(what),
)
