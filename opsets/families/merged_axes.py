"""Reduce the number of axes: merge adjacent axes that an operator treats alike, for runtimes with a rank limit.

A rule returns stages, each with a meaning and operands. An operand with a new shape is reshaped, and a new constant
replaces the old one; the first operand of a later stage is the previous stage's result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first, product, resolve
from opshift.opsets.registry.facts import Dim, Facts, constant
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Traits

Stages = Sequence[tuple[Any, Operands]]
Groups = tuple[tuple[int, ...], ...]


def merged(columns: Sequence[Hashable | None], most: int) -> Groups | None:
    """Return axes in at most `most` groups of neighbours with equal columns; None if more groups are needed.

    A column of None is that of an axis of length 1, which may join any group.
    """
    groups: list[tuple[int, ...]] = [(axis,) for axis in range(len(columns))]
    kinds = list(columns)
    while len(groups) > most:
        alike = (
            place
            for place in reversed(range(len(groups) - 1))
            if kinds[place] == kinds[place + 1] or None in kinds[place : place + 2]
        )
        place = next(alike, None)
        if place is None:
            return None
        groups[place : place + 2] = [groups[place] + groups[place + 1]]
        kinds[place : place + 2] = [kinds[place + 1] if kinds[place] is None else kinds[place]]
    return tuple(groups)


def shape_of(dims: Sequence[Dim], groups: Groups) -> tuple[Dim, ...]:
    """Return the dimensions of merged axes."""
    return tuple(product(tuple(dims[axis] for axis in group)) for group in groups)


def place_of(axis: int, groups: Groups) -> int:
    """Return the group of an axis."""
    return next(place for place, group in enumerate(groups) if axis in group)


def in_shape(facts: Facts, shape: tuple[Dim, ...]) -> Facts:
    """Return the facts in another shape."""
    if shape == facts.shape:
        return facts
    numbers = tuple(dim for dim in shape if isinstance(dim, int))
    if facts.known is not None and len(numbers) == len(shape):
        return constant(facts.known.reshape(numbers))
    return dataclasses.replace(facts, shape=shape, value=None)


def vector(numbers: Sequence[int]) -> Facts:
    """Return a constant of int64."""
    return constant(np.array(numbers, np.int64))


def elementwise(what: Any, operands: Operands, most: int) -> Stages | None:
    """Merge axes along which the same operands broadcast."""
    shapes = [None if facts is None else facts.shape for facts in operands]
    known = [shape for shape in shapes if shape is not None]
    if getattr(what, "axis", None) is not None or len(known) < sum(facts is not None for facts in operands):
        return None
    rank = max(map(len, known), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    columns = [_broadcast([shape[axis] for shape in padded]) for axis in range(rank)]
    if False in columns:
        return None
    groups = merged(columns, most)
    return None if groups is None else ((what, tuple(_narrowed(facts, groups, rank) for facts in operands)),)


def _broadcast(dims: Sequence[Dim]) -> Hashable | None:
    """Return the operands with several elements along an axis; None: no operand; False: unknown."""
    wide = [dim for dim in dims if dim != 1]
    if len(wide) > 1 and (None in wide or len(set(wide)) > 1):
        return False
    return tuple(dim != 1 for dim in dims) if wide else None


def _narrowed(facts: Facts | None, groups: Groups, rank: int) -> Facts | None:
    """Return an operand with merged axes, counted from the back; missing leading axes stay missing."""
    if facts is None or facts.shape is None:
        return facts
    absent = rank - len(facts.shape)
    own = [[facts.shape[axis - absent] for axis in group if axis >= absent] for group in groups]
    return in_shape(facts, tuple(product(tuple(dims)) for dims in own if dims))


def apart(shape: Sequence[Dim], alone: Sequence[int], most: int) -> Groups | None:
    """Return groups in which some axes are merged only with axes of length 1."""
    columns: list[Hashable | None] = [
        axis if axis in alone else None if dim == 1 else "other" for axis, dim in enumerate(shape)
    ]
    return merged(columns, most)


def along_axis(what: Any, operands: Operands, most: int) -> Stages | None:
    """Merge the axes before and after the meaning's axis."""
    data = first(operands)
    if data.shape is None:
        return None
    axis = resolve(what.axis, data.rank)
    groups = apart(data.shape, (axis,), most)
    if groups is None:
        return None
    less = dataclasses.replace(what, axis=place_of(axis, groups))
    return ((less, (in_shape(data, shape_of(data.shape, groups)), *operands[1:])),)


def is_elementwise(traits: Traits) -> bool:
    """Return whether an element of the output is computed from the elements at the same place of all inputs."""
    return traits.merges is elementwise


def has_rows(traits: Traits) -> bool:
    """Return whether the elements along the attribute `axis` of the output are computed from those of the input."""
    return traits.merges is along_axis


def joined(what: Any, operands: Operands, most: int) -> Stages | None:
    """Merge the axes before and after the axis along which all operands are concatenated."""
    shapes = [facts.shape for facts in operands if facts is not None and facts.shape is not None]
    if not shapes or len(shapes) < len(operands) or len(set(map(len, shapes))) > 1:
        return None
    axis = resolve(what.axis, len(shapes[0]))
    # The operands agree in all dimensions but one, so any operand's known dimensions count.
    dims = [next((dim for dim in column if isinstance(dim, int)), column[0]) for column in zip(*shapes, strict=True)]
    groups = apart(dims, (axis,), most)
    if groups is None:
        return None
    own = [[shape[place] if place == axis else dim for place, dim in enumerate(dims)] for shape in shapes]
    less = tuple(
        in_shape(facts, shape_of(each, groups))
        for facts, each in zip((facts for facts in operands if facts), own, strict=True)
    )
    return ((dataclasses.replace(what, axis=place_of(axis, groups)), less),)


def along_operand(what: Any, operands: Operands, most: int) -> Stages | None:
    """Merge the axes before and after the axis in the second operand."""
    data, axis = first(operands), operands[1]
    if data.shape is None or axis is None or axis.known is None:
        return None
    along = resolve(int(axis.known.item()), data.rank)
    groups = apart(data.shape, (along,), most)
    if groups is None:
        return None
    place = constant(np.full_like(axis.known, place_of(along, groups)))
    return ((what, (in_shape(data, shape_of(data.shape, groups)), place, *operands[2:])),)


def reduced(what: Any, operands: Operands, most: int) -> Stages | None:
    """Merge adjacent reduced axes, and adjacent kept axes."""
    data, axes = first(operands), operands[1]
    known = None if axes is None else axes.known
    if data.shape is None or not data.rank or (axes is not None and known is None):
        return None
    gone = set() if known is None else {resolve(int(axis), data.rank) for axis in known.flat}
    if not gone and what.noop_with_empty_axes:
        return None
    gone = gone or set(range(data.rank))
    columns = [axis in gone or (None if dim == 1 else False) for axis, dim in enumerate(data.shape)]
    groups = merged(columns, most)
    if groups is None:
        return None
    places = sorted({place_of(axis, groups) for axis in gone})
    return ((what, (in_shape(data, shape_of(data.shape, groups)), vector(places), *operands[2:])),)


def images(what: Any, operands: Operands, most: int) -> Stages | None:
    """Merge the axes after the batch and the channels."""
    data = first(operands)
    if data.shape is None or len(data.shape) < 3:
        return None
    columns = ["batch", "channels", *(None if dim == 1 else "pixels" for dim in data.shape[2:])]
    groups = merged(columns, most) if most > 2 else None
    return None if groups is None else ((what, (in_shape(data, shape_of(data.shape, groups)), *operands[1:])),)


def rows(what: Any, operands: Operands, most: int) -> Stages | None:
    """Merge adjacent axes of a row, and adjacent other axes."""
    data = first(operands)
    if data.shape is None or what.to_end or not what.axes:
        return None
    along = {resolve(axis, data.rank) for axis in what.axes}
    columns = [axis in along or (None if dim == 1 else False) for axis, dim in enumerate(data.shape)]
    groups = merged(columns, most)
    if groups is None:
        return None
    places = tuple(sorted({place_of(axis, groups) for axis in along}))
    return ((dataclasses.replace(what, axes=places), (in_shape(data, shape_of(data.shape, groups)), *operands[1:])),)
