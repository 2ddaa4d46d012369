"""GivenTensorFill, an experimental operator of ONNX 1.0 to 1.4: a constant, in a shape that may be computed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.registry.facts import Tensor
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class GivenTensorFill:
    """The elements, their shape, and whether an input has that as its elements; dims that follow those of an input."""

    values: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    input_as_shape: int = 0
    extra_shape: tuple[int, ...] = ()


def fault(what: GivenTensorFill, operands: Operands) -> str | None:
    """Return what Caffe2, whose operator this is, refuses: a shape from two places, or of another size."""
    if operands[0] is not None:
        return "it has a shape as an attribute and an input" if what.shape else None
    if what.extra_shape:
        return "it has an extra_shape, and no input"
    if math.prod(what.shape) != len(what.values):
        return f"it has {len(what.values)} values, and its shape {math.prod(what.shape)}"
    return None


def oracle(what: GivenTensorFill, x: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """GivenTensorFill-1, whose shape is "the shape of filled tensor".

    Caffe2: an input's shape is that of the result, or its elements are with `input_as_shape`; `extra_shape` has "The
    additional dimensions appended at the end of the shape indicated by the input blob".
    """
    if x is None:
        return np.array(what.values, np.float32).reshape(what.shape)
    dims = x.astype(np.int64).ravel().tolist() if what.input_as_shape else x.shape
    if min(dims, default=0) < 0:
        raise ValueError(f"a tensor has no shape {dims}")
    return np.array(what.values, x.dtype).reshape((*dims, *what.extra_shape))


def _given(what: GivenTensorFill, operands: Operands) -> Reason | None:
    return None if operands[0] is None else Reason("it has an input")


def _like(what: GivenTensorFill, operands: Operands) -> Reason | None:
    if operands[0] is None:
        return Reason("it has no input")
    if what.input_as_shape:
        return Reason("the elements of the input are the shape")
    return None if operands[0].dtype else Reason("the element type is unknown", missing=True)


def _as_shape(what: GivenTensorFill, operands: Operands) -> Reason | None:
    if operands[0] is None:
        return Reason("it has no input")
    if not what.input_as_shape:
        return Reason("the shape of the input is the shape")
    return None if operands[0].dtype else Reason("the element type is unknown", missing=True)


def _filled(what: GivenTensorFill, operands: Operands) -> Mapping[str, Any]:
    dtype = operands[0].dtype if operands[0] is not None else None
    values = np.array(what.values, onnx.helper.tensor_dtype_to_np_dtype(dtype or TensorProto.FLOAT))
    whole = values.reshape(what.shape) if operands[0] is None else values
    return {"values": Tensor(whole), "extra": what.extra_shape}


@lowering(13, applies_if=_given, bind=_filled)
def constant(given, values: Sequence[int]):
    """Hold the elements as a constant."""
    return op.Identity(values)


@lowering(18, applies_if=_like, bind=_filled)
def in_shape_of(given, values: Sequence[int], extra: Sequence[int]):
    """Reshape a constant to the shape of the input, and more dims."""
    return op.Reshape(values, op.Concat(op.Shape(given), extra, axis=0), allowzero=1)


@lowering(18, applies_if=_as_shape, bind=_filled)
def in_shape(given, values: Sequence[int], extra: Sequence[int]):
    """Reshape a constant to the elements of the input, and more dims."""
    dims = op.Reshape(op.Cast(given, to=7), [-1])
    return op.Reshape(values, op.Concat(dims, extra, axis=0), allowzero=1)


OPERATOR = Operator(
    name="GivenTensorFill",
    meaning=GivenTensorFill,
    versions=(Version(1),),
    operands=("given",),
    oracle=oracle,
    fault=fault,
    lowerings=(constant, in_shape_of, in_shape),
    refused="nothing",
    traits=Traits(floats=(Trait.MOVES,)),
)
