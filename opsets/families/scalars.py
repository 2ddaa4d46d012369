"""Reshape scalars: a one-element constant broadcasts in the same way with one axis as with more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands


def _is_one(place: int) -> Callable[[Any, Operands], Reason | None]:
    """Return a condition: one of two operands is a one-element constant whose axes the other has, too."""

    def holds(what: Any, operands: Operands) -> Reason | None:
        if len(operands) != 2 or operands[0] is None or operands[1] is None:
            return Reason("")
        one, other = operands[place], operands[1 - place]
        if one is None or other is None or not one.is_constant or one.size != 1 or (one.rank or 0) < 2:
            return Reason("")
        if other.rank is None:
            return Reason("the rank of the other operand is unknown", missing=True)
        return None if other.rank >= (one.rank or 0) else Reason("the other operand has fewer axes")

    return holds


@lowering(13, applies_if=_is_one(0))
def first_as_vector(a, b):
    """Reshape the first operand, a constant of one element, to one axis."""
    return meaning.Same(op.Reshape(a, [1]), b)


@lowering(13, applies_if=_is_one(1))
def second_as_vector(a, b):
    """Reshape the second operand, a constant of one element, to one axis."""
    return meaning.Same(a, op.Reshape(b, [1]))


def _is_wider(place: int) -> Callable[[Any, Operands], Reason | None]:
    """Return a condition: one of two operands is a one-element constant with more axes than the other."""

    def holds(what: Any, operands: Operands) -> Reason | None:
        if len(operands) != 2 or operands[0] is None or operands[1] is None:
            return Reason("")
        one, other = operands[place], operands[1 - place]
        if one is None or other is None or not one.is_constant or one.size != 1 or (one.rank or 0) < 2:
            return Reason("")
        if other.rank is None:
            return Reason("the rank of the other operand is unknown", missing=True)
        return None if other.rank < (one.rank or 0) else Reason("")

    return holds


def _axes_in_front(place: int) -> Callable[[Any, Operands], Mapping[str, Any]]:
    def bind(what: Any, operands: Operands) -> Mapping[str, Any]:
        ranks = [(facts and facts.rank) or 0 for facts in operands]
        return {"axes": tuple(range(ranks[place] - ranks[1 - place]))}

    return bind


@lowering(13, applies_if=_is_wider(0), bind=_axes_in_front(0))
def second_widened(a, b, axes: Sequence[int]):
    """Give the second operand the axes of the first, a constant of one element."""
    return meaning.Same(op.Reshape(a, [1]), op.Unsqueeze(b, axes))


@lowering(13, applies_if=_is_wider(1), bind=_axes_in_front(1))
def first_widened(a, b, axes: Sequence[int]):
    """Give the first operand the axes of the second, a constant of one element."""
    return meaning.Same(op.Unsqueeze(a, axes), op.Reshape(b, [1]))


def _single(what: Any, operands: Operands) -> Reason | None:
    return None if len(operands) == 1 else Reason("there are several operands")


@lowering(13, applies_if=_single)
def alone(x):
    """Return the only operand."""
    return op.Identity(x)


AS_VECTOR = (first_as_vector, second_as_vector, second_widened, first_widened)
"""Lowerings for elementwise operators of two operands: some runtimes need one-element constants of certain ranks."""
