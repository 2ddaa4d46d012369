"""NonMaxSuppression: the boxes that no better one covers. Version 11 spells out what 10 computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.operators.selectedboxes import MOST
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import boxes_and_scores
from opshift.opsets.registry.traits import Flow, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NonMaxSuppression:
    """The format of the boxes, and whether a box whose score is at score_threshold is kept."""

    center_point_box: int = 0
    inclusive: bool = False


def oracle(
    what: NonMaxSuppression,
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    overlap: Array | None = None,
    least: Array | None = None,
) -> Array:
    """NonMaxSuppression-11: "Boxes are suppressed if their IOU with a previously selected box is strictly greater".

    Of equal scores the first comes first, and boxes without area cover nothing (onnxruntime 1.32.0).
    """
    if boxes.shape != (*scores.shape[:1], *scores.shape[2:], 4):
        raise ValueError("NonMaxSuppression-11: there is not one score of each class for each box")
    count = 0 if most is None else int(most.reshape(-1)[0])
    threshold = np.float32(0 if overlap is None else overlap.reshape(-1)[0])
    found = []
    with np.errstate(all="ignore"):
        for batch, corners in enumerate(_corners(what, boxes)):
            for label, row in enumerate(scores[batch]):
                for box in _selected(corners, _ordered(what, row, least), count, threshold):
                    found.append((batch, label, box))
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(what: NonMaxSuppression, boxes: Array) -> Array:
    """Return the lower and the upper corner of each box, y before x."""
    if what.center_point_box:
        middle, half = boxes[..., [1, 0]], np.maximum(boxes[..., [3, 2]], 0) / np.float32(2)
        return np.concatenate([middle - half, middle + half], axis=-1)
    one, other = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(one, other), np.maximum(one, other)], axis=-1)


def _ordered(what: NonMaxSuppression, scores: Array, least: Array | None) -> list[int]:
    """Return the boxes whose score counts, the best first."""
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    if least is None:
        return order
    threshold = least.reshape(-1)[0]
    return [box for box in order if scores[box] > threshold or (what.inclusive and scores[box] == threshold)]


def _selected(corners: Array, order: list[int], count: int, overlap: np.float32) -> list[int]:
    kept: list[int] = []
    for box in order:
        if len(kept) >= count:
            break
        if not any(_overlap(corners[one], corners[box]) > overlap for one in kept):
            kept.append(box)
    return kept


def _overlap(one: Array, other: Array) -> np.float32:
    """Return the share of the union that two boxes have in common, computed in float as onnxruntime does."""
    sizes = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    if not (sizes > 0).all():
        return np.float32(0)
    common = sizes[0] * sizes[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return np.float32(common / (areas[0] + areas[1] - common)) if common > 0 else np.float32(0)


def _none_asked(what: NonMaxSuppression, operands: Operands) -> Reason | None:
    return None if operands[2] is None else Reason("some boxes are asked for")


@lowering(18, applies_if=_none_asked)
def nothing(boxes, scores, most, overlap, least):
    """Return no boxes: by default none is asked for."""
    return op.Cast(op.ConstantOfShape([0, 3]), to=7)


def _centers(what: NonMaxSuppression, operands: Operands) -> Reason | None:
    return None if what.center_point_box else Reason("boxes are given by their corners")


def _inclusive(what: NonMaxSuppression, operands: Operands) -> Mapping[str, Any]:
    return {"inclusive": what.inclusive}


@lowering(18, applies_if=_centers, bind=_inclusive)
def of_centers(boxes, scores, most, overlap, least, inclusive: bool):
    """Compute the corners; a box of negative size has no area."""
    middle, size = op.Split(boxes, num_outputs=2, axis=2)
    half = op.Relu(size) / 2.0
    corners = op.Concat(middle - half, middle + half, axis=2)
    return meaning.Same(corners, scores, most, overlap, least, center_point_box=0, inclusive=inclusive)


def _above(what: NonMaxSuppression, operands: Operands) -> Reason | None:
    if operands[4] is None:
        return Reason("there is no score_threshold")
    return Reason("a score at the threshold is selected") if what.inclusive else None


def _not_below(what: NonMaxSuppression, operands: Operands) -> Reason | None:
    if operands[4] is None:
        return Reason("there is no score_threshold")
    return None if what.inclusive else Reason("a score at the threshold is not selected")


def _format(what: NonMaxSuppression, operands: Operands) -> Mapping[str, Any]:
    return {"center_point_box": what.center_point_box}


# Of boxes in the order of their scores, those below the threshold come last: they neither suppress others that count
# nor take their places.
@lowering(18, applies_if=_above, bind=_format)
def above(boxes, scores, most, overlap, least, center_point_box: int):
    """Select among all, and drop those whose score is not above score_threshold."""
    found = meaning.Same(boxes, scores, most, overlap, center_point_box=center_point_box)
    return op.Compress(found, op.Greater(op.GatherND(scores, found), op.Reshape(least, [1])), axis=0)


@lowering(18, applies_if=_not_below, bind=_format)
def not_below(boxes, scores, most, overlap, least, center_point_box: int):
    """Select among all, and drop those whose score is below score_threshold."""
    found = meaning.Same(boxes, scores, most, overlap, center_point_box=center_point_box)
    return op.Compress(found, op.GreaterOrEqual(op.GatherND(scores, found), op.Reshape(least, [1])), axis=0)


def _whole_meaning(what: NonMaxSuppression, operands: Operands) -> Mapping[str, Any]:
    return {"center_point_box": what.center_point_box, "inclusive": what.inclusive}


def _without_share(what: NonMaxSuppression, operands: Operands) -> Reason | None:
    return None if operands[3] is None else Reason("iou_threshold is given")


@lowering(18, applies_if=_without_share, bind=_whole_meaning)
def of_any_overlap(boxes, scores, most, overlap, least, center_point_box: int, inclusive: bool):
    """Give the default of iou_threshold, which is 0."""
    return meaning.Same(
        boxes, scores, most, op.Cast(0.0, to=1), least, center_point_box=center_point_box, inclusive=inclusive
    )


def _whole(what: NonMaxSuppression, operands: Operands) -> Reason | None:
    if operands[2] is None or operands[3] is None or operands[4] is not None:
        return Reason("max_output_boxes_per_class or iou_threshold is left out, or score_threshold is given")
    return Reason("boxes are given by their centers") if what.center_point_box else None


def _turns(what: NonMaxSuppression, operands: Operands) -> Mapping[str, Any]:
    """Return how many turns there are, where there are boxes, and that is known and few enough; else 0."""
    asked, there = operands[2], (operands[1] or Facts()).dim(2)
    if asked is None or asked.value is None or not isinstance(there, int):
        return {"turns": 0}
    turns = min(int(asked.value.array.reshape(-1)[0]), there)
    return {"turns": turns if 0 < turns <= MOST else 0}


@lowering(18, applies_if=_whole, bind=_turns)
def one_by_one(boxes, scores, most, overlap, least, turns: int):
    """Sort the boxes by score; as often as boxes are asked for, select the first, and drop those that it suppresses."""
    count = op.Shape(scores, start=2, end=3)
    _, order = op.TopK(scores, count, axis=2)
    shape = op.Shape(scores)
    y, x, other_y, other_x = op.Split(op.Transpose(boxes, perm=[0, 2, 1]), num_outputs=4, axis=1)
    top = op.GatherElements(op.Expand(op.Min(y, other_y), shape), order, axis=2)
    left = op.GatherElements(op.Expand(op.Min(x, other_x), shape), order, axis=2)
    bottom = op.GatherElements(op.Expand(op.Max(y, other_y), shape), order, axis=2)
    right = op.GatherElements(op.Expand(op.Max(x, other_x), shape), order, axis=2)
    area = (bottom - top) * (right - left)
    places = op.Range(0, op.Squeeze(count, [0]), 1)
    number = op.Squeeze(op.Min(op.Reshape(most, [1]), count), [0])
    alive = op.CastLike(op.ConstantOfShape(shape) + 1.0, scores)
    _, rows = meaning.SelectedBoxes(number, alive, places, top, left, bottom, right, area, overlap, turns=turns)
    best = op.Squeeze(op.Transpose(rows, perm=[2, 3, 0, 1]), [3])
    found = op.Transpose(op.NonZero(op.Greater(best, -1)), perm=[1, 0])
    box = op.Unsqueeze(op.GatherND(op.GatherElements(order, best, axis=2), found), [1])
    return op.Concat(op.Slice(found, [0], [2], [1]), box, axis=1)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask for a few boxes, and drop those that share a part with another: most other thresholds drop all or none.

    In one of two turns the boxes are small numbers, so that most share something, whichever format they have.
    """
    drawn = {
        "max_output_boxes_per_class": rng.integers(1, 9),
        "iou_threshold": rng.choice([0, 0.1, 0.25, 0.4, 0.5, 0.75, 1]),
    }
    if rng.integers(2):
        drawn["score_threshold"] = rng.choice([-1, 0, 0.25])
    if rng.integers(2):
        drawn["boxes"] = rng.integers(0, 5, feeds["boxes"].shape)
    own = {name: feeds[name] for name in drawn if name in feeds and feeds[name].flags.writeable}
    return {**feeds, **{name: np.full(value.shape, drawn[name], value.dtype) for name, value in own.items()}}


def _is_no_number(inputs: Sequence[Any]) -> bool:
    """Return whether what is to be one number is none, or several: onnxruntime 1.32.0 takes the first."""
    return any(isinstance(one, np.ndarray) and one.size != 1 for one in inputs[2:])


def _as_run(attributes: Mapping[str, Any]) -> NonMaxSuppression:
    """Lift what onnxruntime 1.32.0 runs: a score at the threshold is not selected."""
    return NonMaxSuppression(**attributes)


def _as_told(attributes: Mapping[str, Any]) -> NonMaxSuppression:
    """Lift "Boxes with score less than score_threshold are removed"."""
    return NonMaxSuppression(**attributes, inclusive=True)


def _written(what: NonMaxSuppression, operands: Operands) -> Mapping[str, Any] | Reason:
    if what.inclusive and operands[4] is not None:
        return Reason("onnxruntime selects no score at the threshold")
    return {"center_point_box": what.center_point_box}


OPERATOR = Operator(
    name="NonMaxSuppression",
    meaning=NonMaxSuppression,
    versions=(
        Version(10, lift=_as_run, spec=_as_told, write=_written),
        Version(11, lift=_as_run, spec=_as_told, write=_written),
    ),
    operands=("boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold"),
    oracle=oracle,
    shape=lambda what, operands: (None, 3),
    nan_defined=lambda what, operands: False,
    adversarial=adversarial,
    lowerings=(nothing, of_centers, above, not_below, of_any_overlap, one_by_one),
    traits=Traits(
        value_range=value_ranges.counts,
        floats=(Trait.MOVES,),
        counts=(2,),
        corners=(0,),
        overlaps=3,
        compared_with={1: 4},
        flow=Flow.BOUNDED,
        equal_dims=boxes_and_scores,
        spreads=False,
        decides=True,
        nan_undefined=True,
        meaningless=_is_no_number,
    ),
)
