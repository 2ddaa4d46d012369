"""com.microsoft::NhwcMaxPool: MaxPool of 8-bit integers whose channels are the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators import maxpool
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class NhwcMaxPool:
    """The windows, as those of MaxPool."""

    auto_pad: str = "NOTSET"
    ceil_mode: int = 0
    dilations: tuple[int, ...] = ()
    kernel_shape: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


def _lift(attributes: Mapping[str, Any]) -> NhwcMaxPool:
    return NhwcMaxPool(**{name: value for name, value in attributes.items() if value is not None})


_FIELDS = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")


def _fields(what: NhwcMaxPool) -> dict[str, Any]:
    return {name: getattr(what, name) for name in _FIELDS}


def oracle(what: NhwcMaxPool, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """MaxPool-22, "where the input tensor is in the NHWC layout"."""
    y = maxpool.oracle(maxpool.MaxPool(**_fields(what)), np.moveaxis(x, -1, 1))
    assert not isinstance(y, tuple)  # no indices are asked for
    return np.moveaxis(y, 1, -1)


def _ranked(what: NhwcMaxPool, operands: Operands) -> Reason | None:
    return None if first(operands).rank else Reason("the rank is unknown", missing=True)


def _orders(what: NhwcMaxPool, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    into, back = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    fields = {name: None if value == () else value for name, value in _fields(what).items()}
    return {**fields, "into": into, "back": back}


@lowering(13, applies_if=_ranked, bind=_orders)
def transposed(
    x, into: Sequence[int], back: Sequence[int], auto_pad: str, ceil_mode: int, dilations: Sequence[int],
    kernel_shape: Sequence[int], pads: Sequence[int], strides: Sequence[int],
):  # fmt: skip
    """Move the channels in front of the windows' axes, and back."""
    y = op.MaxPool(
        op.Transpose(x, perm=into), auto_pad=auto_pad, ceil_mode=ceil_mode, dilations=dilations,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    return op.Transpose(y, perm=back)


OPERATOR = Operator(
    name="NhwcMaxPool",
    domain=MICROSOFT,
    meaning=NhwcMaxPool,
    versions=(Version(1, lift=_lift),),
    operands=("x",),
    oracle=oracle,
    lowerings=(transposed,),
    traits=Traits(floats=(Trait.SELECTS,), compares=True),
)
