"""RegionPixels: the pixels around the points of RegionPoints, times their weights. No model has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.operators import regionpoints
from opshift.opsets.operators.regionpoints import RegionPoints
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


def oracle(what: RegionPoints, x: Array, regions: Array, batch_indices: Array) -> Array:
    """Return an axis each for regions, rows of bins, pixels downwards, columns of bins, pixels across, and channels.

    The pixels of a bin are those above or left of each point, and then those below or right of it. What is out of the
    image by more than a pixel weighs nothing.
    """
    at, share = regionpoints.oracle(what, regions)
    dtype, height = regions.dtype.type, what.output_height
    ends = np.array(x.shape[2:])[np.array(what.across, np.int64)][:, None].astype(dtype)
    inside = ((at >= -1) & (at <= ends)) * share
    within = np.maximum(np.minimum(at, ends - 1), 0)
    low = np.floor(within)
    part = within - low
    pixels = np.concatenate([low, np.minimum(low + 1, ends - 1)], axis=2).astype(np.int64)
    weights = np.concatenate([(1 - part) * inside, part * inside], axis=2)
    rows, columns = pixels[:, :height, :, None, None], pixels[:, None, None, height:]
    values = np.moveaxis(x, 1, -1)[batch_indices.reshape(-1, 1, 1, 1, 1), rows, columns]
    weighed: Array = values * (weights[:, :height, :, None, None] * weights[:, None, None, height:])[..., None]
    return weighed.astype(x.dtype)


def _facts(what: RegionPoints, operands: Operands) -> tuple[Facts, ...]:
    x, regions = (operand or Facts() for operand in operands[:2])
    pixels = 2 * what.sampling_ratio or None
    return (Facts(x.dtype, (regions.dim(0), what.output_height, pixels, what.output_width, pixels, x.dim(1))),)


def _fields(what: RegionPoints, operands: Operands) -> Mapping[str, Any]:
    return {**vars(what), "across": tuple(what.across), "sides": (what.output_height, what.output_width)}


@lowering(18, bind=_fields)
def looked_up(
    x, regions, batch_indices, output_height: int, output_width: int, sampling_ratio: int, mean: bool,
    across: Sequence[int], sides: Sequence[int],
):  # fmt: skip
    """Weigh the two pixels around each point by its distance to the other, and look them up in a list of all."""
    at, share = meaning.RegionPoints(
        regions, output_height=output_height, output_width=output_width, sampling_ratio=sampling_ratio, mean=mean
    )
    last = op.Unsqueeze(op.CastLike(op.Gather(op.Shape(x, start=2, end=4), across, axis=0), regions), [1]) - 1.0
    within = op.Max(op.Min(at, last), 0.0)
    # From -1 to the size of the image: no farther than a pixel from the nearest one.
    counts = op.CastLike(op.LessOrEqual(op.Abs(at - within), 1.0), regions) * share
    low = op.Floor(within)
    part = within - low
    row, column = op.Split(op.Cast(op.Concat(low, op.Min(low + 1.0, last), axis=2), to=7), sides, axis=1)
    down, across_weight = op.Split(op.Concat((1.0 - part) * counts, part * counts, axis=2), sides, axis=1)
    batch, depth = op.Shape(x, start=0, end=1), op.Shape(x, start=1, end=2)
    height, width = op.Shape(x, start=2, end=3), op.Shape(x, start=3, end=4)
    image = op.Unsqueeze(batch_indices * height, [1, 2])
    index = op.Unsqueeze((image + row) * width, [3, 4]) + op.Unsqueeze(column, [1, 2])
    rows = op.Concat(batch * height * width, depth, axis=0)
    listed = op.Reshape(op.Transpose(x, perm=[0, 2, 3, 1]), rows, allowzero=1)
    weight = op.Unsqueeze(down, [3, 4, 5]) * op.Unsqueeze(across_weight, [1, 2, 5])
    return op.Gather(listed, index, axis=0) * weight


OPERATOR = Operator(
    name="RegionPixels",
    domain="opshift.step",
    meaning=RegionPoints,
    versions=(),
    operands=("x", "regions", "batch_indices"),
    oracle=oracle,
    lowerings=(looked_up,),
    facts=_facts,
)
