"""GlobalMaxPool: the largest element of each channel. Version 22 adds bfloat16."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import images
from opshift.opsets.families.windows import global_axes, is_global, of_unknown_rank
from opshift.opsets.registry.lowering import lowering, meaning, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED

Array = np.ndarray[Any, Any]


def oracle(x: Array) -> Array:
    """GlobalMaxPool-22: "applies max pooling across the values in the same channel"."""
    return np.asarray(x.max(tuple(range(2, x.ndim)), keepdims=True))


@lowering(18, applies_if=is_global, bind=global_axes)
def by_maximum(x, axes: Sequence[int]):
    """Take the maximum over all axes behind the first two."""
    return op.ReduceMax(x, axes, keepdims=1)


@lowering(18, applies_if=of_unknown_rank)
def by_maximum_at_run_time(x):
    """Take the maximum over all axes behind the first two, which are counted at run time."""
    return op.ReduceMax(x, op.Range(2, op.Size(op.Shape(x)), 1), keepdims=1, noop_with_empty_axes=1)


@lowering(18, applies_if=of_unknown_rank)
def by_maximum_of_rows(x):
    """Reshape each channel to a row, take its maximum, and give it as many axes of length 1 as there were."""
    shape = op.Shape(x)
    channels = op.Slice(shape, [0], [2])
    sizes = op.Slice(shape, [2], [2147483647])
    rows = meaning.Reshape(x, op.Concat(channels, op.ReduceProd(sizes, keepdims=1), axis=0), allowzero=1)
    pooled = op.ReduceMax(rows, [2], keepdims=0)
    return meaning.Reshape(pooled, op.Concat(channels, sizes * 0 + 1, axis=0), allowzero=1)


OPERATOR = dataclasses.replace(
    plain(
        "GlobalMaxPool",
        (1, 22),
        ("X",),
        oracle,
        (by_maximum, by_maximum_at_run_time, by_maximum_of_rows),
        wider_types=ORDERED,
        traits=Traits(merges=images, floats=(Trait.SELECTS,), nan_undefined=True),
    ),
    # The maximum of NaN and a number is unspecified, as for ReduceMax.
    nan_defined=lambda what, operands: False,
    # onnxruntime 1.32.0: the maximum of minus infinities alone is the least float.
    infinity_defined=lambda what, operands: False,
)
