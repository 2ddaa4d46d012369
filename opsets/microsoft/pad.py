"""com.microsoft::Pad: Pad-11, before ONNX had it; the value is 0 where it is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.operators import pad
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pad:
    """The padding mode: `constant`, `reflect` or `edge`."""

    mode: str = "constant"


def oracle(what: Pad, data: Array, pads: Array, value: Array | None = None) -> Array:
    """Pad-1: "[x1_begin, x2_begin, ..., x1_end, x2_end,...]"; a negative number removes elements."""
    one = None if value is None else value.reshape(())
    return np.asarray(pad.OPERATOR.oracle(pad.Pad(what.mode), data, pads, one, None))


def _listed(what: Pad, operands: Operands) -> Reason | None:
    pads, value = operands[1] or Facts(), operands[2]
    if pads.rank is None or (value is not None and value.rank is None):
        return Reason("the rank of pads, or of the value, is unknown", missing=True)
    if value is not None and value.rank:
        return Reason("the value is no scalar")
    return None if pads.rank == 1 else Reason("the pads are no vector")


@lowering(11, applies_if=_listed, bind=lambda what, operands: {"mode": what.mode})
def by_pad(data, pads, value, mode: str):
    """Write it as Pad."""
    return op.Pad(data, pads, value, mode=mode)


OPERATOR = Operator(
    name="Pad",
    domain=MICROSOFT,
    meaning=Pad,
    versions=(Version(1),),
    operands=("data", "pads", "value"),
    oracle=oracle,
    lowerings=(by_pad,),
    refused="pads of rank 2, a value of rank 1",
    traits=pad.OPERATOR.traits,
)
