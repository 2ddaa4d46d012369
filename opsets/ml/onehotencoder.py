"""ai.onnx.ml::OneHotEncoder: 1 at the place of the category that an element is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Flow, Strings, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OneHotEncoder:
    """The categories, and whether an element of none of them is allowed, which becomes zeros."""

    cats_int64s: tuple[int, ...] = ()
    cats_strings: tuple[str, ...] = ()
    zeros: int = 1


def oracle(what: OneHotEncoder, x: Array) -> Array:
    """OneHotEncoder-1: "Replace each input element with an array of ones and zeros"; floats are cut to integers."""
    if x.dtype == object:
        hits = x[..., None] == np.array(what.cats_strings, object)
    else:
        hits = x[..., None].astype(np.int64) == np.array(what.cats_int64s, np.int64)
    if not what.zeros and not hits.any(axis=-1).all():
        raise ValueError("OneHotEncoder-1: an element is of no category, and zeros is 0")
    return np.asarray(hits).astype(np.float32)


def fault(what: OneHotEncoder, operands: Operands) -> str | None:
    """Return what is wrong with the categories."""
    categories = what.cats_int64s or what.cats_strings
    if bool(what.cats_int64s) == bool(what.cats_strings):
        return "it has cats_int64s and cats_strings, or neither"
    return None if len(set(categories)) == len(categories) else "a category is listed twice"


def _of(strings: bool) -> Callable[[OneHotEncoder, Operands], Reason | None]:
    def applies_if(what: OneHotEncoder, operands: Operands) -> Reason | None:
        dtype = first(operands).dtype
        if dtype is None:
            return Reason("the element type is unknown", missing=True)
        if (dtype == TensorProto.STRING) != strings:
            return Reason("")
        if bool(what.cats_strings) != strings:
            return Reason("the categories are of another type than the elements")
        return None

    return applies_if


def _numbers(what: OneHotEncoder, operands: Operands) -> Mapping[str, Any]:
    return {"categories": Tensor(np.array(what.cats_int64s, np.int64))}


def _names(what: OneHotEncoder, operands: Operands) -> Mapping[str, Any]:
    return {"categories": Tensor(np.array(what.cats_strings, object))}


@lowering(18, applies_if=_of(False), bind=_numbers)
def of_numbers(x, categories: Sequence[int]):
    """Compare each element, as an integer, with all categories."""
    return op.Cast(op.Equal(op.Unsqueeze(op.Cast(x, to=7), [-1]), categories), to=1)


@lowering(19, applies_if=_of(True), bind=_names)
def of_strings(x, categories: Sequence[int]):
    """Compare each string with all categories."""
    return op.Cast(op.Equal(op.Unsqueeze(x, [-1]), categories), to=1)


OPERATOR = Operator(
    name="OneHotEncoder",
    domain=ML,
    meaning=OneHotEncoder,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(of_numbers, of_strings),
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    traits=Traits(floats=(Trait.MOVES,), flow=Flow.BOUNDED, compares=True, strings=Strings.LISTED),
)
