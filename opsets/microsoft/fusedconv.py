"""com.microsoft::FusedConv: a convolution, plus a tensor of its output's shape, and a function of the sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.convolutions import Convolution, by_channel, conv_attributes, sums
from opshift.opsets.microsoft import activated
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import convolved
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]

FUNCTIONS = frozenset({"", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid"})
"""The functions that onnxruntime 1.32.0 fuses into a convolution."""


@dataclass(frozen=True)
class FusedConv(Convolution):
    """The attributes of Conv, the function, and its parameters: those of the operator, Clip's `min` and `max`."""

    activation: str = ""
    activation_params: tuple[float, ...] = ()


def _lift(attributes: Mapping[str, Any]) -> FusedConv:
    return FusedConv(**{name: value for name, value in attributes.items() if value is not None})


def parameters(values: Sequence[float]) -> dict[str, Any]:
    """Return the parameters of a function as fields of Activated."""
    first, second, *_ = (*values, 0.0, 0.0)
    return {"first": first, "second": second}


def oracle(what: FusedConv, x: Array, w: Array, b: Array | None = None, z: Array | None = None) -> Array:
    """FusedConv-1: "The fused convolution operator schema is the same as Conv besides it includes an attribute"."""
    y = sums(what, x.astype(np.float64), w.astype(np.float64))
    y = y if b is None else y + by_channel(b.astype(np.float64), y.ndim - 1)
    y = y if z is None else y + z
    function = activated.Activated(what.activation, **parameters(what.activation_params))
    return activated.oracle(function, y).astype(x.dtype)


def _known(what: FusedConv) -> Reason | None:
    if what.activation not in FUNCTIONS:
        return Reason(f"onnxruntime does not fuse {what.activation} into a convolution")
    count = activated.PARAMETERS[what.activation]
    actual = len(what.activation_params)
    return None if actual == count else Reason(f"{what.activation} has {count} parameters, not {actual}")


def _added(wanted: bool) -> Callable[[FusedConv, Operands], Reason | None]:
    def applies_if(what: FusedConv, operands: Operands) -> Reason | None:
        if (operands[3] is not None) != wanted:
            return Reason("")
        return _known(what)

    return applies_if


def _bind(what: FusedConv, operands: Operands) -> Mapping[str, Any]:
    return {**conv_attributes(what), "function": what.activation, **parameters(what.activation_params)}


@lowering(18, applies_if=_added(False), bind=_bind, rounds=True)
def convolved_alone(
    x, w, b, z,
    auto_pad: str, dilations: Sequence[int], group: int, kernel_shape: Sequence[int], pads: Sequence[int],
    strides: Sequence[int], function: str, first: float, second: float,
):  # fmt: skip
    """Convolve, then take the function."""
    y = op.Conv(
        x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    return meaning.Activated(y, function=function, first=first, second=second)


@lowering(18, applies_if=_added(True), bind=_bind, rounds=True)
def convolved_and_added(
    x, w, b, z,
    auto_pad: str, dilations: Sequence[int], group: int, kernel_shape: Sequence[int], pads: Sequence[int],
    strides: Sequence[int], function: str, first: float, second: float,
):  # fmt: skip
    """Convolve, add the other tensor, then take the function."""
    y = op.Conv(
        x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    return meaning.Activated(y + z, function=function, first=first, second=second)


OPERATOR = Operator(
    name="FusedConv",
    domain=MICROSOFT,
    meaning=FusedConv,
    versions=(Version(1, lift=_lift),),
    operands=("X", "W", "B", "Z"),
    oracle=oracle,
    lowerings=(convolved_alone, convolved_and_added),
    refused="a function other than Relu, Sigmoid, Tanh, LeakyRelu, Clip and HardSigmoid",
    traits=Traits(floats=(Trait.SUMS, Trait.COMPOSED), equal_dims=convolved, spreads=False, factors=2),
)
