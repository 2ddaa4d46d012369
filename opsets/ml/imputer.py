"""ai.onnx.ml::Imputer: other elements in place of those that are missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import FLOATS, Facts, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Imputer:
    """The missing value, and its replacement: one number for all features, or one for each."""

    imputed_value_floats: tuple[float, ...] = ()
    imputed_value_int64s: tuple[int, ...] = ()
    replaced_value_float: float = 0.0
    replaced_value_int64: int = 0

    def values(self, floats: bool) -> tuple[float, ...]:
        """The replacement of floats, or of integers."""
        return self.imputed_value_floats if floats else self.imputed_value_int64s

    def missing(self, floats: bool) -> float:
        """The float, or the integer, that is missing."""
        return self.replaced_value_float if floats else self.replaced_value_int64


def oracle(what: Imputer, x: Array) -> Array:
    """Imputer-1: "Replaces inputs that equal one value with another, leaving all other elements alone"."""
    floats = x.dtype.kind == "f"
    gone = what.missing(floats)
    values = np.asarray(what.values(floats), x.dtype)
    found = np.isnan(x) if gone != gone else x == np.asarray(gone, x.dtype)
    return np.where(found, values if len(values) == x.shape[-1] else values[0], x)


def fault(what: Imputer, operands: Operands) -> str | None:
    """Return what is wrong with the values."""
    both = bool(what.imputed_value_floats), bool(what.imputed_value_int64s)
    return None if sum(both) == 1 else "it has imputed_value_floats and imputed_value_int64s, or neither"


def _form(nan: bool) -> Callable[[Imputer, Operands], Reason | None]:
    def applies_if(what: Imputer, operands: Operands) -> Reason | None:
        data = first(operands)
        if data.dtype is None:
            return Reason("the element type is unknown", missing=True)
        floats = data.dtype in FLOATS
        if not what.values(floats):
            return Reason("the values are of another type than the elements")
        if nan != math.isnan(what.missing(floats)):
            return Reason("")
        if data.rank is None or (len(what.values(floats)) > 1 and not isinstance(_width(data), int)):
            return Reason("the number of features is unknown", missing=True)
        return None if data.rank in (1, 2) else Reason("features have more than one axis")

    return applies_if


def _width(data: Facts) -> Any:
    return data.shape[-1] if data.shape else None


def _bound(what: Imputer, operands: Operands) -> Mapping[str, Any]:
    data = first(operands)
    dtype = helper.tensor_dtype_to_np_dtype(data.dtype or 0)
    values = np.asarray(what.values(dtype.kind == "f"), dtype)
    each = values if len(values) == _width(data) else values[0].reshape(())
    return {"values": Tensor(each), "gone": Tensor(np.asarray(what.missing(dtype.kind == "f"), dtype))}


def _values(what: Imputer, operands: Operands) -> Mapping[str, Any]:
    return {"values": _bound(what, operands)["values"]}


@lowering(18, applies_if=_form(False), bind=_bound)
def of_equal(x, values: Sequence[int], gone: Sequence[int]):
    """Replace the elements that equal a number."""
    return op.Where(op.Equal(x, gone), values, x)


@lowering(18, applies_if=_form(True), bind=_values)
def of_nan(x, values: Sequence[int]):
    """Replace NaN."""
    return op.Where(op.IsNaN(x), values, x)


OPERATOR = Operator(
    name="Imputer",
    domain=ML,
    meaning=Imputer,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(of_equal, of_nan),
    shape=lambda what, operands: first(operands).shape,
    refused="features that have more than one axis",
    traits=Traits(
        floats=(Trait.MOVES,), moved=(0,), compares=True, bounds=("replaced_value_float", "replaced_value_int64")
    ),
)
