"""ConvInteger: the convolution of 8-bit integers less their zero points, in int32. Since version 10."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.families.convolutions import Convolution, by_channel, conv_attributes, sums
from opshift.opsets.operators.matmulinteger import Array, adversarial, fits_float, lacks, zero_like
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import convolved
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class ConvInteger(Convolution):
    """The position of the kernel, and the groups of channels."""


def oracle(what: ConvInteger, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None) -> Array:
    """ConvInteger-10: "The production MUST never overflow. The accumulation may overflow if and only if in 32 bits"."""
    left, right = x.astype(np.int64), w.astype(np.int64)
    left = left if x_zero is None else left - x_zero.reshape(())
    right = right if w_zero is None else right - by_channel(w_zero, w.ndim)
    return sums(what, left, right).astype(np.int32)


def products(operands: Operands, kernel: int) -> int | None:
    """Return how many products are added up for each element of the result, if known."""
    facts = operands[kernel] or Facts()
    sizes = facts.shape[1:] if facts.shape else (None,)
    known = [dim for dim in sizes if isinstance(dim, int)]
    return math.prod(known) if len(known) == len(sizes) else None


def _exact(what: ConvInteger, operands: Operands) -> Reason | None:
    if operands[2] is None or operands[3] is None:
        return Reason("a zero point is left out")
    return fits_float(operands, products(operands, 1), (2, 3))


def _bind(what: ConvInteger, operands: Operands) -> Mapping[str, Any]:
    rank = (operands[1] or Facts()).rank or 0
    return {**conv_attributes(what), "kernels": (-1, *(1,) * (rank - 1))}


@lowering(18, applies_if=_exact, bind=_bind)
def in_float(
    x, w, x_zero, w_zero,
    auto_pad: str, dilations: Sequence[int], group: int, kernel_shape: Sequence[int], pads: Sequence[int],
    strides: Sequence[int], kernels: Sequence[int],
):  # fmt: skip
    """Convolve in float where the sums are short enough to be whole numbers of 24 bits."""
    left = op.Sub(op.Cast(x, to=1), op.Cast(op.Reshape(x_zero, [1]), to=1))
    right = op.Sub(op.Cast(w, to=1), op.Cast(op.Reshape(w_zero, kernels), to=1))
    y = op.Conv(
        left, right, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
        strides=strides,
    )  # fmt: skip
    return op.Cast(y, to=6)


@lowering(18, applies_if=lacks(2), bind=zero_like(0))
def with_zero_of_x(x, w, x_zero, w_zero, zero: Sequence[int]):
    """Add a zero point of zero for the input."""
    return meaning.Same(x, w, zero, w_zero)


@lowering(18, applies_if=lacks(3), bind=zero_like(1))
def with_zero_of_w(x, w, x_zero, w_zero, zero: Sequence[int]):
    """Add a zero point of zero for the kernels."""
    return meaning.Same(x, w, x_zero, zero)


OPERATOR = Operator(
    name="ConvInteger",
    meaning=ConvInteger,
    versions=(Version(10),),
    operands=("x", "w", "x_zero_point", "w_zero_point"),
    oracle=oracle,
    lowerings=(in_float, with_zero_of_x, with_zero_of_w),
    adversarial=adversarial,
    traits=Traits(
        floats=(Trait.SUMS,), equal_dims=convolved, spreads=False, unwritten=(0, 1), byte_factors=(0, 1), heavy=True
    ),
)
