"""DynamicQuantizeLinear: bytes, with the scale and the zero point that fit the data. Since version 11."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.operator import Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.traits import Traits, Undefined


def oracle(what: Plain, x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """DynamicQuantizeLinear-11: "y_scale = (maximum(0, max(x)) - minimum(0, min(x))) / (qmax - qmin)".

    "y = saturate (round (x / y_scale) + y_zero_point)". Of zeros alone that would be 0, by which nothing can be
    divided: onnxruntime's scale is 1 (seen in 1.31.1 and 1.32.0).
    """
    low, high = np.minimum(x.min(initial=0), np.float32(0)), np.maximum(x.max(initial=0), np.float32(0))
    scale = np.float32(1) if low == high else np.asarray((high - low) / np.float32(255), np.float32)
    point = np.rint(np.clip(np.float32(0) - low / scale, 0, 255))
    y = np.clip(np.rint(x / scale) + point, 0, 255)
    return y.astype(np.uint8), np.asarray(scale, np.float32), np.asarray(point).astype(np.uint8)


@lowering(13)
def measured(x):
    """Measure the data, and quantize it by QuantizeLinear."""
    low = op.Min(op.ReduceMin(x, keepdims=0), 0.0)
    high = op.Max(op.ReduceMax(x, keepdims=0), 0.0)
    spread = high - low
    scale = spread / 255.0 + op.Cast(op.Not(op.Greater(spread, 0.0)), to=1)
    point = op.Cast(op.Round(op.Clip(0.0 - low / scale, 0.0, 255.0)), to=2)
    return op.QuantizeLinear(x, scale, point), scale, point


def adversarial(rng: np.random.Generator, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw no numbers so small that their range has no 255th part, nor so large that it has no end."""
    x = inputs["x"]
    size = np.abs(x)
    return {"x": np.where(size < 2.0**-100, np.float32(0), np.clip(x, -(2.0**126), 2.0**126)).astype(x.dtype)}


OPERATOR = Operator(
    name="DynamicQuantizeLinear",
    meaning=Plain,
    versions=(Version(11),),
    operands=("x",),
    oracle=oracle,
    # The scale of an infinite range is infinite, and what is divided by it no number that could be rounded.
    nan_defined=lambda what, operands: False,
    infinity_defined=lambda what, operands: False,
    adversarial=adversarial,
    lowerings=(measured,),
    body_unused="its scale of zeros alone is 0, and onnxruntime's is 1",
    traits=Traits(undefined=Undefined.WITHOUT_RANGE),
)
