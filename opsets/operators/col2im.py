"""Col2Im: an image of blocks, which are added up where they overlap. Since version 18."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs
from opshift.opsets.registry.traits import Integers, Trait, Traits


@dataclass(frozen=True)
class Col2Im:
    """Dilations, pads and strides of the blocks."""

    dilations: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


_Array = np.ndarray[Any, Any]


def _spread(what: Col2Im, rank: int) -> tuple[tuple[int, ...], ...]:
    """Return the dilations, the strides and the pads of a rank."""
    ones = (1,) * rank
    return what.dilations or ones, what.strides or ones, what.pads or (0,) * 2 * rank


def _counts(what: Col2Im, image: Sequence[int], block: Sequence[int]) -> list[int]:
    """Return how many blocks there are along each axis of an image."""
    rank = len(image)
    dilations, strides, pads = _spread(what, rank)
    return [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    ]


def _elements(what: Col2Im, image: Sequence[int], block: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield, for each element of a block, its place in the image by the number of the block; what is cut off is not."""
    rank = len(image)
    dilations, strides, pads = _spread(what, rank)
    counts = _counts(what, image, block)
    for element in itertools.product(*map(range, block)):
        places = []
        for number, place in enumerate(itertools.product(*map(range, counts))):
            at = [place[i] * strides[i] + element[i] * dilations[i] - pads[i] for i in range(rank)]
            if all(0 <= at[i] < image[i] for i in range(rank)):
                places.append((number, int(np.ravel_multi_index(at, image))))
        yield places


def oracle(what: Col2Im, data: _Array, image: _Array, block: _Array) -> _Array:
    """Col2Im-18: "combines each value in the overlapping blocks by summing"; in the order of a block's elements."""
    sizes, shape = image.tolist(), block.tolist()
    columns = data.reshape(len(data), data.shape[1] // math.prod(shape), math.prod(shape), data.shape[2])
    y = np.zeros((*columns.shape[:2], math.prod(sizes)), data.dtype)
    for element, places in enumerate(_elements(what, sizes, shape)):
        for number, at in places:
            y[..., at] += columns[:, :, element, number]
    return y.reshape(*columns.shape[:2], *sizes)


def equal_dims(node: NodeShapes) -> Pairs:
    """Yield the number of blocks, and that of the elements of one, of which channels are a multiple."""
    image, block, data = node.constant(1), node.constant(2), node.inputs[0]
    if image is None or block is None or data is None or len(data) != 3:
        return
    what = Col2Im(**{one.name: node.attributes.get(one.name) for one in fields(Col2Im)})
    dilations, strides, pads = _spread(what, image.size)
    if {len(dilations), len(strides), len(pads) / 2, block.size} == {image.size} and 0 not in strides:
        yield data[1], math.prod(block.tolist())
        yield data[2], math.prod(_counts(what, image.tolist(), block.tolist()))


def _sizes(operands: Operands) -> tuple[list[int], list[int]] | None:
    image, block = operands[1:3]
    if image is None or block is None or image.known is None or block.known is None:
        return None
    return image.known.tolist(), block.known.tolist()


def _static(what: Col2Im, operands: Operands) -> Reason | None:
    if _sizes(operands) is None:
        return Reason("the sizes of image and block are computed at run time", missing=True)
    if not isinstance(first(operands).dim(1), int):
        return Reason("the number of channels is unknown", missing=True)
    return None


def _table(what: Col2Im, operands: Operands) -> Mapping[str, Any]:
    """Bind, for each pixel, the numbers of the values that are added up there; behind all values is a zero."""
    image, block = _sizes(operands) or ([], [])
    size, channels = math.prod(block), first(operands).dim(1)
    blocks = math.prod(_counts(what, image, block))
    bounded(blocks * size)
    added: list[list[int]] = [[] for _ in range(bounded(math.prod(image)))]
    for element, places in enumerate(_elements(what, image, block)):
        for number, at in places:
            added[at].append(element * blocks + number)
    most = max(map(len, added), default=0)
    bounded(len(added) * most)
    table = np.full((len(added), most + 1), size * blocks)
    for at, values in enumerate(added):
        table[at, : len(values)] = values
    count = channels // size if isinstance(channels, int) else 0
    return {
        "rows": (count, size * blocks),
        "nothing": (count, 1),
        "table": Tensor(table),
        "shape": (count, *image),
    }


@lowering(18, applies_if=_static, bind=_table, rounds=True)
def looked_up(
    data, image, block, rows: Sequence[int], nothing: Sequence[int], table: Sequence[int], shape: Sequence[int]
):
    """Gather the summands of each pixel, and add them."""
    batch = op.Slice(op.Shape(data), [0], [1])
    values = meaning.Reshape(data, op.Concat(batch, rows, axis=0), allowzero=1)
    zeros = op.Expand(op.CastLike(0, data), op.Concat(batch, nothing, axis=0))
    sums = op.ReduceSum(op.Gather(op.Concat(values, zeros, axis=2), table, axis=2), [3], keepdims=0)
    return meaning.Reshape(sums, op.Concat(batch, shape, axis=0), allowzero=1)


def _misplaced(attributes: Mapping[str, Any]) -> bool:
    """Return whether onnxruntime 1.32.0 misplaces elements: of dilated windows, along one axis or more than two."""
    dilations = attributes.get("dilations") or ()  # None: a function's parameter
    return len(dilations) != 2 and any(one > 1 for one in dilations)


OPERATOR = Operator(
    name="Col2Im",
    meaning=Col2Im,
    versions=(Version(18),),
    operands=("input", "image_shape", "block_shape"),
    oracle=oracle,
    lowerings=(looked_up,),
    traits=Traits(
        floats=(Trait.SUMS,),
        integers=Integers.SUMS,
        counts=(1, 2),
        equal_dims=equal_dims,
        spreads=False,
        miscomputed=_misplaced,
    ),
)
