"""SelectedBoxes: the boxes that a NonMaxSuppression selects of sorted ones, turn by turn. No model has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.operators import selectedbox
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, unrolled
from opshift.opsets.registry.operator import Operands, Operator
from opshift.opsets.registry.plain import Plain

Array = np.ndarray[Any, Any]
MOST = 64
"""Turns that are written one after the other where there is no Loop."""


@dataclass(frozen=True)
class SelectedBoxes:
    """The number of iterations, if it is known and at most `MOST`; otherwise 0."""

    turns: int = 0


def oracle(what: SelectedBoxes, count: Array, alive: Array, *others: Array) -> tuple[Array, Array]:
    """Return which boxes are left, and for each turn the first one that was, or -1."""
    rows = []
    for _ in range(int(count)):
        alive, row = selectedbox.oracle(Plain(), alive, *others)
        rows.append(row)
    return alive, np.reshape(rows, (len(rows), 1, *alive.shape[:2])).astype(np.int64)


def _facts(what: SelectedBoxes, operands: Operands) -> tuple[Facts, ...]:
    alive = operands[1] or Facts()
    batches, classes, boxes = alive.shape or (None, None, None)
    rows = (what.turns or None, 1, batches, classes)
    return Facts(alive.dtype, (batches, classes, boxes)), Facts(TensorProto.INT64, rows)


@lowering(18, carries=1)
def turn(number, alive, places, top, left, bottom, right, area, overlap):
    """Select one box in each turn of a Loop."""
    left_over, row = meaning.SelectedBox(alive, places, top, left, bottom, right, area, overlap)
    return left_over, row


def _few(what: SelectedBoxes, operands: Operands) -> Reason | None:
    why = f"max_output_boxes_per_class and the number of boxes are to be known, and one of them 1 to {MOST}"
    return None if what.turns else Reason(why, missing=True)


@unrolled(
    18,
    applies_if=_few,
    bind=lambda what, operands: {},
    turns=lambda what, operands: (what.turns, False),
    scanned=(),
    carries=1,
)
def turn_after_turn(number, alive, places, top, left, bottom, right, area, overlap):
    """Write the turns one after the other."""
    left_over, row = meaning.SelectedBox(alive, places, top, left, bottom, right, area, overlap)
    return left_over, row


OPERATOR = Operator(
    name="SelectedBoxes",
    domain="opshift.step",
    meaning=SelectedBoxes,
    versions=(),
    operands=("count", "alive", "places", "top", "left", "bottom", "right", "area", "overlap"),
    oracle=oracle,
    lowerings=(turn_after_turn, turn),
    facts=_facts,
)
