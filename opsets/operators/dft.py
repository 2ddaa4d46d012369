"""DFT: the discrete Fourier transform along an axis, an attribute in version 17 and an input since 20."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opshift.opsets.axes import axes_operand, operand_not_negative
from opshift.opsets.facts import constant
from opshift.opsets.operator import Operands, Operator, Version


@dataclass(frozen=True)
class DFT:
    """Whether it is the inverse transform, and whether only the half that tells the rest is given or taken."""

    inverse: int = 0
    onesided: int = 0


_Array = np.ndarray[Any, Any]
_resolved = axes_operand(2)


def oracle(meaning: DFT, x: _Array, length: _Array | None = None, axis: _Array | None = None) -> _Array:
    """DFT-20: "If greater than the axis dimension, the signal will be zero-padded up to `dft_length`"."""
    along = -2 if axis is None else int(axis.item())
    along = along + x.ndim if along < 0 else along
    signal = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    count = None if length is None else int(length.item())
    if meaning.onesided and meaning.inverse:
        return np.asarray(np.fft.irfft(signal, count, along)[..., None]).astype(x.dtype)
    if meaning.onesided:
        y = np.fft.rfft(signal.real, count, along)
    else:
        y = np.fft.ifft(signal, count, along) if meaning.inverse else np.fft.fft(signal, count, along)
    return np.stack([y.real, y.imag], axis=-1).astype(x.dtype)


def _normal(meaning: DFT, operands: Operands) -> tuple[DFT, Operands]:
    """DFT-20 on its axis: "Default is `-2` (last signal axis)"; counted from the front where the rank is known."""
    data, length, axis = operands
    return _resolved(meaning, (data, length, constant(np.array(-2, np.int64)) if axis is None else axis))


OPERATOR = Operator(
    name="DFT",
    meaning=DFT,
    # DFT-17 gives no range for its axis.
    versions=(Version(17, given=operand_not_negative(2)), Version(20)),
    operands=("input", "dft_length", "axis"),
    oracle=oracle,
    normal=_normal,
)
