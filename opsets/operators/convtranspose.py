"""ConvTranspose: the gradient of Conv with respect to its input. The padding of each side is spelled out since 11."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import END, first
from opshift.opsets.registry.facts import Dim, Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
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
    if x.ndim != w.ndim or x.shape[1] != w.shape[0] or (what.kernel_shape or kernel) != kernel:
        raise ValueError(f"weights of the shape {list(w.shape)} do not fit {x.shape[1]} channels of {rank} axes")
    pads = _pads(what, sizes, kernel)
    if pads is None:
        raise ValueError("the output is larger than what the input makes")
    strides, dilations = what.strides or (1,) * rank, what.dilations or (1,) * rank
    more = what.output_padding or (0,) * rank
    reach = [strides[i] * (sizes[i] - 1) + more[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(rank)]
    channels = w.shape[1] * what.group
    y = np.zeros((x.shape[0], channels, *reach))
    each = x.astype(np.float64).reshape(x.shape[0], what.group, x.shape[1] // what.group, *sizes)
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


def _kernel(what: ConvTranspose, operands: Operands) -> tuple[int, ...]:
    """Return the sizes of the kernel; none where one is unknown."""
    weights = (operands[1] or Facts()).shape
    sizes = what.kernel_shape or (() if weights is None else weights[2:])
    kernel = tuple(dim for dim in sizes if isinstance(dim, int))
    return kernel if len(kernel) == len(sizes) else ()


def normal(what: ConvTranspose, operands: Operands) -> tuple[ConvTranspose, Operands]:
    """Spell out the padding where the sizes of input and kernel are known."""
    what = dataclasses.replace(what, output_shape=what.output_shape or None)
    if what.output_shape is not None and what.auto_pad != "SAME_UPPER":
        # So says the sentence on SAME_LOWER in every version, and so onnxruntime 1.32.0 computes all of these.
        what = dataclasses.replace(what, auto_pad="SAME_LOWER", pads=None)
    shape = first(operands).shape
    sizes = () if shape is None else tuple(dim for dim in shape[2:] if isinstance(dim, int))
    kernel = _kernel(what, operands)
    known = bool(sizes) and len(sizes) == len(shape or ()) - 2 == len(kernel) and 0 not in sizes
    if kernel and what.output_shape is None and not (shape is not None and known):
        # The output is the input by the strides: how much is cut off depends on the kernel alone.
        sizes, known = (1,) * len(kernel), shape is None or len(shape) == len(kernel) + 2
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
    if image is None or weights is None or what.auto_pad != "NOTSET" or what.output_shape:
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


# --- by a convolution ---------------------------------------------------------------------------------------------


def _explicit(what: ConvTranspose, operands: Operands) -> Reason | None:
    if what.auto_pad != "NOTSET" or what.output_shape is not None:
        return Reason("how much is cut off is computed at run time", missing=True)
    kernel, rank = _kernel(what, operands), first(operands).rank
    if not kernel or 0 in kernel:
        return Reason("the sizes of the kernel are unknown, or zero", missing=True)
    return Reason("the kernel is of another rank") if rank not in (None, len(kernel) + 2) else None


def _wide(what: ConvTranspose, operands: Operands) -> Reason | None:
    if set(what.strides or (1,)) == {1}:
        return Reason("its strides are 1")
    return _explicit(what, operands)


def _zeros_between(what: ConvTranspose, operands: Operands) -> Mapping[str, Any]:
    """Bind zeros behind each element, as many as a stride has more than one; those behind the last are cut off."""
    strides, rank = what.strides or (), len(what.strides or ())
    pads, more = what.pads or (0,) * 2 * rank, what.output_padding or (0,) * rank
    cut = [stride - 1 - added for stride, added in zip(strides, more, strict=True)]
    return {
        "axes": tuple(range(3, 3 + 2 * rank, 2)),
        "zeros": (*[0] * (2 * rank + 2), 0, 0, *(number for stride in strides for number in (0, stride - 1))),
        "scale": (1, 1, *strides),
        "strides": (1,) * rank,
        "pads": (*pads[:rank], *(pads[rank + i] + max(cut[i], 0) for i in range(rank))),
        "output_padding": tuple(max(-number, 0) for number in cut),
    }


@lowering(18, applies_if=_wide, bind=_zeros_between, rounds=True)
def spread(
    x,
    w,
    b,
    axes: Sequence[int],
    zeros: Sequence[int],
    scale: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    output_padding: Sequence[int],
):
    """Put zeros between the elements, as many as a stride has more than one."""
    apart = meaning.Reshape(op.Pad(op.Unsqueeze(x, axes), zeros), op.Shape(x) * scale, allowzero=1)
    return meaning.Same(apart, w, b, strides=strides, pads=pads, output_padding=output_padding)


def _margins(what: ConvTranspose, operands: Operands) -> tuple[int, ...]:
    """Return how many zeros a convolution needs around the input; fewer than none where elements do not count."""
    kernel = _kernel(what, operands)
    rank = len(kernel)
    dilations, pads, more = what.dilations or (1,) * rank, what.pads or (0,) * 2 * rank, what.output_padding or ()
    reach = [(size - 1) * dilation for size, dilation in zip(kernel, dilations, strict=True)]
    behind = [reach[i] - pads[rank + i] + (more[i] if more else 0) for i in range(rank)]
    return (*(reach[i] - pads[i] for i in range(rank)), *behind)


def _cut_off(what: ConvTranspose, operands: Operands) -> Reason | None:
    if set(what.strides or (1,)) != {1}:
        return Reason("its strides are not 1")
    if reason := _explicit(what, operands):
        return reason
    return None if min(_margins(what, operands)) < 0 else Reason("all elements count")


def _ends(what: ConvTranspose, operands: Operands) -> Mapping[str, Any]:
    margins = _margins(what, operands)
    rank = len(margins) // 2
    pads = what.pads or (0,) * 2 * rank
    starts = tuple(max(-number, 0) for number in margins[:rank])
    ends = tuple(number if number < 0 else END for number in margins[rank:])
    less = [max(-number, 0) for number in margins]
    return {
        "starts": starts,
        "ends": ends,
        "axes": tuple(range(2, 2 + rank)),
        "pads": tuple(number - by for number, by in zip(pads, less, strict=True)),
    }


@lowering(18, applies_if=_cut_off, bind=_ends, rounds=True)
def cut(x, w, b, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], pads: Sequence[int]):
    """Drop the elements that reach nothing but what is cut off."""
    return meaning.Same(op.Slice(x, starts, ends, axes), w, b, pads=pads)


def _convolved(what: ConvTranspose, operands: Operands) -> Reason | None:
    if set(what.strides or (1,)) != {1}:
        return Reason("its strides are not 1")
    if reason := _explicit(what, operands):
        return reason
    return Reason("elements do not count") if min(_margins(what, operands)) < 0 else None


def _alone(what: ConvTranspose, operands: Operands) -> Reason | None:
    return Reason("it has groups") if what.group != 1 else _convolved(what, operands)


def _grouped(what: ConvTranspose, operands: Operands) -> Reason | None:
    if what.group == 1:
        return Reason("it has no groups")
    shape = (operands[1] or Facts()).shape
    if shape is None or not all(isinstance(dim, int) for dim in shape[:2]):
        return Reason("the number of channels is unknown", missing=True)
    return _convolved(what, operands)


def _turned(what: ConvTranspose, operands: Operands) -> Mapping[str, Any]:
    kernel = _kernel(what, operands)
    rank = len(kernel)
    return {
        "order": (1, 0, *range(2, 2 + rank)),
        "ends": (-END,) * rank,
        "axes": tuple(range(2, 2 + rank)),
        "backwards": (-1,) * rank,
        "pads": _margins(what, operands),
        "dilations": what.dilations or (1,) * rank,
    }


def _turned_groups(what: ConvTranspose, operands: Operands) -> Mapping[str, Any]:
    channels, kernels = ((operands[1] or Facts()).shape or (0, 0))[:2]
    each = channels // what.group if isinstance(channels, int) else 0
    kernel = _kernel(what, operands)
    return {
        **_turned(what, operands),
        "parts": (what.group, each, kernels, *kernel),
        "order": (0, 2, 1, *range(3, 3 + len(kernel))),
        "together": (what.group * kernels if isinstance(kernels, int) else 0, each, *kernel),
        "group": what.group,
    }


@lowering(18, applies_if=_alone, bind=_turned, rounds=True)
def by_convolution(
    x,
    w,
    b,
    order: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    backwards: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
):
    """Convolve with the kernels, their channels exchanged and their elements in reverse order."""
    kernels = op.Slice(op.Transpose(w, perm=order), backwards, ends, axes, backwards)
    return op.Conv(x, kernels, b, pads=pads, dilations=dilations)


@lowering(18, applies_if=_grouped, bind=_turned_groups, rounds=True)
def by_grouped_convolution(
    x,
    w,
    b,
    parts: Sequence[int],
    order: Sequence[int],
    together: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    backwards: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int,
):
    """Do the same in each group of channels."""
    exchanged = op.Reshape(op.Transpose(op.Reshape(w, parts), perm=order), together)
    kernels = op.Slice(exchanged, backwards, ends, axes, backwards)
    return op.Conv(x, kernels, b, pads=pads, dilations=dilations, group=group)


def _wanted(what: ConvTranspose, operands: Operands) -> Reason | None:
    if what.output_shape is None:
        return Reason("it has no output_shape")
    rank = first(operands).rank or (operands[1] or Facts()).rank
    if rank is None:
        return Reason("the rank is unknown", missing=True)
    return None if len(what.output_shape) == rank - 2 else Reason("output_shape is of another rank")


def _kept(what: ConvTranspose, operands: Operands) -> Mapping[str, Any]:
    wanted = what.output_shape or ()
    return {
        "none": None,
        "wanted": wanted,
        "axes": tuple(range(2, 2 + len(wanted))),
        # Of an odd number of elements, the one left over is cut off behind with SAME_UPPER.
        "odd": int(what.auto_pad != "SAME_UPPER"),
    }


@lowering(18, applies_if=_wanted, bind=_kept, rounds=True)
def cut_at_run_time(x, w, b, none: Sequence[int], wanted: Sequence[int], axes: Sequence[int], odd: int):
    """Compute all that the input makes, and keep as much as is wanted, of the middle."""
    whole = meaning.Same(x, w, b, auto_pad="NOTSET", output_shape=none, pads=none)
    starts = (op.Slice(op.Shape(whole), [2], [2147483647]) - wanted + odd) / 2
    return op.Slice(whole, starts, starts + wanted, axes)


def _constant_weights(what: ConvTranspose, operands: Operands) -> bool:
    weights = operands[1] or Facts()
    return weights.known is not None or weights.unread


OPERATOR = Operator(
    name="ConvTranspose",
    meaning=ConvTranspose,
    versions=(Version(1, spec=_first), Version(11), Version(22)),
    operands=("X", "W", "B"),
    oracle=oracle,
    normal=normal,
    shape=shape,
    lowerings=(spread, cut, by_convolution, by_grouped_convolution, cut_at_run_time),
    # Zeros around the input, and between its elements, are multiplied by the weights.
    nan_defined=_constant_weights,
    infinity_defined=_constant_weights,
    wider_types=COMPUTED,
    traits=Traits(floats=(Trait.SUMS,), equal_dims=equal_dims, spreads=False, factors=2, heavy=True),
)
