"""EyeLike: ones on a diagonal of a matrix, zeros elsewhere. Since version 9, of which 22 changes types alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.registry import value_ranges
from opshift.opsets.registry.facts import Dim, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands, Operator, Version
from opshift.opsets.registry.traits import Trait, Traits


@dataclass(frozen=True)
class EyeLike:
    """The element type, a TensorProto.DataType (0: the input's), and the diagonal, above the main one if k > 0."""

    dtype: int = 0
    k: int = 0


def oracle(what: EyeLike, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """EyeLike-9: "ones on the diagonal and zeros everywhere else"; "input T1 must be of rank 2"."""
    if x.ndim != 2:
        raise ValueError(f"EyeLike-9: the input has rank {x.ndim}")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(what.dtype) if what.dtype else x.dtype
    rows, columns = x.shape
    return np.eye(rows, columns, what.k).astype(dtype)


def _normal(what: EyeLike, operands: Operands) -> tuple[EyeLike, Operands]:
    return dataclasses.replace(what, dtype=what.dtype or first(operands).dtype or 0), operands


def _write(what: EyeLike, operands: Operands) -> Mapping[str, Any]:
    fields = {"dtype": 0 if what.dtype == first(operands).dtype else what.dtype, "k": what.k}
    return {name: value for name, value in fields.items() if value}


def _shape(what: EyeLike, operands: Operands) -> tuple[Dim, ...] | None:
    return first(operands).shape


def _other_types(what: EyeLike, operands: Operands) -> Reason | None:
    if not what.dtype:
        return Reason("the element type is unknown", missing=True)
    floats = {what.dtype, first(operands).dtype} == {TensorProto.FLOAT}
    return Reason("input and output are float") if floats else None


@lowering(18, applies_if=_other_types, bind=lambda what, operands: {"k": what.k, "to": what.dtype})
def from_float(x, k: int, to: int):
    """Compute the matrix in float, and cast it."""
    return op.Cast(meaning.EyeLike(op.Cast(x, to=1), dtype=1, k=k), to=to)


def _typed(what: EyeLike, operands: Operands) -> Reason | None:
    return None if what.dtype else Reason("the element type is unknown", missing=True)


@lowering(
    18, applies_if=_typed, bind=lambda what, operands: {"k": Tensor(np.array(what.k, np.int64)), "to": what.dtype}
)
def by_places(x, k: Sequence[int], to: int):
    """Number rows and columns, and compare them."""
    shape = op.Shape(x)
    rows = op.Range(0, op.Gather(shape, 0), 1)
    columns = op.Range(0, op.Gather(shape, 1), 1)
    return op.Cast(op.Equal(op.Unsqueeze(rows, [1]) + k, op.Unsqueeze(columns, [0])), to=to)


OPERATOR = Operator(
    name="EyeLike",
    meaning=EyeLike,
    versions=(Version(9, write=_write), Version(22, write=_write)),
    operands=("input",),
    oracle=oracle,
    normal=_normal,
    shape=_shape,
    lowerings=(from_float, by_places),
    traits=Traits(value_range=value_ranges.zero_to_one, floats=(Trait.MOVES,), typed_by_attribute=True),
)
