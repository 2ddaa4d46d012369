"""Identity: the input."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.merged_axes import elementwise
from opshift.opsets.registry.facts import FLOATS, INTEGERS, Tensor, container_type
from opshift.opsets.registry.lowering import Reason, lowering, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.plain import Plain, plain
from opshift.opsets.registry.traits import Trait, Traits
from opshift.opsets.registry.wider_types import MOVED


def _has_axes(meaning: Plain, operands: Operands) -> Reason | None:
    rank = first(operands).rank
    return None if rank else Reason("there is no axis, or none is known", missing=rank is None)


def _copied(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    return {"zeros": (0,) * (first(operands).rank or 0)}


# For targets without Identity.
@lowering(13, applies_if=_has_axes, bind=_copied)
def reshaped(x, zeros: Sequence[int]):
    """Reshape to the dimensions it has; Reshape-5: a 0 copies the dimension of the input."""
    return op.Reshape(x, zeros)


def _number(meaning: Plain, operands: Operands) -> Reason | None:
    dtype = first(operands).dtype
    if dtype in (FLOATS | INTEGERS) - {TensorProto.BFLOAT16}:
        return None
    return Reason("the input is not of numbers", missing=dtype is None)


@lowering(13, applies_if=_number, bind=lambda meaning, operands: {"to": first(operands).dtype})
def times_one(x, to: int):
    """Multiply by one, which changes no number, not even -0.0."""
    return op.Mul(x, op.Cast(1.0, to=to))


def _element(operands: Operands) -> onnx.TypeProto.Tensor | None:
    """Return the type of the elements of a sequence of tensors; None for anything else."""
    container = first(operands).container
    type_proto = container_type(container) if container else onnx.TypeProto()
    return type_proto.sequence_type.elem_type.tensor_type if type_proto.HasField("sequence_type") else None


def _sequence(meaning: Plain, operands: Operands) -> Reason | None:
    element = _element(operands)
    numbers = element is not None and element.elem_type in (FLOATS | INTEGERS | {TensorProto.BOOL}) - {
        TensorProto.BFLOAT16
    }
    return None if numbers else Reason("the input is not a sequence of numbers or booleans")


def _zero(meaning: Plain, operands: Operands) -> Mapping[str, Any]:
    element = _element(operands)
    dtype = element.elem_type if element else TensorProto.FLOAT
    return {"element": Tensor(np.array(0, onnx.helper.tensor_dtype_to_np_dtype(dtype)))}


# Below 14, where the branch of an If returns a sequence of the graph around it.
@lowering(13, applies_if=_sequence, bind=_zero)
def longer_and_shorter(x, element: Sequence[int]):
    """Append an element to a sequence, and remove it."""
    return op.SequenceErase(op.SequenceInsert(x, element))


OPERATOR = plain(
    "Identity",
    (1, 13, 14, 16, 19, 21, 23, 24, 25),
    ("input",),
    lambda x: x,
    (reshaped, times_one, longer_and_shorter),
    moves_data=True,
    wider_types=MOVED,
    idle=lambda meaning, operands: True,
    traits=Traits(merges=elementwise, floats=(Trait.MOVES,), moved=(0,), all_elements=True),
)
