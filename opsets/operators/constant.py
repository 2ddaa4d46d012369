"""Constant: a value. Its forms grew: a tensor only, then sparse (11), then numbers, strings and lists of them (12)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.registry.facts import Tensor, facts_of_attribute, type_name
from opshift.opsets.registry.lowering import Reason
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.schema import schema_at
from opshift.opsets.registry.traits import Trait, Traits

FORMS: Mapping[str, Any] = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}


def gives(name: str, opset: int, dtype: int) -> bool:
    """Return whether an operator of the default domain gives tensors of an element type at an opset."""
    schema = schema_at("", name, opset)
    return schema is not None and f"tensor({type_name(dtype)})" in schema.outputs[0].types


@dataclass(frozen=True)
class Constant:
    """The value; None for a sparse tensor."""

    value: Tensor | None


def tensor(attributes: Mapping[str, Any]) -> Tensor | None:
    """Return the value as one tensor, whatever the form."""
    if attributes.get("value") is not None:
        found: Tensor = attributes["value"]
        return found
    name, value = next(((name, attributes[name]) for name in FORMS if attributes.get(name) is not None), ("", None))
    return Tensor(np.array(value, dtype=FORMS[name])) if name else None


def oracle(meaning: Constant) -> np.ndarray[Any, Any]:
    """Constant-13: "This operator produces a constant tensor"."""
    if meaning.value is None:
        raise ValueError("a sparse constant has no dense value here")
    return meaning.value.array


def _lift(attributes: Mapping[str, Any]) -> Constant:
    return Constant(tensor(attributes))


def _write(meaning: Constant, operands: Operands) -> Mapping[str, Any] | Reason:
    return Reason("the value is sparse") if meaning.value is None else {"value": meaning.value}


def _holds(since: int) -> Callable[[Constant, Operands], Reason | None]:
    """Refuse an element type that this version does not give: the version's inputs do not tell."""

    def applies_if(meaning: Constant, operands: Operands) -> Reason | None:
        schema = schema_at("", "Constant", since)
        if meaning.value is None or schema is None:
            return None
        name = type_name(facts_of_attribute(meaning.value).dtype or 0)
        return None if f"tensor({name})" in schema.outputs[0].types else Reason(f"it gives no {name}")

    return applies_if


OPERATOR = Operator(
    name="Constant",
    meaning=Constant,
    versions=tuple(
        Version(since, lift=_lift, write=_write, applies_if=_holds(since))
        for since in (1, 9, 11, 12, 13, 19, 21, 23, 24, 25)
    ),
    operands=(),
    oracle=oracle,
    traits=Traits(
        floats=(Trait.MOVES,),
        typed_by_attribute=True,
        makes_types=(TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING),
    ),
)
