"""AveragePool: averages of windows. ceil_mode came with 10, dilations with 19; 22 ignores windows that start late."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.windows import (
    Pool,
    as_pads,
    below_22,
    explicit,
    nondefault_attributes,
    normal,
    of_any_size,
    overhangs,
    pads_of,
    same_pads,
    sizes_of,
    skips,
    spatial,
    unsupported_ceil_mode,
    windows,
)
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import SUMMED


@dataclass(frozen=True)
class AveragePool(Pool):
    """The windows along each axis behind the first two, and whether padding counts as elements."""

    count_include_pad: int = 0
    fits: bool = False
    """Whether the original is a version below 19, which runs only for sizes whose automatic padding is not negative."""


def oracle(what: AveragePool, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """AveragePool-22: a window is "divided by the number of elements (exclude pad when ... is zero)"."""
    what, _ = normal(what, (None,))
    sizes = spatial(what, x)
    if what.auto_pad != "NOTSET":
        if set(what.dilations) - {1}:
            raise ValueError("AveragePool-22: onnxruntime 1.32.0 pads as if automatic padding knew no dilations")
        what = dataclasses.replace(what, auto_pad="NOTSET", pads=same_pads(what, sizes))
    y = x.astype(np.float64)
    for axis, along in enumerate(windows(what, sizes), 2):
        number = along.elements(what.count_include_pad).reshape(-1, *[1] * (x.ndim - axis - 1))
        y = along.summed(y, axis) / number
    return y.astype(x.dtype)


# --- versions ---------------------------------------------------------------------------------------------------------


def _write(since: int, what: AveragePool, operands: Operands) -> Mapping[str, Any] | Reason:
    if since < 19 and set(what.dilations) - {1}:
        return Reason("it has no dilations")
    if since < 10 and what.ceil_mode:
        return Reason("it has no ceil_mode")
    if since < 19 and skips(what) and not what.fits:
        return Reason("onnxruntime takes no stride longer than the window with auto_pad, for sizes that are unknown")
    attributes = dict(nondefault_attributes(what))
    attributes.pop("fits", None)
    return unsupported_ceil_mode(what, operands, since >= 22) or attributes


def _before_19(since: int) -> Version:
    version = below_22(AveragePool, since, _write)

    def fitting(lift: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], AveragePool]:
        def lifted(attributes: Mapping[str, Any]) -> AveragePool:
            what: AveragePool = lift(attributes)
            return dataclasses.replace(what, fits=skips(what))

        return lifted

    assert version.lift
    assert version.spec
    return dataclasses.replace(version, lift=fitting(version.lift), spec=fitting(version.spec))


# --- lowerings ----------------------------------------------------------------------------------------------------


def _overhangs(what: AveragePool, operands: Operands) -> Reason | None:
    if what.count_include_pad and any(what.pads):
        return Reason("padding counts, and what is behind it does not")
    return overhangs(what, operands)


@lowering(18, applies_if=_overhangs, bind=as_pads)
def by_pads(x, pads: Sequence[int]):
    """Pad for the windows that end behind the input; that padding does not count."""
    return meaning.Same(x, pads=pads, ceil_mode=0, count_include_pad=0)


def _counts(what: AveragePool, operands: Operands) -> Reason | None:
    if not (what.count_include_pad and any(what.pads)):
        return Reason("padding does not count")
    if set(what.dilations) - {1}:
        return Reason("it has dilations")
    return explicit(what, operands)


def _in_front(what: AveragePool, operands: Operands) -> Mapping[str, Any]:
    rank = len(what.kernel_shape)
    found = windows(what, sizes_of(operands) or ())
    behind = tuple(max(along.reach - along.after, 0) for along in found)
    return {"around": (0, 0, *what.pads[:rank], 0, 0, *what.pads[rank:]), "pads": (*[0] * rank, *behind)}


@lowering(18, applies_if=_counts, bind=_in_front)
def padded(x, around: Sequence[int], pads: Sequence[int]):
    """Pad with zeros first, which count, then for the windows that end behind them, which does not."""
    return meaning.Same(op.Pad(x, around), pads=pads, ceil_mode=0, count_include_pad=0)


def _convolvable(what: AveragePool, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype != TensorProto.FLOAT:
        return Reason("it is not of float", missing=dtype is None)
    if reason := explicit(what, operands):
        return reason
    found = windows(what, sizes_of(operands) or ())
    # The mean of no elements is not defined: 0 / 0 here.
    least = min(int(along.elements(what.count_include_pad).min()) for along in found)
    return None if least else Reason("windows may start in the padding on the right")


def _sums(what: AveragePool, operands: Operands) -> Mapping[str, Any]:
    sizes = sizes_of(operands) or ()
    found = windows(what, sizes)
    numbers = functools.reduce(np.multiply.outer, [along.elements(what.count_include_pad) for along in found])
    pads = pads_of(what, operands)
    return {
        "one": (-1, 1, *sizes),
        "ones": Tensor(np.ones((1, 1, *what.kernel_shape), np.float32)),
        "numbers": Tensor(np.asarray(numbers, np.float32)),
        "counts": tuple(along.count for along in found),
        "pads": pads,
        "strides": what.strides,
        "dilations": what.dilations,
    }


@lowering(18, applies_if=_convolvable, bind=_sums, rounds=True)
def by_convolution(
    x,
    one: Sequence[int],
    ones: Sequence[int],
    numbers: Sequence[int],
    counts: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
):
    """Add up each window, channel by channel, with a kernel of ones; divide by the number of its elements."""
    sums = op.Conv(op.Reshape(x, one), ones, pads=pads, strides=strides, dilations=dilations)
    return op.Reshape(op.Div(sums, numbers), op.Concat(op.Slice(op.Shape(x), [0], [2]), counts, axis=0))


def _full(what: AveragePool) -> bool:
    """Return whether all windows have the same number of elements."""
    return bool(what.count_include_pad or not any(what.pads)) and not what.ceil_mode and what.auto_pad == "NOTSET"


def _of_same_number(what: AveragePool, operands: Operands) -> Reason | None:
    return of_any_size(what, operands) if _full(what) else Reason("windows differ in the number of their elements")


def _of_other_numbers(what: AveragePool, operands: Operands) -> Reason | None:
    return Reason("windows have the same number of elements") if _full(what) else of_any_size(what, operands)


def _sliced(what: AveragePool, operands: Operands) -> Mapping[str, Any]:
    """Bind all padding as `around`; what of it counts, along each axis, as `counted`, and what does not as `behind`."""
    rank, dtype = len(what.kernel_shape), first(operands).dtype
    pads = np.array(what.pads or (0,) * 2 * rank, np.int64).reshape(2, rank)
    more = np.stack([np.zeros(rank, np.int64), (np.array(what.strides) - 1) * bool(what.ceil_mode)])
    behind = more if what.count_include_pad else pads + more
    within = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    kind = np.float64 if within == TensorProto.DOUBLE else np.float32
    return {
        "around": tuple(np.insert(pads + more, 0, [[0], [0]], axis=1).ravel().tolist()),
        "behind": tuple(np.insert(behind, 0, [[0], [0]], axis=1).ravel().tolist()),
        "counted": tuple((pads.sum(axis=0) * bool(what.count_include_pad)).tolist()),
        "number": Tensor(np.array(math.prod(what.kernel_shape), kind)),
        "one": Tensor(np.array(1, kind)),
        "kernel_shape": what.kernel_shape,
        "strides": what.strides,
        "dilations": what.dilations,
        "auto_pad": what.auto_pad,
        "kernel": Tensor(np.ones((1, 1, *what.kernel_shape), np.float32)),
        "within": within,
        "to": dtype,
    }


@lowering(18, applies_if=_of_same_number, bind=_sliced, cost=2, rounds=True)
def by_slices(
    x,
    around: Sequence[int],
    number: Sequence[int],
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    within: int,
    to: int,
):
    """Add slices of the whole input, one for each element of a window, and divide by their number."""
    elements = op.Pad(op.Cast(x, to=within), around)
    sums = meaning.Windowed(elements, kernel_shape=kernel_shape, strides=strides, dilations=dilations)
    return op.Cast(sums / number, to=to)


@lowering(18, applies_if=_of_other_numbers, bind=_sliced, cost=2, rounds=True)
def by_slices_and_numbers(
    x,
    around: Sequence[int],
    behind: Sequence[int],
    counted: Sequence[int],
    one: Sequence[int],
    kernel_shape: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    within: int,
    to: int,
):
    """Add slices of the whole input, and slices of ones, which are the numbers of elements; divide."""
    elements = op.Pad(op.Cast(x, to=within), around)
    there = op.Pad(op.Expand(one, op.Concat([1, 1], op.Shape(x, start=2) + counted, axis=0)), behind)
    sums = meaning.Windowed(elements, kernel_shape=kernel_shape, strides=strides, dilations=dilations)
    numbers = meaning.Windowed(there, kernel_shape=kernel_shape, strides=strides, dilations=dilations)
    # Dilated windows may be in the padding only: their average is 0 (onnxruntime 1.32.0).
    return op.Cast(sums / op.Max(numbers, one), to=to)


def _automatic(what: AveragePool, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if not what.auto_pad.startswith("SAME"):
        return Reason("it has no auto_pad")
    if dtype != TensorProto.FLOAT:
        return Reason("it is not of float", missing=dtype is None)
    # onnxruntime 1.32.0 convolves with a dilation as specified, which pools do not.
    return Reason("windows are dilated, or shorter than a stride") if set(what.dilations) - {1} or skips(what) else None


@lowering(18, applies_if=_automatic, bind=_sliced, cost=2, rounds=True)
def by_convolutions(
    x, one: Sequence[int], auto_pad: str, counted: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
):
    """Add up each window, channel by channel, with a kernel of ones, and ones in place of its elements; divide."""
    sizes = op.Shape(x, start=2)
    image = op.Reshape(x, op.Concat([-1, 1], sizes, axis=0))
    sums = op.Conv(image, kernel, auto_pad=auto_pad, strides=strides)
    numbers = op.Conv(op.Expand(one, op.Concat([1, 1], sizes, axis=0)), kernel, auto_pad=auto_pad, strides=strides)
    averages = sums / numbers
    return op.Reshape(averages, op.Concat(op.Slice(op.Shape(x), [0], [2]), op.Shape(averages, start=2), axis=0))


OPERATOR = Operator(
    name="AveragePool",
    meaning=AveragePool,
    versions=(
        *(_before_19(since) for since in (1, 7, 10, 11)),
        below_22(AveragePool, 19, _write),
        Version(22, write=functools.partial(_write, 22)),
    ),
    operands=("X",),
    oracle=oracle,
    normal=normal,
    lowerings=(
        by_pads,
        padded,
        by_convolution,
        by_slices,
        by_slices_and_numbers,
        by_convolutions,
    ),
    wider_types=SUMMED,
    traits=Traits(miscounts=True, floats=(Trait.SUMS, Trait.WEIGHS)),
)
