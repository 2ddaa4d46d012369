"""com.microsoft::BiasSoftmax: Softmax of a sum, over the axes from `axis` on together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.microsoft.skiplayernormalization import added
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.inner_sums import InnerSum, SumUse, from_axis
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class BiasSoftmax:
    """The first axis of a row, and whether the bias is repeated inside the axes before it, or outside."""

    axis: int = 1
    is_inner_broadcast: int = 0


def oracle(what: BiasSoftmax, data: np.ndarray[Any, Any], bias: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """BiasSoftmax-1: "Y = softmax(scores + bias)) with simple broadcast on bias"; "for dimensions axis or higher"."""
    total = (data + bias).astype(np.float64)
    rows = total.reshape(*total.shape[: what.axis % total.ndim], -1)
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True, initial=-np.inf))
    return np.asarray((powers / powers.sum(axis=-1, keepdims=True)).reshape(total.shape).astype(data.dtype))


def _aligned(what: BiasSoftmax, operands: Operands) -> Reason | None:
    ranks = [facts.rank if facts is not None else None for facts in operands]
    if None in ranks:
        return Reason("a rank is unknown", missing=True)
    return None if ranks[0] == ranks[1] else Reason("the bias has another rank than the data")


def _axis(what: BiasSoftmax, operands: Operands) -> Mapping[str, Any]:
    return {"axis": what.axis % (first(operands).rank or 1)}


@lowering(11, applies_if=_aligned, bind=_axis, rounds=True)
def of_sum(data, bias, axis: int):
    """Add the bias, then take Softmax-11, whose rows hold all axes from one on."""
    return op.Softmax(data + bias, axis=axis)


def _row(attributes: Mapping[str, Any], rank: int, opset: int) -> Sequence[int]:
    return from_axis({"axis": 1, **attributes}, rank, opset)


OPERATOR = Operator(
    name="BiasSoftmax",
    domain=MICROSOFT,
    meaning=BiasSoftmax,
    versions=(Version(1),),
    operands=("data", "bias"),
    oracle=oracle,
    lowerings=(of_sum,),
    refused="a bias of another rank than the data",
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS), inner_sum=InnerSum(SumUse.QUOTIENT, _row, data=added(0, 1))),
)
