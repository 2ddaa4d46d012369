"""Concat: tensors one after the other along an axis. Negative axes since 11."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import axis_not_negative, one_axis
from opshift.opsets.families.merged_axes import joined
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, all_but
from opshift.opsets.registry.traits import EVERY, Trait, Traits


@dataclass(frozen=True)
class Concat:
    """The axis along which tensors are joined."""

    axis: int = 0


def oracle(meaning: Concat, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Concat-13: "same shape, except for the dimension size of the axis to concatenate on"."""
    return np.concatenate(inputs, axis=meaning.axis)


def _rest(meaning: Concat, operands: Operands) -> int | None:
    """Return the one input that may have elements, which is the result."""
    found = [place for place, facts in enumerate(operands) if facts is None or facts.size != 0]
    return found[0] if len(found) == 1 else None


def equal_dims(node: NodeShapes) -> Pairs:
    """Yield the dims beside the axis along which inputs are joined."""
    known = [dims for dims in node.inputs if dims is not None]
    if len({len(dims) for dims in known}) == 1:
        axis = node.attributes.get("axis", 0) % max(1, len(known[0]))
        for one, other in itertools.pairwise(known):
            yield from all_but(axis, one, other)


def _lift_first(attributes: Mapping[str, Any]) -> Concat:
    # Concat-1: "Which axis to concat on.  Default value is 1."
    axis = attributes.get("axis")
    return Concat(1 if axis is None else axis)


OPERATOR = Operator(
    name="Concat",
    meaning=Concat,
    versions=(Version(1, lift=_lift_first), Version(4, applies_if=axis_not_negative), Version(11), Version(13)),
    operands=(),
    oracle=oracle,
    normal=one_axis,
    variadic=True,
    neutral=_rest,
    moves_data=True,
    traits=Traits(merges=joined, floats=(Trait.MOVES,), moved=EVERY, joins=True, equal_dims=equal_dims, unchecked=True),
)
