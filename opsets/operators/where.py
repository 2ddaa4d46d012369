"""Where: elements of one tensor where a condition holds, of another where not. Since version 9."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.facts import Dim
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, all_are, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED


def _type(operands: Operands) -> int | None:
    facts = operands[1]
    return None if facts is None else facts.dtype


def _booleans(what: Plain, operands: Operands) -> Reason | None:
    return None if _type(operands) == TensorProto.BOOL else Reason("the values are not known to be bool")


@lowering(9, applies_if=_booleans)
def by_logic(condition, x, y):
    """Select booleans by And and Or."""
    return op.Or(op.And(condition, x), op.And(op.Not(condition), y))


def _known(what: Plain, operands: Operands) -> Reason | None:
    if _type(operands) is None:
        return Reason("the element type is unknown", missing=True)
    return None


def _of_numbers(x: int, y: int) -> Callable[[Plain, Operands], Reason | None]:
    """Hold where the values are these two numbers, and the result has the shape of the condition."""

    def applies_if(what: Plain, operands: Operands) -> Reason | None:
        condition, *values = operands
        if not all(map(all_are, values, (x, y))):
            return Reason(f"the values are not the constants {x} and {y}")
        rank = condition.rank or 0 if condition is not None else 0
        if any(one is not None and (one.size != 1 or (one.rank or 0) > rank) for one in values):
            return Reason("the result does not have the condition's shape")
        return _known(what, operands)

    return applies_if


def _to(what: Plain, operands: Operands) -> Mapping[str, Any]:
    return {"to": _type(operands)}


@lowering(13, applies_if=_of_numbers(1, 0), bind=_to)
def one_or_zero(condition, x, y, to: int):
    """Make numbers of the booleans."""
    return op.Cast(condition, to=to)


@lowering(13, applies_if=_of_numbers(0, 1), bind=_to)
def zero_or_one(condition, x, y, to: int):
    """Make numbers of the opposite booleans."""
    return op.Cast(op.Not(condition), to=to)


def _exact_product(what: Plain, operands: Operands) -> Reason | None:
    if _type(operands) in (TensorProto.INT32, TensorProto.INT64):
        return None
    return Reason("the values are not int32 or int64: a product with zero is not exact for infinities")


@lowering(13, applies_if=_exact_product, bind=lambda what, operands: {"to": _type(operands)})
def by_product(condition, x, y, to: int):
    """Select integers by products with 0 and 1."""
    chosen = op.Cast(condition, to=to)
    other = op.Cast(op.Not(condition), to=to)
    return op.Add(op.Mul(chosen, x), op.Mul(other, y))


# Written at 10 for its Gather, whose indices need no guard here: none is negative.
@lowering(10, applies_if=_known, cost=10)
def by_gather(condition, x, y):
    """Number the elements of both, and gather the selected ones; any element type, at any opset."""
    first = op.Size(x)
    second = op.Size(y)
    at_x = meaning.Reshape(meaning.Range(0, first, 1), op.Shape(x), allowzero=1)
    at_y = meaning.Reshape(first + meaning.Range(0, second, 1), op.Shape(y), allowzero=1)
    both = op.Concat(op.Reshape(x, [-1]), op.Reshape(y, [-1]), axis=0)
    index = op.Cast(condition, to=7) * at_x + op.Cast(op.Not(condition), to=7) * at_y
    return op.Gather(both, index, axis=0)


def _where(condition: np.ndarray[Any, Any], x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> Any:
    return np.where(condition, x, y).astype(x.dtype)


def _hostile(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out -0.0, of which onnxruntime's own Where makes 0.0 (seen in 1.31.1)."""
    floats = {name for name, array in feeds.items() if array.dtype.kind in "fV" and array.flags.writeable}
    return {name: array + array.dtype.type(0) if name in floats else array for name, array in feeds.items()}


def _of_dims(condition: Dim, x: Dim, y: Dim) -> Dim:
    if condition is None:
        return x if x == y else None
    return x if condition else y


OPERATOR = plain(
    "Where",
    (9, 16),
    ("condition", "X", "Y"),
    _where,
    (one_or_zero, zero_or_one, by_logic, by_product, by_gather),
    adversarial=_hostile,
    wider_types=MOVED,
    neutral=lambda what, operands: 1 if all_are(operands[0], 1) else 2 if all_are(operands[0], 0) else None,
    traits=Traits(
        merges=elementwise, floats=(Trait.MOVES,), moved=(1, 2), compares=True, equal_dims=broadcast, drops_signs=True
    ),
    of_dims=_of_dims,
)
