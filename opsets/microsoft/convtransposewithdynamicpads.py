"""com.microsoft::ConvTransposeWithDynamicPads: ConvTranspose whose pads are an input."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.operators import convtranspose
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ConvTransposeWithDynamicPads:
    """The attributes of ConvTranspose but for pads and output_shape."""

    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    output_padding: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


def oracle(
    what: ConvTransposeWithDynamicPads, x: Array, w: Array, pads: Array | None = None, b: Array | None = None
) -> Array:
    """ConvTranspose-11, of which the pads are the input."""
    values = None if pads is None else tuple(pads.tolist())
    return convtranspose.oracle(convtranspose.ConvTranspose(**dataclasses.asdict(what), pads=values), x, w, b)


def _constant(what: ConvTransposeWithDynamicPads, operands: Operands) -> Reason | None:
    computed = operands[2] is not None and (operands[2] or Facts()).known is None
    return Reason("the pads are computed at run time", missing=True) if computed else None


def _bind(what: ConvTransposeWithDynamicPads, operands: Operands) -> Mapping[str, Any]:
    known = None if operands[2] is None else operands[2].known
    pads = None if known is None or what.auto_pad != "NOTSET" else tuple(known.reshape(-1).tolist())
    return {**dataclasses.asdict(what), "pads": pads}


@lowering(13, applies_if=_constant, bind=_bind)
def by_attributes(
    x, w, pads_given, b, auto_pad: str, dilations: Sequence[int], group: int, kernel_shape: Sequence[int],
    output_padding: Sequence[int], strides: Sequence[int], pads: Sequence[int],
):  # fmt: skip
    """Write the pads as attributes of ConvTranspose."""
    return op.ConvTranspose(
        x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        output_padding=output_padding, pads=pads, strides=strides,
    )  # fmt: skip


OPERATOR = Operator(
    name="ConvTransposeWithDynamicPads",
    domain=MICROSOFT,
    meaning=ConvTransposeWithDynamicPads,
    versions=(Version(1),),
    operands=("X", "W", "Pads", "B"),
    oracle=oracle,
    lowerings=(by_attributes,),
    refused="pads that are computed",
    traits=Traits(floats=(Trait.SUMS,), factors=2),
)
