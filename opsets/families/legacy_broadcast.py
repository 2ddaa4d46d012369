"""Define binary operators below opset 7: the second operand is aligned with axes of the first from `axis` on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import resolve
from opshift.opsets.registry.lowering import Lowering, Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain


@dataclass(frozen=True)
class Aligned(Plain):
    """The axis of the first operand at which the axes of the second start; None aligns the last axes, as numpy does.

    With `vectors`, the axis applies only if the second operand is a vector; otherwise the last axes are aligned.
    """

    axis: int | None = None
    vectors: bool = False


def _lift(attributes: Mapping[str, Any]) -> Aligned:
    """Add-6: "The starting of the mutually equal shape is specified by the argument "axis", and if it is not set,
    suffix matching is assumed". Without `broadcast`, both shapes are the same; an axis of -1 is the last one.
    """
    axis = attributes.get("axis")
    return Aligned(axis if attributes.get("broadcast") else None)


def _behind(what: Aligned, operands: Operands) -> int | None:
    """Return the number of axes of the first operand after those of the second; None if a rank is unknown."""
    ranks = [None if facts is None else facts.rank for facts in operands]
    if what.axis is None or ranks[1] == 0 or (what.vectors and (ranks[1] not in (1, None) or ranks[0] in (0, 1))):
        return 0
    if ranks[0] is None or ranks[1] is None:
        return None
    behind = ranks[0] - resolve(what.axis, ranks[0]) - ranks[1]
    second = operands[1]
    # Add-6: the second may have "element size 1 (including ... any tensor with rank equal to or smaller)".
    return 0 if behind < 0 and (what.axis == -1 or (second is not None and second.size == 1)) else behind


def normal(what: Aligned, operands: Operands) -> tuple[Aligned, Operands]:
    """Drop the axis if the last axes are aligned."""
    return (Aligned() if _behind(what, operands) == 0 else what), operands


def _fault(what: Aligned, operands: Operands) -> str | None:
    behind = _behind(what, operands)
    if behind is not None and behind < 0:
        return f"axis {what.axis} leaves fewer axes of the first input than the second input has"
    return None


def _aligns(what: Aligned, operands: Operands) -> Reason | None:
    if what.axis is None:
        return Reason("")
    if _behind(what, operands) is None:
        return Reason(f"it aligns its second input at axis {what.axis}, and a rank is unknown", missing=True)
    return None


def _axes(what: Aligned, operands: Operands) -> Mapping[str, Any]:
    second = operands[1]
    rank = second.rank if second is not None and second.rank is not None else 0
    return {"axes": tuple(range(rank, rank + (_behind(what, operands) or 0)))}


@lowering(13, applies_if=_aligns, bind=_axes)
def aligned(a, b, axes: Sequence[int]):
    """Add axes of length 1 after those of the second operand."""
    return meaning.Itself(a, op.Unsqueeze(b, axes))


def _where_aligned(
    applies_if: Callable[[Any, Any], Reason | None] | None,
) -> Callable[[Any, Any], Reason | None]:
    def where_aligned(what: Aligned, operands: Operands) -> Reason | None:
        if what.axis is not None:
            return Reason("")
        return applies_if(what, operands) if applies_if else None

    return where_aligned


def _among_aligned(one: Lowering) -> Lowering:
    """Return a lowering that applies only if the last axes are aligned."""
    return dataclasses.replace(one, applies_if=_where_aligned(one.applies_if))


def _oracle(function: Callable[..., Any]) -> Callable[..., Any]:
    def oracle(what: Aligned, *arrays: np.ndarray[Any, Any]) -> Any:
        a, b = arrays
        if what.axis is None or (what.vectors and (b.ndim != 1 or a.ndim < 2)):
            return function(Plain(), a, b)
        behind = a.ndim - resolve(what.axis, a.ndim) - b.ndim
        return function(Plain(), a, b.reshape(*b.shape, *[1] * max(behind, 0)))

    return oracle


def with_legacy_broadcast(
    operator: Operator, *versions: int, lift: Callable[[Mapping[str, Any]], Aligned] = _lift
) -> Operator:
    """Return a binary operator with its versions below 7, most of which have the attributes `axis` and `broadcast`."""
    return dataclasses.replace(
        operator,
        meaning=Aligned,
        versions=(*(Version(since, lift=lift) for since in versions), *operator.versions),
        oracle=_oracle(operator.oracle),
        normal=normal,
        fault=_fault,
        lowerings=(aligned, *map(_among_aligned, operator.lowerings)),
    )
