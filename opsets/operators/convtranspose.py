"""ConvTranspose: the gradient of Conv with respect to its input. The padding of each side is spelled out since 11."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class ConvTranspose:
    """The attributes of ConvTranspose-22; None where they are left out."""

    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    output_padding: tuple[int, ...] | None = None
    output_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


_Array = np.ndarray[Any, Any]


def _pads(what: ConvTranspose, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return what is cut off in front of each axis, then behind each; None where more would have to be added.

    ConvTranspose-11: "total_padding[i] = stride[i] * (input_size[i] - 1) + output_padding[i] + ((kernel_shape[i] - 1) *
    dilations[i] + 1) - output_shape[i]"; "the extra padding is added at the end for SAME_UPPER and at the beginning"
    otherwise. Version 1 has it so for SAME_LOWER, and the other way round in the formula for output_shape alone;
    onnxruntime 1.32.0 computes all versions as 11. With SAME_UPPER and SAME_LOWER it pads nothing where the strides are
    longer than the kernel.
    """
    rank = len(sizes)
    ones, zeros = (1,) * rank, (0,) * rank
    if what.output_shape is None and what.auto_pad in ("NOTSET", "VALID"):
        return what.pads or zeros * 2 if what.auto_pad == "NOTSET" else zeros * 2
    strides, dilations, more = what.strides or ones, what.dilations or ones, what.output_padding or zeros
    front, behind = [], []
    for axis, size in enumerate(sizes):
        wanted = size * strides[axis] if what.output_shape is None else what.output_shape[axis - rank]
        total = strides[axis] * (size - 1) + more[axis] + (kernel[axis] - 1) * dilations[axis] + 1 - wanted
        if total < 0 and what.output_shape is not None:
            return None
        less, rest = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
        front.append(less if what.auto_pad == "SAME_UPPER" else rest)
        behind.append(rest if what.auto_pad == "SAME_UPPER" else less)
    return (*front, *behind)


def oracle(what: ConvTranspose, x: _Array, w: _Array, b: _Array | None = None) -> _Array:
    """ConvTranspose-11: "output_shape[i] = stride[i] * (input_size[i] - 1) + output_padding[i] + ... - pads"."""
    sizes, kernel = x.shape[2:], w.shape[2:]
    rank = len(sizes)
    pads = _pads(what, sizes, kernel)
    if pads is None:
        raise ValueError("the output is larger than what the input makes")
    strides, dilations = what.strides or (1,) * rank, what.dilations or (1,) * rank
    more = what.output_padding or (0,) * rank
    reach = [strides[i] * (sizes[i] - 1) + more[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(rank)]
    channels = w.shape[1] * what.group
    y = np.zeros((x.shape[0], channels, *reach))
    each = x.astype(np.float64).reshape(x.shape[0], what.group, -1, *sizes)
    weights = w.astype(np.float64).reshape(what.group, -1, w.shape[1], *kernel)
    for place in itertools.product(*map(range, kernel)):
        element: Any = (..., *place)
        made = np.einsum("ngi...,gio->ngo...", each, weights[element]).reshape(x.shape[0], channels, *sizes)
        starts = [place[i] * dilations[i] for i in range(rank)]
        spots = [slice(starts[i], starts[i] + strides[i] * (sizes[i] - 1) + 1, strides[i]) for i in range(rank)]
        y[(slice(None), slice(None), *spots)] += made
    kept = [slice(pads[i], reach[i] - pads[rank + i]) for i in range(rank)]
    bias = 0 if b is None else b.astype(np.float64).reshape(-1, *[1] * rank)
    return np.asarray(y[(slice(None), slice(None), *kept)] + bias).astype(x.dtype)


def normal(what: ConvTranspose, operands: Operands) -> tuple[ConvTranspose, Operands]:
    """Spell out the padding where the sizes of input and kernel are known."""
    what = dataclasses.replace(what, output_shape=what.output_shape or None)
    if what.output_shape is not None and what.auto_pad != "SAME_UPPER":
        # So says the sentence on SAME_LOWER in every version, and so onnxruntime 1.32.0 computes all of these.
        what = dataclasses.replace(what, auto_pad="SAME_LOWER", pads=None)
    shape, weights = first(operands).shape, (operands[1] or Facts()).shape
    sizes = () if shape is None else tuple(dim for dim in shape[2:] if isinstance(dim, int))
    given = what.kernel_shape or (() if weights is None else weights[2:])
    kernel = tuple(dim for dim in given if isinstance(dim, int))
    known = bool(sizes) and len(sizes) == len(shape or ()) - 2 == len(kernel) and 0 not in sizes
    if what.auto_pad == "VALID" and what.output_shape is None:
        return dataclasses.replace(what, auto_pad="NOTSET", pads=None), operands
    if not known or (what.auto_pad == "NOTSET" and what.output_shape is None):
        return what, operands
    if what.output_shape is not None and len(what.output_shape) != len(sizes):
        return what, operands
    pads = _pads(what, sizes, kernel)
    if pads is None:
        return what, operands
    return dataclasses.replace(what, auto_pad="NOTSET", output_shape=None, pads=pads if any(pads) else None), operands


def shape(what: ConvTranspose, operands: Operands) -> tuple[Dim, ...] | None:
    """Return the dimensions, where input and kernel are known: those that onnx does not infer right among them."""
    image, weights = first(operands).shape, (operands[1] or Facts()).shape
    if image is None or weights is None or what.auto_pad != "NOTSET" or what.output_shape is not None:
        return None
    rank = len(image) - 2
    if rank < 1 or len(weights) != rank + 2:
        return None
    ones, zeros = (1,) * rank, (0,) * rank
    strides, dilations, more = what.strides or ones, what.dilations or ones, what.output_padding or zeros
    kernel, pads = what.kernel_shape or weights[2:], what.pads or zeros * 2
    if any(len(one) != rank for one in (strides, dilations, more, kernel)) or len(pads) != 2 * rank:
        return None
    sizes = tuple(
        strides[i] * (size - 1) + more[i] + (reach - 1) * dilations[i] + 1 - pads[i] - pads[rank + i]
        if isinstance(size, int) and isinstance(reach, int)
        else None
        for i, (size, reach) in enumerate(zip(image[2:], kernel, strict=True))
    )
    channels = weights[1] * what.group if isinstance(weights[1], int) else None
    return (image[0], channels, *sizes)


def _first(attributes: Mapping[str, Any]) -> ConvTranspose:
    """Read the formula of ConvTranspose-1: "If (auto_pads != SAME_UPPER)", less padding is added at the beginning."""
    what = ConvTranspose(**attributes)
    if what.output_shape and what.auto_pad == "NOTSET":
        return dataclasses.replace(what, auto_pad="SAME_UPPER")
    return what


@of_two
def equal_dims(node: NodeShapes, image: Shape, weight: Shape) -> Pairs:
    """Yield the channels of the image and of the weights."""
    if len(image) > 1 and len(weight) > 1:
        yield image[1], weight[0]


OPERATOR = Operator(
    name="ConvTranspose",
    meaning=ConvTranspose,
    versions=(Version(1, spec=_first), Version(11), Version(22)),
    operands=("X", "W", "B"),
    oracle=oracle,
    normal=normal,
    shape=shape,
    wider_types=COMPUTED,
    traits=Traits(floats=(Trait.SUMS,), equal_dims=equal_dims, spreads=False, factors=2, heavy=True),
)
