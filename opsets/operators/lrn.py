"""LRN: each element divided by a power of the squares in channels around its own. Version 13 adds bfloat16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first, rank_unknown
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class LRN:
    """The number of summed channels, and the parameters of the divisor."""

    alpha: float = float(np.float32(1e-4))
    beta: float = 0.75
    bias: float = 1.0
    size: int = 1


def oracle(what: LRN, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """LRN-13: "max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2))".

    Squares overflow as in onnxruntime 1.32.0; those of halves are taken in float.
    """
    wide = x if x.dtype == np.float64 else x.astype(np.float32)
    before = (what.size - 1) // 2
    around = np.pad(wide**2, [(0, 0), (before, what.size - 1 - before), *[(0, 0)] * (x.ndim - 2)])
    total = sum(around[:, start : start + x.shape[1]] for start in range(what.size))
    scale = what.bias + what.alpha / what.size * np.asarray(total).astype(np.float64)
    return np.asarray((wide / scale**what.beta).astype(x.dtype))


def _summed(what: LRN, operands: Operands) -> Reason | None:
    data = first(operands)
    if data.dtype is None or data.shape is None:
        return Reason("the element type or the rank is unknown", missing=True)
    return Reason("it has no channels, or sums none") if len(data.shape) < 2 or what.size < 1 else None


def _channels(what: LRN, operands: Operands) -> Reason | None:
    if reason := _summed(what, operands):
        return reason
    known = isinstance(first(operands).dim(1), int)
    return None if known else Reason("the number of channels is unknown", missing=True)


def _any_channels(what: LRN, operands: Operands) -> Reason | None:
    if reason := _summed(what, operands):
        return reason
    return Reason("the number of channels is known") if isinstance(first(operands).dim(1), int) else None


def _around(what: LRN, operands: Operands) -> Mapping[str, Any]:
    dtype, channels = first(operands).dtype, first(operands).dim(1)
    within = TensorProto.DOUBLE if dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    wide = onnx.helper.tensor_dtype_to_np_dtype(within)
    behind = (0,) * ((first(operands).rank or 2) - 2)
    before = (what.size - 1) // 2
    count = channels if isinstance(channels, int) else 0
    bounded(count * what.size)
    numbers = {"scale": what.alpha / what.size, "bias": what.bias, "power": what.beta}
    return {
        **{name: Tensor(np.array(number, wide)) for name, number in numbers.items()},
        "pads": (0, before, *behind, 0, what.size - 1 - before, *behind),
        "places": Tensor(np.arange(count)[:, None] + np.arange(what.size)),
        "window": tuple(range(what.size)),
        "within": within,
        "to": dtype,
    }


@lowering(18, applies_if=_channels, bind=_around, rounds=True)
def by_neighbours(
    x,
    scale: Sequence[int],
    bias: Sequence[int],
    power: Sequence[int],
    pads: Sequence[int],
    places: Sequence[int],
    within: int,
    to: int,
):
    """Gather the scaled squares of the channels around each one, zeros beyond the ends, and add them up."""
    wide = op.Cast(x, to=within)
    around = op.Gather(op.Pad(wide * wide * scale, pads), places, axis=1)
    total = op.ReduceSum(around, [2], keepdims=0)
    return op.Cast(wide / op.Pow(total + bias, power), to=to)


@lowering(18, applies_if=_any_channels, bind=_around, rounds=True)
def by_neighbours_at_run_time(
    x,
    scale: Sequence[int],
    bias: Sequence[int],
    power: Sequence[int],
    pads: Sequence[int],
    window: Sequence[int],
    within: int,
    to: int,
):
    """Do the same for as many channels as there are."""
    wide = op.Cast(x, to=within)
    channels = op.Range(0, op.Squeeze(op.Slice(op.Shape(x), [1], [2])), 1)
    places = op.Unsqueeze(channels, [1]) + window
    around = op.Gather(op.Pad(wide * wide * scale, pads), places, axis=1)
    total = op.ReduceSum(around, [2], keepdims=0)
    return op.Cast(wide / op.Pow(total + bias, power), to=to)


@lowering(18, applies_if=rank_unknown)
def of_four_axes(x):
    """Merge the axes behind the channels, with one of length 1 for the kernel's sake, and put them apart again."""
    shape = op.Shape(x)
    rows = op.Flatten(x, axis=2)
    image = op.Concat(op.Gather(shape, [0, 1]), op.Gather(op.Shape(rows), [1]), [1], axis=0)
    return op.Reshape(meaning.Same(op.Reshape(rows, image, allowzero=1)), shape, allowzero=1)


OPERATOR = Operator(
    name="LRN",
    meaning=LRN,
    versions=(Version(1), Version(13)),
    operands=("X",),
    oracle=oracle,
    lowerings=(by_neighbours, by_neighbours_at_run_time, of_four_axes),
    wider_types=COMPUTED,
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), slides=True),
)
