"""DFT: the discrete Fourier transform along an axis, an attribute in 17 and an input since 20. Since version 17."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import END, axes_operand, first, operand_not_negative
from opshift.opsets.registry.facts import Tensor, constant
from opshift.opsets.registry.lowering import Reason, bounded, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class DFT:
    """Whether the transform is inverse, and whether it uses only the non-redundant half (`onesided`)."""

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
        if (2 * (x.shape[along] - 1) if count is None else count) == 0:
            return np.zeros((*x.shape[:along], 0, *x.shape[along + 1 : -1], 1), x.dtype)
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


def _known(meaning: DFT, operands: Operands) -> Reason | None:
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
    return Reason("the signal is cut") if length < along else None


def _is_large(operands: Operands) -> bool:
    """Return whether the matrix would be too large, of a transform whose lengths are known."""
    data, axis, length = first(operands), operands[2], _length(operands) or 0
    along = data.dim(int(axis.known.item())) if axis is not None and axis.known is not None else 0
    parts = data.dim(-1)
    return isinstance(along, int) and isinstance(parts, int) and along * parts * length * 2 > _LARGEST


def _static(meaning: DFT, operands: Operands) -> Reason | None:
    if reason := _known(meaning, operands):
        return reason
    large = _is_large(operands)
    return Reason(f"the matrix would have more than {_LARGEST} elements") if large else None


def _to_the_end(rank: int, along: int) -> tuple[int, ...]:
    """Order the axes so that only the real and imaginary parts are behind the one along which is transformed."""
    return (*(one for one in range(rank - 1) if one != along % rank), along % rank, rank - 1)


def _matrix(meaning: DFT, operands: Operands) -> Mapping[str, Any]:
    """Bind the roots of unity, for each real and imaginary part there is one for each that comes out."""
    data, axis, count = first(operands), operands[2], _length(operands) or 1
    along = int(axis.known.item()) if axis is not None and axis.known is not None else 0
    rank = data.rank or 0
    size, parts = (dim if isinstance(dim, int) else 0 for dim in (data.dim(along), data.dim(-1)))
    wanted = count // 2 + 1 if meaning.onesided else count
    # Modulo first: the angle stays exact however long the signal is. An empty signal is not divided by its length.
    bounded(size * wanted)
    turns = np.outer(np.arange(size), np.arange(wanted)) % count / count
    root = np.exp((2j if meaning.inverse else -2j) * np.pi * turns)
    root = root / count if meaning.inverse else root
    table = np.array([[root.real, root.imag], [-root.imag, root.real]])[:parts].transpose(2, 0, 3, 1)
    matrix = table.reshape(size * parts, wanted * 2).astype(onnx.helper.tensor_dtype_to_np_dtype(data.dtype or 0))
    order = _to_the_end(rank, along)
    return {
        "order": order,
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


@lowering(18, applies_if=_is_cut, bind=_ends)
def cut(x, length, axis, count: Sequence[int], along: Sequence[int]):
    """Drop the numbers beyond the length."""
    return meaning.Same(op.Slice(x, [0], count, along), length, axis)


@lowering(18, applies_if=_static, bind=_matrix, rounds=True)
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
    """Multiply by the matrix of roots of unity; a short signal is padded with zeros."""
    y = op.MatMul(op.Reshape(op.Transpose(x, perm=order), rows), matrix)
    return op.Transpose(op.Reshape(y, pairs), perm=back)


# --- of a long signal -------------------------------------------------------------------------------------------------


def _factor(count: int) -> int:
    """Return the largest divisor up to the square root: 1 of a prime number."""
    return next(one for one in range(math.isqrt(count), 0, -1) if count % one == 0)


def _divisible(meaning: DFT, operands: Operands) -> Reason | None:
    if reason := _known(meaning, operands):
        return reason
    if not _is_large(operands):
        return Reason("the matrix is small")
    return None if _factor(_length(operands) or 1) > 1 else Reason("the length is a prime number")


def _factors(meaning: DFT, operands: Operands) -> Mapping[str, Any]:
    """Bind how the signal becomes rows and columns, and the turns of the root of unity between their transforms."""
    data, axis, count = first(operands), operands[2], _length(operands) or 1
    along = int(axis.known.item()) if axis is not None and axis.known is not None else 0
    rank, size = data.rank or 0, data.dim(along)
    rows = _factor(count)
    columns = count // rows
    numpy_type = onnx.helper.tensor_dtype_to_np_dtype(data.dtype or 0)
    turns = np.outer(np.arange(rows), np.arange(columns)) % count / count
    root = np.exp((2j if meaning.inverse else -2j) * np.pi * turns)
    order, others = _to_the_end(rank, along), [0] * (rank - 2)
    missing = count - size if isinstance(size, int) else 0
    return {
        "order": order,
        "back": tuple(np.argsort(order).tolist()),
        "pads": (*[0] * rank, *others, missing, 0),
        "apart": (*others, rows, columns, data.dim(-1)),
        "of_rows": Tensor(np.array(rank - 2)),
        "of_columns": Tensor(np.array(rank - 1)),
        "exchanged": (*range(rank - 2), rank - 1, rank - 2, rank),
        "together": (*others, count, 2),
        "real": Tensor(np.repeat(root.real[..., None], 2, axis=-1).astype(numpy_type)),
        "imaginary": Tensor(np.stack([-root.imag, root.imag], axis=-1).astype(numpy_type)),
        "parts": rank,
        "along": (rank - 2,),
        "wanted": (count // 2 + 1 if meaning.onesided else count,),
        "inverse": meaning.inverse,
    }


@lowering(18, applies_if=_divisible, bind=_factors, rounds=True)
def by_factors(
    x,
    length,
    axis,
    order: Sequence[int],
    back: Sequence[int],
    pads: Sequence[int],
    apart: Sequence[int],
    of_rows: Sequence[int],
    of_columns: Sequence[int],
    exchanged: Sequence[int],
    together: Sequence[int],
    real: Sequence[int],
    imaginary: Sequence[int],
    parts: int,
    along: Sequence[int],
    wanted: Sequence[int],
    inverse: int,
):
    """Compute shorter DFTs of rows and of columns, with twiddle factors in between (Cooley-Tukey)."""
    signal = op.Reshape(op.Pad(op.Transpose(x, perm=order), pads), apart)
    rows = meaning.Itself(signal, None, of_rows, inverse=inverse)
    turned = rows * real + op.Gather(rows, [1, 0], axis=parts) * imaginary
    columns = op.Transpose(meaning.Itself(turned, None, of_columns, inverse=inverse), perm=exchanged)
    whole = op.Slice(op.Reshape(columns, together), [0], wanted, along)
    return op.Transpose(whole, perm=back)


# --- an axis that is computed at run time -------------------------------------------------------------------------


def _computed_axis(meaning: DFT, operands: Operands) -> Reason | None:
    axis = operands[2]
    return Reason("the axis is known") if axis is None or axis.known is not None else None


def _fills(meaning: DFT, operands: Operands) -> Mapping[str, Any]:
    dims = first(operands).shape or (None,)
    empty = int(not all(isinstance(dim, int) and dim for dim in dims))
    return {
        "inverse": meaning.inverse,
        "onesided": meaning.onesided,
        "empty": empty,
        # What one number is half of has length 0.
        "emptied": empty or int(meaning.inverse and meaning.onesided),
    }


@lowering(18, applies_if=_computed_axis, bind=_fills, cost=10)
def along_second_of_four(x, length, axis, inverse: int, onesided: int, empty: int, emptied: int):
    """Merge the axes before and behind the one that is computed, which is the second of four then."""
    sizes = op.Shape(x, start=0, end=-1)
    given = op.Reshape(op.Cast(axis, to=7), [1])
    at = given + op.Cast(op.Less(given, 0), to=7) * (op.Shape(sizes) + 1)
    before = op.Slice(sizes, [0], at)
    behind = op.Slice(sizes, at + 1, [2147483647])
    four = op.Concat(
        op.ReduceProd(before, keepdims=1),
        op.Gather(sizes, at, axis=0),
        op.ReduceProd(behind, keepdims=1),
        op.Shape(x, start=-1),
        axis=0,
    )
    y = meaning.Itself(op.Reshape(x, four, allowzero=empty), length, 1, inverse=inverse, onesided=onesided)
    back = op.Concat(before, op.Shape(y, start=1, end=2), behind, op.Shape(y, start=3), axis=0)
    return op.Reshape(y, back, allowzero=emptied)


# --- half of a transform ------------------------------------------------------------------------------------------


def _half(meaning: DFT, operands: Operands) -> Reason | None:
    data, length, axis = first(operands), operands[1], operands[2]
    if not (meaning.onesided and meaning.inverse):
        return Reason("no half of a transform is given")
    if axis is None or axis.known is None:
        return Reason("the axis is computed at run time", missing=True)
    if length is None:
        return None
    if length.known is None:
        return Reason("the length of the signal is computed at run time", missing=True)
    # onnxruntime 1.31.1 and numpy differ where more or less than a half is given.
    whole = int(length.known.item()) // 2 + 1 == data.dim(int(axis.known.item()))
    return None if whole else Reason("what is given is not known to be half of a transform of this length")


def _mirror(meaning: DFT, operands: Operands) -> Mapping[str, Any]:
    axis, length = operands[2], operands[1]
    odd = length is not None and length.known is not None and int(length.known.item()) % 2
    return {
        # The first has no mirror image, and of an even number the last has none.
        "last": (END if odd else -1,),
        "odd": (1 if odd else 0,),
        "at": int(axis.known.item()) if axis is not None and axis.known is not None else 0,
        "turned": Tensor(np.array([1, -1], onnx.helper.tensor_dtype_to_np_dtype(first(operands).dtype or 1))),
    }


@lowering(18, applies_if=_half, bind=_mirror, rounds=True)
def mirrored(x, length, axis, last: Sequence[int], odd: Sequence[int], at: int, turned: Sequence[int]):
    """Put behind what is given its mirror image, upside down; of what the whole gives take the real part."""
    along = op.Reshape(axis, [1])
    image = op.Slice(op.Slice(x, [1], last, along), [-1], [-2147483647], along, [-1])
    whole = meaning.Itself(op.Concat(x, image * turned, axis=at), None, axis, inverse=1)
    # One number alone is half of none.
    count = (op.Gather(op.Shape(x), along, axis=0) - 1) * 2 + odd
    return op.Slice(op.Slice(whole, [0], count, along), [0], [1], [-1])


# --- a length that is computed at run time ------------------------------------------------------------------------


def _movable(meaning: DFT, operands: Operands) -> Reason | None:
    data, axis = first(operands), operands[2]
    if data.dtype not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        return Reason("it is neither of float nor of double", missing=data.dtype is None)
    if axis is None or axis.known is None or data.rank is None:
        return Reason("the axis is computed at run time, or the rank unknown", missing=True)
    whole = not (meaning.onesided and meaning.inverse)
    return None if whole else Reason("half of a transform is given")


def _uncounted(meaning: DFT, operands: Operands) -> Reason | None:
    if operands[1] is not None or _length(operands) is not None:
        return Reason("dft_length is given, or the length is known")
    return _movable(meaning, operands)


@lowering(18, applies_if=_uncounted)
def counted(x, length, axis):
    """Add the length, which is the signal's full length."""
    return meaning.Same(x, op.Gather(op.Shape(x), axis, axis=0), axis)


def _has_length(meaning: DFT, operands: Operands) -> Reason | None:
    return Reason("the length is left out") if operands[1] is None else _movable(meaning, operands)


def _turns(meaning: DFT, operands: Operands) -> Mapping[str, Any]:
    """Bind how to move the axis, and which way the roots of unity go round."""
    data, axis = first(operands), operands[2]
    order = _to_the_end(data.rank or 0, int(axis.known.item()) if axis is not None and axis.known is not None else 0)
    *others, along, last = order
    return {
        "order": (*others, last, along),
        "back": tuple(np.argsort(order).tolist()),
        "parts": len(order) - 2,
        "last": (len(order) - 1,),
        "circle": Tensor(np.array((2 if meaning.inverse else -2) * np.pi)),
        "halves": 1 + meaning.onesided,
        "onesided": meaning.onesided,
        "inverse": meaning.inverse,
        "to": data.dtype,
    }


@lowering(18, applies_if=_has_length, bind=_turns, rounds=True)
def by_computed_matrix(
    x,
    length,
    axis,
    order: Sequence[int],
    back: Sequence[int],
    parts: int,
    last: Sequence[int],
    circle: Sequence[int],
    halves: int,
    onesided: int,
    inverse: int,
    to: int,
):
    """Multiply by the matrix of roots of unity, computed in double; elements beyond the length are dropped."""
    count = op.Reshape(op.Cast(length, to=7), [1])
    zeros = op.Cast(op.ConstantOfShape(op.Shape(x)), to=to)
    pairs = op.Slice(op.Concat(x, zeros, axis=-1), [0], [2], last)
    moved = op.Slice(op.Transpose(pairs, perm=order), [0], count, last)
    wanted = op.Div(count, halves) + onesided
    given = op.Unsqueeze(op.Range(0, op.Squeeze(op.Shape(moved, start=-1), [0]), 1), [1])
    made = op.Unsqueeze(op.Range(0, op.Squeeze(wanted, [0]), 1), [0])
    # Modulo first: the angle stays exact however long the signal is. An empty signal is not divided by its length.
    angle = op.Cast(op.Mod(given * made, op.Max(count, 1)), to=11) * circle / op.Cast(count, to=11)
    cosine = op.MatMul(moved, op.Cast(op.Cos(angle), to=to))
    sine = op.MatMul(moved, op.Cast(op.Sin(angle), to=to))
    real = op.Gather(cosine, 0, axis=parts) - op.Gather(sine, 1, axis=parts)
    imaginary = op.Gather(sine, 0, axis=parts) + op.Gather(cosine, 1, axis=parts)
    share = op.Cast(op.Max(count * inverse, 1), to=to)
    y = op.Concat(op.Unsqueeze(real, last), op.Unsqueeze(imaginary, last), axis=-1) / share
    return op.Transpose(y, perm=back)


OPERATOR = Operator(
    name="DFT",
    meaning=DFT,
    # DFT-17 on its axis: "By default this value is set to 1"; its range has to be told from the rank.
    versions=(Version(17, applies_if=operand_not_negative(2), left_out={"axis": 1}), Version(20)),
    operands=("input", "dft_length", "axis"),
    oracle=oracle,
    normal=_normal,
    lowerings=(by_matrix, by_factors, cut, along_second_of_four, mirrored, counted, by_computed_matrix),
    traits=Traits(floats=(Trait.SUMS, Trait.WEIGHS, Trait.IN_FLOAT), counts=(1,), rounds_angles=True),
)
