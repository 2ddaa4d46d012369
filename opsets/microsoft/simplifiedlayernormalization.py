"""SimplifiedLayerNormalization of onnxruntime, in the default domain: RMSNormalization-23, and the divisor of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, from_axis
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class SimplifiedLayerNormalization:
    """The first of the axes, and what is added to the mean square.

    onnxruntime 1.32.0 computes double in double, and all else in float, whatever `stash_type` is.
    """

    axis: int = -1
    epsilon: float = float(np.float32(1e-5))


def oracle(
    what: SimplifiedLayerNormalization, x: np.ndarray[Any, Any], scale: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], ...]:
    """SimplifiedLayerNormalization-1: LayerNormalization without the mean; the second output is float."""
    within = np.float64 if x.dtype == np.float64 else np.float32
    wide = x.astype(within).astype(np.float64)
    axes = tuple(range(what.axis % x.ndim, x.ndim))
    inverse = 1 / np.sqrt((wide**2).mean(axes, keepdims=True) + what.epsilon)
    return (wide * inverse * scale.astype(np.float64)).astype(x.dtype), inverse.astype(np.float32)


def _lift(attributes: Mapping[str, Any]) -> SimplifiedLayerNormalization:
    return SimplifiedLayerNormalization(attributes["axis"], attributes["epsilon"])


def _ranked(what: SimplifiedLayerNormalization, operands: Operands) -> Reason | None:
    known = what.axis < 0 or first(operands).rank is not None
    return None if known else Reason("the rank is unknown", missing=True)


def _axes(what: SimplifiedLayerNormalization, operands: Operands) -> Mapping[str, Any]:
    axes = range(what.axis, 0 if what.axis < 0 else first(operands).rank or 0)
    return {"axis": what.axis, "epsilon": what.epsilon, "axes": tuple(axes)}


@lowering(23, applies_if=_ranked, bind=_axes, rounds=True)
def by_rms(x, scale, axis: int, epsilon: float, axes: Sequence[int]):
    """Write it as RMSNormalization; the second output is the divisor of a row, in float."""
    wide = op.Cast(x, to=1)
    inverse = op.Reciprocal(op.Sqrt(op.ReduceMean(wide * wide, axes, keepdims=1) + epsilon))
    return op.RMSNormalization(x, scale, axis=axis, epsilon=epsilon), inverse


OPERATOR = Operator(
    name="SimplifiedLayerNormalization",
    meaning=SimplifiedLayerNormalization,
    versions=(Version(1, lift=_lift),),
    operands=("X", "scale"),
    oracle=oracle,
    lowerings=(by_rms,),
    refused="an axis from the front, where the rank is unknown",
    traits=Traits(
        floats=(Trait.SUMS, Trait.SQUARES, Trait.WEIGHS),
        inner_sum=InnerSum(SumUse.SCALED, from_axis),
    ),
)
