"""com.microsoft::Irfft: the real signals of which half of the discrete Fourier transform is given."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from opshift.opsets.families.axes import first
from opshift.opsets.microsoft.rfft import FLOATS, LONGEST, in_form, transformed, unsupported
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.inner_sums import InnerSum, SumUse
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Traits

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Irfft:
    """How many axes a signal has, those before the last; whether half is given, and whether it is normalized."""

    signal_ndim: int
    onesided: int = 1
    normalized: int = 0


def oracle(what: Irfft, x: Array) -> Array:
    """Irfft-1: "the inverse of the one-dimensional n-point RFFT", with n even: of k numbers come 2 * (k - 1)."""
    if x.shape[-1] != 2 or x.shape[-2] < 2 or not all(x.shape[x.ndim - 1 - what.signal_ndim :]):
        raise ValueError("Irfft-1: half of a transform has two numbers or more, each of a real and an imaginary part")
    y = x[..., 0].astype(np.float64) + 1j * x[..., 1].astype(np.float64)
    for axis in range(y.ndim - what.signal_ndim, y.ndim - 1):
        y = transformed(y, axis, 1) / y.shape[axis]
    whole = np.concatenate([y, y[..., -2:0:-1].conj()], axis=-1)
    return np.asarray(transformed(whole, -1, 1).real / whole.shape[-1]).astype(x.dtype)


def _unsupported(what: Irfft, operands: Operands) -> Reason | None:
    if reason := unsupported(what, operands, 1):
        return reason
    count, parts = first(operands).dim(-2), first(operands).dim(-1)
    if isinstance(parts, int) and parts != 2:
        return Reason("its last axis has no real and imaginary part")
    if isinstance(count, int) and count < 2:
        return Reason("no signal has less than two numbers as half of its transform")
    return None


def _signal(attributes: Mapping[str, Any], rank: int, opset: int) -> Sequence[int]:
    """Return the axes of the signal, and that of the real and imaginary part."""
    return range(max(rank - 1 - attributes["signal_ndim"], 0), rank)


_form = functools.partial(in_form, _unsupported)


def _axis(what: Irfft, operands: Operands) -> Mapping[str, Any]:
    data = first(operands)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(data.dtype or 1)
    at = (data.rank or 0) - 1 - what.signal_ndim
    return {"at": at, "less": what.signal_ndim - 1, "turned": Tensor(np.array([1, -1], dtype))}


@lowering(18, applies_if=_form("one axis"), bind=_axis, rounds=True)
def of_one_axis(x, at: int, turned: Sequence[int]):
    """Put behind what is given its conjugated mirror image, and take the real part of the inverse DFT."""
    image = op.Slice(x, [-2], [0], [-2], [-1]) * turned
    return op.Gather(op.DFT(op.Concat(x, image, axis=-2), axis=at, inverse=1), 0, axis=-1)


@lowering(18, applies_if=_form("more axes"), bind=_axis, rounds=True)
def of_more_axes(x, at: int, less: int):
    """Take the inverse DFT along the first axis of the signal, then the inverse along the others."""
    return meaning.Itself(op.DFT(x, axis=at, inverse=1), signal_ndim=less)


@lowering(18, applies_if=_form("half"), rounds=True)
def in_float(x):
    """Transform in float: no kernel of DFT takes float16."""
    return op.Cast(meaning.Same(op.Cast(x, to=1)), to=10)


OPERATOR = Operator(
    name="Irfft",
    domain=MICROSOFT,
    meaning=Irfft,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    lowerings=(of_one_axis, of_more_axes, in_float),
    longest=LONGEST,
    refused="an unknown rank, `onesided = 0` and `normalized = 1`",
    traits=Traits(floats=FLOATS, counts=(1,), inner_sum=InnerSum(SumUse.INVERSE, _signal)),
)
