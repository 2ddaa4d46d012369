"""Checks of Hardmax, ArgMax and OneHot that onnx's checker does not make: axes, element types, shapes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto

ADDED_AXES = {"Hardmax": 0, "ArgMax": 0, "OneHot": 1}
"""How many axes each operator's output has more than its first input."""


@dataclass(frozen=True)
class TensorType:
    """A tensor's element type, and its dimensions if even their number is known (None within: unknown)."""

    dtype: int
    dims: tuple[int | None, ...] | None


@functools.lru_cache(4096)
def operator_fault(operator: str, opset: int, axis: int | None, inputs: tuple[TensorType | None, ...]) -> str | None:
    """Return what is wrong with a Hardmax, ArgMax or OneHot in this opset, as far as its inputs are known.

    `axis` is None where the node gives none.
    """
    schema = onnx.defs.get_schema(operator, opset, "")
    if not isinstance(axis, int | None):  # a call of a function may give it any value
        return f"its axis is {axis!r}, which is no number"
    for value, parameter in zip(inputs, schema.inputs, strict=False):
        if value and value.dtype and _type_string(value.dtype) not in parameter.types:
            return f"its input {parameter.name!r} is a {_type_string(value.dtype)}, which this version does not take"
    first, *others = inputs or (None,)
    if first and first.dims is not None and (fault := _axis_fault(schema, axis, len(first.dims))):
        return fault
    if operator == "OneHot" and len(others) == 2:
        depth, values = (value.dims if value else None for value in others)
        if depth is not None and (len(depth) > 1 or any(dim not in (1, None) for dim in depth)):
            return f"its depth has the shape {_shape(depth)}; it must be one number, of shape [] or [1]"
        if values is not None and (len(values) != 1 or values[0] not in (2, None)):
            return f"its values have the shape {_shape(values)}; they must be two, off and on, of shape [2]"
    return None


def _axis_fault(schema: onnx.defs.OpSchema, given: int | None, rank: int) -> str | None:
    # The texts of Hardmax-1 and ArgMax-1 give no range and onnx infers past any axis; onnxruntime refuses to run them.
    if rank == 0:
        return "its input is a scalar, which has no axis"
    axis = schema.attributes["axis"].default_value.i if given is None else given
    axes = rank + ADDED_AXES[schema.name]
    if -axes <= axis < axes:
        return None
    default = ", the default of this version," if given is None else ""
    return f"axis {axis}{default} is out of range: its input has rank {rank}, which allows {-axes} to {axes - 1}"


def _type_string(dtype: int) -> str:
    known = dtype in TensorProto.DataType.values()
    return f"tensor({TensorProto.DataType.Name(dtype).lower()})" if known else f"tensor of unknown type {dtype}"


def _shape(dims: Sequence[int | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in dims) + "]"
