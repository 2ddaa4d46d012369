"""ConvInteger: the convolution of 8-bit integers less their zero points, in int32. Since version 10."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.operators.matmulinteger import Array, adversarial, fits_float, lacks, zero_like
from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.shape_hints import convolved
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class ConvInteger:
    """The position of the kernel, and the groups of channels."""

    auto_pad: str = "NOTSET"
    dilations: tuple[int, ...] | None = None
    group: int = 1
    kernel_shape: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


def padding(what: Any, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return how much goes before and behind each axis; SAME pads so that output = ceil(input / stride)."""
    count = len(sizes)
    strides, dilations = what.strides or (1,) * count, what.dilations or (1,) * count
    if what.auto_pad in ("NOTSET", ""):
        pads = what.pads or (0,) * (2 * count)
        return list(pads[:count]), list(pads[count:])
    if what.auto_pad == "VALID":
        return [0] * count, [0] * count
    spans = [(one - 1) * by + 1 for one, by in zip(kernel, dilations, strict=True)]
    total = [max((-(-n // s) - 1) * s + k - n, 0) for n, s, k in zip(sizes, strides, spans, strict=True)]
    less, more = [one // 2 for one in total], [one - one // 2 for one in total]
    return (less, more) if what.auto_pad == "SAME_UPPER" else (more, less)


def sums(what: Any, x: Array, w: Array) -> Array:
    """ConvInteger-10: "performs the convolution", here of 64-bit integers or of doubles."""
    if x.shape[1] != w.shape[1] * what.group or w.shape[0] % what.group:
        raise ValueError(
            f"{x.shape[1]} channels in {what.group} groups do not fit kernels of the shape {list(w.shape)}"
        )
    if what.kernel_shape and tuple(what.kernel_shape) != w.shape[2:]:
        raise ValueError(f"kernels of the shape {list(w.shape[2:])} do not fit kernel_shape")
    count = x.ndim - 2
    strides, dilations = what.strides or (1,) * count, what.dilations or (1,) * count
    before, behind = padding(what, x.shape[2:], w.shape[2:])
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, behind, strict=True)])
    spans = [(one - 1) * by + 1 for one, by in zip(w.shape[2:], dilations, strict=True)]
    if any(n < k for n, k in zip(x.shape[2:], spans, strict=True)):
        raise ValueError(f"a kernel that spans {spans} does not fit in {list(x.shape[2:])}, padding included")
    out = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], spans, strides, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *out), np.result_type(x, w))
    each = w.shape[0] // what.group
    for group in range(what.group):
        data = x[:, group * w.shape[1] : (group + 1) * w.shape[1]]
        kernels = w[group * each : (group + 1) * each]
        for place in np.ndindex(*w.shape[2:]):
            steps = zip(place, dilations, strides, out, strict=True)
            index: tuple[Any, ...] = (..., *(slice(p * d, p * d + s * (n - 1) + 1, s) for p, d, s, n in steps))
            part = data[index]
            product = np.tensordot(kernels[..., *place], part, (1, 1))
            y[:, group * each : (group + 1) * each] += np.moveaxis(product, 0, 1)
    return y


def by_channel(one: Array, rank: int) -> Array:
    """Return numbers for all channels, or for each kernel, so that they broadcast with the kernels."""
    return one.reshape(-1, *(1,) * (rank - 1)) if one.size > 1 else one.reshape(())


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
    fields = dict(vars(what))
    if what.auto_pad != "NOTSET":
        fields["pads"] = None
    return {**fields, "kernels": (-1, *(1,) * (rank - 1))}


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
