"""DeformConv: a convolution whose kernel takes each of its elements from a place of its own. Since version 19."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two, times
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


@dataclass(frozen=True)
class DeformConv:
    """Where the kernel lies, and the groups of channels: of the convolution, and those that share their places."""

    kernel_shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None
    group: int = 1
    offset_group: int = 1


_Array = np.ndarray[Any, Any]


def _with_kernel_shape(what: DeformConv, kernel: Sequence[Dim]) -> DeformConv:
    """Set the omitted attributes; DeformConv-19 on kernel_shape: "If not present, it is inferred from the shape"."""
    count = len(kernel)
    known = tuple(dim for dim in kernel if isinstance(dim, int))
    return dataclasses.replace(
        what,
        kernel_shape=what.kernel_shape or (known if len(known) == count else None),
        strides=what.strides or (1,) * count,
        pads=what.pads or (0,) * (2 * count),
        dilations=what.dilations or (1,) * count,
    )


def _normal(what: DeformConv, operands: Operands) -> tuple[DeformConv, Operands]:
    weights = operands[1]
    return (what if weights is None or weights.shape is None else _with_kernel_shape(what, weights.shape[2:])), operands


def _places(what: DeformConv, out: Sequence[int]) -> _Array:
    """Where the kernel's elements lie if nothing deforms it: [elements, axes, outputs]."""
    kernel, strides, pads, dilations = (
        what.kernel_shape or (),
        what.strides or (),
        what.pads or (),
        what.dilations or (),
    )
    within = np.indices(kernel).reshape(len(kernel), -1).T * dilations
    corner = np.indices(tuple(out)).reshape(len(out), -1).T * strides - np.array(pads[: len(out)])
    return np.asarray((within[:, None] + corner[None]).transpose(0, 2, 1))


def oracle(
    what: DeformConv,
    x: _Array,
    weights: _Array,
    offset: _Array,
    bias: _Array | None = None,
    mask: _Array | None = None,
) -> _Array:
    """DeformConv-19: "linear interpolation for fractional offset values", and zero "outside of the padded input"."""
    what = _with_kernel_shape(what, weights.shape[2:])
    if tuple(what.kernel_shape or ()) != weights.shape[2:]:
        raise ValueError(f"DeformConv-19: kernels of the shape {list(weights.shape[2:])} do not fit kernel_shape")
    if bias is not None and bias.shape != weights.shape[:1]:
        raise ValueError("DeformConv-19: there is not one bias for each output channel")
    batch, channels, *sizes = x.shape
    out = offset.shape[2:]
    base = _places(what, out)
    places = base + offset.astype(np.float64).reshape(batch, what.offset_group, *base.shape[:2], base.shape[2])
    shares = x.astype(np.float64).reshape(batch, what.offset_group, channels // what.offset_group, *sizes)
    image, group = np.ogrid[:batch, : what.offset_group]
    taken: Any = 0.0
    low = np.floor(places)
    for step in itertools.product((0, 1), repeat=len(sizes)):
        pixel = low + np.array(step)[:, None]
        inside = ((pixel >= 0) & (pixel < np.array(sizes)[:, None])).all(axis=3)
        weight = np.prod(1 - np.abs(places - pixel), axis=3) * inside
        index = np.where(inside[:, :, :, None], pixel, 0).astype(np.int64)
        where = tuple(index[:, :, :, axis] for axis in range(len(sizes)))
        taken = (
            taken
            + np.moveaxis(shares, 2, -1)[(image[..., None, None], group[..., None, None], *where)] * weight[..., None]
        )
    if mask is not None:
        taken = taken * mask.reshape(*taken.shape[:4], 1)
    columns = taken.transpose(0, 1, 4, 2, 3).reshape(batch, what.group, channels // what.group, *base.shape[:1], -1)
    filters = weights.astype(np.float64).reshape(what.group, -1, *columns.shape[2:4])
    y = np.einsum("gock,bgckp->bgop", filters, columns).reshape(batch, weights.shape[0], *out)
    y = y if bias is None else y + bias.reshape(-1, *[1] * len(out))
    return np.asarray(y).astype(x.dtype)


# --- by lookup ----------------------------------------------------------------------------------------------------

_OUTSIDE = -(2**40)
"""The index of a pixel outside: so low that it stays negative after any addition."""

_LARGEST = 2**20
"""Elements: no more places are written into a model."""


def _biased(what: DeformConv, operands: Operands) -> Reason | None:
    if operands[3] is None:
        return Reason("there is no bias")
    known = first(operands).rank is not None
    return None if known else Reason("the rank is unknown", missing=True)


@lowering(
    18,
    applies_if=_biased,
    bind=lambda what, operands: {"along": (-1, *[1] * ((first(operands).rank or 2) - 2))},
    rounds=True,
)
def shifted(x, weights, offset, bias, mask, along: Sequence[int]):
    """Convolve, then add the bias."""
    return op.Add(meaning.Same(x, weights, offset, None, mask), op.Reshape(bias, along))


def _static(what: DeformConv, operands: Operands) -> Reason | None:
    x, weights, offset = (facts or first(operands) for facts in operands[:3])
    if x.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return Reason("it is neither of float nor of double", missing=x.dtype is None)
    if operands[3] is not None:
        return Reason("there is a bias")
    dims = (*(x.shape or (None,))[1:], *(weights.shape or (None,)), *(offset.shape or (None,))[2:])
    if what.kernel_shape is None or not all(isinstance(dim, int) and dim for dim in dims):
        return Reason("shapes are unknown, but for the batch, or empty", missing=True)
    if x.rank != weights.rank or x.rank != offset.rank or x.rank != 2 + len(what.kernel_shape):
        return Reason("input, weights, offset and kernel are not of one rank")
    many = math.prod(what.kernel_shape) * math.prod(dim for dim in (offset.shape or ())[2:] if isinstance(dim, int))
    return Reason(f"there are more than {_LARGEST} places") if many * len(what.kernel_shape) > _LARGEST else None


def _unmasked(what: DeformConv, operands: Operands) -> Reason | None:
    return _static(what, operands) or (None if operands[4] is None else Reason("there is a mask"))


def _ones(what: DeformConv, operands: Operands) -> Mapping[str, Any]:
    offset = operands[2]
    out = () if offset is None or offset.shape is None else offset.shape[2:]
    return {"rest": (what.offset_group * math.prod(what.kernel_shape or ()), *out)}


@lowering(18, applies_if=_unmasked, bind=_ones)
def with_mask(x, weights, offset, bias, mask, rest: Sequence[int]):
    """Add a mask of ones."""
    ones = op.Expand(op.CastLike(1.0, x), op.Concat(op.Shape(x, start=0, end=1), rest, axis=0))
    return meaning.Same(x, weights, offset, None, ones)


def _masked(what: DeformConv, operands: Operands) -> Reason | None:
    return _static(what, operands) or (Reason("there is no mask") if operands[4] is None else None)


def _tables(what: DeformConv, operands: Operands) -> Mapping[str, Any]:
    """Bind shapes, places, and for each axis what each position, from -1 on, counts towards a pixel's row."""
    x, weights, offset = (facts or first(operands) for facts in operands[:3])
    channels, *sizes = (dim if isinstance(dim, int) else 0 for dim in (x.shape or (0, 0))[1:])
    made = weights.dim(0)
    outputs = made if isinstance(made, int) else 0
    out = tuple(dim for dim in (offset.shape or ())[2:] if isinstance(dim, int))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(x.dtype or TensorProto.FLOAT)
    groups, rank = what.offset_group, len(sizes)
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(rank)]
    rows = [
        [_OUTSIDE, *(pixel * stride for pixel in range(size)), _OUTSIDE, _OUTSIDE]
        for size, stride in zip(sizes, strides, strict=True)
    ]
    starts = np.cumsum([0, *map(len, rows[:-1])]) + 1
    base = _places(what, out)
    elements, places, share = base.shape[0], base.shape[2], channels // groups
    return {
        "base": Tensor(base.astype(dtype)),
        "deformed": (0, groups, elements, rank, places),
        "sizes": Tensor(np.array(sizes, dtype).reshape(rank, 1)),
        "steps": Tensor(np.array(list(itertools.product((0, 1), repeat=rank)), dtype)[..., None]),
        "starts": Tensor(starts.reshape(rank, 1)),
        "rows": tuple(itertools.chain(*rows)),
        "shares": (0, groups, share, math.prod(sizes)),
        "share": (-1, share),
        "groups": (groups,),
        "images": math.prod(sizes),
        "image": (-1, groups, 1, 1, 1),
        "masks": (0, groups, elements, places, 1),
        "columns": (0, what.group, channels // what.group * elements, places),
        "filters": (what.group, outputs // what.group, channels // what.group * elements),
        "out": (0, outputs, *out),
    }


@lowering(18, applies_if=_masked, bind=_tables, rounds=True)
def looked_up(
    x,
    weights,
    offset,
    bias,
    mask,
    base: Sequence[int],
    deformed: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[int],
    starts: Sequence[int],
    rows: Sequence[int],
    shares: Sequence[int],
    share: Sequence[int],
    groups: Sequence[int],
    images: int,
    image: Sequence[int],
    masks: Sequence[int],
    columns: Sequence[int],
    filters: Sequence[int],
    out: Sequence[int],
):
    """Add up the pixels about each place, looked up in a list that begins with zeros; then multiply by the weights."""
    place = op.Reshape(offset, deformed) + base
    one = op.CastLike(1.0, x)
    limited = op.Where(op.Less(place, sizes), place, sizes)
    within = op.Unsqueeze(op.Where(op.Greater(limited, op.Neg(one)), limited, op.Neg(one)), [3])
    pixel = op.Add(op.Floor(within), steps)
    weight = op.ReduceProd(op.Sub(one, op.Abs(op.Sub(within, pixel))), [4], keepdims=0)
    row = op.ReduceSum(op.Gather(rows, op.Add(op.Cast(pixel, to=7), starts), axis=0), [4], keepdims=0)
    count = op.Squeeze(op.Shape(x, start=0, end=1) * groups, [0])
    number = op.Reshape(op.Range(0, count, 1) * images, image)
    index = op.Max(op.Add(op.Add(row, number), 1), 0)
    listed = op.Reshape(op.Transpose(op.Reshape(x, shares), perm=[0, 1, 3, 2]), share)
    zeros = op.Expand(op.CastLike(0.0, x), op.Shape(op.Gather(listed, [0], axis=0)))
    values = op.Gather(op.Concat(zeros, listed, axis=0), index, axis=0)
    taken = op.ReduceSum(op.Mul(values, op.Unsqueeze(weight, [5])), [3], keepdims=0)
    masked = op.Transpose(op.Mul(taken, op.Reshape(mask, masks)), perm=[0, 1, 4, 2, 3])
    return op.Reshape(op.MatMul(op.Reshape(weights, filters), op.Reshape(masked, columns)), out)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have half of all offsets in eighths, which lead in and around the image, and none that no place can hold."""
    offset = feeds["offset"]
    if not offset.flags.writeable:
        return feeds
    near = rng.integers(-40, 41, offset.shape) / 8
    held = np.where(np.abs(offset) < 2.0**-10, 0, offset)
    return {**feeds, "offset": np.where(rng.random(offset.shape) < 0.5, near, held).astype(offset.dtype)}


@of_two
def equal_dims(node: NodeShapes, image: Shape, weight: Shape) -> Pairs:
    """Yield the dims of the image and of the weights, and of the offsets, a bias and a mask."""
    if len(image) != 4 or len(node.inputs) < 3:
        return
    kernel = weight[2:]
    yield image[1], times(weight[1], node.attributes.get("group", 1))
    offset, bias, mask = (*node.inputs[2:], None, None)[:3]
    known = [size for size in kernel if isinstance(size, int)]
    pixels = math.prod(known) * node.attributes.get("offset_group", 1) if len(known) == len(kernel) else None
    for dims, numbers in ((offset, 2), (mask, 1)):
        if dims is not None and len(dims) == len(image):
            yield from ((image[0], dims[0]), (dims[1], pixels and numbers * pixels))
    if offset is not None and mask is not None:
        yield from zip(offset[2:], mask[2:], strict=False)
    if bias:
        yield weight[0], bias[0]


OPERATOR = Operator(
    name="DeformConv",
    meaning=DeformConv,
    versions=(Version(19), Version(22)),
    operands=("X", "W", "offset", "B", "mask"),
    oracle=oracle,
    normal=_normal,
    lowerings=(shifted, with_mask, looked_up),
    wider_types=COMPUTED,
    # What a place that is no number shows, the text does not say, nor what an infinity counts whose weight is zero.
    # onnxruntime 1.31.1 multiplies the first pixel by zero for each that is outside.
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    adversarial=adversarial,
    traits=Traits(
        floats=(Trait.SUMS, Trait.WEIGHS, Trait.SAMPLES),
        equal_dims=equal_dims,
        spreads=False,
        reads_places=True,
        nan_undefined=True,
    ),
)
