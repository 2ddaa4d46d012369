"""Tile: repeat a tensor along each axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first, rank_known
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, all_are, plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED

_MOST = 6


def _ranked(what: Plain, operands: Operands) -> Reason | None:
    if reason := rank_known(what, operands):
        return reason
    # Expand is a Tile in turn, of twice as many axes, where there is no Expand.
    return None if first(operands).rank in range(1, _MOST + 1) else Reason(f"it is for 1 to {_MOST} axes")


def _before(what: Plain, operands: Operands) -> Mapping[str, Any]:
    """Of each axis and the one that is put before it, the number of the latter; and whether zeros are to be read."""
    shape, repeats = first(operands).shape or (), None if operands[1] is None else operands[1].known
    full = all(isinstance(dim, int) and dim for dim in shape) and repeats is not None and bool((repeats > 0).all())
    return {"before": tuple(range(0, 2 * len(shape), 2)), "allowzero": 0 if full else 1}


@lowering(13, applies_if=_ranked, bind=_before)
def expanded(x, repeats, before: Sequence[int], allowzero: int):
    """Expand an axis that is put before each of the axes, and merge each two."""
    shape = op.Shape(x)
    both = op.Concat(op.Unsqueeze(repeats, [1]), op.Unsqueeze(shape, [1]), axis=1)
    spread = op.Expand(op.Unsqueeze(x, before), op.Reshape(both, [-1]))
    return meaning.Reshape(spread, shape * repeats, allowzero=allowzero)


OPERATOR = plain(
    "Tile",
    (6, 13),
    ("input", "repeats"),
    np.tile,
    (expanded,),
    wider_types=MOVED,
    neutral=lambda what, operands: 0 if all_are(operands[1], 1) else None,
    traits=Traits(floats=(Trait.MOVES,), counts=(1, 2), moved=(0,), grows=True),
)
