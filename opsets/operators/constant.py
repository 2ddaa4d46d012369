"""Constant: a value. Its forms grew: a tensor only, then sparse (11), then numbers, strings and lists of them (12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.facts import Tensor, constant
from opshift.opsets.lowering import Reason
from opshift.opsets.operator import Operands, Operator, Version

FORMS: Mapping[str, Any] = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_string": object,
    "value_strings": object,
}


@dataclass(frozen=True)
class Constant:
    """The value; None for a sparse one, which is not looked into."""

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


def _write(meaning: Constant, operands: Operands) -> Mapping[str, Any] | Reason:
    return Reason("the value is sparse") if meaning.value is None else {"value": meaning.value}


def _write_1(meaning: Constant, operands: Operands) -> Mapping[str, Any] | Reason:
    floats = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
    if meaning.value is not None and constant(meaning.value.array).dtype not in floats:
        return Reason("it takes floats only")
    return _write(meaning, operands)


OPERATOR = Operator(
    name="Constant",
    meaning=Constant,
    versions=(
        Version(1, lift=lambda attributes: Constant(tensor(attributes)), write=_write_1),
        *(
            Version(since, lift=lambda attributes: Constant(tensor(attributes)), write=_write)
            for since in (9, 11, 12, 13, 19, 21, 23, 24, 25)
        ),
    ),
    operands=(),
    oracle=oracle,
)
