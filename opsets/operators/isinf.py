"""IsInf: which elements are infinite, of either sign or of one. Since version 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Flow, Trait, Traits
from opshift.opsets.registry.wider_types import ORDERED

_FLOAT8 = (
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
)


@dataclass(frozen=True)
class IsInf:
    """Whether positive and negative infinities count."""

    detect_negative: int = 1
    detect_positive: int = 1


def oracle(what: IsInf, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """IsInf-10: "map infinity to true and other values to false", of the signs whose attribute is 1."""
    wide = x.astype(np.float64)
    negative, positive = np.isneginf(wide), np.isposinf(wide)
    return np.asarray((negative & bool(what.detect_negative)) | (positive & bool(what.detect_positive)))


def _signs(*signs: tuple[bool, bool]) -> Any:
    def applies_if(what: IsInf, operands: Operands) -> Reason | None:
        if first(operands).dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return Reason("the input is not known to be float or double", missing=first(operands).dtype is None)
        if (bool(what.detect_negative), bool(what.detect_positive)) in signs:
            return None
        return Reason("it is for other infinities")

    return applies_if


def _limits(what: IsInf, operands: Operands) -> Mapping[str, Any]:
    """Bind the largest finite numbers; nothing is below negative infinity, nor above positive infinity."""
    largest = np.finfo(onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 0)).max
    infinity = largest.dtype.type(np.inf)
    return {
        "low": Tensor(np.asarray(-largest if what.detect_negative else -infinity)),
        "high": Tensor(np.asarray(largest if what.detect_positive else infinity)),
    }


@lowering(18, applies_if=_signs((True, True)), bind=_limits)
def either(x, low: Sequence[int], high: Sequence[int]):
    """Compare with the smallest and the largest finite number."""
    return op.Or(op.Less(x, low), op.Greater(x, high))


@lowering(18, applies_if=_signs((True, False)), bind=_limits)
def negative(x, low: Sequence[int]):
    """Compare with the smallest finite number."""
    return op.Less(x, low)


@lowering(18, applies_if=_signs((False, True), (False, False)), bind=_limits)
def positive(x, high: Sequence[int]):
    """Compare with the largest finite number, or, if no infinity counts, with infinity."""
    return op.Greater(x, high)


OPERATOR = Operator(
    name="IsInf",
    meaning=IsInf,
    versions=(Version(10), Version(20)),
    operands=("X",),
    oracle=oracle,
    lowerings=(either, negative, positive),
    wider_types={**ORDERED, **dict.fromkeys(_FLOAT8, (TensorProto.FLOAT,))},
    traits=Traits(merges=elementwise, floats=(Trait.MOVES,), flow=Flow.BOUNDED),
)
