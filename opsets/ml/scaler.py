"""ai.onnx.ml::Scaler: the distance from an offset, times a factor, for each feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class Scaler:
    """Offsets and factors: one for all features, or one for each."""

    offset: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()


def oracle(what: Scaler, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Scaler-1: "First, offset by this", then "multiply by this"."""
    offset, scale = np.asarray(what.offset, np.float32), np.asarray(what.scale, np.float32)
    return np.asarray((x.astype(np.float64) - offset) * scale).astype(np.float32)


def fault(what: Scaler, operands: Operands) -> str | None:
    """Return what is wrong with the numbers of offsets and factors."""
    if len(what.offset) != len(what.scale) or not what.scale:
        return f"it has {len(what.offset)} offsets and {len(what.scale)} factors"
    return None


def _each(what: Scaler, operands: Operands) -> Reason | None:
    data = first(operands)
    if data.dtype is None:
        return Reason("the element type is unknown", missing=True)
    if len(what.scale) == 1:
        return None
    if data.rank is None:
        return Reason("the rank is unknown", missing=True)
    return None if data.rank in (1, 2) else Reason("features have more than one axis")


def _bound(what: Scaler, operands: Operands) -> Mapping[str, Any]:
    dtype: Any = np.float64 if first(operands).dtype == TensorProto.DOUBLE else np.float32
    one = len(what.scale) == 1
    numbers = {"offset": np.asarray(what.offset, dtype), "scale": np.asarray(what.scale, dtype)}
    bound = {name: Tensor(value.reshape(()) if one else value) for name, value in numbers.items()}
    return {**bound, "to": TensorProto.DOUBLE if dtype is np.float64 else TensorProto.FLOAT}


@lowering(18, applies_if=_each, bind=_bound, rounds=True, makes_floats=True)
def scaled(x, offset: Sequence[int], scale: Sequence[int], to: int):
    """Subtract the offsets, and multiply; double is rounded at the end."""
    return op.Cast((op.Cast(x, to=to) - offset) * scale, to=1)


OPERATOR = Operator(
    name="Scaler",
    domain=ML,
    meaning=Scaler,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    fault=fault,
    lowerings=(scaled,),
    refused="features that have more than one axis, unless one factor is for all",
    traits=Traits(floats=(Trait.ADDS, Trait.MULTIPLIES)),
)
