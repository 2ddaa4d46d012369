"""GlobalAveragePool: the mean of each channel. Version 22 adds bfloat16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import images
from opshift.opsets.families.windows import global_axes, is_global, of_unknown_rank
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED

Array = np.ndarray[Any, Any]


def oracle(x: Array) -> Array:
    """GlobalAveragePool-22: "applies average pooling across the values in the same channel"."""
    if 0 in x.shape[2:]:
        raise ValueError("GlobalAveragePool-22: the mean of nothing is not defined")
    wide = x.astype(np.float64)
    return np.asarray(wide.mean(tuple(range(2, x.ndim)), keepdims=True).astype(x.dtype))


@lowering(18, applies_if=is_global, bind=global_axes, rounds=True)
def by_mean(x, axes: Sequence[int]):
    """Take the mean over all axes behind the first two."""
    return op.ReduceMean(x, axes, keepdims=1)


@lowering(18, applies_if=of_unknown_rank, rounds=True)
def by_mean_at_run_time(x):
    """Take the mean over all axes behind the first two, which are counted at run time."""
    return op.ReduceMean(x, op.Range(2, op.Size(op.Shape(x)), 1), keepdims=1, noop_with_empty_axes=1)


@lowering(18, applies_if=of_unknown_rank, rounds=True)
def by_mean_of_rows(x):
    """Reshape each channel to a row, take its mean, and give it as many axes of length 1 as there were."""
    shape = op.Shape(x)
    channels = op.Slice(shape, [0], [2])
    sizes = op.Slice(shape, [2], [2147483647])
    rows = meaning.Reshape(x, op.Concat(channels, op.ReduceProd(sizes, keepdims=1), axis=0), allowzero=1)
    pooled = op.ReduceMean(rows, [2], keepdims=0)
    return meaning.Reshape(pooled, op.Concat(channels, sizes * 0 + 1, axis=0), allowzero=1)


OPERATOR = plain(
    "GlobalAveragePool",
    (1, 22),
    ("X",),
    oracle,
    (by_mean, by_mean_at_run_time, by_mean_of_rows),
    wider_types=COMPUTED,
    traits=Traits(merges=images, floats=(Trait.SUMS, Trait.WEIGHS)),
)
