"""A step: the nodes that trees lead to from others, some levels further down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Descended:
    """The number of levels, and whether NaN follows features up to the threshold at the marked nodes."""

    depth: int = 0
    tracks: int = 0


def oracle(
    what: Descended, at: Array, x: Array, features: Array, thresholds: Array, yes: Array, no: Array, missing: Array
) -> Array:
    """Ask each node whether its feature is at most its threshold."""
    rows = np.arange(len(x))[:, None]
    for _ in range(what.depth):
        value = x[rows, features[at]]
        below = value <= thresholds[at]
        if what.tracks:
            below = below | (np.isnan(value) & missing[at])
        at = np.where(below, yes[at], no[at])
    return at


def _form(tracks: int) -> Callable[[Descended, Operands], Reason | None]:
    return lambda what, operands: None if what == Descended(1, tracks) else Reason("")


def _deep(what: Descended, operands: Operands) -> Reason | None:
    return None if what.depth > 1 else Reason("")


def _halves(what: Descended, operands: Operands) -> Mapping[str, Any]:
    return {"upper": what.depth // 2, "lower": what.depth - what.depth // 2}


@lowering(18, applies_if=_deep, bind=_halves)
def in_halves(at, x, features, thresholds, yes, no, missing, upper: int, lower: int):
    """Go down half of the levels, then the others."""
    further = meaning.Same(at, x, features, thresholds, yes, no, missing, depth=upper)
    return meaning.Same(further, x, features, thresholds, yes, no, missing, depth=lower)


@lowering(18, applies_if=_form(0))
def one_level(at, x, features, thresholds, yes, no, missing):
    """Gather what the nodes ask, and their answers."""
    values = op.GatherElements(x, op.Gather(features, at), axis=1)
    below = op.LessOrEqual(values, op.Gather(thresholds, at))
    return op.Where(below, op.Gather(yes, at), op.Gather(no, at))


@lowering(18, applies_if=_form(1))
def one_level_with_nan(at, x, features, thresholds, yes, no, missing):
    """Gather what the nodes ask, and their answers, also to NaN."""
    values = op.GatherElements(x, op.Gather(features, at), axis=1)
    stays = op.And(op.IsNaN(values), op.Gather(missing, at))
    below = op.Or(op.LessOrEqual(values, op.Gather(thresholds, at)), stays)
    return op.Where(below, op.Gather(yes, at), op.Gather(no, at))


def _facts(what: Descended, operands: Operands) -> tuple[Facts, ...]:
    return (Facts(first(operands).dtype, first(operands).shape),)


OPERATOR = Operator(
    name="Descended",
    domain="opshift.step",
    meaning=Descended,
    versions=(),
    operands=("at", "x", "features", "thresholds", "yes", "no", "missing"),
    oracle=oracle,
    lowerings=(in_halves, one_level, one_level_with_nan),
    facts=_facts,
    idle=lambda what, operands: not what.depth,
)
