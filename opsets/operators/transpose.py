"""Transpose: permute the axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
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


OPERATOR = Operator(
    name="Transpose",
    meaning=Transpose,
    versions=tuple(Version(since) for since in (1, 13, 21, 23, 24, 25)),
    operands=("data",),
    oracle=oracle,
    lowerings=(by_places,),
    idle=lambda meaning, operands: meaning.perm is not None and list(meaning.perm) == sorted(meaning.perm),
    weight=3.0,
    traits=Traits(floats=(Trait.MOVES,), moved=(0,), all_elements=True, quantized="Transpose", form=moved("data")),
)
