"""Tile: repeat a tensor along each axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first, rank_known
from opshift.opsets.families.float_counts import in_integers
from opshift.opsets.families.merged_axes import Stages, apart, in_shape, shape_of, vector
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain, all_are
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED

_MOST = 6


def _ranked(what: Plain, operands: Operands) -> Reason | None:
    if operands[2] is not None:
        return Reason("the number of copies is for one axis")
    if reason := rank_known(what, operands):
        return reason
    # Expand is a Tile in turn, of twice as many axes, where there is no Expand.
    return None if first(operands).rank in range(1, _MOST + 1) else Reason(f"it is for 1 to {_MOST} axes")


def _before(what: Plain, operands: Operands) -> Mapping[str, Any]:
    """Return the position of a new axis before each axis, and whether zeros are valid."""
    shape, repeats = first(operands).shape or (), None if operands[1] is None else operands[1].known
    full = all(isinstance(dim, int) and dim for dim in shape) and repeats is not None and bool((repeats > 0).all())
    return {"before": tuple(range(0, 2 * len(shape), 2)), "allowzero": 0 if full else 1}


@lowering(13, applies_if=_ranked, bind=_before)
def expanded(x, repeats, axis, before: Sequence[int], allowzero: int):
    """Expand an axis that is put before each of the axes, and merge each two."""
    shape = op.Shape(x)
    both = op.Concat(op.Unsqueeze(repeats, [1]), op.Unsqueeze(shape, [1]), axis=1)
    spread = op.Expand(op.Unsqueeze(x, before), op.Reshape(both, [-1]))
    return meaning.Reshape(spread, shape * repeats, allowzero=allowzero)


# --- version 1 ----------------------------------------------------------------------------------------------------


def normal(what: Plain, operands: Operands) -> tuple[Plain, Operands]:
    """Make integers of a constant count and axis, which Tile-1 has as floats."""
    data, repeats, axis = operands
    return what, (operands if axis is None else (data, in_integers(repeats), in_integers(axis)))


def _in_places(what: Plain, operands: Operands) -> Reason | None:
    return None if operands[2] is None else Reason("the number of copies is for one axis")


def _one_axis(what: Plain, operands: Operands) -> Reason | None:
    if operands[2] is None:
        return Reason("the number of copies is for all axes")
    if operands[2].known is None:
        return Reason("the axis is computed at run time", missing=True)
    return rank_known(what, operands)


def _beside(what: Plain, operands: Operands) -> Mapping[str, Any]:
    axis = operands[2].known if operands[2] else None
    rank, place = first(operands).rank or 0, 0 if axis is None else int(axis.item())
    place += rank * (place < 0)
    return {"before": (1,) * place, "behind": (1,) * (rank - place - 1)}


@lowering(13, applies_if=_one_axis, bind=_beside)
def along_one_axis(x, repeats, axis, before: Sequence[int], behind: Sequence[int]):
    """Give the number of copies along each axis: one along all but one."""
    count = op.Reshape(op.Cast(repeats, to=7), [1])
    return meaning.Itself(x, op.Concat(before, count, behind, axis=0))


def oracle(
    what: Plain, x: np.ndarray[Any, Any], repeats: np.ndarray[Any, Any], axis: np.ndarray[Any, Any] | None = None
) -> np.ndarray[Any, Any]:
    """Tile-13: "output_dim[i] = input_dim[i] * repeats[i]"; Tile-1: "Repeat the elements of a tensor along an axis"."""
    if axis is None:
        return np.tile(x, repeats)
    counts = [1] * x.ndim
    counts[int(axis.item())] = int(repeats.item())
    return np.tile(x, counts)


def _unchanged(what: Plain, operands: Operands) -> int | None:
    return 0 if all_are(operands[1], 1) else None


def _with_fewer_axes(what: Plain, operands: Operands, most: int) -> Stages | None:
    """Merge neighbours that are not repeated."""
    data, repeats = first(operands), operands[1]
    if data.shape is None or repeats is None or repeats.known is None or operands[2] is not None:
        return None
    counts = repeats.known.tolist()
    groups = apart(data.shape, [axis for axis, count in enumerate(counts) if count != 1], most)
    if groups is None:
        return None
    less = vector([math.prod(counts[axis] for axis in group) for group in groups])
    return ((what, (in_shape(data, shape_of(data.shape, groups)), less, None)),)


OPERATOR = Operator(
    name="Tile",
    meaning=Plain,
    versions=(
        Version(1, renamed={"repeats": "tiles"}),
        *(Version(since, without=frozenset(("axis",)), applies_if=_in_places) for since in (6, 13)),
    ),
    operands=("input", "repeats", "axis"),
    oracle=oracle,
    normal=normal,
    lowerings=(along_one_axis, expanded),
    wider_types=MOVED,
    neutral=_unchanged,
    traits=Traits(merges=_with_fewer_axes, floats=(Trait.MOVES,), counts=(1, 2), moved=(0,), grows=True),
)
