"""PRelu: a negative element is multiplied by a slope. Below 7 a vector of slopes has one for each channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.legacy_broadcast import Aligned, with_legacy_broadcast
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.shape_hints import broadcast
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import QUOTIENT


def _oracle(x: np.ndarray[Any, Any], slope: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """PRelu-16: "f(x) = slope * x for x < 0", "f(x) = x for x >= 0", and slope is "unidirectional broadcastable"."""
    return np.asarray(np.where(x < 0, slope * x, x).astype(x.dtype))


def _lift(attributes: Mapping[str, Any]) -> Aligned:
    # PRelu-6: "If `Slope` is of size 1, the value is sharedacross different channels"; else each channel has its own.
    return Aligned(axis=1, vectors=True)


def _finite_slopes(meaning: Plain, operands: Operands) -> Reason | None:
    """Require floats, and constant slopes: an infinite one times the zero of a positive element is no number."""
    dtype = first(operands).dtype
    if dtype != TensorProto.FLOAT:
        return Reason("the elements are not of float", missing=dtype is None)
    slopes = (operands[1] or Facts()).known
    if slopes is None:
        return Reason("the slopes are computed at run time", missing=True)
    return None if np.isfinite(slopes).all() else Reason("a slope is infinite, or no number")


@lowering(13, applies_if=_finite_slopes)
def by_parts(x, slope):
    """Compute Max(x, 0) + slope * Min(x, 0), of which one term is zero."""
    return op.Max(x, 0.0) + slope * op.Min(x, 0.0)


OPERATOR = with_legacy_broadcast(
    plain(
        "PRelu",
        (7, 9, 16),
        ("X", "slope"),
        _oracle,
        (by_parts,),
        wider_types=QUOTIENT,
        traits=Traits(merges=elementwise, floats=(Trait.PIECEWISE,), equal_dims=broadcast),
    ),
    1,
    6,
    lift=_lift,
)
