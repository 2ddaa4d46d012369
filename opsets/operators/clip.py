"""Clip: no element below one bound or above another. The bounds are float attributes below 11."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import FLOATS, INTEGERS, Facts, Tensor, constant
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Flow, Trait, Traits


@dataclass(frozen=True)
class Clip:
    """The defaults of omitted bounds: the limits of the element type, or of `float`."""

    limits: str = "type"


def oracle(
    what: Clip,
    x: np.ndarray[Any, Any],
    low: np.ndarray[Any, Any] | None = None,
    high: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """Clip-11: bounds "default to numeric_limits::lowest() and numeric_limits::max(), respectively".

    So an infinity without a bound becomes the largest number. Clip-13: "When 'min' is greater than 'max', the clip
    operator sets all the 'input' values to the value of 'max'". Nothing is below a NaN, nor above it.
    """
    lowest, highest = _limits(x.dtype)
    low, high = lowest if low is None else low.reshape(()), highest if high is None else high.reshape(())
    y = np.where(x < low, low, x)
    return np.where(y > high, high, y)


def _limits(dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if dtype.kind in "iu":
        return np.array(np.iinfo(dtype).min, dtype), np.array(np.iinfo(dtype).max, dtype)
    # numpy does not know bfloat16, whose largest number is a float with the lower half of its bits off.
    largest = np.finfo(dtype).max if dtype.kind == "f" else np.uint32(0x7F7F0000).view(np.float32)
    return (-largest).astype(dtype).reshape(()), largest.astype(dtype).reshape(())


def _dtype(operands: Operands) -> int | None:
    return first(operands).dtype


def _runtime(attributes: Mapping[str, Any]) -> Clip:
    # onnxruntime 1.31.1 computes float16 as float at these versions, so that an infinity stays one.
    return Clip("float")


def _spec(attributes: Mapping[str, Any]) -> Clip:
    return Clip()


def _write(what: Clip, operands: Operands) -> Mapping[str, Any]:
    return {}


def normal(what: Clip, operands: Operands) -> tuple[Clip, Operands]:
    """Give the bounds, which Clip-6 has as float attributes, the type of the input; and those it has by default."""
    dtype = _dtype(operands)
    bounds = [_typed(bound, dtype) for bound in operands[1:]]
    if what.limits == "float" and dtype == TensorProto.FLOAT16:
        infinite = (constant(np.array(side, np.float16)) for side in (-np.inf, np.inf))
        bounds = [bound or infinity for bound, infinity in zip(bounds, infinite, strict=True)]
    return (what if dtype is None and None in bounds else Clip()), (operands[0], *bounds)


def _typed(bound: Facts | None, dtype: int | None) -> Facts | None:
    if bound is None or bound.known is None or dtype is None or bound.dtype == dtype:
        return bound
    return constant(bound.known.astype(onnx.helper.tensor_dtype_to_np_dtype(dtype)), dtype)


def _type_known(what: Clip, operands: Operands) -> Reason | None:
    if _dtype(operands) is None and any(bound is not None for bound in operands[1:]):
        return Reason("the type of the input is unknown, which the bounds must have", missing=True)
    return None


def _limits_of_type(what: Clip, operands: Operands) -> Reason | None:
    if what.limits == "float":
        return Reason("the type of the input is unknown, and of float16 onnxruntime clips no infinity", missing=True)
    return _type_known(what, operands)


def _limits_of_float(what: Clip, operands: Operands) -> Reason | None:
    if what.limits == "float" or None not in operands[1:]:
        return None
    if _dtype(operands) in (None, TensorProto.FLOAT16):
        return Reason("onnxruntime computes float16 as float, whose limits are wider", missing=_dtype(operands) is None)
    return None


def _as_inputs(what: Clip, operands: Operands) -> Reason | None:
    return _limits_of_float(what, operands) or _type_known(what, operands)


def _as_float(what: Clip, operands: Operands) -> Reason | None:
    bounds = [None if bound is None or bound.known is None else float(bound.known.item()) for bound in operands[1:]]
    for bound in bounds:
        with np.errstate(over="ignore"):
            held = bound is None or float(np.float32(bound)) == bound
        if not held:
            return Reason(f"a bound is a float, which does not hold {bound}")
    most = float(np.finfo(np.float32).max)
    low, high = (end if bound is None else bound for bound, end in zip(bounds, (-most, most), strict=True))
    if low > high:
        # Clip-13 says what that means; onnxruntime 1.31.1 takes no such Clip-6.
        return Reason("the lower bound is above the upper one, which this version does not define")
    return _limits_of_float(what, operands)


# --- both bounds --------------------------------------------------------------------------------------------------


def _no_bound(index: int) -> Callable[[Clip, Operands], Reason | None]:
    def applies_if(what: Clip, operands: Operands) -> Reason | None:
        if operands[index] is not None:
            return Reason("the bound is there")
        return None if _dtype(operands) is not None else Reason("the element type is unknown", missing=True)

    return applies_if


def _limit(side: int) -> Callable[[Clip, Operands], Mapping[str, Any]]:
    def bind(what: Clip, operands: Operands) -> Mapping[str, Any]:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(_dtype(operands) or 0)
        return {"limit": Tensor(_limits(dtype)[side])}

    return bind


@lowering(13, applies_if=_no_bound(1), bind=_limit(0))
def from_lowest(x, low, high, limit: Sequence[int]):
    """Add the lowest number as the lower bound."""
    return meaning.Itself(x, limit, high)


@lowering(13, applies_if=_no_bound(2), bind=_limit(1))
def to_highest(x, low, high, limit: Sequence[int]):
    """Add the highest number as the upper bound."""
    return meaning.Itself(x, low, limit)


# --- by comparison ------------------------------------------------------------------------------------------------


def _both(what: Clip, operands: Operands) -> Reason | None:
    return Reason("a bound is not given") if None in operands[1:] else None


def _integers(what: Clip, operands: Operands) -> Reason | None:
    dtype = _dtype(operands)
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return _both(what, operands) if dtype in INTEGERS else Reason("the input is not of integers")


@lowering(13, applies_if=_integers)
def chosen(x, low, high):
    """Compare integers with the bounds, and select."""
    y = op.Where(op.Less(x, low), low, x)
    return op.Where(op.Greater(y, high), high, y)


def _floats(what: Clip, operands: Operands) -> Reason | None:
    dtype = _dtype(operands)
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    if dtype not in FLOATS:
        return Reason("the input is not of floats")
    for bound in operands[1:]:
        if bound is None or bound.known is None or np.isnan(bound.known.astype(np.float64)).any():
            return Reason("a bound is not known, and may be NaN, below which Clip finds nothing")
    return None

    # Max(-0.0, 0.0) may be 0.0: the specification does not distinguish zeros, and kernels differ in them.


@lowering(13, applies_if=_floats)
def between(x, low, high):
    """Take the larger of the input and the lower bound, then the smaller of that and the upper one."""
    return op.Min(op.Max(x, low), high)


@lowering(18, applies_if=_both, cost=5)
def looked_up(x, low, high):
    """Gather by number: 0 for the lower bound, 1 for the upper bound, and a number for each element."""
    flat = op.Reshape(x, [-1])
    bounds = op.Concat(op.Reshape(low, [1]), op.Reshape(high, [1]), axis=0)
    below = op.Cast(op.Less(flat, op.Reshape(low, [1])), to=7)
    place = (op.Range(0, op.Squeeze(op.Shape(flat), [0]), 1) + 2) * (1 - below)
    raised = op.Gather(op.Concat(bounds, flat, axis=0), place, axis=0)
    above = op.Cast(op.Greater(raised, op.Reshape(high, [1])), to=7)
    place = place * (1 - above) + above
    y = op.Gather(op.Concat(bounds, flat, axis=0), place, axis=0)
    return op.Reshape(y, op.Shape(x), allowzero=1)


def clamp(what: Clip, operands: Operands) -> tuple[float, float] | None:
    """Return the bounds, where they are known."""
    ends = [-np.inf, np.inf]
    for place, bound in enumerate(operands[1:]):
        if bound is not None:
            if bound.known is None or bound.known.size != 1:
                return None
            ends[place] = float(bound.known.item())
    return (ends[0], ends[1]) if ends[0] <= ends[1] else None


OPERATOR = Operator(
    name="Clip",
    meaning=Clip,
    versions=(
        Version(1, lift=_runtime, spec=_spec),
        Version(6, lift=_runtime, spec=_spec, write=_write, applies_if=_as_float),
        Version(11, lift=_runtime, spec=_spec, write=_write, applies_if=_as_inputs),
        *(Version(since, applies_if=_limits_of_type) for since in (12, 13)),
    ),
    operands=("input", "min", "max"),
    oracle=oracle,
    normal=normal,
    lowerings=(from_lowest, to_highest, chosen, between, looked_up),
    traits=Traits(
        merges=elementwise,
        value_range=value_ranges.clipped,
        floats=(Trait.SELECTS,),
        compares=True,
        bounds=("min", "max"),
        flow=Flow.POINTWISE,
        clamped=(0,),
        clamp=clamp,
    ),
)
