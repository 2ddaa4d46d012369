"""If: one of two graphs. If-1 requires outputs of the same shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits


@dataclass(frozen=True)
class If:
    """The facts about the outputs of both branches."""

    then_branch: tuple[Facts, ...] = ()
    else_branch: tuple[Facts, ...] = ()


def oracle(meaning: If, condition: Any) -> Any:
    """If-11: "Graph to run if condition is true", and one if it is false; there is no numpy for graphs."""
    raise ValueError("the branches of If are graphs")


def _one_shape(meaning: If, operands: Operands) -> Reason | None:
    """If-1: "The return values in the `then_branch` and `else_branch` must be of the same shape"."""
    for then, other in zip(meaning.then_branch, meaning.else_branch, strict=False):
        if then.shape is None or other.shape is None:
            continue
        pairs = zip(then.shape, other.shape, strict=False)
        apart = any(isinstance(one, int) and isinstance(two, int) and one != two for one, two in pairs)
        if len(then.shape) != len(other.shape) or apart:
            return Reason(f"the branches give shapes {then.shape} and {other.shape}, but it requires equal shapes")
    return None


def _known_shapes(meaning: If, operands: Operands) -> Reason | None:
    """Hold where the branches give one shape whatever a function is called with."""
    for then, other in zip(meaning.then_branch, meaning.else_branch, strict=False):
        if then.shape is None or then.shape != other.shape or not all(isinstance(dim, int) for dim in then.shape):
            return Reason("the branches are not known to give one shape, which If-1 requires", missing=True)
    return None


OPERATOR = Operator(
    name="If",
    meaning=If,
    versions=(
        Version(1, applies_if=_one_shape, unsure=_known_shapes),
        *(Version(since) for since in (11, 13, 16, 19, 21, 23, 24, 25)),
    ),
    operands=("cond",),
    oracle=oracle,
    traits=Traits(makes_types=()),
)
