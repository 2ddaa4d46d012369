"""Shape: the dimensions of a tensor; since 15 only some of them on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import END, first
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Facts, partly_known
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Flow, Trait, Traits


@dataclass(frozen=True)
class Shape:
    """The slice of the dimensions: start and end."""

    start: int = 0
    end: int | None = None


def oracle(meaning: Shape, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Shape-15: "the shape's slice of the input tensor", as a vector of int64."""
    return np.array(data.shape[meaning.start : meaning.end], dtype=np.int64)


def _part(meaning: Shape, operands: Operands) -> Reason | None:
    return Reason("the whole shape is needed") if meaning == Shape() else None


def _ends(meaning: Shape, operands: Operands) -> Mapping[str, Any]:
    return {"starts": (meaning.start,), "ends": (END if meaning.end is None else meaning.end,)}


@lowering(13, applies_if=_part, bind=_ends)
def sliced(data, starts: Sequence[int], ends: Sequence[int]):
    """Compute the whole shape, then slice it."""
    return op.Slice(op.Shape(data), starts, ends)


def by_facts(attributes: Mapping[str, Any], operands: Operands) -> Facts | None:
    """Return the dims that are known."""
    shape = first(operands).shape
    return None if shape is None else partly_known(shape[attributes.get("start", 0) : attributes.get("end")])


OPERATOR = Operator(
    name="Shape",
    meaning=Shape,
    versions=tuple(Version(since) for since in (1, 13, 15, 19, 21, 23, 24, 25)),
    operands=("data",),
    oracle=oracle,
    lowerings=(sliced,),
    weight=0.5,
    by_facts=by_facts,
    traits=Traits(value_range=value_ranges.dims, floats=(Trait.MOVES,), flow=Flow.DROPPED),
)
