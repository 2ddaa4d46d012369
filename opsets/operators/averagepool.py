"""AveragePool: averages of windows. ceil_mode came with 10, dilations with 19; 22 ignores windows that start late."""

from __future__ import annotations

import dataclasses
import functools
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


# --- what a version says ------------------------------------------------------------------------------------------


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
    lowerings=(by_pads, padded, by_convolution),
    wider_types=SUMMED,
    traits=Traits(miscounts=True, floats=(Trait.SUMS, Trait.WEIGHS)),
)
