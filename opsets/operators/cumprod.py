"""CumProd: products of all elements up to each along an axis. Since version 26."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from opshift.opsets.families.axes import first
from opshift.opsets.families.cumulative import Cumulative, along_known_axis, cumulative, known_axis, length_along, pairs
from opshift.opsets.families.merged_axes import along_operand
from opshift.opsets.registry.facts import FLOATS, Tensor
from opshift.opsets.registry.lowering import Reason, lowering, meaning, op
from opshift.opsets.registry.operator import Operands
from opshift.opsets.registry.traits import Trait, Traits


@lowering(18, applies_if=along_known_axis(*FLOATS), bind=pairs, cost=10, rounds=True)
def of_each_place(
    x,
    axis,
    at: Sequence[int],
    behind: Sequence[int],
    along: Sequence[int],
    sign: Sequence[int],
    before: Sequence[int],
    dtype: int,
):
    """Multiply, for each position along the axis, all elements; later ones count as one."""
    count = op.Gather(op.Shape(x), at, axis=0)
    place = op.Range(0, op.Squeeze(count, [0]), 1) * sign
    come = op.Less(op.Unsqueeze(place, [0]) + before, op.Unsqueeze(place, [1]))
    elements = op.Where(op.Unsqueeze(come, behind), op.Unsqueeze(x, at), op.Cast([1.0], to=dtype))
    return op.ReduceProd(elements, along, keepdims=0)


_INTEGERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32, TensorProto.UINT64)
_of_integers = along_known_axis(*_INTEGERS, longest=None)


def _integers_of_known_length(what: Cumulative, operands: Operands) -> Reason | None:
    if reason := _of_integers(what, operands):
        return reason
    return Reason("the length of the axis is unknown", missing=True) if length_along(operands) is None else None


def _inclusive(what: Cumulative, operands: Operands) -> Reason | None:
    if what.exclusive:
        return Reason("an element is not in its own product")
    if reason := _integers_of_known_length(what, operands):
        return reason
    return None if what.stride < (length_along(operands) or 0) else Reason("no element has another one before it")


def _exclusive(what: Cumulative, operands: Operands) -> Reason | None:
    return _integers_of_known_length(what, operands) if what.exclusive else Reason("an element is in its own product")


def _moved(what: Cumulative, operands: Operands) -> Mapping[str, Any]:
    """Bind a move by a stride along the axis, and the pads of ones that it leaves."""
    data = first(operands)
    axis, rank = known_axis(operands), data.rank or 1
    stride = min(what.stride, length_along(operands) or 0)
    pads = np.zeros((2, rank), np.int64)
    pads[what.reverse, axis] = stride
    one = np.array(1, onnx.helper.tensor_dtype_to_np_dtype(data.dtype or TensorProto.INT64))
    return {
        "at": (axis,),
        "start": (stride if what.reverse else 0,),
        "end": (2147483647 if what.reverse else -stride,),
        "pads": tuple(pads.ravel().tolist()),
        "one": Tensor(one),
        "reverse": what.reverse,
        "twice": 2 * what.stride,
    }


# onnxruntime 1.32.0 multiplies integers of any product: they wrap around in any order.
@lowering(18, applies_if=_inclusive, bind=_moved)
def by_doubling(
    x,
    axis,
    at: Sequence[int],
    start: Sequence[int],
    end: Sequence[int],
    pads: Sequence[int],
    one: Sequence[int],
    reverse: int,
    twice: int,
):
    """Multiply each element by the one before it, then by the product two before it, and so on, twice as far."""
    return meaning.Itself(x * op.Pad(op.Slice(x, start, end, at), pads, one), axis, reverse=reverse, stride=twice)


@lowering(18, applies_if=_exclusive, bind=_moved)
def of_those_before(
    x,
    axis,
    at: Sequence[int],
    start: Sequence[int],
    end: Sequence[int],
    pads: Sequence[int],
    one: Sequence[int],
    reverse: int,
):
    """Move all elements by one position, and include each."""
    return meaning.Itself(op.Pad(op.Slice(x, start, end, at), pads, one), axis, reverse=reverse)


OPERATOR = cumulative(
    "CumProd",
    (26,),
    np.multiply,
    1,
    (of_each_place, by_doubling, of_those_before),
    traits=Traits(merges=along_operand, floats=(Trait.SUMS, Trait.PRODUCTS), unchecked=True),
)
