"""Softplus: the logarithm of one plus the exponential of each element. bfloat16 since version 22."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.lowering import lowering, op
from opshift.opsets.registry.plain import plain
from opshift.opsets.registry.traits import NearOne, Trait, Traits
from opshift.opsets.registry.wider_types import COMPUTED


def _oracle(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Softplus-1: "the softplus function, y = ln(exp(x) + 1), is applied to the tensor elementwise"."""
    return np.asarray(np.logaddexp(0, x.astype(np.float64)).astype(x.dtype))


@lowering(13, rounds=True)
def without_overflow(x):
    """Compute max(x, 0) + log(1 + e) with e = exp(-|x|), and add what the rounding of 1 + e dropped.

    log(1 + e) = log(u) + log(1 + (e - (u - 1)) / u) for any u. With u = 1 + e rounded, the numerator is exact and
    the second logarithm is its argument, so that a small e is not lost.
    """
    one = op.CastLike(1.0, x)
    power = op.Exp(op.Neg(op.Abs(x)))
    more = power + one
    return op.Relu(x) + (op.Log(more) + (power - (more - one)) / more)


def adversarial(rng: np.random.Generator, feeds: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return inputs of which one in four is all so far below zero that 1 + exp(x) holds few digits of exp(x), or none.

    Beside a larger result a small one may be wrong by what rounding makes of the larger.
    """
    if rng.integers(4):
        return feeds
    return {**feeds, "X": rng.uniform(-20, -6, feeds["X"].shape)}


OPERATOR = plain(
    "Softplus",
    (1, 22),
    ("X",),
    _oracle,
    (without_overflow,),
    wider_types=COMPUTED,
    adversarial=adversarial,
    body_unused="exp(x) overflows from 89 on, from 12 on in float16",
    traits=Traits(
        merges=elementwise,
        floats=(Trait.COMPOSED, Trait.ADDS_ONE),
        inverse=lambda value: (math.log(math.expm1(value)),),
        near_one=NearOne(in_double_only=True),
    ),
)
