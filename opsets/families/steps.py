"""Define quantized values of onnxruntime's QLinear operators: one scale and one zero point for all elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import INTEGERS, Facts
from opshift.opsets.registry.lowering import Lowering, Reason
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.plain import Plain
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


def floats(x: Array, scale: Array, zero: Array) -> Array:
    """Return the floats of quantized values: "(x - x_zero_point) * x_scale", in float."""
    return np.asarray((x.astype(np.int32) - zero.astype(np.int32)).astype(np.float32) * scale.astype(np.float32))


def quantized(y: Array, scale: Array | np.float32, zero: Array) -> Array:
    """Return floats as quantized values: "saturate(round(y / y_scale) + y_zero_point)", to even."""
    ends = np.iinfo(zero.dtype)
    whole = np.rint(y.astype(np.float32) / scale.astype(np.float32)).astype(np.float64) + zero
    return np.asarray(np.clip(whole, ends.min, ends.max)).astype(zero.dtype)


def whole(operands: Operands, scales: tuple[int, ...], zeros: tuple[int, ...]) -> Reason | None:
    """Require that each scale and zero point is present, and a single one for all elements."""
    for place in (*scales, *zeros):
        facts = operands[place] or Facts()
        if operands[place] is None:
            return Reason("a zero point is left out, for which onnxruntime ends the process")
        if facts.size is None:
            return Reason("it is unknown whether there is one scale for all elements", missing=True)
        if facts.size != 1:
            return Reason("there is more than one scale")
    dtype = (operands[zeros[-1]] or Facts()).dtype
    if dtype is None:
        return Reason("the element type is unknown", missing=True)
    return None if dtype in INTEGERS else Reason("the values are no integers")


def steady(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Draw scales above zero, because division by zero, or by an overflow, is undefined."""
    return {
        name: rng.choice([0.125, 0.5, 1, 2, 3], array.shape).astype(array.dtype)
        for name, array in feeds.items()
        if name.endswith("_scale") and array.flags.writeable
    }


def far_apart(*places: int) -> Callable[[Sequence[Any]], bool]:
    """Return a condition: a scale is not above zero, or so far from 1 that products of several overflow."""

    def holds(inputs: Sequence[Any]) -> bool:
        scales = (inputs[place] for place in places if place < len(inputs))
        known = [one.astype(np.float64) for one in scales if isinstance(one, np.ndarray) and one.size]
        return any(not bool(((one > 2.0**-40) & (one < 2.0**40)).all()) for one in known)

    return holds


def one_each(what: Any, operands: Operands) -> Reason | None:
    """Require that the input and the output of a function of one tensor have one scale and one zero point each."""
    return whole(operands, (1, 3), (2, 4))


def function_of_one(
    name: str,
    meaning: type,
    oracle: Callable[..., Any],
    *lowerings: Lowering,
    operands: tuple[str, ...] = ("X", "X_scale", "X_zero_point", "Y_scale", "Y_zero_point"),
    lift: Callable[[Mapping[str, Any]], Any] | None = None,
    floats: tuple[Trait, ...] = (),
    refused: str = "a zero point that is left out, for which the kernel ends the process; more than one scale",
) -> Operator:
    """Return the operator that applies a function to the floats of quantized values, and quantizes the result."""
    return Operator(
        name=name,
        domain=MICROSOFT,
        meaning=meaning,
        versions=(Version(1, lift=lift),),
        operands=operands,
        oracle=oracle,
        lowerings=lowerings,
        adversarial=steady,
        nan_defined=lambda what, operands: False,
        refused=refused,
        traits=Traits(floats=floats, scales=(1, 3), meaningless=far_apart(1, 3)),
    )


def two_each(what: Any, operands: Operands) -> Reason | None:
    """Require that both inputs and the output of a function of two tensors have one scale and one zero point each."""
    return whole(operands, (1, 4, 6), (2, 5, 7))


def function_of_two(name: str, oracle: Callable[..., Any], by_floats: Lowering, trait: Trait) -> Operator:
    """Return the operator that applies a function to the floats of two quantized tensors, and quantizes the result."""
    return Operator(
        name=name,
        domain=MICROSOFT,
        meaning=Plain,
        versions=(Version(1),),
        operands=("A", "A_scale", "A_zero_point", "B", "B_scale", "B_zero_point", "C_scale", "C_zero_point"),
        oracle=oracle,
        lowerings=(by_floats,),
        adversarial=steady,
        nan_defined=lambda what, operands: False,
        refused="a zero point that is left out; more than one scale",
        traits=Traits(
            floats=(trait, Trait.QUANTIZES), scales=(1, 4, 6), equal_dims=of_both, meaningless=far_apart(1, 4, 6)
        ),
    )


def of_both(node: NodeShapes) -> Pairs:
    """Yield the dims of both tensors that broadcast, counted from the last."""
    one, other = node.inputs[0], node.inputs[3]
    yield from zip(reversed(one or ()), reversed(other or ()), strict=False)
