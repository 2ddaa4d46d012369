"""SelectedBox: the first box that is left, and what it suppresses: a turn of SelectedBoxes. No model has it."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator
from opshift.opsets.registry.plain import Plain

Array = np.ndarray[Any, Any]


def oracle(
    what: Plain,
    alive: Array,
    places: Array,
    top: Array,
    left: Array,
    bottom: Array,
    right: Array,
    area: Array,
    overlap: Array,
) -> tuple[Array, Array]:
    """Return which boxes are left then, and the first one that was, or -1."""
    with np.errstate(all="ignore"):
        best = alive.argmax(axis=2)[..., None]
        row = np.where(alive.max(axis=2) > 0, best[..., 0], -1)[None]
        mine = [np.take_along_axis(edge, best, axis=2) for edge in (top, left, bottom, right, area)]
        height = np.minimum(bottom, mine[2]) - np.maximum(top, mine[0])
        width = np.minimum(right, mine[3]) - np.maximum(left, mine[1])
        common = np.maximum(height, 0) * np.maximum(width, 0)
        covered = (common > 0) & (common / (area + mine[4] - common) > overlap.reshape(-1)[0])
    return np.where(covered | (places == best), alive.dtype.type(0), alive), row.astype(np.int64)


def _facts(what: Plain, operands: Operands) -> tuple[Facts, ...]:
    alive = operands[0] or Facts()
    batches, classes, boxes = alive.shape or (None, None, None)
    return Facts(alive.dtype, (batches, classes, boxes)), Facts(TensorProto.INT64, (1, batches, classes))


@lowering(18)
def by_overlaps(alive, places, top, left, bottom, right, area, overlap):
    """Select the first box that is left, and drop it and those whose IoU with it is above the threshold."""
    best = op.ArgMax(alive, axis=2, keepdims=1)
    lower = op.Max(top, op.GatherElements(top, best, axis=2))
    upper = op.Min(bottom, op.GatherElements(bottom, best, axis=2))
    start = op.Max(left, op.GatherElements(left, best, axis=2))
    end = op.Min(right, op.GatherElements(right, best, axis=2))
    common = op.Relu(upper - lower) * op.Relu(end - start)
    whole = area + op.GatherElements(area, best, axis=2) - common
    covered = op.And(op.Greater(common, 0.0), op.Greater(common / whole, overlap))
    row = op.Where(op.Greater(op.ReduceMax(alive, [2], keepdims=1), 0.0), best, -1)
    return op.Where(op.Or(covered, op.Equal(places, best)), 0.0, alive), op.Unsqueeze(op.Squeeze(row, [2]), [0])


OPERATOR = Operator(
    name="SelectedBox",
    domain="opshift.step",
    meaning=Plain,
    versions=(),
    operands=("alive", "places", "top", "left", "bottom", "right", "area", "overlap"),
    oracle=oracle,
    lowerings=(by_overlaps,),
    facts=_facts,
)
