"""Conv: the convolution of an image with kernels. Version 11 spells out automatic padding, 22 adds bfloat16."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.families.convolutions import Convolution, padding, sums
from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import convolved
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Conv(Convolution):
    """The position of the kernel, and the groups of channels."""


def oracle(what: Conv, x: Array, w: Array, b: Array | None = None) -> Array:
    """Conv-22: "consumes an input tensor and a filter, and computes the output"."""
    y = sums(what, x.astype(np.float64), w.astype(np.float64))
    return np.asarray(y if b is None else y + b.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2))).astype(x.dtype)


def _weights(operands: Operands) -> Facts:
    return operands[1] or Facts()


def _count(operands: Operands) -> int | None:
    """Return how many axes the kernel has, if known."""
    rank = first(operands).rank or _weights(operands).rank
    return None if rank is None else rank - 2


def _dims(operands: Operands) -> tuple[int, ...]:
    """Return the dimensions of the kernels that are known."""
    return tuple(dim for dim in _weights(operands).shape or () if isinstance(dim, int))


def _kernel(what: Conv, operands: Operands) -> tuple[int, ...] | None:
    """Return the sizes of the kernel, where all are known."""
    sizes = what.kernel_shape or (_weights(operands).shape or (None,) * 3)[2:]
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if len(known) == len(sizes) else None


def _sizes(operands: Operands) -> tuple[int, ...] | None:
    """Return the sizes of the image, where all are known and none is zero."""
    shape = first(operands).shape
    known = tuple(size for size in (shape or ())[2:] if isinstance(size, int) and size)
    return known if shape is not None and known and len(known) == len(shape) - 2 else None


def _automatic(what: Conv, operands: Operands) -> Reason | None:
    if what.auto_pad in ("NOTSET", ""):
        return Reason("it has no auto_pad")
    if what.auto_pad == "VALID":
        return None if _count(operands) else Reason("the rank is unknown", missing=True)
    if what.dilations and set(what.dilations) != {1}:
        return Reason("no text defines automatic padding with dilations")
    if _kernel(what, operands) is None:
        return Reason("the sizes of the kernel are unknown", missing=True)
    if what.strides is None or set(what.strides) == {1}:
        return None
    return None if _sizes(operands) else Reason("the size of the image is unknown, on which the pads depend", True)


def _explicit(what: Conv, operands: Operands) -> Mapping[str, Any]:
    kernel = _kernel(what, operands) or (1,) * (_count(operands) or 1)
    before, behind = padding(what, _sizes(operands) or (1,) * len(kernel), kernel)
    return {"pads": (*before, *behind)}


@lowering(22, applies_if=_automatic, bind=_explicit)
def with_pads(x, w, b, pads: Sequence[int]):
    """Spell out automatic padding."""
    return meaning.Same(x, w, b, auto_pad="NOTSET", pads=pads)


def _plain(what: Conv, operands: Operands) -> Reason | None:
    """Require explicit pads, and known sizes of image and kernels."""
    if what.auto_pad not in ("NOTSET", ""):
        return Reason("it has auto_pad")
    if _sizes(operands) is None:
        return Reason("the size of the image is unknown, or zero", missing=True)
    shape = _weights(operands).shape
    if shape is None or not all(isinstance(dim, int) and dim for dim in shape):
        return Reason("the shape of the kernels is unknown, or empty", missing=True)
    return None if len(shape) == (first(operands).rank or 0) else Reason("the kernels are of another rank")


def _unbiased(operands: Operands) -> Reason | None:
    return None if operands[2] is None else Reason("it has a bias")


def _pointwise(what: Conv, operands: Operands) -> Reason | None:
    if reason := _plain(what, operands) or _unbiased(operands):
        return reason
    moved = any(what.pads or ()) or set(what.strides or (1,)) != {1} or what.group != 1
    single = set(_kernel(what, operands) or (0,)) == {1}
    return None if single and not moved else Reason("it is no convolution of one pixel at a time")


def _rows(what: Conv, operands: Operands) -> Mapping[str, Any]:
    sizes, (kernels, channels, *_) = _sizes(operands) or (), _dims(operands)
    return {"image": (0, 0, math.prod(sizes)), "matrix": (kernels, channels), "out": (0, 0, *sizes)}


@lowering(14, applies_if=_pointwise, bind=_rows, rounds=True)
def by_matmul(x, w, b, matrix: Sequence[int], image: Sequence[int], out: Sequence[int]):
    """Multiply a matrix of the kernels by one of the pixels."""
    return op.Reshape(op.MatMul(op.Reshape(w, matrix), op.Reshape(x, image)), out)


def _pointwise_of_any_size(what: Conv, operands: Operands) -> Reason | None:
    """Require kernels of one pixel, for images of whatever size."""
    shape, rank = _weights(operands).shape, first(operands).rank
    if what.auto_pad not in ("NOTSET", ""):
        return Reason("it has auto_pad")
    if shape is None or rank is None or not all(isinstance(dim, int) and dim for dim in shape):
        return Reason("the shape of the kernels is unknown, or empty", missing=shape is None or rank is None)
    if reason := _unbiased(operands):
        return reason
    moved = any(what.pads or ()) or set(what.strides or (1,)) != {1} or what.group != 1
    single = len(shape) == rank and set(shape[2:]) == {1}
    return None if single and not moved else Reason("it is no convolution of one pixel at a time")


def _turns(what: Conv, operands: Operands) -> Mapping[str, Any]:
    kernels, channels, *_ = _dims(operands)
    rank = first(operands).rank or 0
    return {
        "matrix": (kernels, channels),
        "behind": (0, *range(2, rank), 1),
        "before": (0, rank - 1, *range(1, rank - 1)),
    }


@lowering(14, applies_if=_pointwise_of_any_size, bind=_turns, rounds=True)
def with_channels_last(x, w, b, matrix: Sequence[int], behind: Sequence[int], before: Sequence[int]):
    """Put the channels last, and multiply them by the kernels."""
    kernels = op.Transpose(op.Reshape(w, matrix), perm=[1, 0])
    return op.Transpose(op.MatMul(op.Transpose(x, perm=behind), kernels), perm=before)


def _biased(what: Conv, operands: Operands) -> Reason | None:
    if operands[2] is None:
        return Reason("it has no bias")
    return None if _count(operands) else Reason("the rank is unknown", missing=True)


def _column(what: Conv, operands: Operands) -> Mapping[str, Any]:
    return {"behind": tuple(range(1, 1 + (_count(operands) or 1)))}


@lowering(22, applies_if=_biased, bind=_column, rounds=True)
def with_sum(x, w, b, behind: Sequence[int]):
    """Add the bias afterwards."""
    return meaning.Same(x, w, None) + op.Unsqueeze(b, behind)


def _gatherable(what: Conv, operands: Operands) -> Reason | None:
    if reason := _plain(what, operands) or _unbiased(operands):
        return reason
    if _pointwise(what, operands) is None:
        return Reason("it is a convolution of one pixel at a time")
    return None if min(_out(what, operands), default=0) > 0 else Reason("it has no windows")


def _out(what: Conv, operands: Operands) -> tuple[int, ...]:
    sizes, kernel = _sizes(operands) or (), _kernel(what, operands) or ()
    before, behind = padding(what, sizes, kernel)
    ones = (1,) * len(sizes)
    strides, dilations = what.strides or ones, what.dilations or ones
    return tuple(
        (size + before[i] + behind[i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i, size in enumerate(sizes)
    )


def _patches(what: Conv, operands: Operands) -> Mapping[str, Any]:
    """Bind the places of the pixels that each element of the kernel meets, in the image with its pads as one row."""
    sizes, kernel, out = _sizes(operands) or (), _kernel(what, operands) or (), _out(what, operands)
    before, behind = padding(what, sizes, kernel)
    wide = tuple(size + before[i] + behind[i] for i, size in enumerate(sizes))
    ones = (1,) * len(sizes)
    strides, dilations = what.strides or ones, what.dilations or ones
    bounded(math.prod(kernel) * math.prod(out))
    places = np.zeros((1,) * (2 * len(sizes)), np.int64)
    for i, (k, o) in enumerate(zip(kernel, out, strict=True)):
        along = np.arange(k)[:, None] * dilations[i] + np.arange(o) * strides[i]
        spread = [1] * (2 * len(sizes))
        spread[i], spread[len(sizes) + i] = k, o
        places = places * wide[i] + along.reshape(spread)
    kernels, channels, *_ = _dims(operands)
    each = channels * math.prod(kernel)
    return {
        "around": (0, 0, *before, 0, 0, *behind),
        "row": (0, 0, math.prod(wide)),
        "places": Tensor(places.reshape(math.prod(kernel), math.prod(out))),
        "patches": (0, what.group, each, math.prod(out)),
        "matrix": (what.group, kernels // what.group, each),
        "out": (0, kernels, *out),
    }


@lowering(14, applies_if=_gatherable, bind=_patches, cost=1, rounds=True)
def by_patches(
    x,
    w,
    b,
    around: Sequence[int],
    row: Sequence[int],
    places: Sequence[int],
    patches: Sequence[int],
    matrix: Sequence[int],
    out: Sequence[int],
):
    """Gather the pixels of each window, and multiply a matrix of the kernels by those of all windows."""
    pixels = op.Gather(op.Reshape(op.Pad(x, around), row), places, axis=2)
    products = op.MatMul(op.Reshape(w, matrix), op.Reshape(pixels, patches))
    return op.Reshape(products, out)


OPERATOR = Operator(
    name="Conv",
    meaning=Conv,
    versions=(Version(1), Version(11), Version(22)),
    operands=("X", "W", "B"),
    oracle=oracle,
    lowerings=(with_pads, by_matmul, with_channels_last, with_sum, by_patches),
    wider_types=COMPUTED,
    traits=Traits(floats=(Trait.SUMS,), equal_dims=convolved, spreads=False, factors=2, quantized="QLinearConv"),
)
