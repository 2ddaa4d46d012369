"""ConstantOfShape: a tensor of one value. Since version 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class ConstantOfShape:
    """The value, a tensor of one element; None is zero in float."""

    value: Tensor | None = None


def _array(meaning: ConstantOfShape) -> np.ndarray[Any, Any]:
    return np.zeros(1, dtype=np.float32) if meaning.value is None else meaning.value.array.reshape(1)


def _fault(meaning: ConstantOfShape, operands: Operands) -> str | None:
    """ConstantOfShape-9: "Should be a one-element tensor"."""
    size = 1 if meaning.value is None else meaning.value.size
    return f"its value has {size} elements, and must have one" if size != 1 else None


def oracle(meaning: ConstantOfShape, shape: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """ConstantOfShape-9: "Generate a tensor with given value and shape"; an empty shape gives a scalar."""
    return np.broadcast_to(_array(meaning).reshape(()), tuple(shape.tolist()))


def shape(meaning: ConstantOfShape, operands: Operands) -> tuple[Dim, ...] | None:
    """The dimensions asked for, as far as they are known."""
    facts = operands[0]
    return None if facts is None or facts.value is None else tuple(facts.value.array.tolist())


def _value(meaning: ConstantOfShape, operands: Operands) -> Mapping[str, Any]:
    # A scalar, so that an empty shape gives one.
    return {"value": Tensor(_array(meaning).reshape(()))}


@lowering(13, bind=_value)
def expanded(shape, value: Sequence[int]):
    """Expand the value."""
    return op.Expand(value, shape)


OPERATOR = Operator(
    name="ConstantOfShape",
    meaning=ConstantOfShape,
    versions=tuple(Version(since) for since in (9, 20, 21, 23, 24, 25)),
    operands=("input",),
    oracle=oracle,
    shape=shape,
    fault=_fault,
    lowerings=(expanded,),
    traits=Traits(
        floats=(Trait.MOVES,), counts=(0,), typed_by_attribute=True, grows=True, makes_types=(TensorProto.FLOAT,)
    ),
)
