"""com.microsoft::NhwcConv: Conv whose channels are the last axis, in the image and in the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.families.convolutions import Convolution, by_channel, conv_attributes, sums
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import NodeShapes, Pairs, Shape, of_two, times
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NhwcConv(Convolution):
    """The attributes of Conv."""


def _lift(attributes: Mapping[str, Any]) -> NhwcConv:
    return NhwcConv(**{name: value for name, value in attributes.items() if value is not None})


def oracle(what: NhwcConv, x: Array, w: Array, b: Array | None = None) -> Array:
    """NhwcConv-1: Conv in "NHWC layout"; the weights are (outputs, sizes of the window, inputs of a group).

    The text does not define the weights' layout; onnxruntime's optimizer (fusion_nhwc_conv.py in 1.32.0) writes it.
    """
    moved = (np.moveaxis(one.astype(np.float64), -1, 1) for one in (x, w))
    y = sums(what, *moved)
    y = y if b is None else y + by_channel(b.astype(np.float64), y.ndim - 1)
    return np.moveaxis(y, 1, -1).astype(x.dtype)


def _ranked(what: NhwcConv, operands: Operands) -> Reason | None:
    data, weights = first(operands), operands[1] or Facts()
    if data.rank is None or weights.shape is None:
        return Reason("the rank of the image or the shape of the weights is unknown", missing=True)
    inputs = data.dim(-1)
    if what.kernel_shape is not None:
        known = weights.shape[1:-1] == tuple(what.kernel_shape)
    else:
        known = isinstance(inputs, int) and weights.dim(-1) == inputs // what.group
    return None if known else Reason("the weights do not have the channels as their last axis")


def _bind(what: NhwcConv, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    return {**conv_attributes(what), "into": (0, rank - 1, *range(1, rank - 1)), "back": (0, *range(2, rank), 1)}


@lowering(18, applies_if=_ranked, bind=_bind, rounds=True)
def transposed(
    x, w, b,
    into: Sequence[int], back: Sequence[int], auto_pad: str, dilations: Sequence[int], group: int,
    kernel_shape: Sequence[int], pads: Sequence[int], strides: Sequence[int],
):  # fmt: skip
    """Move the channels of image and weights in front of the other axes, and back."""
    y = op.Conv(
        op.Transpose(x, perm=into), op.Transpose(w, perm=into), b, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return op.Transpose(y, perm=back)


@of_two
def equal_dims(node: NodeShapes, data: Shape, weights: Shape) -> Pairs:
    """Yield the channels of the image and of the weights, and the number of outputs and of biases."""
    yield data[-1], times(weights[-1], int(node.attributes.get("group", 1)))
    for bias in node.inputs[2:]:
        if bias:
            yield bias[0], weights[0]


OPERATOR = Operator(
    name="NhwcConv",
    domain=MICROSOFT,
    meaning=NhwcConv,
    versions=(Version(1, lift=_lift),),
    operands=("X", "W", "B"),
    oracle=oracle,
    lowerings=(transposed,),
    refused="weights of another layout than (outputs, window, inputs)",
    traits=Traits(floats=(Trait.SUMS,), equal_dims=equal_dims, factors=2),
)
