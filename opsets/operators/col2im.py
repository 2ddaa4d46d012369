"""Col2Im: an image of blocks, which are added up where they overlap. Since version 18."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Col2Im:
    """Dilations, pads and strides of the blocks."""

    dilations: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


_Array = np.ndarray[Any, Any]


def _elements(what: Col2Im, image: Sequence[int], block: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield, for each element of a block, its place in the image by the number of the block; what is cut off is not."""
    rank = len(image)
    ones = (1,) * rank
    dilations, strides, pads = what.dilations or ones, what.strides or ones, what.pads or (0,) * 2 * rank
    counts = [
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    ]
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
    rank = len(image)
    ones = (1,) * rank
    dilations, strides, pads = what.dilations or ones, what.strides or ones, what.pads or (0,) * 2 * rank
    blocks = math.prod(
        (image[i] + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    )
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


OPERATOR = Operator(
    name="Col2Im",
    meaning=Col2Im,
    versions=(Version(18),),
    operands=("input", "image_shape", "block_shape"),
    oracle=oracle,
    lowerings=(looked_up,),
    traits=Traits(floats=(Trait.SUMS,), counts=(1, 2)),
)
