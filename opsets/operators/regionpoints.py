"""RegionPoints: where the points lie that sample the bins of a RoiAlign, along both sides. No model has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]
OUTSIDE = -2.0
"""Where the point of a bin is that has none: what it would read is zero."""


@dataclass(frozen=True)
class RegionPoints:
    """Attributes of RoiAlign, and whether the weights are those of a mean; else all are 1.

    There is a row for each bin along the height, and then for each along the width.
    """

    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    mean: bool = True

    @property
    def across(self) -> list[int]:
        """Whether the bin of each row divides the width."""
        return [0] * self.output_height + [1] * self.output_width

    @property
    def places(self) -> list[int]:
        """The place of the bin of each row along its side."""
        return [*range(self.output_height), *range(self.output_width)]

    @property
    def counts(self) -> list[int]:
        """The number of bins along that side."""
        return [self.output_height] * self.output_height + [self.output_width] * self.output_width


def oracle(what: RegionPoints, regions: Array) -> tuple[Array, Array]:
    """Return the points of each row, and the weight of each in a mean.

    `regions` has left, top, width and height of each region. A bin that has fewer points than others has its last one
    again, which weighs nothing then.
    """
    dtype = regions.dtype.type
    across = np.array(what.across, np.int64)
    steps = (regions[:, 3 - across] / np.array(what.counts, dtype))[..., None]
    first = regions[:, 1 - across][..., None] + steps * np.array(what.places, dtype)[:, None]
    wanted = np.full_like(steps, what.sampling_ratio) if what.sampling_ratio else np.ceil(steps)
    points = np.maximum(wanted, 1)
    number = np.arange(int(points.max(initial=1)), dtype=dtype)
    at = first + steps * (np.minimum(number, points - 1) + dtype(0.5)) / points
    if what.sampling_ratio or not what.mean:
        at = at if what.sampling_ratio else np.where(wanted > 0, at, dtype(OUTSIDE))
        return at, np.full((1, 1, 1), 1 / what.sampling_ratio if what.mean else 1, dtype)
    return np.where(wanted > 0, at, dtype(OUTSIDE)), np.where(number < wanted, 1 / points, dtype(0))


def _facts(what: RegionPoints, operands: Operands) -> tuple[Facts, ...]:
    regions = operands[0] or Facts()
    shape = (regions.dim(0), what.output_height + what.output_width, what.sampling_ratio or None)
    share = shape if what.mean and not what.sampling_ratio else (1, 1, 1)
    return Facts(regions.dtype, shape), Facts(regions.dtype, share)


def _tables(what: RegionPoints, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype((operands[0] or Facts()).dtype or TensorProto.FLOAT)
    bound = {
        "starts": tuple(1 - one for one in what.across),
        "sizes": tuple(3 - one for one in what.across),
        "places": Tensor(np.array(what.places, dtype)),
        "counts": Tensor(np.array(what.counts, dtype)),
    }
    if not what.sampling_ratio:
        return bound
    halves = np.arange(what.sampling_ratio) + 0.5
    points = np.array(what.sampling_ratio, dtype)
    share = np.full((1, 1, 1), 1 / what.sampling_ratio if what.mean else 1, dtype)
    return {**bound, "halves": Tensor(halves.astype(dtype)), "points": Tensor(points), "share": Tensor(share)}


def _given(what: RegionPoints, operands: Operands) -> Reason | None:
    return None if what.sampling_ratio else Reason("the number of points follows from the size of a region")


def _by_size(mean: bool) -> Callable[[RegionPoints, Operands], Reason | None]:
    def applies_if(what: RegionPoints, operands: Operands) -> Reason | None:
        if what.sampling_ratio:
            return Reason("the number of points is given")
        return None if what.mean == mean else Reason("the weights are " + ("all 1" if mean else "those of a mean"))

    return applies_if


def _sides(what: RegionPoints, operands: Operands) -> Mapping[str, Any]:
    dtype = onnx.helper.tensor_dtype_to_np_dtype((operands[0] or Facts()).dtype or TensorProto.FLOAT)
    sides = {"output_height": what.output_height, "output_width": what.output_width}
    return {**sides, "ones": Tensor(np.ones((1, 1, 1), dtype))}


# The order of multiplication and division is that of onnxruntime's kernel: a point at the border is inside in both.
@lowering(18, applies_if=_given, bind=_tables)
def given_points(
    regions, starts: Sequence[int], sizes: Sequence[int], places: Sequence[int], counts: Sequence[int],
    halves: Sequence[int], points: Sequence[int], share: Sequence[int],
):  # fmt: skip
    """Divide each bin into as many parts as are asked for."""
    steps = op.Gather(regions, sizes, axis=1) / counts
    first = op.Gather(regions, starts, axis=1) + steps * places
    return op.Unsqueeze(first, [2]) + op.Unsqueeze(steps, [2]) * halves / points, op.Identity(share)


@lowering(18, applies_if=_by_size(True), bind=_tables)
def points_by_size(regions, starts: Sequence[int], sizes: Sequence[int], places: Sequence[int], counts: Sequence[int]):
    """Divide each bin into parts that are no longer than a pixel."""
    rows = op.Gather(regions, sizes, axis=1) / counts
    first = op.Unsqueeze(op.Gather(regions, starts, axis=1) + rows * places, [2])
    steps = op.Unsqueeze(rows, [2])
    wanted = op.Ceil(steps)
    most = op.ReduceMax(op.Concat(op.Reshape(wanted, [-1]), [1.0], axis=0), [0], keepdims=0)
    number = op.CastLike(op.Range(0, op.Cast(most, to=7), 1), regions)
    points = op.Max(wanted, 1.0)
    at = first + steps * (op.Min(number, points - 1.0) + 0.5) / points
    return op.Where(op.Greater(wanted, 0.0), at, -2.0), op.Where(op.Less(number, wanted), 1.0 / points, 0.0)


@lowering(18, applies_if=_by_size(False), bind=_sides)
def equal_points(regions, output_height: int, output_width: int, ones: Sequence[int]):
    """Place the same points; all count."""
    at, _ = meaning.Same(regions, output_height=output_height, output_width=output_width, sampling_ratio=0, mean=True)
    return at, op.Identity(ones)


OPERATOR = Operator(
    name="RegionPoints",
    domain="opshift.step",
    meaning=RegionPoints,
    versions=(),
    operands=("regions",),
    oracle=oracle,
    lowerings=(given_points, points_by_size, equal_points),
    facts=_facts,
)
