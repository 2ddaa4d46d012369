"""com.microsoft::Rfft: half of the discrete Fourier transform of real signals, along the last axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry.dialect import MICROSOFT
from opshift.opsets.registry.inner_sums import InnerSum, SumUse
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits

Array = np.ndarray[Any, Any]

LONGEST = 2048
"""The most points that are multiplied with a square matrix."""

FLOATS = (Trait.SUMS, Trait.WEIGHS, Trait.IN_FLOAT)


@dataclass(frozen=True)
class Rfft:
    """The number of axes of a signal, the last ones; whether the output is half a spectrum, and is normalized."""

    signal_ndim: int = 1
    onesided: int = 1
    normalized: int = 0


def oracle(what: Rfft, x: Array) -> Array:
    """Rfft-1: "the n-point one dimensional Fourier transform for a real-valued input"; `signal_ndim` for more axes."""
    if not all(x.shape[x.ndim - what.signal_ndim :]):
        raise ValueError("Rfft-1: a transform of no points is not defined")
    y = x.astype(np.complex128)
    for axis in range(x.ndim - what.signal_ndim, x.ndim):
        y = transformed(y, axis, -1)
    half = y[..., : x.shape[-1] // 2 + 1]
    return np.stack([half.real, half.imag], axis=-1).astype(x.dtype)


def transformed(x: Array, axis: int, direction: int) -> Array:
    """Return the discrete Fourier transform along an axis: of few points by its definition, of many by numpy's.

    By the definition, infinity times zero is NaN.
    """
    count = x.shape[axis]
    if count > LONGEST:
        return np.asarray(np.fft.fft(x, axis=axis) if direction < 0 else np.fft.ifft(x, axis=axis) * count)
    turns = np.outer(np.arange(count), np.arange(count)) % max(count, 1) / max(count, 1)
    with np.errstate(invalid="ignore", over="ignore"):
        y = np.moveaxis(x, axis, -1) @ np.exp(direction * 2j * np.pi * turns)
    return np.asarray(np.moveaxis(y, -1, axis))


def unsupported(what: Any, operands: Operands, behind: int) -> Reason | None:
    """Return why a transform cannot be written as DFT, where so many axes are behind those of the signal."""
    data = first(operands)
    if not what.onesided or what.normalized:
        return Reason("its text has onesided = 1 and normalized = 0 alone")
    if data.dtype is None:
        return Reason("the element type is unknown", missing=True)
    if data.rank is None:
        return Reason("the rank is unknown", missing=True)
    fits = 1 <= what.signal_ndim <= data.rank - behind
    return None if fits else Reason(f"it has no {what.signal_ndim} axes of a signal")


def _signal(attributes: Mapping[str, Any], rank: int, opset: int) -> Sequence[int]:
    return range(max(rank - attributes.get("signal_ndim", 1), 0), rank)


def form_of(what: Any, operands: Operands) -> str:
    """Return which lowering applies: that of float16, or those of signals of one axis and of more."""
    if first(operands).dtype == TensorProto.FLOAT16:
        return "half"
    return "one axis" if what.signal_ndim == 1 else "more axes"


Applies = Callable[[Any, Operands], Reason | None]
"""The condition of a lowering: None if it applies, else the reason."""


def in_form(fault: Applies, form: str) -> Applies:
    """Return the condition of a lowering: the transform has no fault, and the form that the lowering is for."""

    def applies_if(what: Any, operands: Operands) -> Reason | None:
        return fault(what, operands) or (None if form_of(what, operands) == form else Reason(""))

    return applies_if


_form = functools.partial(in_form, functools.partial(unsupported, behind=0))


def _axis(what: Rfft, operands: Operands) -> Mapping[str, Any]:
    return {"at": (first(operands).rank or 0) - what.signal_ndim, "less": what.signal_ndim - 1}


@lowering(18, applies_if=_form("one axis"), bind=_axis, rounds=True)
def of_one_axis(x, at: int):
    """Take half of the DFT along the last axis."""
    return op.DFT(op.Unsqueeze(x, [-1]), axis=at, onesided=1)


@lowering(18, applies_if=_form("more axes"), bind=_axis, rounds=True)
def of_more_axes(x, at: int, less: int):
    """Take the DFT along the first axis of the signal's last, after the transform along the others."""
    return op.DFT(meaning.Itself(x, signal_ndim=less), axis=at)


@lowering(18, applies_if=_form("half"), rounds=True)
def in_float(x):
    """Transform in float: no kernel of DFT takes float16."""
    return op.Cast(meaning.Same(op.Cast(x, to=1)), to=10)


OPERATOR = Operator(
    name="Rfft",
    domain=MICROSOFT,
    meaning=Rfft,
    versions=(Version(1),),
    operands=("X",),
    oracle=oracle,
    lowerings=(of_one_axis, of_more_axes, in_float),
    longest=LONGEST,
    refused="an unknown rank, `onesided = 0` and `normalized = 1`",
    traits=Traits(floats=FLOATS, counts=(1,), inner_sum=InnerSum(SumUse.TRANSFORM, _signal)),
)
