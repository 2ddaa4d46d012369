"""com.microsoft::SkipGroupNorm: GroupNorm of a sum, which is an output too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.axes import first
from opshift.opsets.microsoft import groupnorm
from opshift.opsets.microsoft.groupnorm import GroupNorm
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import NearOne, Trait, Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SkipGroupNorm(GroupNorm):
    """The fields of GroupNorm."""


def _fields(what: SkipGroupNorm) -> dict[str, Any]:
    names = ("activation", "channels_last", "epsilon", "groups")
    return {name: getattr(what, name) for name in names}


def oracle(
    what: SkipGroupNorm, x: Array, gamma: Array, beta: Array, skip: Array, bias: Array | None = None
) -> tuple[Array, Array]:
    """SkipGroupNorm-1: "This operator element-wise adds x, skip and bias, then apply group normalization".

    "skip input with shape (N, H, W, C), (N, 1, 1, C) or (N, C)"; "bias is 1D tensor with shape (C)".
    """
    if not what.channels_last:
        raise ValueError("SkipGroupNorm-1: the text defines the shapes of skip and bias for channels at the end")
    if skip.ndim == 2:
        skip = skip.reshape(len(skip), *(1,) * (x.ndim - 2), skip.shape[1])
    total = x + skip if bias is None else x + skip + bias
    return groupnorm.oracle(GroupNorm(**_fields(what)), total, gamma, beta), total


def _form(is_matrix: bool, has_bias: bool) -> Callable[[SkipGroupNorm, Operands], Reason | None]:
    def applies_if(what: SkipGroupNorm, operands: Operands) -> Reason | None:
        rank, other = first(operands).rank, (operands[3] or Facts()).rank
        if not what.channels_last:
            return Reason("its text defines the shapes of skip and bias for channels at the end only")
        if rank is None or other is None:
            return Reason("a rank is unknown", missing=True)
        if other not in (2, rank):
            return Reason("skip has another rank than the input, or than a matrix")
        return None if (other < rank, operands[4] is not None) == (is_matrix, has_bias) else Reason("")

    return applies_if


def _axes(what: SkipGroupNorm, operands: Operands) -> Mapping[str, Any]:
    return {"axes": tuple(range(1, (first(operands).rank or 2) - 1))}


@lowering(18, applies_if=_form(True, False), bind=_axes)
def of_matrix(x, gamma, beta, skip, bias, axes: Sequence[int]):
    """Give skip the axes of the image."""
    y, total = meaning.Same(x, gamma, beta, op.Unsqueeze(skip, axes), None)
    return y, total


@lowering(18, applies_if=_form(True, True), bind=_axes)
def of_matrix_and_bias(x, gamma, beta, skip, bias, axes: Sequence[int]):
    """Give skip the axes of the image; the bias remains."""
    y, total = meaning.Same(x, gamma, beta, op.Unsqueeze(skip, axes), bias)
    return y, total


def _bind(what: SkipGroupNorm, operands: Operands) -> Mapping[str, Any]:
    return _fields(what)


@lowering(18, applies_if=_form(False, False), bind=_bind, rounds=True)
def of_sum(x, gamma, beta, skip, bias, activation: int, channels_last: int, epsilon: float, groups: int):
    """Normalize the sum of input and skip."""
    total = x + skip
    y = meaning.GroupNorm(
        total, gamma, beta, activation=activation, channels_last=channels_last, epsilon=epsilon, groups=groups
    )
    return y, total


@lowering(18, applies_if=_form(False, True), bind=_bind, rounds=True)
def of_biased_sum(x, gamma, beta, skip, bias, activation: int, channels_last: int, epsilon: float, groups: int):
    """Normalize the sum of input, skip and bias."""
    total = x + skip + bias
    y = meaning.GroupNorm(
        total, gamma, beta, activation=activation, channels_last=channels_last, epsilon=epsilon, groups=groups
    )
    return y, total


OPERATOR = Operator(
    name="SkipGroupNorm",
    domain=MICROSOFT,
    meaning=SkipGroupNorm,
    versions=(Version(1),),
    operands=("X", "gamma", "beta", "skip", "bias"),
    oracle=oracle,
    shape=lambda what, operands: first(operands).shape,
    lowerings=(of_matrix, of_matrix_and_bias, of_sum, of_biased_sum),
    refused="`channels_last = 0`",
    traits=Traits(
        floats=(Trait.SUMS, Trait.NORMALIZES, Trait.COMPOSED, Trait.ADDS_ONE),
        near_one=NearOne(factor=20.0, divided=True),
    ),
)
