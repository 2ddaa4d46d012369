"""Transpose: permute the axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first, product
from opshift.opsets.families.merged_axes import Groups, Stages, in_shape, shape_of
from opshift.opsets.registry.facts import Dim, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, bounded, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.quantized_form import moved
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Transpose:
    """The order of the axes; None reverses them."""

    perm: tuple[int, ...] | None = None


def oracle(meaning: Transpose, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Transpose-13: "when perm=(1, 0, 2), given an input tensor of shape (1, 2, 3)", the output has (2, 1, 3)."""
    return data.transpose(meaning.perm)


def _sizes(operands: Operands) -> tuple[int, ...] | None:
    shape = first(operands).shape
    sizes = tuple(size for size in shape or () if isinstance(size, int))
    return sizes if shape is not None and len(sizes) == len(shape) else None


def _static(what: Transpose, operands: Operands) -> Reason | None:
    sizes = _sizes(operands)
    if sizes is None:
        return Reason("the shape is unknown", missing=True)
    return None if math.prod(sizes) else Reason("there are no elements")


def _places(what: Transpose, operands: Operands) -> Mapping[str, Any]:
    sizes = _sizes(operands) or ()
    numbers = np.arange(bounded(math.prod(sizes)), dtype=np.int64).reshape(sizes)
    return {"places": Tensor(numbers.transpose(what.perm))}


@lowering(13, applies_if=_static, bind=_places)
def by_places(data, places: Sequence[int]):
    """Put all elements in a row, and gather each from its place."""
    return op.Gather(op.Reshape(data, [-1]), places)


def _with_fewer_axes(what: Transpose, operands: Operands, most: int) -> Stages | None:
    """Merge axes that stay neighbours, and where there are still too many, move one group after the other."""
    data = first(operands)
    if data.shape is None:
        return None
    perm = tuple(reversed(range(len(data.shape)))) if what.perm is None else what.perm
    groups = _neighbours(data.shape, perm) or ((0,),)
    wanted = sorted(groups, key=lambda group: perm.index(group[0]))
    if len(groups) <= most:
        order = tuple(groups.index(group) for group in wanted)
        return ((Transpose(order), (in_shape(data, shape_of(data.shape, groups)),)),)
    return tuple(_moves(data, list(groups), wanted)) if most > 3 else None


def _neighbours(shape: Sequence[Dim], perm: Sequence[int]) -> Groups:
    """Return the axes in groups of neighbours that stay neighbours, without those of length 1."""
    order = [axis for axis in perm if shape[axis] != 1]
    groups: list[tuple[int, ...]] = []
    for axis in sorted(order):
        follows = groups and order.index(axis) == order.index(groups[-1][-1]) + 1
        groups[-1:] = [(*groups[-1], axis)] if follows else [*groups[-1:], (axis,)]
    return tuple(groups)


def _moves(
    data: Facts, groups: list[tuple[int, ...]], wanted: Sequence[tuple[int, ...]]
) -> Iterator[tuple[Transpose, Operands]]:
    """Yield transpositions of four axes, each of which brings one group to its place."""
    assert data.shape is not None
    for place, group in enumerate(wanted):
        now = groups.index(group)
        if now > place:
            parts = groups[:place], groups[place:now], [group], groups[now + 1 :]
            dims = (product(tuple(data.shape[axis] for one in part for axis in one)) for part in parts)
            yield Transpose((0, 2, 1, 3)), (in_shape(data, tuple(dims)),)
            groups[place : now + 1] = [group, *groups[place:now]]


OPERATOR = Operator(
    name="Transpose",
    meaning=Transpose,
    versions=tuple(Version(since) for since in (1, 13, 21, 23, 24, 25)),
    operands=("data",),
    oracle=oracle,
    lowerings=(by_places,),
    idle=lambda meaning, operands: meaning.perm is not None and list(meaning.perm) == sorted(meaning.perm),
    weight=3.0,
    traits=Traits(
        merges=_with_fewer_axes,
        floats=(Trait.MOVES,),
        moved=(0,),
        all_elements=True,
        quantized="Transpose",
        form=moved("data"),
    ),
)
