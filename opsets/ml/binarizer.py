"""ai.onnx.ml::Binarizer: 1 above a threshold, 0 elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from opshift.opsets.families.axes import first
from opshift.opsets.families.element_types import dtype_known
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import ML, Operands, Operator, Version
from opshift.opsets.registry.traits import Flow, Trait, Traits


@dataclass(frozen=True)
class Binarizer:
    """The number above which an element becomes 1."""

    threshold: float = 0.0


def oracle(what: Binarizer, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Binarizer-1: "Maps the values of the input tensor to either 0 or 1, element-wise"."""
    return np.asarray(x > what.threshold).astype(x.dtype)


def _bound(what: Binarizer, operands: Operands) -> Mapping[str, Any]:
    """Bind the threshold in the type of the elements: above a fraction is above the next integer below it."""
    dtype = helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)
    if dtype.kind == "f":
        return {"threshold": Tensor(np.asarray(what.threshold, dtype)), "to": first(operands).dtype}
    limits = np.iinfo(dtype)
    least = min(max(math.floor(what.threshold), limits.min), limits.max)
    return {"threshold": Tensor(np.asarray(least, dtype)), "to": first(operands).dtype}


@lowering(18, applies_if=dtype_known, bind=_bound)
def compared(x, threshold: Sequence[int], to: int):
    """Compare with the threshold."""
    return op.Cast(op.Greater(x, threshold), to=to)


OPERATOR = Operator(
    name="Binarizer",
    domain=ML,
    meaning=Binarizer,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    lowerings=(compared,),
    traits=Traits(floats=(Trait.MOVES,), compares=True, bounds=("threshold",), flow=Flow.BOUNDED),
)
