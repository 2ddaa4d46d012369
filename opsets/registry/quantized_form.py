"""Map float operators between DequantizeLinear and QuantizeLinear to operators on quantized values."""

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
"""The ranges of the types that operators on quantized values have in most runtimes."""

_LARGEST_SUM = 2**31 - 1
_ORDINARY = 2.0**-40, 2.0**40
"""Products of two scales in this range, divided by a third one, neither overflow nor lose digits in float."""


@dataclass(frozen=True)
class Quantized:
    """A quantized value: `data`, its constant scales and zero points, and their axis.

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
        """The maximum distance of an element from its zero point."""
        low, high = BYTES[self.dtype]
        zero = self.zero.astype(np.int64)
        return int(max((zero - low).max(), (high - zero).max()))


Read = Quantized | Facts | None
"""An input of a float operator: a dequantized value, another value, or none."""


@dataclass(frozen=True)
class QuantizedForm:
    """The mapping from a float operator to an operator on quantized values.

    Attributes:
        reads: the names of its operands for the float operator's inputs. Their scale and zero point are named after
            them: `x_scale` and `x_zero_point`, if the operator has such operands.
        made: the prefix of the names of the result's scale and zero point.
        why_not: returns the reason why it cannot replace a node, from the node's meaning, its inputs and its result.
    """

    reads: tuple[str, ...]
    made: str
    why_not: Callable[[Any, Sequence[Read], Quantized], Reason | None]


def of_bytes(read: Sequence[Read], made: Quantized) -> Reason | None:
    """Require bytes for factors and result, a single scale except for the second factor, and ordinary scales."""
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
    """Require an error of less than half a step for float sums of `terms` products of bytes.

    `scales` are those of the factors and of the result; None for a computed one. The error of a sum of n numbers of up
    to t is less than n t units of rounding, unless all errors have one sign (Higham and Mary, 2019).
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
    """Require that sums of `terms` products, plus an addend, fit int32, and are exact in float."""
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
    """Return the largest element of a bias quantized by the product of both factors' scales, or the reason why not.

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
    """Return the form of an operator that moves or selects elements, which also works on quantized values."""

    def why_not(what: Any, read: Sequence[Read], made: Quantized) -> Reason | None:
        if reason := of_bytes(read[:1], made):
            return reason
        one = read[0]
        assert isinstance(one, Quantized)
        same = one.dtype == made.dtype and one.scale.item() == made.scale.item() and one.zero.item() == made.zero.item()
        return None if same else Reason("its result has another type, scale or zero point than its input")

    return QuantizedForm((operand,), "", why_not)
