"""Shrink: elements beyond +-lambd move towards zero by the bias, the others become 0. Since version 9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Flow, Integers, Trait, Traits


@dataclass(frozen=True)
class Shrink:
    """The bias that moves elements, and the absolute value (lambd) above which it applies.

    With `double`, doubles are compared and added as such.
    """

    bias: float = 0.0
    lambd: float = 0.5
    double: bool = False


def oracle(what: Shrink, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Shrink-9: "If x < -lambd, y = x + bias; If x > lambd, y = x - bias; Otherwise, y = 0".

    The attributes are floats, and the text leaves open what sums with them are.
    """
    within: Any = np.float64 if what.double and x.dtype == np.float64 else np.float32
    bias, lambd = within(np.float32(what.bias)), within(np.float32(what.lambd))
    with np.errstate(invalid="ignore", over="ignore"):
        wide: Any = x.astype(within)
        moved = np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, within(0)))
        return np.asarray(moved.astype(x.dtype))


def _as_run(attributes: Mapping[str, Any]) -> Shrink:
    """Lift what onnxruntime 1.32.0 runs: all is cast to float, doubles too, and sums of integers are truncated."""
    return Shrink(**attributes)


def _as_told(attributes: Mapping[str, Any]) -> Shrink:
    return Shrink(**attributes, double=True)


def _written(what: Shrink, operands: Operands) -> Mapping[str, Any]:
    return {"bias": what.bias, "lambd": what.lambd}


def _types(what: Shrink, operands: Operands) -> Mapping[str, Any]:
    dtype = first(operands).dtype
    within = TensorProto.DOUBLE if what.double and dtype == TensorProto.DOUBLE else TensorProto.FLOAT
    return {"bias": what.bias, "lambd": what.lambd, "least": -what.lambd, "within": within, "to": dtype}


@lowering(13, applies_if=dtype_known, bind=_types)
def compared(x, bias: float, lambd: float, least: float, within: int, to: int):
    """Compare and add in float, since a half or an integer need not hold the attributes."""
    wide = op.Cast(x, to=within)
    by = op.Cast(bias, to=within)
    above = op.Where(wide > op.Cast(lambd, to=within), wide - by, op.Cast(0.0, to=within))
    return op.Cast(op.Where(wide < op.Cast(least, to=within), wide + by, above), to=to)


def floats_by(attributes: Mapping[str, Any]) -> tuple[Trait, ...]:
    """Return what shrinking does with floats: without a bias it leaves them, or makes them 0."""
    return (Trait.PIECEWISE, Trait.STEPS if attributes.get("bias", 0.0) == 0.0 else Trait.ONCE)


OPERATOR = Operator(
    name="Shrink",
    meaning=Shrink,
    versions=(Version(9, lift=_as_run, spec=_as_told, write=_written),),
    operands=("input",),
    oracle=oracle,
    lowerings=(compared,),
    body_unused="it casts the attributes to the element type, which of integers loses their fractions",
    traits=Traits(
        merges=elementwise,
        floats=(Trait.PIECEWISE, Trait.ONCE),
        floats_by=floats_by,
        bounds=("lambd",),
        flow=Flow.POINTWISE,
        integers=Integers.AS_FLOATS,
    ),
)
