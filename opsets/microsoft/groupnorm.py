"""com.microsoft::GroupNorm: GroupNormalization-21, of channels in front or at the end, and Swish of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.operators import groupnormalization
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import NearOne, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GroupNorm:
    """The groups, and epsilon; `activation` 1 is Swish; channels are the last axis or the second."""

    activation: int = 0
    channels_last: int = 1
    epsilon: float = float(np.float32(1e-5))
    groups: int = 1


def oracle(what: GroupNorm, x: Array, gamma: Array, beta: Array) -> Array:
    """GroupNorm-1: "Applies Group Normalization over a mini-batch of inputs"; "activation: 0 for None, 1 for SiLU"."""
    moved = np.moveaxis(x, -1, 1) if what.channels_last else x
    meant = groupnormalization.GroupNormalization(what.groups, what.epsilon)
    y = groupnormalization.oracle(meant, moved.astype(np.float64), gamma.astype(np.float64), beta.astype(np.float64))
    y = y / (1 + np.exp(-y)) if what.activation else y
    return np.asarray((np.moveaxis(y, 1, -1) if what.channels_last else y).astype(x.dtype))


def _form(last: bool, swish: bool) -> Callable[[GroupNorm, Operands], Reason | None]:
    def applies_if(what: GroupNorm, operands: Operands) -> Reason | None:
        if what.activation not in (0, 1):
            return Reason(f"activation {what.activation} is none that the schema defines")
        if (bool(what.channels_last), bool(what.activation) and not what.channels_last) != (last, swish):
            return Reason("")
        if last and first(operands).rank is None:
            return Reason("the rank is unknown", missing=True)
        return None

    return applies_if


def _orders(what: GroupNorm, operands: Operands) -> Mapping[str, Any]:
    rank = first(operands).rank or 0
    return {"into": (0, rank - 1, *range(1, rank - 1)), "back": (0, *range(2, rank), 1)}


@lowering(18, applies_if=_form(True, False), bind=_orders)
def transposed(x, gamma, beta, into: Sequence[int], back: Sequence[int]):
    """Move the channels in front of the other axes, and back."""
    return op.Transpose(meaning.Same(op.Transpose(x, perm=into), gamma, beta, channels_last=0), perm=back)


@lowering(18, applies_if=_form(False, True))
def activated(x, gamma, beta):
    """Take Swish of what is normalized."""
    return meaning.Swish(meaning.Same(x, gamma, beta, activation=0))


def _bind(what: GroupNorm, operands: Operands) -> Mapping[str, Any]:
    return {"groups": what.groups, "epsilon": what.epsilon}


@lowering(18, applies_if=_form(False, False), bind=_bind, rounds=True)
def normalized(x, gamma, beta, groups: int, epsilon: float):
    """Write it as GroupNormalization."""
    return meaning.GroupNormalization(
        x, op.CastLike(gamma, x), op.CastLike(beta, x), num_groups=groups, epsilon=epsilon
    )


OPERATOR = Operator(
    name="GroupNorm",
    domain=MICROSOFT,
    meaning=GroupNorm,
    versions=(Version(1),),
    operands=("X", "gamma", "beta"),
    oracle=oracle,
    shape=lambda what, operands: first(operands).shape,
    lowerings=(transposed, activated, normalized),
    traits=Traits(
        floats=(Trait.SUMS, Trait.NORMALIZES, Trait.COMPOSED, Trait.ADDS_ONE),
        near_one=NearOne(factor=20.0, divided=True),
    ),
)
