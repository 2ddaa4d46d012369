"""DFT: the discrete Fourier transform along an axis, an attribute in 17 and an input since 20. Since version 17."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.axes import axes_operand, first, operand_not_negative
from opshift.opsets.facts import Tensor, constant
from opshift.opsets.lowering import Reason, lowering, meaning, op
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


# --- as a product -------------------------------------------------------------------------------------------------

_LARGEST = 2**20
"""Elements: no larger matrix is written into a model."""


def _length(operands: Operands) -> int | None:
    """How many numbers are transformed: as many as there are unless it is told."""
    data, length, axis = operands
    if length is not None:
        return None if length.known is None else int(length.known.item())
    if data is None or axis is None or axis.known is None:
        return None
    dim = data.dim(int(axis.known.item()))
    return dim if isinstance(dim, int) else None


def _static(meaning: DFT, operands: Operands) -> Reason | None:
    data, axis, length = first(operands), operands[2], _length(operands)
    if data.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return Reason("it is neither of float nor of double", missing=data.dtype is None)
    if axis is None or axis.known is None or data.rank is None:
        return Reason("the axis is computed at run time, or the rank unknown", missing=True)
    along, parts = data.dim(int(axis.known.item())), data.dim(-1)
    if not isinstance(along, int) or not isinstance(parts, int) or length is None:
        return Reason("the length of the signal is unknown", missing=True)
    if not along or length < 1 or parts not in (1, 2):
        return Reason("the signal is empty, or neither real nor complex")
    if meaning.onesided and (meaning.inverse or parts == 2):
        return Reason("only real numbers have half a transform that tells the rest")
    if length < along:
        return Reason("the signal is cut")
    if along * parts * length * 2 > _LARGEST:
        return Reason(f"the matrix would have more than {_LARGEST} elements")
    return None


def _matrix(meaning: DFT, operands: Operands) -> Mapping[str, Any]:
    """Bind the roots of unity, for each real and imaginary part there is one for each that comes out."""
    data, axis, count = first(operands), operands[2], _length(operands) or 1
    along = int(axis.known.item()) if axis is not None and axis.known is not None else 0
    rank = data.rank or 0
    size, parts = (dim if isinstance(dim, int) else 0 for dim in (data.dim(along), data.dim(-1)))
    wanted = count // 2 + 1 if meaning.onesided else count
    # Modulo first: the angle stays exact however long the signal is.
    turns = np.outer(np.arange(size), np.arange(wanted)) % count / count
    root = np.exp((2j if meaning.inverse else -2j) * np.pi * turns)
    root = root / count if meaning.inverse else root
    table = np.array([[root.real, root.imag], [-root.imag, root.real]])[:parts].transpose(2, 0, 3, 1)
    matrix = table.reshape(size * parts, wanted * 2).astype(onnx.helper.tensor_dtype_to_np_dtype(data.dtype or 0))
    others = [one for one in range(rank - 1) if one != along % rank]
    order = [*others, along % rank, rank - 1]
    return {
        "order": tuple(order),
        "back": tuple(np.argsort(order).tolist()),
        "rows": (*[0] * (rank - 2), size * parts),
        "pairs": (*[0] * (rank - 2), wanted, 2),
        "matrix": Tensor(matrix),
    }


def _is_cut(meaning: DFT, operands: Operands) -> Reason | None:
    data, axis, length = first(operands), operands[2], _length(operands)
    along = None if axis is None or axis.known is None else data.dim(int(axis.known.item()))
    if not isinstance(along, int) or length is None:
        return Reason("the length of the signal is unknown", missing=True)
    if meaning.onesided and meaning.inverse:
        return Reason("half of a transform is given")
    return None if 0 < length < along else Reason("no number is too many")


def _ends(meaning: DFT, operands: Operands) -> Mapping[str, Any]:
    axis = operands[2]
    return {
        "count": (_length(operands),),
        "along": tuple(axis.known.reshape(1).tolist()) if axis and axis.known is not None else (),
    }


@lowering(18, given=_is_cut, bind=_ends)
def cut(x, length, axis, count: Sequence[int], along: Sequence[int]):
    """Leave out the numbers beyond the length."""
    return meaning.Same(op.Slice(x, [0], count, along), length, axis)


@lowering(18, given=_static, bind=_matrix, rounds=True)
def by_matrix(
    x,
    length,
    axis,
    order: Sequence[int],
    back: Sequence[int],
    rows: Sequence[int],
    pairs: Sequence[int],
    matrix: Sequence[int],
):
    """Multiply by the matrix of roots of unity; what the signal lacks in length is zero."""
    y = op.MatMul(op.Reshape(op.Transpose(x, perm=order), rows), matrix)
    return op.Transpose(op.Reshape(y, pairs), perm=back)


OPERATOR = Operator(
    name="DFT",
    meaning=DFT,
    # DFT-17 gives no range for its axis.
    versions=(Version(17, given=operand_not_negative(2)), Version(20)),
    operands=("input", "dft_length", "axis"),
    oracle=oracle,
    normal=_normal,
    lowerings=(by_matrix, cut),
)
