"""The form of an operator on quantized values: one operator for floats between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from opshift.opsets.registry.facts import Facts
from opshift.opsets.registry.lowering import Reason

BYTES: Mapping[int, tuple[int, int]] = {TensorProto.UINT8: (0, 255), TensorProto.INT8: (-128, 127)}
"""The ends of the types that operators on quantized values have in most runtimes."""

_LARGEST_SUM = 2**31 - 1
_ORDINARY = 2.0**-40, 2.0**40
"""Products of two scales between these, by a third one, neither overflow nor lose digits in float."""


@dataclass(frozen=True)
class Quantized:
    """A quantized value: `data`, with scales and zero points that are constants, and the axis along which these are.

    The zero points have the shape of the scales.
    """

    data: Facts
    scale: npt.NDArray[np.float32]
    zero: npt.NDArray[Any]
    axis: int = 0

    @property
    def dtype(self) -> int:
        """The element type, as TensorProto.DataType."""
        return self.data.dtype or 0

    @property
    def farthest(self) -> int:
        """How far an element can be from its zero point."""
        low, high = BYTES[self.dtype]
        zero = self.zero.astype(np.int64)
        return int(max((zero - low).max(), (high - zero).max()))


Read = Quantized | Facts | None
"""What an operator of floats reads: a dequantized value, another one, or none."""


@dataclass(frozen=True)
class QuantizedForm:
    """How an operator on quantized values computes what one of floats does.

    Attributes:
        reads: the names of its operands that the inputs of the operator of floats become. The scale and the zero point
            of one are called after it: `x_scale` and `x_zero_point`, where the operator has such operands.
        made: the name that those of the result are called after.
        why_not: why it does not compute what a node does; from the meaning of that, what it reads, and its result.
    """

    reads: tuple[str, ...]
    made: str
    why_not: Callable[[Any, Sequence[Read], Quantized], Reason | None]


def of_bytes(read: Sequence[Read], made: Quantized) -> Reason | None:
    """Require that factors and result are bytes, that all but the second factor have one scale, and ordinary ones."""
    for place, one in enumerate((made, *read)):
        if not isinstance(one, Quantized):
            return Reason("an input is not dequantized")
        if one.dtype not in BYTES:
            return Reason("an input or the result has not 8 bits")
        low, high = _ORDINARY
        if not bool(((one.scale > low) & (one.scale < high)).all()):
            return Reason("a scale is not above zero, or of no ordinary size")
        if one.scale.size != 1 and place != 2:
            return Reason("an input or the result has more than one scale")
    return None


def rounds_little(scales: Sequence[npt.NDArray[Any] | None], terms: int | None) -> Reason | None:
    """Require that sums in float, of so many products of bytes, are less than half a step off.

    `scales` are those of the factors and of the result; None where one is computed. The sum of n numbers of up to t is
    less than n t units of rounding off, unless all errors have one sign (Higham and Mary, 2019).
    """
    known = [scale.astype(np.float64) for scale in scales if scale is not None and scale.size]
    if len(known) < len(scales):
        return None
    *factors, result = known
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = math.prod(float(np.abs(one).max()) for one in factors) / np.abs(result).min()
    lost = (terms or 1) * 255**2 * 2.0**-24 * steps
    return None if lost < 0.5 else Reason("its sums of floats may be off by half a step of the result")


def sums_fit(factors: Sequence[Read], made: Quantized, terms: int | None, added: int = 0) -> Reason | None:
    """Require that sums of so many products, and what is added to them, fit int32, and are as exact in float."""
    if terms is None:
        return Reason("it is unknown how many products are added up, and sums may not fit int32", missing=True)
    if not terms:
        return Reason("it adds nothing up, of which kernels of integers return whatever is in memory")
    largest = terms
    for one in factors:
        largest *= one.farthest if isinstance(one, Quantized) else 1
    if largest + added > _LARGEST_SUM:
        return Reason("its sums may not fit int32")
    return rounds_little([one.scale for one in (*factors, made) if isinstance(one, Quantized)], terms)


def bias(read: Read, one: Read, other: Read) -> Reason | int:
    """Return the largest element of a bias that is quantized by the product of the scales of both factors, or why not.

    QLinearConv-10: "The bias must be quantized using scale = x_scale * w_scale and zero_point = 0".
    """
    if read is None:
        return 0
    if not isinstance(read, Quantized) or read.dtype != TensorProto.INT32 or read.zero.any():
        return Reason("its bias is not quantized to int32 with a zero point of 0")
    assert isinstance(one, Quantized)
    assert isinstance(other, Quantized)
    wanted = np.broadcast_to(one.scale.item() * other.scale, np.broadcast_shapes(read.scale.shape, other.scale.shape))
    if not bool((wanted == read.scale).all()):
        return Reason("the scale of its bias is not the product of the scales of its inputs")
    if read.data.known is None:
        return Reason("its bias is no constant, and sums may not fit int32", missing=True)
    return int(np.abs(read.data.known.astype(np.int64)).max(initial=0))


def moved(operand: str) -> QuantizedForm:
    """Return the form of an operator that moves or selects elements of an input: the same, on quantized values."""

    def why_not(what: Any, read: Sequence[Read], made: Quantized) -> Reason | None:
        if reason := of_bytes(read[:1], made):
            return reason
        one = read[0]
        assert isinstance(one, Quantized)
        same = one.dtype == made.dtype and one.scale.item() == made.scale.item() and one.zero.item() == made.zero.item()
        return None if same else Reason("its result has another type, scale or zero point than its input")

    return QuantizedForm((operand,), "", why_not)
